"""The result of unmixing: estimated weights, and how good they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from fgg.diagnostics import Diagnostic
from fgg.runtime.unmix.alignment import Alignment
from fgg.runtime.unmix.mixing import Floats, Mixing

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

MOVED = 1e-6
"""An estimate that is this near to distributions is one, up to rounding."""


@dataclass(frozen=True, eq=False)
class Unmixing:
    """Estimated weights, and how good they are.

    `weights` are distributions. `raw` is the estimate before it was projected to the simplex, and
    `moved` how far that moved it. `residual` is the greatest error of the moments that were used,
    `gap` the least relative distance of eigenvalues, `mixing` the mixing matrix; moment matching
    has neither. `levels` are the mean log-likelihoods of the
    steps towards their maximum, `gradient` is the greatest derivative by a log-weight after them.
    """

    program: Program
    alignment: Alignment
    weights: Mapping[str, Floats]
    raw: Mapping[str, Floats]
    moved: float
    residual: float
    gap: float | None
    mixing: Mixing | None
    used: tuple[str, ...]
    facts: Mapping[str, object]
    levels: tuple[float, ...] = ()
    gradient: float | None = None
    notes: tuple[Diagnostic, ...] = ()

    def aligned(self, truth: Mapping[str, object]) -> dict[str, Floats]:
        """The weights with their states in the order of others: states have no names."""
        return self.alignment.aligned(self.weights, self._whole(truth))

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
        gap = "" if self.gap is None else f", gap of eigenvalues {self.gap:.1e}"
        lines += ["", f"residual {self.residual:.1e}{gap}"]
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
            "mixing": self._mixing(),
            **{name: value for name, value in self.facts.items() if name != "method"},
            "log_likelihoods": list(self.levels),
            "gradient": self.gradient,
        }

    def _mixing(self) -> dict[str, object] | None:
        if self.mixing is None:
            return None
        return {
            "rows": len(self.mixing.rows),
            "columns": len(self.mixing.columns),
            "rank": self.mixing.rank,
            "used": list(self.used),
        }


def errors(estimate: Mapping[str, object], truth: Mapping[str, object]) -> dict[str, float]:
    """The greatest error of each factor."""
    return {
        name: float(np.abs(np.asarray(estimate[name]) - np.asarray(truth[name])).max())
        for name in estimate
    }
