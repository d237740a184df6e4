"""A small play: speeches are kept, all else is dropped. The real plays: test_shakespeare.py."""

from attnlab.tasks.corpus import split_sentences
from attnlab.tasks.drama import extract_speeches, strip_front_matter

FILE = """\
The Project Gutenberg EBook of A Play

Use of this file is free under the licence.

*** START OF THIS PROJECT GUTENBERG EBOOK A PLAY ***
A PLAY

by William Shakespeare




PERSONS REPRESENTED.

HAM, a prince.
GHO, a ghost.

SCENE: Here.



ACT I.

SCENE I.

A room in the castle.

[Enter HAM. and
others.]

HAM.
I hear them.--Stand, [Drawing.] ho!
@@@@
Act your _part_,

[Aside.]

or leave. The scene
that I would see

GHO. [Within.]
Scene of woe!

Enter a MESSENGER.

Ber.
Exit who? [He goes.
Farewell.

KEEPER.  Your Grace may go.

GHO
Alas.

Ber.
{Aside.] He is gone.

Song.

HAM.
[Exit].

THE END

*** END OF THIS PROJECT GUTENBERG EBOOK A PLAY ***
More licence.
"""


def test_the_work_without_what_surrounds_it() -> None:
    work = strip_front_matter(FILE)
    assert work.startswith("PERSONS REPRESENTED.\n\nHAM, a prince.")
    assert work.endswith("[Exit].\n")
    assert "icence" not in work and "@" not in work and "_" not in work
    assert strip_front_matter(work) == work
    assert strip_front_matter("A PLAY\nby William Shakespeare\n\nI\n\nO.\n") == "I\n\nO.\n"


def test_what_is_said() -> None:
    assert extract_speeches(strip_front_matter(FILE)).split("\n\n") == [
        "I hear them. Stand,  ho!\nAct your part,\nor leave. The scene\nthat I would see",
        "Scene of woe!",
        "Exit who?\nFarewell.",
        "Your Grace may go.",
        "Alas.",
        "He is gone.",
    ]


def test_sentences_run_over_verse_lines_and_stage_directions() -> None:
    assert split_sentences(extract_speeches(strip_front_matter(FILE)))[:4] == [
        "I hear them.",
        "Stand, ho!",
        "Act your part, or leave.",
        "The scene that I would see",
    ]


def test_a_poem_loses_its_numerals_only() -> None:
    poem = "I\n\nFrom fairest\nWe desire.\n\nXIV.\n\nFrom fairest\nAct of love.\n"
    assert extract_speeches(poem) == "From fairest\nWe desire.\n\nFrom fairest\nAct of love."


def test_text_that_is_no_play_is_left_alone() -> None:
    assert extract_speeches("Some words.\nOther words.") == "Some words.\nOther words."
    assert extract_speeches("") == "" and strip_front_matter("x") == "x\n"
