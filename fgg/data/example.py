"""An example: the words of one item of a corpus and their annotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgg.data.potentials import ItemPotentials

Span = tuple[int, int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A sequence of words (or characters, or nucleotides) and its annotation.

    Positions are counted from 0, spans are half open. Annotation that a format lacks is None.
    """

    words: tuple[str, ...]
    written: tuple[str, ...] | None = None  # the words before their letters or digits were changed
    tags: tuple[str, ...] | None = None
    fine_tags: tuple[str, ...] | None = None  # the language-specific tags of CoNLL-U
    heads: tuple[int, ...] | None = None  # 0 is the root, i + 1 the word at position i
    relations: tuple[str, ...] | None = None
    spans: tuple[Span, ...] | None = None  # (start, end, label) of each phrase, parents first
    segments: tuple[tuple[int, int], ...] | None = None  # (start, end) of each part, in order
    pairs: tuple[tuple[int, int], ...] | None = None  # positions (i, j), i < j, that are paired
    ids: tuple[int, ...] | None = None  # the words' numbers in a vocabulary
    name: str | None = None
    count: int = 1  # how often it occurs, if the format says so
    place: str = ""  # file:line
    potentials: ItemPotentials | None = None

    def __len__(self) -> int:
        return len(self.words)


Change = Callable[[Example], Example | None]
"""A step of preprocessing: the changed example, or None to leave it out."""


def brackets(example: Example) -> str:
    """The tree of an example with spans and tags, as bracketed text."""
    assert example.spans is not None and example.tags is not None
    opened: list[list[str]] = [[] for _ in range(len(example) + 1)]
    closed = [0] * (len(example) + 1)
    for start, end, label in example.spans:  # parents first: the order in which they open
        opened[start].append(f"({label}")
        closed[end] += 1
    parts = []
    for position, (word, tag) in enumerate(zip(example.words, example.tags, strict=True)):
        ends = ")" * closed[position + 1]
        parts.append(" ".join([*opened[position], f"({tag} {word}){ends}"]))
    return " ".join(parts)
