"""Batches: every example once, within the budget, the same on every run and after every stop."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgg.data import Batches, BatchPosition, Example, ExampleBatch


def corpus(lengths: list[int]) -> list[Example]:
    return [
        Example(words=("w",) * n, ids=tuple(range(n)), place=str(i)) for i, n in enumerate(lengths)
    ]


def numbers(batches: list[ExampleBatch]) -> list[tuple[int, ...]]:
    return [batch.numbers for batch in batches]


@given(
    lengths=st.lists(st.integers(0, 9), max_size=30),
    tokens=st.integers(1, 20),
    most=st.one_of(st.none(), st.integers(1, 4)),
    window=st.integers(1, 40),
    shuffle=st.booleans(),
    world=st.integers(1, 3),
)
def test_each_example_is_in_one_batch_of_one_process(
    lengths: list[int], tokens: int, most: int | None, window: int, shuffle: bool, world: int
) -> None:
    settings = dict(tokens=tokens, examples=most, window=window, shuffle=shuffle)
    whole = list(Batches(corpus=corpus(lengths), **settings).epoch(3))  # type: ignore[arg-type]
    assert sorted(n for batch in whole for n in batch.numbers) == list(range(len(lengths)))
    for batch in whole:
        assert len(batch) == 1 or max(batch.lengths) * len(batch) <= tokens
        assert most is None or len(batch) <= most
    parts = [
        list(Batches(corpus=corpus(lengths), rank=rank, world=world, **settings).epoch(3))  # type: ignore[arg-type]
        for rank in range(world)
    ]
    for pieces in zip(whole, *parts, strict=True):
        batch, *shares = pieces
        assert sorted(n for share in shares for n in share.numbers) == sorted(batch.numbers)
        assert {share.whole for share in shares} == {len(batch)}
        assert {share.after for share in shares} == {batch.after}


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped() -> None:
    rng = np.random.default_rng(0)
    batches = Batches(
        corpus=corpus(rng.integers(1, 30, 200).tolist()), tokens=60, window=64, seed=5
    )
    whole = list(batches.epoch(2))
    assert len({b.after.window for b in whole}) == 4
    for stop in range(len(whole)):
        saved = json.loads(json.dumps(whole[stop].after.as_json()))
        assert list(batches.start(BatchPosition(**saved))) == whole[stop + 1 :]


def test_seed_and_epoch_decide_the_order() -> None:
    data = corpus(list(range(1, 40)) * 2)
    first = numbers(list(Batches(corpus=data, tokens=50).epoch(0)))
    assert first == numbers(list(Batches(corpus=data, tokens=50).epoch(0)))
    assert first != numbers(list(Batches(corpus=data, tokens=50).epoch(1)))
    assert first != numbers(list(Batches(corpus=data, tokens=50, seed=1).epoch(0)))
    # As a snapshot, so that saved positions stay good.
    small = Batches(corpus=corpus([3, 1, 2, 3, 1, 2]), tokens=6).epoch(0)
    assert numbers(list(small)) == [(5, 0), (3,), (1, 4, 2)]


def test_without_shuffling_batches_go_by_length() -> None:
    batches = Batches(corpus=corpus([3, 1, 2, 3, 1]), tokens=6, shuffle=False)
    assert numbers(list(batches.epoch())) == [(1, 4, 2), (0, 3)]


def test_padding() -> None:
    (batch,) = Batches(corpus=corpus([2, 0, 3]), tokens=100, shuffle=False).epoch()
    assert batch.padded().tolist() == [[-1, -1, -1], [0, 1, -1], [0, 1, 2]]
    assert batch.ids == [[], [0, 1], [0, 1, 2]]
    assert batch.tensor(fill=7).tolist()[0] == [7, 7, 7]
    empty = ExampleBatch(examples=(), numbers=(), whole=1, after=BatchPosition())
    assert empty.padded().shape == (0, 0)


def test_words_without_numbers_are_not_padded() -> None:
    batch = next(Batches(corpus=[Example(words=("a",), place="f:1")]).epoch())
    with pytest.raises(AssertionError, match="f:1"):
        batch.padded()
