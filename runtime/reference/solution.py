"""What solving a grammar gives: values of nonterminals, infinite ones apart, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import Diagnostic
from fgg.grammar import Grammar
from fgg.runtime.interpret.semirings import AnySemiring
from fgg.runtime.interpret.semirings.log import Log
from fgg.runtime.interpret.semirings.real import Real
from fgg.runtime.reference.chart import Chart, Weights
from fgg.runtime.reference.system import System


@dataclass(frozen=True)
class Method:
    """How a recursive component was solved, and how well."""

    nonterminals: tuple[str, ...]
    name: str
    steps: int = 0
    error: float = 0.0
    critical: bool = False


@dataclass
class Solution:
    """The values of a grammar's nonterminals.

    Infinite values are kept apart: `chart` has zeros in their places and `infinite` says where.
    """

    grammar: Grammar
    system: System
    semiring: AnySemiring
    weights: Weights
    chart: Chart
    infinite: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    methods: list[Method] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    rounds: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def raw(self, name: str) -> Any:
        """The value of a nonterminal in the semiring, infinite cells filled in."""
        value = self.chart.get(name)
        mask = self.infinite.get(name)
        if mask is None or not mask.any():
            return value
        if isinstance(value, Tensor):
            return torch.where(torch.as_tensor(mask), float("inf"), value)
        return np.where(mask, np.inf, np.asarray(value, dtype=object))

    @cached_property
    def value(self) -> Any:
        """The value of the start symbol in the semiring: log Z for `log`, Z for `real`."""
        return self.raw(self.grammar.start.label)

    @property
    def log_z(self) -> Any:
        """log Z, entry by entry if the start symbol has external nodes (`log` and `real`)."""
        if isinstance(self.semiring, Log):
            return self.value
        assert isinstance(self.semiring, Real)
        return torch.log(self.value)

    @property
    def critical(self) -> bool:
        """Whether a recursion is critical, so that gradients are infinite."""
        return any(method.critical for method in self.methods)
