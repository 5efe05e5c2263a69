"""Types of numbers: inference is in float32 or float64, whatever torch would choose by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from fgg.diagnostics import refuse

P = ParamSpec("P")
R = TypeVar("R")

HALF = frozenset({torch.bfloat16, torch.float16})
"""The types in which weights may be given, but not computed with: they become float32."""
TYPES = HALF | {torch.float32, torch.float64}
"""The types that the parameters of a model may have."""
DEVICES = ("cpu", "cuda", "xpu", "mps")
"""The devices whose automatic choice of types is switched off."""


def check_type(dtype: object) -> None:
    """Raise GrammarError (F415) for a type that parameters cannot have."""
    if dtype not in TYPES:
        known = ", ".join(sorted(str(each).removeprefix("torch.") for each in TYPES))
        shown = str(dtype).removeprefix("torch.")
        refuse("F415", f"parameters cannot be of type `{shown}`", f"there are {known}")


def as_computed(weights: Tensor) -> Tensor:
    """Weights in the type that they are computed with."""
    return weights.float() if weights.dtype in HALF else weights


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """The function without `torch.autocast`: its products would be in bfloat16."""

    @wraps(function)
    def precise(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch._C._is_any_autocast_enabled():
            return function(*args, **kwargs)
        with ExitStack() as stack:
            for device in DEVICES:
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            return function(*args, **kwargs)

    return precise
