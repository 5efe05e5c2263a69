"""What a method reports after each sweep, and the check that objectives do not go down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from fgg.diagnostics import refuse

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
"""How far an objective may fall, relative to 1 + its size, before it is an error: rounding."""


@dataclass(frozen=True)
class Progress:
    """A sweep over the data: its objective, of what kind, and what else there is to tell.

    `kind` is `log-likelihood`, `log-posterior`, `free energy` (minus it: a bound from below),
    `collapsed bound` (of order zero) or `log-joint`. It belongs to the parameters that the sweep
    was made with, not to those that came out of it. `log_z` is the sum of log Z over the items.
    """

    sweep: int
    kind: str
    objective: float
    items: int
    log_z: float
    details: Mapping[str, float] = field(default_factory=dict)


def never_down(method: str, before: float, now: float, dtype: torch.dtype) -> None:
    """Raise GrammarError (F475) if an objective that cannot fall has fallen by more than rounding.

    The tolerance is 1e-9 of its size in float64, 2e-5 in float32.
    """
    if not now >= before - TOLERANCE[dtype] * (1 + abs(before)):
        message = f"the objective of `{method}` fell from {before:.12g} to {now:.12g}"
        help = "are the data the same in every sweep? if so, this is a bug: please report it"
        refuse("F475", message, help)
