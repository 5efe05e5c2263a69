"""Texts as streams of tokens, for training and for testing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fgg.data as data

END = "<eos>"
ALL = 10**9
"""More tokens and words than any text here has."""


@dataclass(frozen=True)
class Text:
    """Streams of a text for training and testing."""

    train: data.TokenStream
    test: data.TokenStream
    vocabulary: data.Vocabulary
    known: list[list[str]]

    def windows(self, part: str, rows: int = 16, length: int = 32) -> data.Windows:
        """The windows of a stream."""
        return data.Windows(tokens=getattr(self, part), rows=rows, length=length)


def text(train: Path, test: Path, tokens: int = ALL, held_out: int = ALL, words: int = ALL) -> Text:
    """The beginnings of two files, with the most frequent words of the first."""
    parts = [
        list(upto(data.read(path, format="words", blank=True), many))
        for path, many in ((train, tokens), (test, held_out))
    ]
    vocabulary = data.build_vocabulary(parts[0], most=words, extra=(END,))
    end = vocabulary.index[END]
    own = [data.token_stream(map(vocabulary.encoded, part), end=end) for part in parts]
    known = [[*map(vocabulary.known, example.words), END] for example in parts[0]]
    return Text(own[0], own[1], vocabulary, known)


def upto(examples: Iterable[data.Example], tokens: int) -> Iterator[data.Example]:
    """The first examples, until they have so many tokens, ends counted."""
    count = 0
    for example in examples:
        count += len(example) + 1
        if count > tokens:
            return
        yield example
