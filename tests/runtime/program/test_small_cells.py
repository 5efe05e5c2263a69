"""Cells that are nearly too small for a number."""

from __future__ import annotations

from math import exp

import pytest
import torch

import fgg
from fgg.runtime.learn import ExpectedCounter, Items
from fgg.runtime.learn.item_batches import check_items

WORDS = """
size k = 1
size d = 3
domain T = k
domain W = d
factor first(-> T)
factor next(T -> T)
factor word(T -> W)
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> first(t) X(t)
rule step:  X(t) -> word(t, m) next(t, u) X(u)
rule last:  X(t) -> word(t, m)
query text(s: W[n, n+1]) {
  rule begin: S    -> X[0]
  rule step:  X[i] -> m = s[i,j] X[j]   for 0 <= i < j < n
  rule last:  X[i] -> m = s[i,n]        for 0 <= i < n
}
"""


def chain(length: int) -> tuple[list[list[int]], dict[str, torch.Tensor]]:
    """Letters that weigh e^-7 each, and the last one e^-30."""
    parts = [[-2] * (length + 1) for _ in range(length)]
    for i in range(length):
        parts[i][i + 1] = int(i == length - 1)
    return parts, {
        "first": torch.ones(1, dtype=torch.float64),
        "next": torch.ones(1, 1, dtype=torch.float64),
        "word": torch.tensor([[exp(-7), exp(-30), 0.9]], dtype=torch.float64),
    }


def test_what_is_below_the_normal_numbers_is_not_wrong() -> None:
    program = fgg.compile(fgg.loads(WORDS))
    for length in range(90, 104):
        parts, weights = chain(length)
        log_z = float(program.log_z(weights, {"s": [parts]}))
        assert log_z == pytest.approx(-7 * (length - 1) - 30), length


def test_learning_counts_what_is_below_the_range_of_numbers() -> None:
    program = fgg.compile(fgg.loads(WORDS))
    parts, weights = chain(110)
    counter = ExpectedCounter(program)
    counter.set({name: w.log() for name, w in weights.items()})
    found = counter.count(check_items(program, Items({"s": [parts]})))
    assert float(found.log_z[0]) == pytest.approx(-7 * 109 - 30)
    assert found.counts["word"].tolist() == [pytest.approx([109.0, 1.0, 0.0])]
    counter.set_weights(weights)
    again = counter.count(check_items(program, Items({"s": [parts]})))
    torch.testing.assert_close(again.counts["word"], found.counts["word"])


def test_learning_in_float32_needs_no_logarithms_for_small_cells() -> None:
    program = fgg.compile(fgg.loads(WORDS))
    parts, weights = chain(20)
    weights["word"][0, 1] = exp(-14)
    counter = ExpectedCounter(program, torch.float32)
    for numbers in (False, True):
        if numbers:
            counter.set_weights(weights)
        else:
            counter.set({name: w.log() for name, w in weights.items()})
        found = counter.count(check_items(program, Items({"s": [parts]})))
        assert float(found.log_z[0]) == pytest.approx(-7 * 19 - 14)
        assert found.counts["word"].tolist() == [pytest.approx([19.0, 1.0, 0.0])]
    assert program.ranges.logarithms == 0
