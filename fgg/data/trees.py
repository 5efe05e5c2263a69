"""Bracketed trees: `(S (NP (PRP we)) (VP (VBP agree)))`, on one line each or on several."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fgg.data.example import Example, Span
from fgg.data.lines import Line, Report

_TOKEN = re.compile(r"[()]|[^\s()]+")
TRACE = "-NONE-"


class _Bad(Exception):
    """Why a tree cannot be read."""


def read_trees(lines: Iterator[Line], report: Report) -> Iterator[Example]:
    """Trees whose leaves are `(TAG word)`; a tree ends where its brackets do.

    A tree on several lines has all but the first indented: a bracket at the very start of a line
    begins a tree, and an empty line ends one, so a tree that is not closed spoils no other. A pair
    of brackets without a label around a tree is left out, and so are leaves with the tag `-NONE-`
    and phrases that hold nothing else.
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
    except _Bad as error:
        report("F484", line, str(error), "leaves are `(TAG word)`")
        return None
    return Example(words=tuple(words), tags=tuple(tags), spans=tuple(spans), place=str(line))


def _read(tokens: list[str]) -> tuple[list[str], list[str], list[Span]]:
    """Words, tags and spans (parents first) of one tree. Raises _Bad."""
    words: list[str] = []
    tags: list[str] = []
    spans: list[list[int | str]] = []
    # Of each open bracket: its atoms, its place in `spans` or -1, and whether it has children.
    stack: list[tuple[list[str], list[int], int]] = []
    for position, token in enumerate(tokens):
        if token == "(":
            if stack:
                _open(stack[-1], spans)
            stack.append(([], [], len(words)))
        elif token == ")":
            if not stack:
                raise _Bad("a bracket closes nothing")
            atoms, place, _ = stack.pop()
            if place:
                if len(atoms) > 1:
                    raise _Bad(f"`{atoms[1]}` stands among phrases")
                spans[place[0]][1] = len(words)
            elif len(atoms) == 2:
                if atoms[0] != TRACE:
                    tags.append(atoms[0])
                    words.append(atoms[1])
            else:
                raise _Bad(f"`({' '.join(atoms)[:40]})` is no leaf")
        elif not stack:
            raise _Bad(f"`{token}` stands outside of brackets")
        else:
            stack[-1][0].append(token)
        if not stack and position + 1 < len(tokens):
            raise _Bad("brackets close too early")
    kept = [(int(s), int(e), str(label)) for s, e, label in spans if s != e and label]
    return words, tags, kept


def _open(parent: tuple[list[str], list[int], int], spans: list[list[int | str]]) -> None:
    """Note that a bracket has children: it is a phrase then."""
    atoms, place, start = parent
    if place:
        return
    if len(atoms) > 1:
        raise _Bad(f"`{atoms[1]}` stands among phrases")
    place.append(len(spans))
    spans.append([start, start, atoms[0] if atoms else ""])
