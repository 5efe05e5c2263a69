"""The result of unmixing: estimated weights, and how good they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fgg.diagnostics import Diagnostic
from fgg.runtime.unmix.mixing import Floats, Mixing
from fgg.runtime.unmix.structure import Arcs, States

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

MOVED = 1e-6
"""An estimate that is this near to distributions is one, up to rounding."""


@dataclass(frozen=True, eq=False)
class Unmixing:
    """Estimated weights, and how good they are.

    `weights` are distributions. `raw` is the estimate before it was projected to the simplex, and
    `moved` how far that moved it. `residual` is the greatest error of the moments that were used,
    `gap` the least relative distance of eigenvalues. `levels` are the mean log-likelihoods of the
    steps towards their maximum, `gradient` is the greatest derivative by a log-weight after them.
    """

    program: Program
    shape: States | Arcs
    weights: Mapping[str, Floats]
    raw: Mapping[str, Floats]
    moved: float
    residual: float
    gap: float
    mixing: Mixing
    used: tuple[str, ...]
    facts: Mapping[str, object]
    levels: tuple[float, ...] = ()
    gradient: float | None = None
    notes: tuple[Diagnostic, ...] = ()

    def aligned(self, truth: Mapping[str, object]) -> dict[str, Floats]:
        """The weights with their states in the order of others: states have no names."""
        return aligned(self.shape, self.weights, self._whole(truth))

    def errors(self, truth: Mapping[str, object]) -> dict[str, float]:
        """The greatest error of each factor, after states are matched."""
        return errors(self.aligned(truth), self._whole(truth))

    def error(self, truth: Mapping[str, object]) -> float:
        """The greatest error of all factors."""
        return max(self.errors(truth).values())

    def _whole(self, truth: Mapping[str, object]) -> dict[str, Floats]:
        """Weights to compare with; those of factors that follow from others may be left out.

        Raises GrammarError (F417) if others are missing, or of another shape.
        """
        tensors = self.program.weights(truth, dtype=torch.float64)
        return {name: np.asarray(tensors[name], dtype=float) for name in self.weights}

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in self.weights.items())
        return f"Unmixing({self.program.grammar.name!r}, {shapes}, residual {self.residual:.1e})"

    def _repr_markdown_(self) -> str:
        """The factors and the quality of the estimate, for notebooks."""
        lines = [f"**{self.program.grammar.name}**: {self.facts['method']} estimate", ""]
        lines += ["| factor | shape |", "|---|---|"]
        lines += [f"| `{name}` | {list(value.shape)} |" for name, value in self.weights.items()]
        lines += ["", f"residual {self.residual:.1e}, gap of eigenvalues {self.gap:.1e}"]
        lines += [f"\n{note.message}" for note in self.notes]
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """The result as a JSON object."""
        return {
            "method": self.facts["method"],
            "weights": {name: value.tolist() for name, value in self.weights.items()},
            "raw": {name: value.tolist() for name, value in self.raw.items()},
            "projected": self.moved > MOVED,
            "moved": self.moved,
            "residual": self.residual,
            "gap": self.gap,
            "mixing": {
                "rows": len(self.mixing.rows),
                "columns": len(self.mixing.columns),
                "rank": self.mixing.rank,
                "used": list(self.used),
            },
            **{name: value for name, value in self.facts.items() if name != "method"},
            "log_likelihoods": list(self.levels),
            "gradient": self.gradient,
        }


# States have no names: estimates are compared up to a permutation of them [ID eq. 7].


def aligned(
    shape: States | Arcs, estimate: Mapping[str, object], truth: Mapping[str, object]
) -> dict[str, Floats]:
    """The estimate with its states in the order of the truth.

    It is the permutation with the least sum of distances between words given states, children given
    states (as sets: sorted) and shares of roots.
    """
    result = {name: np.asarray(estimate[name], dtype=float) for name in estimate}
    if isinstance(shape, Arcs):
        return result
    true = {name: np.asarray(truth[name], dtype=float) for name in result}
    order = permutation(_traits(shape, result), _traits(shape, true))
    result[shape.root] = result[shape.root][order]
    result[shape.child] = result[shape.child][np.ix_(order, order)]
    result[shape.emit] = result[shape.emit][order]
    return result


def permutation(estimate: Floats, truth: Floats) -> NDArray[np.intp]:
    """For each row of the truth the row of the estimate that is assigned to it."""
    cost = np.abs(truth[:, None, :] - estimate[None, :, :]).sum(axis=2)
    order: NDArray[np.intp] = linear_sum_assignment(cost)[1]
    return order


def _traits(shape: States, weights: Mapping[str, Floats]) -> Floats:
    """The traits `[state, trait]` that tell states apart in any order of states."""
    parts = (weights[shape.emit], np.sort(weights[shape.child], axis=1), weights[shape.root])
    return np.concatenate([parts[0], parts[1], parts[2][:, None]], axis=1)


def errors(estimate: Mapping[str, object], truth: Mapping[str, object]) -> dict[str, float]:
    """The greatest error of each factor."""
    return {
        name: float(np.abs(np.asarray(estimate[name]) - np.asarray(truth[name])).max())
        for name in estimate
    }
