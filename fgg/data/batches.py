"""Batches: examples of like length together, in an order that a seed decides.

A window of examples is read, shuffled, sorted by length and cut into batches, and the batches are
shuffled; then comes the next window. So a corpus of any size is a stream, and one that fits into a
window is shuffled as a whole. Everything follows from the seed, the epoch and the number of the
window: a run that goes on from a saved position sees the batches that it would have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.data.example import Example

WINDOW = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place between two batches: those before `batch` of `window` of `epoch` are done."""

    epoch: int = 0
    window: int = 0
    batch: int = 0

    def as_json(self) -> dict[str, int]:
        """The position as JSON; `Position(**data)` gives it back."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Examples to be worked on together.

    `numbers` are their places in the corpus, from 0; `whole` is the size of the batch over all
    processes, of which this one has `examples`, perhaps none; `after` is where to go on.
    """

    examples: tuple[Example, ...]
    numbers: tuple[int, ...]
    whole: int
    after: Position

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def ids(self) -> list[list[int]]:
        """The numbers of the words of each example, as programs take them."""
        return [list(_ids(example)) for example in self.examples]

    @property
    def lengths(self) -> list[int]:
        """The number of words of each example."""
        return [len(example) for example in self.examples]

    def padded(self, fill: int = -1) -> NDArray[np.int64]:
        """The numbers `[example, position]`, filled up to the longest example."""
        table = np.full((len(self), max(self.lengths, default=0)), fill, np.int64)
        for row, example in zip(table, self.examples, strict=True):
            row[: len(example)] = _ids(example)
        return table

    def tensor(self, fill: int = -1) -> Any:
        """The same as a tensor."""
        import torch

        return torch.from_numpy(self.padded(fill))


def _ids(example: Example) -> tuple[int, ...]:
    assert example.ids is not None, f"{example.place}: words without numbers"
    return example.ids


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The batches of a corpus, the same whenever they are asked for.

    `tokens` bounds the size of a batch, examples times the longest of them; an example that is
    longer is a batch of its own. `examples` bounds their number too. Of each batch, process `rank`
    of `world` gets every `world`-th example, so all have as many batches, and together they have
    what one process alone would have.
    """

    corpus: Iterable[Example]
    tokens: int = 4096
    examples: int | None = None
    shuffle: bool = True
    seed: int = 0
    window: int = WINDOW
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        assert self.tokens > 0 and self.window > 0 and 0 <= self.rank < self.world
        assert self.examples is None or self.examples > 0

    def epoch(self, number: int = 0) -> Iterator[Batch]:
        """The batches of an epoch."""
        return self.start(Position(epoch=number))

    def start(self, position: Position) -> Iterator[Batch]:
        """What is left of an epoch, from a position on."""
        source = islice(enumerate(self.corpus), position.window * self.window, None)
        number = position.window
        while window := list(islice(source, self.window)):
            batches = self._cut(window, position.epoch, number)
            first = position.batch if number == position.window else 0
            for index in range(first, len(batches)):
                after = Position(epoch=position.epoch, window=number, batch=index + 1)
                yield self._batch(batches[index], after)
            number += 1

    def _cut(
        self, window: list[tuple[int, Example]], epoch: int, number: int
    ) -> list[list[tuple[int, Example]]]:
        draw = Random(f"{self.seed}/{epoch}/{number}")
        if self.shuffle:
            draw.shuffle(window)
        window.sort(key=lambda item: len(item[1]))
        found: list[list[tuple[int, Example]]] = []
        for item in window:
            many = len(found[-1]) + 1 if found else 0
            fits = many and many * max(len(item[1]), 1) <= self.tokens
            if fits and (self.examples is None or many <= self.examples):
                found[-1].append(item)
            else:
                found.append([item])
        if self.shuffle:
            draw.shuffle(found)
        return found

    def _batch(self, items: list[tuple[int, Example]], after: Position) -> Batch:
        own = items[self.rank :: self.world]
        return Batch(
            examples=tuple(example for _, example in own),
            numbers=tuple(number for number, _ in own),
            whole=len(items),
            after=after,
        )
