"""States have no names: estimates are compared up to a permutation of them [ID eq. 7]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from fgg.runtime.unmix.mixing import Floats
from fgg.runtime.unmix.shapes import Arcs, States


def aligned(
    shape: States | Arcs, found: Mapping[str, Any], truth: Mapping[str, Any]
) -> dict[str, Floats]:
    """The estimate with its states in the order of the truth.

    It is the permutation with the least sum of distances between words given states, children given
    states (as sets: sorted) and shares of roots.
    """
    own = {name: np.asarray(found[name], dtype=float) for name in found}
    if isinstance(shape, Arcs):
        return own
    true = {name: np.asarray(truth[name], dtype=float) for name in own}
    order = permutation(_traits(shape, own), _traits(shape, true))
    own[shape.root] = own[shape.root][order]
    own[shape.child] = own[shape.child][np.ix_(order, order)]
    own[shape.emit] = own[shape.emit][order]
    return own


def permutation(found: Floats, truth: Floats) -> Any:
    """For each row of the truth the row of the estimate that is assigned to it."""
    cost = np.abs(truth[:, None, :] - found[None, :, :]).sum(axis=2)
    _, order = linear_sum_assignment(cost)
    return order


def _traits(shape: States, weights: Mapping[str, Floats]) -> Floats:
    """What tells states apart whatever their order is."""
    parts = (weights[shape.emit], np.sort(weights[shape.child], axis=1), weights[shape.root])
    return np.concatenate([parts[0], parts[1], parts[2][:, None]], axis=1)


def errors(found: Mapping[str, Any], truth: Mapping[str, Any]) -> dict[str, float]:
    """The greatest error of each factor."""
    return {
        name: float(np.abs(np.asarray(found[name]) - np.asarray(truth[name])).max())
        for name in found
    }
