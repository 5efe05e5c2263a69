"""Streams: a text as one long row of tokens, cut into windows for truncated backpropagation.

Several rows are read side by side; each window of a row follows the one before it, so what a model
knows at the end of one (the distribution of its state) can be carried over to the next. `continues`
says where that is right.
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

CHUNK = 1 << 20


@dataclass(frozen=True)
class Tokens:
    """The numbers of all words of a text, and where its documents begin."""

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
) -> Tokens:
    """The tokens of examples with ids, one after the other, each followed by `end` if there is one.

    An example for which `begins` is true is the first of a document; without `begins` the text is
    one document. With a `path` the tokens are written there, 4 bytes each, and read from there as
    they are needed: a text that is larger than memory is possible.
    """
    starts = [0]
    with _Sink(None if path is None else Path(path)) as sink:
        for example in examples:
            assert example.ids is not None, f"{example.place}: words without numbers"
            if begins is not None and sink.many > starts[-1] and begins(example):
                starts.append(sink.many)
            sink.put(example.ids if end is None else (*example.ids, end))
    return Tokens(sink.ids(), np.array(starts, np.int64))


class _Sink:
    """Where tokens go: to memory, or to a file that appears when all is written."""

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
            reason = (error.strerror or str(error)).lower()
            message = f"`{self.path}` cannot be written: {reason}"
            refuse("F413", message)

    def ids(self) -> NDArray[np.int32]:
        """All tokens, once they are all there."""
        if self.path is None or self._part is None:
            return np.concatenate(self._chunks)
        os.replace(self._part, self.path)
        if not self.many:
            return np.zeros(0, np.int32)
        return np.memmap(self.path, np.int32, "r", shape=(self.many,))


@dataclass(frozen=True, kw_only=True)
class Window:
    """A piece of each row. `ids` is `[row, position]`, -1 after the `lengths` of the rows.

    `continues[row]` is true where the piece goes on from the row's piece in the window before, and
    false where a row or a document begins. `after` is the number of the next window.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    continues: NDArray[np.bool_]
    after: int


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The windows of a stream: `rows` side by side, at most `length` tokens of each at a time.

    The stream is cut into rows of equal length (the last may be shorter). With `documents`, rows
    are whole documents, as even as they can be, and no window reaches over the end of one. Each
    token is in one window. Process `rank` of `world` has every `world`-th row.
    """

    tokens: Tokens
    rows: int = 16
    length: int = 32
    documents: bool = False
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        assert self.rows > 0 and self.length > 0 and 0 <= self.rank < self.world <= self.rows

    @cached_property
    def _pieces(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
        """Of each row: where its windows begin and end, and whether they go on from the last."""
        total = len(self.tokens)
        bounds = np.minimum(np.arange(self.rows + 1) * -(-total // self.rows), total)
        starts = self.tokens.starts
        if self.documents:
            ends = np.append(starts, total)
            bounds = ends[np.searchsorted(ends, bounds)]  # the next beginning of a document
        found = []
        for low, high in pairwise(bounds):
            inner = starts[(starts > low) & (starts < high)] if self.documents else starts[:0]
            pieces = np.concatenate([[low], inner, [high]])
            begins = [np.arange(a, b, self.length) for a, b in pairwise(pieces)]
            first = np.concatenate(begins).astype(np.int64)
            last = np.append(first[1:], high)[: len(first)]
            found.append((first, last, ~np.isin(first, pieces)))
        return found

    def __len__(self) -> int:
        return max(len(first) for first, _, _ in self._pieces)

    def __iter__(self) -> Iterator[Window]:
        return self.start(0)

    def start(self, number: int) -> Iterator[Window]:
        """The windows from this one on: where a run goes on that was interrupted."""
        own = self._pieces[self.rank :: self.world]
        for step in range(number, len(self)):
            ids = np.full((len(own), self.length), -1, np.int64)
            lengths = np.zeros(len(own), np.int64)
            continues = np.zeros(len(own), bool)
            for row, (first, last, flags) in enumerate(own):
                if step < len(first):
                    piece = self.tokens.ids[first[step] : last[step]]
                    ids[row, : len(piece)] = piece
                    lengths[row] = len(piece)
                    continues[row] = flags[step]
            yield Window(ids=ids, lengths=lengths, continues=continues, after=step + 1)
