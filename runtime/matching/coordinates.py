"""Tables of distributions in coordinates without constraints: log-weights, normalised by row.

A step in them never leaves the simplex. The derivative of a function f by a log-weight is
θ_i (∂f/∂θ_i - Σ_j θ_j ∂f/∂θ_j); it is zero at a maximum inside the simplex, and on its border.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.identify.fields import RealField
from fgg.runtime.identify.parameters import ParameterPoint, Parameters
from fgg.runtime.unmix.mixing import Floats

LEAST = 1e-12
"""A weight of zero has no logarithm: it becomes this."""


@dataclass(frozen=True)
class Coordinates:
    """The free tables of a grammar as one vector of log-weights."""

    parameters: Parameters

    @property
    def count(self) -> int:
        """The number of log-weights; each row of a table has one more than free parameters."""
        return sum(leaf.rows * leaf.columns for leaf in self.parameters.leaves)

    def vector(self, tables: Mapping[str, Floats | Tensor]) -> Floats:
        """The log-weights of tables."""
        parts = []
        for leaf in self.parameters.leaves:
            table = np.asarray(tables[leaf.name], dtype=float).reshape(leaf.rows, leaf.columns)
            parts.append(np.log(np.maximum(table, LEAST)).ravel())
        return np.concatenate(parts)

    def tables(self, vector: Floats) -> dict[str, Tensor]:
        """The tables of log-weights."""
        tables, first = {}, 0
        for leaf in self.parameters.leaves:
            size = leaf.rows * leaf.columns
            logs = torch.from_numpy(np.asarray(vector[first : first + size], dtype=np.float64))
            rows = torch.softmax(logs.reshape(leaf.rows, leaf.columns), dim=1)
            tables[leaf.name] = rows.reshape(leaf.shape)
            first += size
        return tables

    def point(self, tables: Mapping[str, Floats | Tensor]) -> ParameterPoint:
        """All factors, those that follow from the tables too."""
        leaves = {
            leaf.name: torch.as_tensor(tables[leaf.name], dtype=torch.float64).reshape(leaf.shape)
            for leaf in self.parameters.leaves
        }
        return self.parameters.at(RealField(), leaves)

    def rows(self, place: ParameterPoint, gradients: Mapping[str, Tensor]) -> Floats:
        """Derivatives by factors, `[function, *shape]`, as derivatives by free coordinates."""
        some = next(iter(gradients.values()))
        zeros = {
            leaf.name: torch.zeros(len(some), 1, *leaf.shape, dtype=torch.float64)
            for leaf in self.parameters.leaves
        }
        given = {name: slope.unsqueeze(1) for name, slope in gradients.items()}
        return np.asarray(place.rows({**zeros, **given})[:, 0])

    def by_log_weights(self, place: ParameterPoint, rows: Floats) -> Floats:
        """Derivatives by free coordinates, `[function, n]`, as derivatives by log-weights."""
        parts, first = [], 0
        for leaf in self.parameters.leaves:
            size = leaf.coordinates
            free = rows[:, first : first + size]
            free = free.reshape(len(rows), leaf.rows, leaf.columns - 1)
            first += size
            table = np.asarray(place.arrays[leaf.name]).reshape(leaf.rows, leaf.columns)
            # Free coordinates move the last weight, too: by it the derivative counts as zero.
            mean = (free * table[:, :-1]).sum(axis=2, keepdims=True)
            slopes = np.concatenate([free - mean, -mean], axis=2) * table
            parts.append(slopes.reshape(len(rows), leaf.rows * leaf.columns))
        return np.concatenate(parts, axis=1)
