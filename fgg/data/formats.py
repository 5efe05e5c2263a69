"""The file formats of a corpus: one reader each, from lines of text to examples.

A reader takes the lines of a file and a function to report lines that it cannot use. `FORMATS`
names the readers, `SUFFIXES` the format that a file's name stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from fgg.data.example import Example, Span
from fgg.data.text_files import Report, TextLine

Reader = Callable[[Iterator[TextLine], Report], Iterator[Example]]

MAX_ID = 1 << 31
CONLLU = ("id", "word", "", "tag", "fine", "", "head", "relation", "", "")
COLUMNS = ("word", "tag", "fine", "head", "relation")
KNOWN = ("id", "word", "tag", "fine", "head", "relation", "")
TRACE = "-NONE-"
_TOKEN = re.compile(r"[()]|[^\s()]+")


def read_words(lines: Iterator[TextLine], report: Report) -> Iterator[Example]:
    """One sentence a line, words separated by white space. An empty line has no words."""
    for line in lines:
        yield Example(words=tuple(line.text.split()), place=str(line.number))


def read_ids(lines: Iterator[TextLine], report: Report) -> Iterator[Example]:
    """One sentence of token ids a line: numbers from 0; -1 is missing, -2 impossible."""
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
                report(
                    "F482", line.number, f"`{word}` is not an id", "ids are 0, 1, 2, …, or -1, -2"
                )
                break
        else:
            yield Example(words=words, ids=tuple(ids), place=str(line.number))


def read_tagged(lines: Iterator[TextLine], report: Report) -> Iterator[Example]:
    """One sentence of `word/TAG` a line. The last slash separates word and tag."""
    for line in lines:
        words, tags = [], []
        for item in line.text.split():
            word, _, tag = item.rpartition("/")
            if not word or not tag:
                report("F485", line.number, f"`{item}` is not `word/TAG`", "")
                break
            words.append(word)
            tags.append(tag)
        else:
            yield Example(words=tuple(words), tags=tuple(tags), place=str(line.number))


def read_morphs(lines: Iterator[TextLine], report: Report) -> Iterator[Example]:
    """One word a line, `word<TAB>parts[<TAB>tags[<TAB>count]]`, parts separated by spaces.

    The words of the example are the characters, its segments the parts, and its name the word.
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
            report("F485", line.number, f"`{count}` is not a count", "")
            continue
        yield Example(
            words=tuple(word),
            segments=segments_of(parts),
            name=word,
            count=int(count),
            place=str(line.number),
        )


def segments_of(parts: list[str] | tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """The (start, end) of each part, in characters, when the parts are joined."""
    segments, start = [], 0
    for part in parts:
        segments.append((start, start + len(part)))
        start += len(part)
    return tuple(segments)


def read_structures(lines: Iterator[TextLine], report: Report) -> Iterator[Example]:
    """Sequences with paired positions, three lines each: `>name`, letters, dots and brackets."""
    name: TextLine | None = None
    letters: TextLine | None = None
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


def _structure(
    name: TextLine, letters: TextLine, signs: TextLine, report: Report
) -> Example | None:
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
            wrong = "closes nothing" if mark == ")" else "is not one of `(`, `.`, `)`"
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


def read_conllu(lines: Iterator[TextLine], report: Report) -> Iterator[Example]:
    """Sentences of CoNLL-U, one word a line. Multiword tokens and empty nodes are left out."""
    for block in _blocks(lines, comments=True):
        words = [(line, line.text.split("\t")) for line in block]
        kept = [(line, row) for line, row in words if not _extra(row[0])]
        example = _sentence(kept, CONLLU, report)
        if example is not None:
            yield example


def read_columns(
    lines: Iterator[TextLine], report: Report, columns: Sequence[str] = COLUMNS
) -> Iterator[Example]:
    """Sentences with one word a line, in columns separated by tabs; columns "" are ignored."""
    assert "word" in columns and set(columns) <= set(KNOWN), columns
    for block in _blocks(lines, comments=False):
        example = _sentence([(line, line.text.split("\t")) for line in block], columns, report)
        if example is not None:
            yield example


def _blocks(lines: Iterator[TextLine], comments: bool) -> Iterator[list[TextLine]]:
    block: list[TextLine] = []
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
    """Whether a row is a multiword token (`3-4`) or an empty node (`8.1`)."""
    parts = number.replace(".", "-").split("-")
    return len(parts) == 2 and all(part.isdecimal() for part in parts)


def _sentence(
    rows: list[tuple[TextLine, list[str]]], columns: Sequence[str], report: Report
) -> Example | None:
    """The example that some rows make; None, after one report, if they do not make one."""
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
    rows: list[tuple[TextLine, list[str]]], columns: Sequence[str]
) -> tuple[int, str, str] | None:
    """The first mistake in the rows of a sentence: line, message, help."""
    heads = []
    with_heads = "head" in columns and any(
        row[columns.index("head")] != "_" for _, row in rows if len(row) == len(columns)
    )
    for number, (line, row) in enumerate(rows, 1):
        if len(row) != len(columns):
            help = "columns are separated by tabs"
            return line.number, f"{len(row)} columns; {len(columns)} are expected", help
        if "id" in columns and row[columns.index("id")] != str(number):
            return line.number, f"word {number} has the number `{row[columns.index('id')]}`", ""
        if not row[columns.index("word")]:
            return line.number, "a word without letters", ""
        if with_heads:
            head = row[columns.index("head")]
            if not (head.isascii() and head.isdecimal() and int(head[:9]) <= len(rows)):
                help = f"0 for the root, or the number of a word, up to {len(rows)}"
                return line.number, f"`{head}` is not a head", help
            heads.append(int(head))
    around = _cycle(heads)
    if around is not None:
        return rows[around][0].number, f"word {around + 1} is below itself", "heads make a tree"
    return None


def _cycle(heads: Sequence[int]) -> int | None:
    """A position that is its own ancestor; None if there is none."""
    walk = [-1] * len(heads)  # the start of the walk that first came here
    for start in range(len(heads)):
        at = start
        while at >= 0 and walk[at] < 0:
            walk[at] = start
            at = heads[at] - 1
        if at >= 0 and walk[at] == start:
            return at
    return None


class _BadTree(Exception):
    """The reason why a tree cannot be read."""


def read_trees(lines: Iterator[TextLine], report: Report) -> Iterator[Example]:
    """Bracketed trees, `(S (NP (PRP we)) (VP (VBP agree)))`, each on one line or several.

    The leaves are `(TAG word)`. All lines of a tree but the first are indented: a bracket at the
    start of a line begins a new tree, and an empty line ends one, so an unclosed bracket spoils
    only its own tree. Brackets without a label around a tree are dropped, and so are leaves with
    the tag `-NONE-` and phrases without other leaves.
    """
    tokens: list[str] = []
    first = depth = 0
    for line in lines:
        if tokens and (not line.text.strip() or line.text.startswith("(")):
            report("F484", first, "a bracket is not closed", "")
            tokens, depth = [], 0
        if not tokens:
            first = line.number
        for token in _TOKEN.findall(line.text):
            depth += (token == "(") - (token == ")")
            tokens.append(token)
            if depth <= 0:
                example = _tree(tokens, first, report)
                tokens, first, depth = [], line.number, 0
                if example is None:
                    break  # what follows on this line means nothing
                yield example
    if tokens:
        report("F484", first, "a bracket is not closed", "")


def _tree(tokens: list[str], line: int, report: Report) -> Example | None:
    try:
        words, tags, spans = _read(tokens)
    except _BadTree as error:
        report("F484", line, str(error), "leaves are `(TAG word)`")
        return None
    return Example(words=tuple(words), tags=tuple(tags), spans=tuple(spans), place=str(line))


def _read(tokens: list[str]) -> tuple[list[str], list[str], list[Span]]:
    """The words, tags and spans (parents first) of one tree. Raises _BadTree."""
    words: list[str] = []
    tags: list[str] = []
    spans: list[list[int | str]] = []
    # For each open bracket: its atoms, its index in `spans` if it has children, and its start.
    stack: list[tuple[list[str], list[int], int]] = []
    for position, token in enumerate(tokens):
        if token == "(":
            if stack:
                _open(stack[-1], spans)
            stack.append(([], [], len(words)))
        elif token == ")":
            if not stack:
                raise _BadTree("a bracket closes nothing")
            atoms, place, _ = stack.pop()
            if place:
                if len(atoms) > 1:
                    raise _BadTree(f"`{atoms[1]}` stands among phrases")
                spans[place[0]][1] = len(words)
            elif len(atoms) == 2:
                if atoms[0] != TRACE:
                    tags.append(atoms[0])
                    words.append(atoms[1])
            else:
                raise _BadTree(f"`({' '.join(atoms)[:40]})` is not a leaf")
        elif not stack:
            raise _BadTree(f"`{token}` stands outside of brackets")
        else:
            stack[-1][0].append(token)
        if not stack and position + 1 < len(tokens):
            raise _BadTree("brackets close too early")
    kept = [(int(s), int(e), str(label)) for s, e, label in spans if s != e and label]
    return words, tags, kept


def _open(parent: tuple[list[str], list[int], int], spans: list[list[int | str]]) -> None:
    """Record that a bracket has children, which makes it a phrase."""
    atoms, place, start = parent
    if place:
        return
    if len(atoms) > 1:
        raise _BadTree(f"`{atoms[1]}` stands among phrases")
    place.append(len(spans))
    spans.append([start, start, atoms[0] if atoms else ""])


FORMATS: dict[str, Reader] = {
    "words": read_words,
    "ids": read_ids,
    "tagged": read_tagged,
    "conllu": read_conllu,
    "columns": read_columns,
    "trees": read_trees,
    "morphs": read_morphs,
    "structures": read_structures,
}
SUFFIXES = {
    ".txt": "words",
    ".ids": "ids",
    ".pos": "tagged",
    ".tagged": "tagged",
    ".conllu": "conllu",
    ".trees": "trees",
    ".mrg": "trees",
    ".dbn": "structures",
}
