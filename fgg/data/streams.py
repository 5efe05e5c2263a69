"""Streams: a text as one long sequence of tokens, cut into windows for truncated backpropagation.

A stream is cut into rows that are read side by side. Each window of a row follows the one before
it, so a model can carry the distribution of its state from one window to the next, wherever
`continues` is true.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fgg.data.example import Example
from fgg.diagnostics import refuse
from fgg.files import reason_of

CHUNK = 1 << 20


@dataclass(frozen=True)
class TokenStream:
    """The token ids of a text, `[tokens]`, and the positions where its documents begin."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)


def token_stream(
    examples: Iterable[Example],
    *,
    end: int | None = None,
    begins: Callable[[Example], bool] | None = None,
    path: str | Path | None = None,
) -> TokenStream:
    """The token ids of all examples in a row, each example followed by `end` if it is given.

    A document begins at each example for which `begins` is true; without `begins` the text is one
    document. With a `path`, the tokens are written to that file, 4 bytes each, and mapped into
    memory, so a text may be larger than memory.
    """
    starts = [0]
    with _Sink(None if path is None else Path(path)) as sink:
        for example in examples:
            assert example.ids is not None, f"{example.place}: words without numbers"
            if begins is not None and sink.many > starts[-1] and begins(example):
                starts.append(sink.many)
            sink.put(example.ids if end is None else (*example.ids, end))
    return TokenStream(sink.ids(), np.array(starts, np.int64))


class _Sink:
    """Collects tokens in memory, or in a file that appears when all are written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.many = 0
        self._waiting: list[int] = []
        self._chunks: list[NDArray[np.int32]] = []
        self._part: Path | None = None
        if path is not None:
            self._part = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> _Sink:
        if self._part is not None:
            self._part.unlink(missing_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._flush()
        elif self._part is not None:
            self._part.unlink(missing_ok=True)

    def put(self, ids: tuple[int, ...]) -> None:
        self._waiting += ids
        self.many += len(ids)
        if len(self._waiting) >= CHUNK:
            self._flush()

    def _flush(self) -> None:
        chunk = np.array(self._waiting, np.int32)
        self._waiting = []
        if self._part is None:
            self._chunks.append(chunk)
            return
        try:
            with open(self._part, "ab") as file:
                file.write(chunk.tobytes())
        except OSError as error:
            refuse("F413", f"`{self.path}` cannot be written: {reason_of(error)}")

    def ids(self) -> NDArray[np.int32]:
        """All tokens; called once, at the end."""
        if self.path is None or self._part is None:
            return np.concatenate(self._chunks)
        os.replace(self._part, self.path)
        if not self.many:
            return np.zeros(0, np.int32)
        return np.memmap(self.path, np.int32, "r", shape=(self.many,))


@dataclass(frozen=True, kw_only=True)
class Window:
    """The next piece of each row: `ids[row, position]`, -1 beyond `lengths[row]`.

    `continues[row]` is true if the piece follows the row's piece in the window before, and false
    where a row or a document begins. `after` is the number of the next window.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    continues: NDArray[np.bool_]
    after: int


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The windows of a stream: `rows` rows side by side, `length` tokens of each at a time.

    The stream is cut into rows of equal length (the last may be shorter). With `documents`, rows
    are whole documents, of lengths as equal as possible, and no window crosses the end of a
    document. Each token is in one window. Process `rank` of `world` has every `world`-th row.
    """

    tokens: TokenStream
    rows: int = 16
    length: int = 32
    documents: bool = False
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        assert self.rows > 0 and self.length > 0 and 0 <= self.rank < self.world <= self.rows

    @cached_property
    def _pieces(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
        """For each row, the begin and end of its windows, and whether each continues the last."""
        total = len(self.tokens)
        bounds = np.minimum(np.arange(self.rows + 1) * -(-total // self.rows), total)
        starts = self.tokens.starts
        if self.documents:
            ends = np.append(starts, total)
            bounds = ends[np.searchsorted(ends, bounds)]  # the next beginning of a document
        rows = []
        for low, high in pairwise(bounds):
            inner = starts[(starts > low) & (starts < high)] if self.documents else starts[:0]
            pieces = np.concatenate([[low], inner, [high]])
            begins = [np.arange(a, b, self.length) for a, b in pairwise(pieces)]
            first = np.concatenate(begins).astype(np.int64)
            last = np.append(first[1:], high)[: len(first)]
            rows.append((first, last, ~np.isin(first, pieces)))
        return rows

    def __len__(self) -> int:
        return max(len(first) for first, _, _ in self._pieces)

    def __iter__(self) -> Iterator[Window]:
        return self.start(0)

    def start(self, number: int) -> Iterator[Window]:
        """The windows from this number on, for a run that resumes."""
        rows = self._pieces[self.rank :: self.world]
        for step in range(number, len(self)):
            ids = np.full((len(rows), self.length), -1, np.int64)
            lengths = np.zeros(len(rows), np.int64)
            continues = np.zeros(len(rows), bool)
            for row, (first, last, flags) in enumerate(rows):
                if step < len(first):
                    piece = self.tokens.ids[first[step] : last[step]]
                    ids[row, : len(piece)] = piece
                    lengths[row] = len(piece)
                    continues[row] = flags[step]
            yield Window(ids=ids, lengths=lengths, continues=continues, after=step + 1)
