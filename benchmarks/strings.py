"""What suites over strings share: weights and words drawn at random, and calls on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from benchmarks.measure import Call, Point, gradients_of
from fgg.runtime.program.program import Program

Data = tuple[dict[str, Tensor], Tensor]
"""Weights that require gradients, and words `[batch, n]`."""


def softmaxed(point: Point, shapes: Mapping[str, tuple[int, ...]], words: int) -> Data:
    """Random distributions over the last axis of each factor, and random words."""
    chance = torch.Generator().manual_seed(0)
    weights = {
        name: torch.randn(shape, generator=chance).softmax(-1).requires_grad_()
        for name, shape in shapes.items()
    }
    return weights, torch.randint(words, (point["batch"], point["n"]), generator=chance)


def by_program(program: Program, data: Data) -> Call:
    """Calls of a compiled program whose input is `w`."""
    weights, words = data
    return lambda: gradients_of(program.log_z(weights, {"w": words}), weights)


def by_function(log_z: Callable[..., Tensor], data: Data) -> Call:
    """Calls of a function of weights and words, with autograd."""
    weights, words = data
    return lambda: gradients_of(log_z(**weights, words=words), weights)
