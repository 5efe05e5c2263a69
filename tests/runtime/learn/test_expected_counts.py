"""Expected counts where weights are hardly numbers any more."""

from __future__ import annotations

import torch

import fgg
from fgg.runtime.learn import ExpectedCounter, Items
from fgg.runtime.learn.expected_counts import log_counts
from fgg.runtime.learn.item_batches import check_items


def test_a_vanished_weight_beside_tiny_ones_gives_finite_counts() -> None:
    length, number = 5, 0
    parts = [[-2] * (length + 1) for _ in range(length)]
    for i in range(length):
        for j in range(i + 1, length + 1):
            parts[i][j], number = number, number + 1
    program = fgg.compile(fgg.load("morphology", sizes={"substrings": number}))
    batch = check_items(program, Items({"s": [parts]}))
    weights = program.weights(seed=0, dtype=torch.float64)
    logs = {name: weights[name].log() for name in program.compiled.plan.parameters}
    for name in ("stem", "mood", "subject", "tense", "object"):
        logs[name] = torch.full((number,), -1e5, dtype=torch.float64)
    # The whole word is a stem. A tense marker [1,2) with what follows it weighs next to nothing;
    # [1,3) is no number any more, though what follows is likely.
    known = {"stem": [(0, 5, -1), (2, 3, -86), (3, 4, -1)], "mood": [(3, 5, -1), (4, 5, -1)]}
    known |= {"subject": [(0, 1, -1)], "tense": [(1, 2, -646)]}
    for name, entries in known.items():
        for i, j, log in entries:
            logs[name][parts[i][j]] = log
    counter = ExpectedCounter(program)
    counter.set(logs)
    expected = counter.count(batch)
    wanted = log_counts(program, counter.logs, batch)
    for name, counts in wanted.counts.items():
        torch.testing.assert_close(expected.counts[name], counts)
    assert float(expected.counts["stem"][parts[0][5]]) > 0.999


def test_small_weights_are_counted_in_float32_without_logarithms() -> None:
    program = fgg.compile(fgg.load("dmv", sizes={"tags": 3}))
    batch = check_items(program, Items({"w": [[0, 1, 2, 1, 0, 2, 2, 1, 0, 1], [2, 1, 1]]}))
    weights = program.weights(seed=0, dtype=torch.float64)
    logs = {name: weights[name].log() for name in program.compiled.plan.parameters}
    for name in ("left", "right"):
        logs[name][0] -= 22  # about ψ(0.1) - ψ(100,000)
    wanted = log_counts(program, logs, batch)
    counter = ExpectedCounter(program, torch.float32)
    counter.set(logs)
    expected = counter.count(batch)
    torch.testing.assert_close(expected.log_z, wanted.log_z, rtol=1e-5, atol=1e-5)
    for name, counts in wanted.counts.items():
        torch.testing.assert_close(expected.counts[name], counts, rtol=1e-5, atol=1e-5)
    assert program.ranges.wider == 0
