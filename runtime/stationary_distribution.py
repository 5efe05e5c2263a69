"""Stationary distributions of transition matrices, for factors `with tied = stationary(f)`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.reference.exact_linear import solve_fractions


def stationary(transition: NumpyArray) -> NumpyArray:
    """The distribution pi with pi = pi A, by an exact or a float64 linear solve."""
    size = len(transition)
    if transition.dtype == object:
        system = np.array(
            [[transition[j, i] - (i == j) for j in range(size)] for i in range(size)], dtype=object
        )
        system[-1, :] = Fraction(1)
        right = np.array([Fraction(0)] * (size - 1) + [Fraction(1)], dtype=object)
        return solve_fractions(system, right)
    system = transition.T - np.eye(size)
    system[-1, :] = 1.0
    right = np.zeros(size)
    right[-1] = 1.0
    return np.asarray(np.linalg.solve(system, right))


def stationary_tensor(transition: Tensor) -> Tensor:
    """The distribution pi with pi = pi A, by a linear solve; differentiable."""
    size = transition.shape[0]
    wide = transition.to(torch.float64)
    eye = torch.eye(size, dtype=wide.dtype, device=wide.device)
    # The last equation is replaced by: the entries sum to one.
    system = torch.cat([(wide.T - eye)[:-1], torch.ones_like(wide[:1])])
    distribution: Tensor = torch.linalg.solve(system, eye[-1])
    return distribution.to(transition.dtype)
