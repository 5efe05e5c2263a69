"""Batches of examples of similar length, in an order that a seed decides.

A window of examples is read, shuffled, sorted by length and cut into batches, and the batches are
shuffled; then comes the next window. So a corpus of any size is a stream, and a corpus that fits
into one window is shuffled as a whole. The order depends only on the seed, the epoch and the number
of the window: a run resumed at a saved position sees the batches that it would have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fgg.data.example import Example

if TYPE_CHECKING:
    from torch import Tensor

Numbered = tuple[int, Example]  # an example and its position in the corpus

WINDOW = 1 << 16


@dataclass(frozen=True, kw_only=True)
class BatchPosition:
    """A place between two batches: those before number `batch` of the window are done."""

    epoch: int = 0
    window: int = 0
    batch: int = 0

    def as_json(self) -> dict[str, int]:
        """The position as JSON; `BatchPosition(**data)` gives it back."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ExampleBatch:
    """Examples that are processed together.

    `numbers` are their positions in the corpus, from 0. `whole` is the size of the batch over all
    processes; this process has `examples`, perhaps none. `after` is the position of the next batch.
    """

    examples: tuple[Example, ...]
    numbers: tuple[int, ...]
    whole: int
    after: BatchPosition

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def ids(self) -> list[list[int]]:
        """The token ids of each example, as programs take them."""
        return [list(_ids(example)) for example in self.examples]

    @property
    def lengths(self) -> list[int]:
        """The number of words of each example."""
        return [len(example) for example in self.examples]

    def padded(self, fill: int = -1) -> NDArray[np.int64]:
        """The token ids as an array `[example, position]`, padded with `fill`."""
        table = np.full((len(self), max(self.lengths, default=0)), fill, np.int64)
        for row, example in zip(table, self.examples, strict=True):
            row[: len(example)] = _ids(example)
        return table

    def tensor(self, fill: int = -1) -> Tensor:
        """The token ids as a tensor `[example, position]`, padded with `fill`."""
        import torch

        return torch.from_numpy(self.padded(fill))


def _ids(example: Example) -> tuple[int, ...]:
    assert example.ids is not None, f"{example.place}: words without numbers"
    return example.ids


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The batches of a corpus; every pass over an epoch yields the same ones.

    `tokens` bounds the padded size of a batch: its number of examples times the longest of them. A
    longer example is a batch by itself. `examples` bounds the number of examples. Process `rank` of
    `world` gets every `world`-th example of each batch, so all processes have equally many batches.
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

    def epoch(self, number: int = 0) -> Iterator[ExampleBatch]:
        """The batches of an epoch."""
        return self.start(BatchPosition(epoch=number))

    def start(self, position: BatchPosition) -> Iterator[ExampleBatch]:
        """The batches of an epoch from a position on."""
        source = islice(enumerate(self.corpus), position.window * self.window, None)
        number = position.window
        while window := list(islice(source, self.window)):
            batches = self._cut(window, position.epoch, number)
            first = position.batch if number == position.window else 0
            for index in range(first, len(batches)):
                after = BatchPosition(epoch=position.epoch, window=number, batch=index + 1)
                yield self._batch(batches[index], after)
            number += 1

    def _cut(self, window: list[Numbered], epoch: int, number: int) -> list[list[Numbered]]:
        draw = Random(f"{self.seed}/{epoch}/{number}")
        if self.shuffle:
            draw.shuffle(window)
        window.sort(key=lambda item: len(item[1]))
        batches: list[list[Numbered]] = []
        for item in window:
            many = len(batches[-1]) + 1 if batches else 0
            fits = many and many * max(len(item[1]), 1) <= self.tokens
            if fits and (self.examples is None or many <= self.examples):
                batches[-1].append(item)
            else:
                batches.append([item])
        if self.shuffle:
            draw.shuffle(batches)
        return batches

    def _batch(self, items: list[Numbered], after: BatchPosition) -> ExampleBatch:
        share = items[self.rank :: self.world]
        return ExampleBatch(
            examples=tuple(example for _, example in share),
            numbers=tuple(number for number, _ in share),
            whole=len(items),
            after=after,
        )
