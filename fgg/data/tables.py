"""Formats with a word a line and an empty line after each sentence: CoNLL-U, and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgg.data.example import Example
from fgg.data.lines import Line, Report

CONLLU = ("id", "word", "", "tag", "fine", "", "head", "relation", "", "")
COLUMNS = ("word", "tag", "fine", "head", "relation")
KNOWN = ("id", "word", "tag", "fine", "head", "relation", "")


def read_conllu(lines: Iterator[Line], report: Report) -> Iterator[Example]:
    """Sentences of CoNLL-U: ten columns. Words of several tokens and empty nodes are left out."""
    for block in _blocks(lines, comments=True):
        words = [(line, line.text.split("\t")) for line in block]
        kept = [(line, row) for line, row in words if not _extra(row[0])]
        example = _sentence(kept, CONLLU, report)
        if example is not None:
            yield example


def read_columns(
    lines: Iterator[Line], report: Report, columns: Sequence[str] = COLUMNS
) -> Iterator[Example]:
    """Sentences of lines with these columns, apart by tabs; a column named `` is not read."""
    assert "word" in columns and set(columns) <= set(KNOWN), columns
    for block in _blocks(lines, comments=False):
        example = _sentence([(line, line.text.split("\t")) for line in block], columns, report)
        if example is not None:
            yield example


def _blocks(lines: Iterator[Line], comments: bool) -> Iterator[list[Line]]:
    block: list[Line] = []
    for line in lines:
        if line.text.strip():
            if not (comments and line.text.startswith("#")):
                block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _extra(number: str) -> bool:
    """Whether a row is a range of words (`3-4`) or an empty node (`8.1`)."""
    parts = number.replace(".", "-").split("-")
    return len(parts) == 2 and all(part.isdecimal() for part in parts)


def _sentence(
    rows: list[tuple[Line, list[str]]], columns: Sequence[str], report: Report
) -> Example | None:
    """The example of some rows; None, and one report, if it cannot be read."""
    if not rows:
        return None
    wrong = _misfit(rows, columns)
    if wrong is not None:
        report("F483", *wrong)
        return None

    def column(name: str) -> tuple[str, ...] | None:
        if name not in columns:
            return None
        values = tuple(row[columns.index(name)] for _, row in rows)
        return None if all(value == "_" for value in values) else values

    heads = column("head")
    words = tuple(row[columns.index("word")] for _, row in rows)
    return Example(
        words=words,
        tags=column("tag"),
        fine_tags=column("fine"),
        heads=None if heads is None else tuple(map(int, heads)),
        relations=column("relation"),
        place=str(rows[0][0].number),
    )


def _misfit(
    rows: list[tuple[Line, list[str]]], columns: Sequence[str]
) -> tuple[int, str, str] | None:
    """The first thing that is wrong with the rows of a sentence: line, message, help."""
    heads = []
    with_heads = "head" in columns and any(
        row[columns.index("head")] != "_" for _, row in rows if len(row) == len(columns)
    )
    for number, (line, row) in enumerate(rows, 1):
        if len(row) != len(columns):
            help = "columns are apart by tabs"
            return line.number, f"{len(row)} columns; {len(columns)} are expected", help
        if "id" in columns and row[columns.index("id")] != str(number):
            return line.number, f"word {number} has the number `{row[columns.index('id')]}`", ""
        if not row[columns.index("word")]:
            return line.number, "a word without letters", ""
        if with_heads:
            head = row[columns.index("head")]
            if not (head.isascii() and head.isdecimal() and int(head[:9]) <= len(rows)):
                help = f"0 for the root, or the number of a word, up to {len(rows)}"
                return line.number, f"`{head}` is no head", help
            heads.append(int(head))
    around = _cycle(heads)
    if around is not None:
        return rows[around][0].number, f"word {around + 1} is below itself", "heads make a tree"
    return None


def _cycle(heads: Sequence[int]) -> int | None:
    """A position that comes round to itself along the heads."""
    walk = [-1] * len(heads)  # the start of the walk that first came here
    for start in range(len(heads)):
        at = start
        while at >= 0 and walk[at] < 0:
            walk[at] = start
            at = heads[at] - 1
        if at >= 0 and walk[at] == start:
            return at
    return None
