"""Triton kernels in graphs, both without a GPU: Triton's interpreter and a stand-in for graphs.

Triton decides to interpret when it is imported, so this module is run in a process of its own:
`TRITON_INTERPRET=1 python -m tests.helpers.graph_checks pcfg:string:rank`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.interpreter import GridExecutor

import fgg
from fgg.api.compile import compile
from fgg.runtime.program.program import Program
from tests.helpers import fake_graphs
from tests.helpers.compiled import SMALL
from tests.helpers.native import items_of
from tests.oracles.comparing import collated


def kernels_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in for graphs record kernels as a whole, not the operations inside them."""
    execute = GridExecutor.__call__

    def executed(kernel: Any, *arguments: Any, **options: Any) -> None:
        recorder = fake_graphs.Recorder.current
        with _disable_current_modes():
            execute(kernel, *arguments, **options)
        if recorder is not None:
            recorder.noted.append((again, (kernel, arguments, options), {}, ()))

    def again(kernel: Any, arguments: Any, options: Any) -> tuple[()]:
        execute(kernel, *arguments, **options)
        return ()

    monkeypatch.setattr(GridExecutor, "__call__", executed)


def asked(program: Program, seed: int, lengths: list[int]) -> list[Tensor]:
    """log Z and gradients for random inputs."""
    weights = program.weights(seed=1, dtype=torch.float64)
    weights = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    items = items_of(program.grammar, lengths, random.Random(seed))
    inputs, own = collated(items, torch.float64)
    log_z = program.log_z(weights, inputs, own or None)
    return [log_z.detach(), *torch.autograd.grad(log_z.sum(), list(weights.values()))]


def main(names: list[str]) -> None:
    """Compare programs in graphs with tensor operations, and print how often graphs were used."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        fake_graphs.install(monkeypatch)
        kernels_are_recorded(monkeypatch)
        for name in names:
            grammar, query, space = name.split(":")
            sizes = {k: v for k, v in SMALL.items() if k in fgg.load(grammar).size}
            model = fgg.load(grammar, sizes=sizes)
            options: dict[str, Any] = {"space": space, "fallback": False}
            plain = compile(model, query or None, backend="torch", **options)
            graphed = compile(model, query or None, backend="triton", cuda_graph=True, **options)
            for seed in range(3):
                pairs = zip(asked(graphed, seed, [4, 2]), asked(plain, seed, [4, 2]), strict=True)
                for mine, theirs in pairs:
                    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
    print([graph.replays for graph in fake_graphs.FakeGraph.made])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
