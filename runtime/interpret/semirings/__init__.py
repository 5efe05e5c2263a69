"""Semirings, by name."""

from __future__ import annotations

from collections.abc import Callable

from fgg.runtime.interpret.semirings.base import AnySemiring, Letters, Semiring
from fgg.runtime.interpret.semirings.boolean import Boolean
from fgg.runtime.interpret.semirings.exact import Counting, Exact
from fgg.runtime.interpret.semirings.log import Log
from fgg.runtime.interpret.semirings.max_plus import MaxPlus
from fgg.runtime.interpret.semirings.modular import Modular
from fgg.runtime.interpret.semirings.real import Real

SEMIRINGS: dict[str, Callable[[], AnySemiring]] = {
    "real": Real,
    "log": Log,
    "max": MaxPlus,
    "boolean": Boolean,
    "counting": Counting,
    "gf": Modular,
    "exact": Exact,
}

__all__ = ["SEMIRINGS", "AnySemiring", "Letters", "Semiring"]
