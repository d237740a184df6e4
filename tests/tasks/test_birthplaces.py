"""Birthplace worlds: disjoint groups of people, files of a course, the facts a text states."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.birthplaces import (
    Question,
    Sizes,
    draw_world,
    find_question_frame,
    find_stated,
    people_from_commonest_places,
    read_questions,
    read_world,
)
from attnlab.tasks.people import Person, normalise

CITIES = ("Rome", "Oslo", "La Paz", "New York", "Bern")
PEOPLE = tuple(
    Person(f"{first} {last}", CITIES[(i * i + j) % 5], 1900 + i, 1920 + j)
    for i, first in enumerate(("Al", "Bo", "Cy", "Di", "Ed", "Flo", "Gus"))
    for j, last in enumerate(("Ames", "Bird", "Cole", "Diaz", "Egan", "Fry", "Gray"))
    if (i, j) != (2, 3) and (i + j) % 5
)
SIZES = Sizes(people=17, unread=7, invented=3, phrasings=3)


def test_the_groups_share_nobody_and_the_text_tells_of_the_mentioned_alone() -> None:
    world = draw_world(PEOPLE, SIZES, Seed(5))
    kinds = {kind: {q.name for q in questions} for kind, questions in world.as_dict().items()}
    assert {kind: len(names) for kind, names in kinds.items()} == {
        "taught": 9,
        "read": 8,
        "unread": 7,
        "invented": 3,
    }
    assert len(set.union(*kinds.values())) == 9 + 8 + 7 + 3
    assert not kinds["invented"] & {p.name for p in PEOPLE}
    assert all(q.place is None for q in world.invented)
    text = "\n".join(world.documents)
    assert all(name in text for name in kinds["taught"] | kinds["read"])
    assert not any(name in text for name in kinds["unread"] | kinds["invented"])
    assert len(world.documents) == 17 * 3
    place = {p.name: p.place for p in PEOPLE}
    assert all(q.place == place[q.name] for q in (*world.taught, *world.read, *world.unread))
    assert all(q.text == f"Where was {q.name} born?" for q in world.taught)


def test_a_world_is_a_function_of_its_seed() -> None:
    assert draw_world(PEOPLE, SIZES, Seed(5)) == draw_world(PEOPLE, SIZES, Seed(5))
    assert draw_world(PEOPLE, SIZES, Seed(5)) != draw_world(PEOPLE, SIZES, Seed(6))


def test_commonest_places_and_too_many_people() -> None:
    few = people_from_commonest_places(PEOPLE, 2)
    assert len({p.place for p in few}) == 2 and set(few) < set(PEOPLE)
    with pytest.raises(UsageError, match="2 commonest places"):
        draw_world(PEOPLE, Sizes(people=30, unread=0, invented=0, places=2), Seed(5))
    with pytest.raises(UsageError, match="two people"):
        draw_world(PEOPLE, Sizes(people=1, unread=0, invented=0), Seed(5))


def test_the_ceiling_counts_name_and_place_in_one_document() -> None:
    world = draw_world(PEOPLE, SIZES, Seed(5))
    assert all(find_stated(world.read, world.documents)) and not any(
        find_stated(world.unread, world.documents)
    )
    asked = [
        Question("?", "Al Cole", "Rome"),
        Question("?", "Al Cole", "New York"),
        Question("?", "Al Col", "Rome"),
        Question("?", "Bo Diaz", "Oslo"),
    ]
    text = ["AL COLE, of Rome.", "Al Cole saw York. New", "Bo Diaz.", "Oslo Bo, Diaz"]
    assert find_stated(asked, text) == [True, False, False, True]
    assert find_stated(asked, text, limit=10) == [False, False, False, False]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_a_world_from_files_of_any_script(tmp_path: Path) -> None:
    text = write(tmp_path, "wiki.txt", "\ufeffZoë Ray. Born in 東京.\r\n\r\n李 白 was born.\n")
    train = write(tmp_path, "train.tsv", "Where was Zoe\u0308 Ray born?\t東京\n")
    dev = write(
        tmp_path, "dev.tsv", "Where was 李 白 born?\tSuyab  City \nWhere was Al born?\tX\n\n"
    )
    world = read_world(text, train, dev, invented=1, seed=Seed(1))
    assert world.documents == ("Zoë Ray. Born in 東京.", "李 白 was born.")
    assert world.taught == (Question("Where was Zoë Ray born?", "Zoë Ray", "東京"),)
    assert [q.name for q in world.read] == ["李 白", "Al"] and world.read[0].place == "Suyab City"
    assert world.invented[0].name in ("Zoë 白", "李 Ray") and world.unread == ()
    assert world.invented[0].text == f"Where was {world.invented[0].name} born?"
    assert find_stated(world.taught, world.documents) == [True]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Where?", "no TAB"),
        ("", "is empty"),
        ("a\tb\tc", "2 TABs"),
        ("a\t ", "no place"),
        ("\tRome", "no question"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: str, why: str) -> None:
    path = write(tmp_path, "train.tsv", f"Where was Al born?\tRome\n{line}\nx\ty\n")
    with pytest.raises(UsageError, match=rf"train.tsv: line 2: must be .*{why}") as raised:
        read_questions(path)
    assert "\n" not in str(raised.value)


def test_bad_bytes_and_missing_files_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\tb\n\xff\xfe\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_questions(tmp_path / "x")
    with pytest.raises(UsageError, match="no such file"):
        read_questions(tmp_path / "y")


LINE = st.text(st.characters(exclude_characters="\n\r\t\0", exclude_categories=["Cs"]))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(LINE, LINE), min_size=1, max_size=7))
def test_any_text_is_read_or_refused_by_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "train.tsv"
    path.write_bytes("".join(f"{q}\t{p}\n" for q, p in rows).encode())
    first = rows[0][0].removeprefix("\ufeff")  # at the start of a file it is no text
    wanted = [(normalise(q), normalise(p)) for q, p in [(first, rows[0][1]), *rows[1:]]]
    try:
        assert read_questions(path) == wanted
    except UsageError as error:
        assert not all(q and p for q, p in wanted) and str(error).startswith(f"{path}: ")


def test_the_frame_of_questions_is_what_they_share() -> None:
    assert find_question_frame(["Where was Al born?", "Where was Ada May born?"]) == (
        "Where was ",
        " born?",
    )
    assert (
        find_question_frame(["Al", "Bo"])
        == ("", "")
        == find_question_frame(["the same", "the same"])
    )
    assert find_question_frame(["Wo ist X?", "Wo ist Y?"]) == ("Wo ist ", "?")
    assert find_question_frame(["a a", "a a a"])[0] == "a "
