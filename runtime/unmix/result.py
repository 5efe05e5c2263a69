"""What unmixing gives: estimated weights, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fgg.diagnostics import Diagnostic
from fgg.runtime.unmix.matching import aligned, errors
from fgg.runtime.unmix.mixing import Mixing
from fgg.runtime.unmix.shapes import Arcs, States

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

MOVED = 1e-6
"""An estimate that is this near to distributions is one, up to rounding."""


@dataclass(frozen=True, eq=False)
class Unmixed:
    """Estimated weights, and how they came about.

    `weights` are distributions. `raw` is what the moments say, which may lie outside the simplex by
    `moved`. `residual` is the greatest error of the moments that were used, `gap` the least
    relative distance of eigenvalues. `levels` are the mean log-likelihoods of the steps of EM.
    """

    program: Program
    shape: States | Arcs
    weights: Mapping[str, Any]
    raw: Mapping[str, Any]
    moved: float
    residual: float
    gap: float
    mixing: Mixing
    used: tuple[str, ...]
    facts: Mapping[str, Any]
    levels: tuple[float, ...] = ()
    notes: tuple[Diagnostic, ...] = ()

    def aligned(self, truth: Mapping[str, Any]) -> dict[str, Any]:
        """The weights with their states in the order of others: states have no names."""
        return aligned(self.shape, self.weights, truth)

    def errors(self, truth: Mapping[str, Any]) -> dict[str, float]:
        """The greatest error of each factor, states being matched."""
        return errors(self.aligned(truth), truth)

    def error(self, truth: Mapping[str, Any]) -> float:
        """The greatest error of all."""
        return max(self.errors(truth).values())

    def as_json(self) -> dict[str, Any]:
        """The result as JSON has it."""
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
        }
