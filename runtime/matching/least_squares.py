"""Levenberg and Marquardt's method, for residuals in log-weights.

The matrix of normal equations is singular along shifts of a row of log-weights, which change
nothing; damping makes steps unique. Nielsen's rule changes the damping with the gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fgg.runtime.unmix.mixing import Floats

Residuals = Callable[[Floats], tuple[Floats, Floats] | None]
"""Residuals and their derivatives at a vector; None where there are none."""

LONGEST = 3.0
"""The greatest change of a log-weight in one step."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Where the method ended: half the sum of squares there, its greatest derivative, and steps."""

    vector: Floats
    level: float
    gradient: float
    steps: int


def least_squares(
    residuals: Residuals, start: Floats, *, steps: int, tolerance: float
) -> Fit | None:
    """The least sum of squares near a start; None if there are no residuals there.

    It ends with a gradient of at most `tolerance`, after `steps` steps, or where no step helps.
    """
    vector = start
    now = residuals(vector)
    if now is None:
        return None
    level = 0.5 * float(now[0] @ now[0])
    damping, growth, taken = 1e-3, 2.0, 0
    slope = now[1].T @ now[0]
    while taken < steps and float(np.abs(slope).max(initial=0.0)) > tolerance:
        normal = now[1].T @ now[1]
        scale = np.maximum(np.diag(normal), 1e-9 * float(np.diag(normal).max(initial=0.0)))
        step = -_solved(normal + np.diag(damping * scale), slope)
        step *= min(1.0, LONGEST / max(float(np.abs(step).max()), 1e-300))
        trial = residuals(vector + step)
        trial_level = np.inf if trial is None else 0.5 * float(trial[0] @ trial[0])
        hoped = -float(step @ slope) - 0.5 * float(step @ normal @ step)
        taken += 1
        if trial is not None and trial_level < level:
            gain = (level - trial_level) / max(hoped, 1e-300)
            damping = max(damping * max(1 / 3, 1 - (2 * min(gain, 1.0) - 1) ** 3), 1e-14)
            growth = 2.0
            vector, now, level = vector + step, trial, trial_level
            slope = now[1].T @ now[0]
        else:
            damping, growth = damping * growth, growth * 2
            if damping > 1e12:
                break
    return Fit(vector, level, float(np.abs(slope).max(initial=0.0)), taken)


def _solved(matrix: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])
