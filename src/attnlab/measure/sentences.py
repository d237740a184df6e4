"""Split a text into sentences by rules, without a model or a download.

A line end always ends a sentence. So does a stop, one or more of . ! ? …, with the quotes and
brackets that close after it, when white space follows; and 。！？ without any. It does not when

    what follows begins with a small letter              "Ouch!" he said.
    the stop ends a title or a form of citation          Mr. Brown v. Board
    ... a form that numbers something, before a digit    No. 7, Sec. 2
    ... an initial, letters with stops, Inc. or a        J. Smith, 42 U.S.C. § 1983, but:
        state, and no word follows that mostly begins    in the U.S. The court
        a sentence

Verse and plays have their own splitter in tasks/corpus.py, which joins lines.
"""

import re

# Possessive, and never started inside a run of stops: linear on any text.
_STOP = re.compile(r"(?<![.!?…])[.!?…]++['\"’”»)\]]*+[^\S\n]++|[。！？]++[」』”’）]*+[^\S\n]*+")
_TITLES = (
    "Mr Mrs Ms Messrs Dr Prof Rev Hon Gov Gen Sen Rep Lt Col Sgt Capt Cpl Adm St Mt Ft v vs cf "
    "e.g i.e viz Fed Civ Crim App Supp Cir Dist Univ Ass'n Dep't Gov't Jan Feb Mar Apr Jun Jul Aug "
    "Sept Sep Oct Nov Dec"
)
_NUMBERED = "No Nos Art Arts Sec Secs Ch Fig Figs Vol p pp para cl"
_ENDERS = (  # abbreviations that may or may not end a sentence
    "Inc Corp Co Cos Ltd Jr Sr etc Ave Blvd Rd al Ala Ariz Ark Cal Colo Conn Del Fla Ga Ill Ind "
    "Kan Ky La Mass Mich Minn Miss Mo Neb Nev Okla Or Pa Tenn Tex Va Wash Wis"
)
_STARTERS = (
    "The A An In On At He She It They We You I This That These Those There His Her Its Their Our "
    "But And Or If As After Before When While However For By To With Since During Under Although "
    "Both All Some Other What Who How Why Then"
)
_LONGEST = 12  # characters of a form with its stop and the space after it


def _ending(words: str) -> re.Pattern[str]:
    forms = "|".join(re.escape(word) for word in words.split())
    return re.compile(rf"(?<![\w.'])(?:{forms})\.\s\Z")


_TITLE, _NUMBER = _ending(_TITLES), _ending(_NUMBERED)
_LETTERS = re.compile(
    rf"(?:(?<!\w)(?:{'|'.join(_ENDERS.split())})|(?<![^\W\d_])[^\W\d_](?:\.[^\W\d_])*+)\.\s\Z"
)
_STARTER = re.compile(rf"(?:{'|'.join(_STARTERS.split())})\b")
_OPENING = "'\"‘“«(["


def sentences(text: str) -> list[str]:
    """The sentences, stripped, none empty; together they hold all that is not white space."""
    found = []
    for line in text.split("\n"):
        start = 0
        for stop in _STOP.finditer(line):
            if not _continues(line, stop.end()):
                found.append(line[start : stop.end()])
                start = stop.end()
        found.append(line[start:])
    return [sentence for piece in found if (sentence := piece.strip())]


def _continues(line: str, end: int) -> bool:
    """Whether the sentence continues after the stop that ends at `end`."""
    following = line[end : end + 40].lstrip(_OPENING)
    before = f"{line[max(0, end - 40) : end].rstrip()[-_LONGEST:]} "
    if following[:1].islower() or _TITLE.search(before):
        return True
    if _NUMBER.search(before):
        return following[:1].isdigit()
    return _LETTERS.search(before) is not None and _STARTER.match(following) is None
