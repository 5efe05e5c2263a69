"""Counts and draws over forests in machine code: `forest.cpp`, compiled once and kept."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.runtime.forest.forest import LN2, Forest
from fgg.runtime.native.build import CannotBuild, library

FUNCTIONS = ("add", "count", "count_all", "log_ratio")
MASK = 2**64 - 1


class _Forest(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("nodes", "alternatives", "slots")) + tuple(
        (name, ctypes.c_void_p) for name in Forest.__dataclass_fields__
    )


class _Weights(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_int64),
        ("counts", ctypes.c_void_p),
        ("alpha", ctypes.c_void_p),
        ("group", ctypes.c_void_p),
        ("totals", ctypes.c_void_p),
        ("mantissa", ctypes.c_void_p),
        ("exponent", ctypes.c_void_p),
        ("given", ctypes.c_int64),
    )


@cache
def machine_code() -> ctypes.PyDLL | None:
    """The compiled functions, or None where there is no C++ compiler."""
    source = (Path(__file__).parent / "forest.cpp").read_text("utf-8")
    try:
        code = library(source, "float64", FUNCTIONS)
    except CannotBuild:
        return None
    code.count.restype = ctypes.c_int64
    code.log_ratio.restype = ctypes.c_double
    code.add.restype = None
    code.count_all.restype = None
    return code


class Counts:
    """Counts of entries, each entry once: `index` and `value`, `[counts]`."""

    __slots__ = ("index", "value")

    def __init__(self, index: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        self.index = np.ascontiguousarray(index, dtype=np.int64)
        self.value = np.ascontiguousarray(value, dtype=np.float64)


class PackedForest:
    """A forest as machine code takes it."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.arrays = [getattr(forest, name) for name in Forest.__dataclass_fields__]
        pointers = [array.ctypes.data for array in self.arrays]
        self.struct = _Forest(forest.nodes, forest.alternatives, forest.slots, *pointers)
        self.address = ctypes.addressof(self.struct)


class ForestWeights:
    """The weights of all entries: learned ones from counts and priors, or given; constants.

    `counts` f and `alpha`, `[size]`, are of learned entries, `group` is the distribution of each.
    `logs` are given log-weights, `[size + constants]`. While `given` is set, they are those of the
    learned entries, too; else these weigh (f + α) / Σ (f + α).
    """

    def __init__(self, counts: Tensor, alpha: Tensor, group: Tensor, logs: Tensor) -> None:
        self.code: Any = machine_code()
        self.counts = counts
        self.alpha = alpha.contiguous()
        self.group = group.to(torch.int32).contiguous()
        self.totals = torch.zeros(int(group.max()) + 1 if len(group) else 0, dtype=torch.float64)
        self.mantissa, self.exponent = _scaled(logs)
        self._index = np.zeros(64, dtype=np.int64)
        self._value = np.zeros(64, dtype=np.float64)
        self._result = np.zeros(2)
        self._random = ctypes.c_uint64(0)
        self.given = False
        self.set_counts(counts)

    def set_counts(self, counts: Tensor) -> None:
        """Take other counts, and sum each distribution afresh."""
        self.counts = counts
        self.totals.zero_().index_add_(0, self.group, counts + self.alpha)
        arrays = (self.counts, self.alpha, self.group, self.totals, self.mantissa, self.exponent)
        assert all(array.is_contiguous() for array in arrays)
        addresses = [array.data_ptr() for array in arrays]
        self.struct = _Weights(len(self.alpha), *addresses, int(self.given))
        self.address = ctypes.addressof(self.struct)

    def give(self, given: bool) -> None:
        """Whether learned entries weigh what `logs` says."""
        self.given = given
        self.struct.given = int(given)

    def add(self, counts: Counts, sign: float = 1.0) -> None:
        """Add the counts of an item, or subtract them; none falls below 0."""
        self.code.add(
            ctypes.c_void_p(self.address),
            ctypes.c_void_p(counts.index.ctypes.data),
            ctypes.c_void_p(counts.value.ctypes.data),
            ctypes.c_int64(len(counts.index)),
            ctypes.c_double(sign),
        )

    def count(
        self, forest: PackedForest, tokens: NDArray[np.int64], seed: int | None = None
    ) -> tuple[float, float, Counts]:
        """log Z, Σ f log θ over learned entries, and the counts f of an item.

        They are expected counts, or with a `seed` those of a derivation that is drawn. An item
        without derivations has log Z = -inf.
        """
        if len(self._index) < forest.forest.slots:
            self._index = np.zeros(2 * forest.forest.slots, dtype=np.int64)
            self._value = np.zeros(2 * forest.forest.slots, dtype=np.float64)
        if seed is not None:
            self._random.value = seed & MASK
        number = self.code.count(
            ctypes.c_void_p(forest.address),
            ctypes.c_void_p(tokens.ctypes.data),
            ctypes.c_void_p(self.address),
            None if seed is None else ctypes.byref(self._random),
            ctypes.c_void_p(self._index.ctypes.data),
            ctypes.c_void_p(self._value.ctypes.data),
            ctypes.c_void_p(self._result.ctypes.data),
        )
        number = max(number, 0)
        counts = Counts(self._index[:number].copy(), self._value[:number].copy())
        return float(self._result[0]), float(self._result[1]), counts

    def set_logs(self, logs: Tensor) -> None:
        """Take other given log-weights, `[size + constants]`."""
        self.mantissa, self.exponent = _scaled(logs)
        self.set_counts(self.counts)

    def count_all(
        self, forests: Sequence[PackedForest], tokens: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        """Add the expected counts of items to `counts`, all with the given weights.

        Returns the log Z of each, `[items]`: -inf for an item without derivations. Sums of
        distributions are left as they are.
        """
        places = np.array([forest.address for forest in forests], dtype=np.uint64)
        token_places = np.array([array.ctypes.data for array in tokens], dtype=np.uint64)
        log_z = np.zeros(len(forests))
        self.code.count_all(
            ctypes.c_void_p(places.ctypes.data),
            ctypes.c_void_p(token_places.ctypes.data),
            ctypes.c_int64(len(forests)),
            ctypes.c_void_p(self.address),
            ctypes.c_void_p(log_z.ctypes.data),
        )
        return log_z

    def log_ratio(self, counts: Counts) -> float:
        """log of target over proposal for the counts of a derivation of one item."""
        ratio: float = self.code.log_ratio(
            ctypes.c_void_p(self.address),
            ctypes.c_void_p(counts.index.ctypes.data),
            ctypes.c_void_p(counts.value.ctypes.data),
            ctypes.c_int64(len(counts.index)),
        )
        return ratio


def _scaled(logs: Tensor) -> tuple[Tensor, Tensor]:
    """exp(logs) as mantissas in [1/2, 1) and powers of two, whatever their size."""
    live = torch.isfinite(logs)
    safe = torch.where(live, logs, 0.0)
    powers = (safe / LN2).round()
    mantissa, shift = torch.frexp((safe - powers * LN2).exp())
    mantissa = torch.where(live, mantissa, 0.0)
    return mantissa.contiguous(), (powers.long() + shift.long()).contiguous()


def joined(counts: Sequence[Counts]) -> Counts:
    """The sum of counts of several items."""
    if len(counts) == 1:
        return counts[0]
    if not counts:
        return Counts(np.zeros(0, dtype=np.int64), np.zeros(0))
    index, inverse = np.unique(np.concatenate([c.index for c in counts]), return_inverse=True)
    value = np.zeros(len(index))
    np.add.at(value, inverse, np.concatenate([c.value for c in counts]))
    return Counts(index, value)
