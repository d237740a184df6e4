"""Real people: unique names, normalised once; invented names that nobody has."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.errors import MissingError, UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.people import (
    MAX_PHRASINGS,
    SENTENCES,
    Person,
    draw_biographies,
    drop_shared_names,
    invent_names,
    normalise,
    phrasings_of,
    read_people,
    real_people,
)

HEAD = "playerID,nameFirst,nameLast,birthCity,birthYear,debut\n"


def test_rows_without_name_or_city_are_left_out_and_the_rest_is_normalised(tmp_path: Path) -> None:
    path = tmp_path / "People.csv"
    rows = "a,Ada , Lovelace,London,1815,\nb,,Solo,Rome,1900,\nc,Max,Weber,,1864,\n"
    path.write_text(HEAD + rows + "d,Zoe\u0308,Ray,La  Paz,x,1999-04-05\n", encoding="utf-8")
    assert read_people(path) == (
        Person("Ada Lovelace", "London", 1815, None),
        Person("Zoë Ray", "La Paz", None, 1999),
    )


def test_a_file_without_the_columns_or_people_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "People.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no column 'nameFirst'"):
        read_people(path)
    path.write_text(HEAD + "b,,Solo,Rome,1900,\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no row"):
        read_people(path)


def test_a_shared_name_is_left_out_whoever_bears_it() -> None:
    twins = [Person("Al Cole", "Rome"), Person("al cole", "Oslo"), Person("Bo Diaz", "Rome")]
    assert drop_shared_names(twins) == (twins[2],)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once and "\t" not in once and once == once.strip()


def test_invented_names_are_new_pairs_of_known_halves() -> None:
    names = [f"{first} {last}" for first in ("Al", "Bo", "Cy") for last in ("Ames", "Bird")]
    with pytest.raises(UsageError, match="0 new pairs"):
        invent_names(names, 1, Seed(3))  # every pair exists
    kept = names[:1] + names[2:]
    found = invent_names(kept, 1, Seed(3))
    assert found == ("Al Bird",)
    with pytest.raises(UsageError, match="0 new pairs"):
        invent_names(kept, 1, Seed(3), taken=["AL BIRD"])
    assert invent_names([], 0, Seed(3)) == () == invent_names(names, 2, Seed(3), all_=False)


def test_every_phrasing_states_name_and_place_and_they_differ() -> None:
    person = Person("Al Cole", "Rome", 1901, 1923)
    told = phrasings_of(person)
    assert len(set(told)) == len(told) == MAX_PHRASINGS
    assert all("Al Cole" in text and "Rome" in text and "{" not in text for text in told)
    assert len(phrasings_of(Person("Al Cole", "Rome"))) == len(SENTENCES)


def test_phrasings_are_drawn_for_each_person_and_by_name_alone() -> None:
    people = [Person(f"Al N{i}", "Rome", 1901, 1923) for i in range(31)]
    found = draw_biographies(people, 5, Seed(7))
    assert len(found) == len(set(found)) == 31 * 5
    assert draw_biographies(people[::-1], 5, Seed(7))[-5:] == found[:5]
    ways = {text.replace(p.name, "X") for p, text in zip(people, found[::5], strict=True)}
    assert len(ways) > 5  # not the same sentence for all
    for wrong in (0, MAX_PHRASINGS + 1):
        with pytest.raises(UsageError, match="phrasings"):
            draw_biographies(people, wrong, Seed(7))


@pytest.mark.assets
def test_the_asset_has_so_many_people_of_unique_name() -> None:
    try:
        people = real_people()
    except MissingError as error:
        pytest.skip(str(error))
    assert len(people) == 18_730
    assert len({p.name.casefold() for p in people}) == len(people)
    assert all(p.name == normalise(p.name) and p.place for p in people)
