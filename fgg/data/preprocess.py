"""Preprocessing of examples: case, digits, punctuation, length, labels, characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from fgg.data.example import Change, Example
from fgg.data.formats import segments_of
from fgg.diagnostics import refuse

T = TypeVar("T")

# Tags of punctuation: Universal Dependencies, the Penn Treebank and its later additions.
PUNCTUATION = frozenset(
    {"PUNCT", ".", ",", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "$", "#"}
)
_NUMBER = re.compile(r"[0-9][0-9.,]*")
_DIGIT = re.compile(r"[0-9]")


def normal(*, lower: bool = False, digits: str | None = None) -> Change:
    """A change that normalises words: to lower case, and then their digits.

    `digits="each"` replaces every digit by `0`, `digits="number"` every number by `N`. A number is
    a digit with the digits, points and commas after it: `3.5` becomes `N`, `tbx15` becomes `tbxN`.
    """
    assert digits in (None, "each", "number"), digits

    def change(example: Example) -> Example:
        words = list(example.words)
        if lower:
            words = [word.lower() for word in words]
        if digits == "each":
            words = [_DIGIT.sub("0", word) for word in words]
        elif digits == "number":
            words = [_NUMBER.sub("N", word) for word in words]
        return replace(example, words=tuple(words), written=example.written or example.words)

    return change


def of_length(least: int = 1, most: int | None = None) -> Change:
    """A filter that keeps examples of at least `least` and at most `most` words."""

    def change(example: Example) -> Example | None:
        fits = len(example) >= least and (most is None or len(example) <= most)
        return example if fits else None

    return change


def without_punctuation(example: Example) -> Example:
    """The example without the words whose tag is in PUNCTUATION, as in grammar induction.

    An example without tags is returned unchanged: words alone do not tell (`$` may be a word).
    """
    if example.tags is None:
        return example
    return keep(example, [tag not in PUNCTUATION for tag in example.tags])


def keep(example: Example, kept: Sequence[bool]) -> Example:
    """The example with only the words at which `kept` is true.

    A word whose head is removed gets the nearest kept ancestor as its head, or the root. Empty
    spans and segments are removed, and so is a phrase directly below one with the same label and
    words. A pair stays if both its ends do.
    """
    place = [0]  # for each old position, how many words are kept before it
    for flag in kept:
        place.append(place[-1] + flag)

    def some(values: Sequence[str] | None) -> tuple[str, ...] | None:
        return None if values is None else _some(values, kept)

    spans = segments = pairs = None
    if example.spans is not None:
        moved = [(place[s], place[e], label) for s, e, label in example.spans]
        full = [span for span in moved if span[0] < span[1]]
        spans = tuple(span for i, span in enumerate(full) if i == 0 or span != full[i - 1])
    if example.segments is not None:
        cut = [(place[s], place[e]) for s, e in example.segments]
        segments = tuple((s, e) for s, e in cut if s < e)
    if example.pairs is not None:
        both = [(i, j) for i, j in example.pairs if kept[i] and kept[j]]
        pairs = tuple((place[i], place[j]) for i, j in both)
    return replace(
        example,
        words=_some(example.words, kept),
        written=some(example.written),
        tags=some(example.tags),
        fine_tags=some(example.fine_tags),
        relations=some(example.relations),
        heads=None if example.heads is None else _heads(example.heads, kept, place),
        spans=spans,
        segments=segments,
        pairs=pairs,
        ids=None if example.ids is None else _some(example.ids, kept),
    )


def _some(values: Sequence[T], kept: Sequence[bool]) -> tuple[T, ...]:
    return tuple(value for value, flag in zip(values, kept, strict=True) if flag)


def _heads(heads: Sequence[int], kept: Sequence[bool], place: Sequence[int]) -> tuple[int, ...]:
    moved = []
    for position, head in enumerate(heads):
        if not kept[position]:
            continue
        while head and not kept[head - 1]:
            head = heads[head - 1]
        moved.append(place[head - 1] + 1 if head else 0)
    return tuple(moved)


def bare_labels(example: Example) -> Example:
    """The example with `NP` for `NP-SBJ` and `NP=2`, `nsubj` for `nsubj:pass`."""
    spans, relations = example.spans, example.relations
    return replace(
        example,
        spans=None if spans is None else tuple((s, e, _bare(label)) for s, e, label in spans),
        relations=None if relations is None else tuple(r.split(":")[0] for r in relations),
    )


def _bare(label: str) -> str:
    return label[:1] + re.split(r"[-=|]", label[1:], maxsplit=1)[0]


def as_characters(example: Example) -> Example:
    """The characters of an example as its words, and its words as segments.

    Tags, heads and phrases belong to words and are dropped.
    """
    return Example(
        words=tuple("".join(example.words)),
        segments=segments_of(example.words),
        name=example.name,
        count=example.count,
        place=example.place,
        potentials=example.potentials,
    )


def as_tags(example: Example) -> Example:
    """The example with its tags in place of its words. Raises GrammarError if it has none."""
    if example.tags is None:
        refuse("F485", f"{example.place}: there are no tags")
    return replace(example, words=example.tags, written=None)
