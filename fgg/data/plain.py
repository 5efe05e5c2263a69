"""Formats with an item a line: words, token ids, `word/TAG`, words and their parts, structures."""

from __future__ import annotations

from collections.abc import Iterator

from fgg.data.example import Example
from fgg.data.lines import Line, Report

MAX_ID = 1 << 31


def read_words(lines: Iterator[Line], report: Report) -> Iterator[Example]:
    """Sentences of words between white space. An empty line is an example without words."""
    for line in lines:
        yield Example(words=tuple(line.text.split()), place=str(line.number))


def read_ids(lines: Iterator[Line], report: Report) -> Iterator[Example]:
    """Sentences of token ids, numbers from 0 (-1: missing, -2: impossible) between white space."""
    for line in lines:
        words = tuple(line.text.split())
        ids = []
        for word in words:
            digits = word.removeprefix("-")
            if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
                report("F482", line.number, f"`{word}` is not a number", "ids are 0, 1, 2, …")
                break
            ids.append(int(word))
            if not -2 <= ids[-1] < MAX_ID:
                report("F482", line.number, f"`{word}` is no id", "ids are 0, 1, 2, …, or -1, -2")
                break
        else:
            yield Example(words=words, ids=tuple(ids), place=str(line.number))


def read_tagged(lines: Iterator[Line], report: Report) -> Iterator[Example]:
    """Sentences of `word/TAG` between white space; the last slash of each counts."""
    for line in lines:
        words, tags = [], []
        for item in line.text.split():
            word, _, tag = item.rpartition("/")
            if not word or not tag:
                report("F485", line.number, f"`{item}` is no `word/TAG`", "")
                break
            words.append(word)
            tags.append(tag)
        else:
            yield Example(words=tuple(words), tags=tuple(tags), place=str(line.number))


def read_morphs(lines: Iterator[Line], report: Report) -> Iterator[Example]:
    """Words with their parts: `word<TAB>parts[<TAB>tags[<TAB>count]]`, parts between spaces.

    The words of the example are the characters; its segments are the parts, its name the word.
    """
    for line in lines:
        if not line.text.strip():
            yield Example(words=(), place=str(line.number))
            continue
        columns = line.text.split("\t")
        word, parts = columns[0], columns[1].split() if len(columns) > 1 else []
        if "".join(parts) != word:
            wrong = f"the parts of `{word}` are `{' '.join(parts)}`"
            report("F485", line.number, wrong, "parts joined together give the word")
            continue
        count = columns[3] if len(columns) > 3 else "1"
        if not (count.isascii() and count.isdecimal() and len(count) < 19):
            report("F485", line.number, f"`{count}` is no count", "")
            continue
        yield Example(
            words=tuple(word),
            segments=segments_of(parts),
            name=word,
            count=int(count),
            place=str(line.number),
        )


def segments_of(parts: list[str] | tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Where each part begins and ends, in characters, if they stand one after the other."""
    found, start = [], 0
    for part in parts:
        found.append((start, start + len(part)))
        start += len(part)
    return tuple(found)


def read_structures(lines: Iterator[Line], report: Report) -> Iterator[Example]:
    """Sequences with pairs: three lines each, `>name`, the letters, dots and brackets `(.)`."""
    name: Line | None = None
    letters: Line | None = None
    for line in lines:
        text = line.text.strip()
        if text.startswith(">"):
            if name is not None:
                report("F484", name.number, "a name without letters and brackets", "")
            name, letters = line, None
        elif not text:
            continue
        elif name is None:
            report("F484", line.number, "a line that belongs to no `>name`", "")
        elif letters is None:
            letters = line
        else:
            example = _structure(name, letters, line, report)
            name = letters = None
            if example is not None:
                yield example
    if name is not None:
        report("F484", name.number, "a name without letters and brackets", "")


def _structure(name: Line, letters: Line, signs: Line, report: Report) -> Example | None:
    words, marks = letters.text.strip(), signs.text.strip()
    if len(words) != len(marks):
        report("F484", signs.number, f"{len(words)} letters, but {len(marks)} signs", "")
        return None
    opened: list[int] = []
    pairs = []
    for position, mark in enumerate(marks):
        if mark == "(":
            opened.append(position)
        elif mark == ")" and opened:
            pairs.append((opened.pop(), position))
        elif mark != ".":
            wrong = "closes nothing" if mark == ")" else "is none of `(`, `.`, `)`"
            report("F484", signs.number, f"sign {position + 1}, `{mark}`, {wrong}", "")
            return None
    if opened:
        report("F484", signs.number, f"bracket {opened[-1] + 1} is not closed", "")
        return None
    return Example(
        words=tuple(words),
        pairs=tuple(sorted(pairs)),
        name=name.text.strip()[1:].strip(),
        place=str(name.number),
    )
