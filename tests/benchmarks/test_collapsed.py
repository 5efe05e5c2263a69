"""CVB in NumPy computes what the library does, draws are derivations, the table is whole."""

from __future__ import annotations

import pytest
import torch

import fgg
from benchmarks import collapsed
from benchmarks.collapsed_by_hand import ByHand
from fgg.runtime.learn import CVB
from fgg.runtime.learn.fitting import batched


def test_cvb_by_hand_is_the_library_s() -> None:
    words, size = collapsed.made_up(12)
    start = collapsed.weights(size)
    hand = ByHand(words, size, collapsed.PRIOR)
    program = fgg.compile(fgg.load("morphology", sizes={"substrings": size}))
    model = program.model(dtype=torch.float64)
    method = CVB(model, prior=collapsed.PRIOR, weights=start)
    ready = [method.ready(batch) for batch in batched(model, words, "cvb")]
    first = hand.start({name: table.numpy() for name, table in start.items()})
    assert method.sweep(ready).log_z == pytest.approx(first, rel=1e-10)
    for _ in range(3):
        assert method.sweep(ready).log_z == pytest.approx(hand.cvb(), rel=1e-10)


def test_counts_of_draws_by_hand_are_whole_derivations() -> None:
    words, size = collapsed.made_up(12)
    hand = ByHand(words, size, collapsed.PRIOR)
    start = {name: table.numpy() for name, table in collapsed.weights(size).items()}
    hand.start(start, draw=True)
    rates = [hand.hastings() for _ in range(5)]
    assert 0.2 < sum(rates) / 5 <= 1
    assert hand.totals["template"] == pytest.approx(len(words))
    assert hand.totals["mood"] <= hand.totals["stem"] == pytest.approx(len(words))


def test_the_table_has_all_methods() -> None:
    table = collapsed.main(["--words", "5", "--vocabulary", "0", "500", "--rounds", "1"])
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:] if line.startswith("|")]
    assert rows == [
        *("`em`", "`vb`", "`cvb`", "`cvb` in NumPy"),
        *("`hastings`", "`hastings` in NumPy", "`gibbs`"),
    ]
