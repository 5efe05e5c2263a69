"""States of a tagger that begin as tags: places of blocks shared out, weights and priors.

A place of a block stands for a tag at first, y(t) for the state t. The model then begins as the HMM
of tags, written with states,

    trans(t, u) = p(y(u) | y(t)) p(u | y(u)),    emit(t, w) = p(w | y(t), block),

and this is its prior as well: what the text says of blocks is added to so many counts of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

REAL = torch.float64
RARE = 1e-3
"""The weight of other tags than a state's own, and of what was not seen."""


@dataclass(frozen=True)
class Counts:
    """Of tagged text: words with tags, `[words, tags]`, pairs of tags, and first tags."""

    words: Tensor
    pairs: Tensor
    first: Tensor

    @classmethod
    def of(
        cls, words: Sequence[Sequence[int]], tags: Sequence[Sequence[int]], sizes: tuple[int, int]
    ) -> Counts:
        """The counts of sentences, for so many words and tags."""
        many = sizes[1]
        found = cls(
            torch.zeros(sizes, dtype=REAL),
            torch.zeros((many, many), dtype=REAL),
            torch.zeros(many, dtype=REAL),
        )
        for own, beside in zip(words, tags, strict=True):
            y = torch.tensor(beside)
            one = torch.ones(len(y), dtype=REAL)
            found.words.index_put_((torch.tensor(own), y), one, accumulate=True)
            found.pairs.index_put_((y[:-1], y[1:]), one[1:], accumulate=True)
            found.first[y[0]] += 1
        return found


def shared_out(blocks: Tensor, places: int) -> Tensor:
    """A tag for each place of each block, `[blocks, places]`, from counts `[blocks, tags]`.

    The most frequent tags have a place each; those that are left go to the tags that have the most
    words for each place of theirs.
    """
    found = torch.zeros((len(blocks), places), dtype=torch.long)
    for row, counts in zip(found, blocks, strict=True):
        order = counts.argsort(descending=True, stable=True)
        got = torch.zeros_like(counts)
        for place in range(places):
            new = place < len(order)
            tag = int(order[place]) if new else int((counts / (got + 1)).argmax())
            got[tag] += 1
            row[place] = tag
    return found


def beginning(
    counts: Counts, block_of: Tensor, places: int, seed: int = 0
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights of the HMM of tags, written with states: to begin with, and without noise.

    The places of a block that have the same tag begin with different words.
    """
    many = int(block_of.max()) + 1
    by_block = torch.zeros((many, counts.words.shape[1]), dtype=REAL)
    by_block = by_block.index_add(0, block_of, counts.words) + RARE
    tags = shared_out(by_block, places)  # [blocks, places]
    alike = (tags.unsqueeze(2) == tags.unsqueeze(1)).sum(2).to(REAL)
    own = tags.flatten()
    share = (by_block.gather(1, tags) / alike).flatten()
    share = share / torch.zeros(len(counts.first), dtype=REAL).index_add(0, own, share)[own]
    tag = torch.full((len(own), len(counts.first)), RARE, dtype=REAL)
    tag[torch.arange(len(own)), own] = 1.0
    emit = (counts.words + 10 * RARE)[torch.arange(len(block_of)), tags[block_of].T]
    found = {
        "init": _distribution((counts.first + 0.1)[own] * share),
        "trans": _distribution((_distribution(counts.pairs + 0.1))[own][:, own] * share),
        "tag": _distribution(tag),
        "emit": _within(emit, block_of, many),
    }
    noise = torch.rand(emit.shape, generator=torch.Generator().manual_seed(seed), dtype=REAL)
    noise = torch.where(alike.T[:, block_of] > 1, noise + 0.1, 1.0)
    return {**found, "emit": _within(emit * noise, block_of, many)}, found


def _distribution(table: Tensor) -> Tensor:
    return table / table.sum(-1, keepdim=True)


def _within(table: Tensor, block_of: Tensor, many: int) -> Tensor:
    """Numbers `[places, words]` such that those of each block sum to one."""
    sums = torch.zeros((len(table), many), dtype=REAL).index_add(1, block_of, table)
    return table / sums[:, block_of]
