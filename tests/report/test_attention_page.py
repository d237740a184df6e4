"""The page shows every map, loads nothing, runs its own script only, and is whole without it."""

import base64
import hashlib
import re
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from attnlab.core.errors import UsageError
from attnlab.report.attention import AttentionMaps, page, table, write_page
from attnlab.report.attention_page import LIMIT_BYTES, packed

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</style>",
    "<!--",
    "<img src=x onerror=alert(3)>",
    '"><svg onload=alert(4)>',
    "' onfocus='alert(5)",
    "{{ 7*7 }}",
    "&lt;b&gt;",
    "\0",
    "\u202e<b>",
    "e\u0301",
    "\u0301",
    "👩\u200d🚀",
    "שלום",
    "",
    "\ud800",
    " a\n",
    "</title>",
    "]]>",
    "z" + "\u0301" * 99,
    "x" * 999,
)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.data.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def softmax_maps(
    layers: int, heads: int, tokens: tuple[str, ...], *, causal: bool = True, name: str = "a model"
) -> AttentionMaps:
    n = len(tokens)
    scores = np.random.default_rng(5).normal(size=(layers, heads, n, n))
    if causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return AttentionMaps(name, tokens, raised / raised.sum(-1, keepdims=True))


def unpacked(text: str, shape: tuple[int, ...]) -> np.ndarray:
    """What the page's script does."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(2, -1)
    return (planes[0] + 256 * planes[1].astype(int)).reshape(shape) / 1000


def test_everything_is_there() -> None:
    maps = softmax_maps(2, 3, ("The", "Ġking", "Ċ", "Ġis", "."))
    read = Page(page(maps))
    assert read.data["bdi"][:6] == ["a model", "The", "␣king", "↵", "␣is", "."]
    assert len(read.all("img")) == 2 * 3 + 1
    assert {a["alt"] for a in read.all("img")} >= {"layer 1, head 2"}
    assert [a["value"] for a in read.all("input")] == ["0", "1", "2", "3", "4"]
    assert read.data["option"] == ["mean", "0", "1", "mean", "0", "1", "2"]
    numbers = [cell for row in table(maps)[1] for cell in row[2:]]
    assert read.data["td"][-len(numbers) :] == numbers
    assert "5 tokens, 2 layers, 3 heads a layer" in "".join(read.data["span"])


def test_the_static_table_is_the_mean_of_all() -> None:
    weights = np.zeros((1, 2, 2, 2))
    weights[0, :, 0, 0] = 1
    weights[0, 0, 1], weights[0, 1, 1] = (1, 0), (0.25, 0.75)
    read = Page(page(AttentionMaps("m", ("a", "b"), weights)))
    cells = [text for text in read.data["span"] if re.fullmatch(r"[01]\.\d{3}", text)]
    assert cells == ["1.000", "0.625", "0.375"]


def test_links_to_heads_lead_somewhere_without_a_script() -> None:
    read = Page(page(softmax_maps(2, 3, tuple("abc"))))
    ids = {attrs["id"] for _, attrs in read.tags if "id" in attrs}
    links = [a["href"] or "" for a in read.all("a")]
    assert len(links) == 7
    assert all(link.startswith("#") and link[1:] in ids for link in links)


@pytest.mark.parametrize("causal", [True, False])
def test_the_weights_come_back(causal: bool) -> None:
    maps = softmax_maps(2, 3, tuple("abcde"), causal=causal)
    read = Page(page(maps))
    store = next(a for a in read.all("script") if a.get("id") == "weights")
    assert (store["data-layers"], store["data-heads"], store["data-tokens"]) == ("2", "3", "5")
    assert store["data-causal"] == ("1" if causal else "0")
    assert len(store["data-palette"] or "") == 256 * 6
    found = unpacked(read.data["script"][0], maps.weights.shape)
    assert np.abs(found - maps.weights).max() <= 0.0005 + 1e-6


def test_weights_at_the_ends_are_packed_exactly() -> None:
    ends = np.array([0, 1, 0.255, 0.256, 0.999, 1 + 1e-6, -1e-9])
    assert unpacked(packed(ends), (7,)).tolist() == [0, 1, 0.255, 0.256, 0.999, 1, 0]


def test_hostile_tokens_stay_text() -> None:
    calm = Page(page(softmax_maps(1, 2, tuple("w" for _ in HOSTILE), causal=False)))
    text = page(softmax_maps(1, 2, HOSTILE, causal=False, name="</title><script>alert(0)//"))
    read = Page(text)
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in calm.tags]  # not one element more
    names = {name for _, attrs in read.tags for name in attrs}
    assert not {name for name in names if name.startswith("on")}
    assert names == {name for _, attrs in calm.tags for name in attrs}
    for char in ("\0", "\u202e", "\ud800"):
        assert char not in text
    assert "49" not in read.data["bdi"]
    assert HOSTILE[0] in read.data["bdi"]
    assert max(len(one) for one in read.data["bdi"]) < 100


def test_nothing_is_loaded_and_one_script_may_run() -> None:
    text = page(softmax_maps(1, 2, tuple("abc")))
    read = Page(text)
    policy = next(a for a in read.all("meta") if a.get("http-equiv"))["content"] or ""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy and policy.count("unsafe-inline") == 1
    links = [a.get(n) or "" for _, a in read.tags for n in ("src", "href", "action", "data")]
    assert {link.split(":")[0][:1] for link in links if link} == {"#", "d"}
    assert "http://" not in text and "https://" not in text
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b", scripts[0])


@pytest.mark.parametrize("causal", [True, False])
def test_thirty_layers_nine_heads_and_128_tokens_fit(causal: bool) -> None:
    maps = softmax_maps(30, 9, tuple(f"Ġtoken{i}" for i in range(128)), causal=causal)
    assert len(page(maps).encode()) < LIMIT_BYTES


def test_too_large_a_page_says_what_to_shorten() -> None:
    n = 211
    maps = softmax_maps(31, 9, ("x",) * n)
    with pytest.raises(
        UsageError, match=r"shorten the text of 211 tokens to about (\d+)"
    ) as raised:
        page(maps)
    found = re.search(r"to about (\d+)", str(raised.value))
    assert found is not None
    fits = int(found[1])
    assert 128 < fits < n
    assert len(page(softmax_maps(31, 9, ("x",) * fits))) < LIMIT_BYTES


def test_a_huge_one_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(weights: np.ndarray) -> str:
        raise AssertionError("the weights were packed")

    monkeypatch.setattr("attnlab.report.attention_page.packed", never)
    monkeypatch.setattr("attnlab.report.attention_page._MOST_WEIGHTS", 2 * 49)
    page_of_two = softmax_maps(1, 2, tuple("abcdefg"))
    with pytest.raises(AssertionError, match="packed"):
        page(page_of_two)
    with pytest.raises(UsageError, match="shorten the text of 7 tokens"):
        page(softmax_maps(1, 3, tuple("abcdefg")))


def test_same_maps_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_page(softmax_maps(2, 2, HOSTILE), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


DRIVER = """<script>
const wait = setInterval(() => {
  if (!document.documentElement.classList.contains("live")) return;
  clearInterval(wait);
  const say = () => document.getElementById("said").textContent;
  const out = { start: say(), rows: document.getElementById("looks").rows[2].innerText };
  const pick = (id, value) => {
    document.getElementById(id).value = value;
    document.getElementById(id).dispatchEvent(new Event("change"));
  };
  pick("layer", "0"); pick("head", "1");
  out.head = say();
  document.querySelectorAll(".token")[1].dispatchEvent(new PointerEvent("pointerenter"));
  out.hover = say();
  document.getElementById("text").dispatchEvent(new PointerEvent("pointerleave"));
  out.back = say();
  document.querySelector('.heads a[href="#layer-0-head-0"]').click();
  out.link = say();
  out.current = document.querySelectorAll("[aria-current]").length;
  document.title = JSON.stringify(out);
}, 20);
</script>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser")
def test_a_browser_picks_and_points(tmp_path: Path) -> None:
    weights = np.zeros((1, 2, 3, 3))
    weights[0, 0] = [[1, 0, 0], [0.75, 0.25, 0], [0, 0.5, 0.5]]
    weights[0, 1] = [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    text = page(AttentionMaps("m", ("a", "<b>", "c"), weights))
    text = re.sub(r"<meta http-equiv[^>]*>", "", text)  # so that the driver may run too
    (tmp_path / "page.html").write_text(text + DRIVER, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000"]
    command += ["--dump-dom", (tmp_path / "page.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    title = "".join(Page(dom).data["title"])
    for wanted in (
        '"start":"c (2) looks most at a (0) 0.500, <b> (1) 0.250, itself 0.250."',
        '"head":"c (2) looks most at a (0) 1.000."',
        '"hover":"<b> (1) looks most at a (0) 1.000."',
        '"back":"c (2) looks most at a (0) 1.000."',
        '"link":"c (2) looks most at <b> (1) 0.500, itself 0.500."',
        '"current":1',
    ):
        assert wanted in title, title
