"""Passes in CUDA graphs: captured when a shape comes again, right whatever is asked for."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

import fgg
from fgg.api.compile import compile
from fgg.runtime.native import graphs
from fgg.runtime.native.graphs import GraphEngine
from fgg.runtime.program.program import Program
from tests.helpers.compiled import SMALL
from tests.helpers.fake_graphs import FakeGraph, fake_graphs
from tests.helpers.native import items_of
from tests.helpers.places import ROOT
from tests.oracles.comparing import collated

__all__ = ["fake_graphs"]


def made(name: str, space: str = "auto", **options: Any) -> Program:
    sizes = {k: v for k, v in SMALL.items() if k in fgg.load(name).size}
    model = fgg.load(name, sizes=sizes)
    return compile(model, space=space, backend="torch", fallback=False, **options)


def batch_of(program: Program, lengths: list[int], seed: int) -> Any:
    items = items_of(program.grammar, lengths, random.Random(seed))
    inputs, own = collated(items, torch.float64)
    return inputs, own or None


def asked(program: Program, seed: int, lengths: list[int]) -> dict[str, Tensor]:
    """log Z and the gradient of every weight, for random weights and inputs."""
    weights = program.weights(seed=seed, dtype=torch.float64)
    weights = {name: w.clone().requires_grad_() for name, w in weights.items()}
    log_z = program.log_z(weights, *batch_of(program, lengths, seed))
    found = {"": log_z.detach()}
    if weights:
        gradients = torch.autograd.grad(log_z.sum(), list(weights.values()), allow_unused=True)
        pairs = zip(weights, gradients, strict=True)
        found |= {name: gradient for name, gradient in pairs if gradient is not None}
    return found


def assert_same(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("name", "space"), [("hmm", "state"), ("pcfg", "rank"), ("pcfg", "dense"), ("dmv", "state")]
)
def test_replays_give_the_numbers_of_passes(
    name: str, space: str, fake_graphs: list[FakeGraph]
) -> None:
    plain, graphed = made(name, space), made(name, space, cuda_graph=True)
    for seed in range(5):
        assert_same(asked(graphed, seed, [5, 5, 5]), asked(plain, seed, [5, 5, 5]))
    inside, outside = fake_graphs[0::2], fake_graphs[1::2]
    assert sum(graph.replays for graph in inside) == sum(graph.replays for graph in outside)
    # Weights may need another scale of charts, which is another shape, and its first is not kept.
    assert 3 <= sum(graph.replays for graph in inside) + len(inside) - 1 <= 5


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_kernels_are_replayed_too() -> None:
    """In Triton's interpreter; two graphs for each program, used for all but the first batch."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.helpers.graph_checks"]
    done = subprocess.run(
        [*command, "pcfg:string:rank", "hmm:string:state"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "[2, 2, 2, 2]"


def test_other_lengths_between_the_ends_are_the_same_shape(fake_graphs: list[FakeGraph]) -> None:
    plain, graphed = made("pcfg", "rank"), made("pcfg", "rank", cuda_graph=True)
    for seed, middle in enumerate((3, 3, 4, 2, 5)):
        lengths = [2, middle, 5]
        assert_same(asked(graphed, seed, lengths), asked(plain, seed, lengths))
    assert len(fake_graphs) == 2 and fake_graphs[0].replays == 4
    asked(graphed, 0, [3, 3, 5])
    asked(graphed, 0, [3, 3, 5])
    assert len(fake_graphs) == 4, "another least length is another shape"


def test_charts_that_are_needed_are_not_overwritten(fake_graphs: list[FakeGraph]) -> None:
    plain, graphed = made("hmm"), made("hmm", cuda_graph=True)
    weights = plain.weights(seed=1, dtype=torch.float64)
    batches = [batch_of(plain, [4, 4], seed) for seed in range(4)]
    wanted = [plain.posterior(weights, *batch) for batch in batches]
    kept = [graphed.posterior(weights, *batch) for batch in batches]
    for mine, theirs in zip(kept, wanted, strict=True):
        torch.testing.assert_close(mine.log_z, theirs.log_z, rtol=1e-12, atol=0)
    assert fake_graphs[0].replays == 1, "one posterior has the graph, others do without"
    for mine, theirs in reversed(list(zip(kept, wanted, strict=True))):
        assert_same(mine.marginals, theirs.marginals)
        assert_same(mine.counts, theirs.counts)
    kept.clear()
    del mine
    again = graphed.posterior(weights, *batches[0])
    torch.testing.assert_close(again.log_z, wanted[0].log_z, rtol=1e-12, atol=0)
    assert fake_graphs[0].replays == 2, "it is free again"


def test_gradients_stay_when_the_next_batch_comes(fake_graphs: list[FakeGraph]) -> None:
    graphed = made("hmm", cuda_graph=True)
    asked(graphed, 0, [4, 4])
    first = asked(graphed, 1, [4, 4])
    before = {name: x.clone() for name, x in first.items()}
    asked(graphed, 2, [4, 4])
    assert_same(first, before)


def test_a_second_question_is_answered_without_the_graph(fake_graphs: list[FakeGraph]) -> None:
    plain, graphed = made("pcfg", "rank"), made("pcfg", "rank", cuda_graph=True)
    batch = batch_of(plain, [4, 4], 0)
    results = []
    for program in (plain, graphed, graphed):
        weights = program.weights(seed=0, dtype=torch.float64)
        weights = {name: w.clone().requires_grad_() for name, w in weights.items()}
        log_z = program.log_z(weights, *batch)
        one = torch.autograd.grad(log_z[0], list(weights.values()), retain_graph=True)
        two = torch.autograd.grad(log_z[1], list(weights.values()))
        results.append([*one, *two])
    assert len(fake_graphs) == 2
    for found in results[1:]:
        for mine, theirs in zip(found, results[0], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=0)


def test_few_shapes_are_kept(fake_graphs: list[FakeGraph], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "KEPT", 2)
    graphed = made("hmm", cuda_graph=True).compiled
    for length in (2, 3, 4, 2, 2):
        asked(graphed, 0, [length])
        asked(graphed, 0, [length])
    (engine,) = graphed.engines._graphs.values()
    assert isinstance(engine, GraphEngine) and len(engine.kept) == 2
    assert len(fake_graphs) == 2 * 4, "the first shape was captured again"


def test_without_the_option_nothing_is_captured(fake_graphs: list[FakeGraph]) -> None:
    program = made("hmm")
    for _ in range(3):
        asked(program, 0, [3])
    assert not fake_graphs


def test_on_a_cpu_the_option_changes_nothing() -> None:
    plain, graphed = made("hmm"), made("hmm", cuda_graph=True)
    for seed in range(3):
        assert_same(asked(graphed, seed, [3, 4]), asked(plain, seed, [3, 4]))
    (engine,) = graphed.compiled.engines._graphs.values()
    assert not engine.kept
