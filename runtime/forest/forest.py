"""A derivation forest: all derivations of an item, with each shared part written once.

A forest is an acyclic graph of *nodes*. A node is the sum of its *alternatives*. An alternative is
the product of a coefficient, of *slots* and of nodes below it. A slot stands for one entry of a
factor; which one may depend on the tokens of the item, so items of one shape share a forest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import frexp, log

import numpy as np
from numpy.typing import NDArray

LN2 = log(2.0)

Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]


@dataclass(frozen=True)
class Slot:
    """An entry of the flat weights: `base`, and for each term a stride times a token."""

    base: int
    tokens: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class Alternative:
    """A product: slots and nodes by their keys, and the logarithm of a coefficient."""

    slots: tuple[Slot, ...]
    children: tuple[Hashable, ...]
    log_coefficient: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """A forest as arrays; lists of lists are flat, with the place of each first element beside.

    Children come before their parents, and the last node is the root. The fields are those of
    `Forest` in `forest.cpp`.
    """

    node_first: Ints32
    child_first: Ints32
    child: Ints32
    use_first: Ints32
    use: Ints32
    mantissa: NDArray[np.float64]
    exponent: Ints64
    base: Ints64
    term_first: Ints32
    token: Ints32
    stride: Ints64

    @staticmethod
    def of(nodes: Sequence[tuple[Hashable, Sequence[Alternative]]]) -> Forest:
        """The forest of nodes in order, each with the key that alternatives call it by."""
        writer = _Writer()
        for key, alternatives in nodes:
            writer.add(key, alternatives)
        return writer.forest()

    def __repr__(self) -> str:
        return (
            f"Forest({self.nodes:,} nodes, {self.alternatives:,} alternatives, "
            f"{self.slots:,} slots)"
        )

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.node_first) - 1

    @property
    def alternatives(self) -> int:
        """The number of alternatives."""
        return len(self.mantissa)

    @property
    def slots(self) -> int:
        """The number of slots."""
        return len(self.base)

    @cached_property
    def bytes(self) -> int:
        """The memory of the arrays."""
        arrays = (getattr(self, name) for name in self.__dataclass_fields__)
        return sum(array.nbytes for array in arrays)


class _Writer:
    """Writes a forest node by node."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.slot_numbers: dict[Slot, int] = {}
        self.node_first = [0]
        self.child_first = [0]
        self.child: list[int] = []
        self.use_first = [0]
        self.use: list[int] = []
        self.mantissa: list[float] = []
        self.exponent: list[int] = []

    def add(self, key: Hashable, alternatives: Sequence[Alternative]) -> None:
        slots, numbers = self.slot_numbers, self.numbers
        for alternative in alternatives:
            for slot in alternative.slots:
                self.use.append(slots.setdefault(slot, len(slots)))
            self.child += [numbers[child] for child in alternative.children]
            self.use_first.append(len(self.use))
            self.child_first.append(len(self.child))
            mantissa, exponent = scaled_exp(alternative.log_coefficient)
            self.mantissa.append(mantissa)
            self.exponent.append(exponent)
        self.numbers[key] = len(self.numbers)
        self.node_first.append(len(self.mantissa))

    def forest(self) -> Forest:
        slots = list(self.slot_numbers)
        terms = np.cumsum([0, *(len(slot.tokens) for slot in slots)])
        return Forest(
            node_first=np.array(self.node_first, dtype=np.int32),
            child_first=np.array(self.child_first, dtype=np.int32),
            child=np.array(self.child, dtype=np.int32),
            use_first=np.array(self.use_first, dtype=np.int32),
            use=np.array(self.use, dtype=np.int32),
            mantissa=np.array(self.mantissa, dtype=np.float64),
            exponent=np.array(self.exponent, dtype=np.int64),
            base=np.array([slot.base for slot in slots], dtype=np.int64),
            term_first=terms.astype(np.int32),
            token=np.array([t for slot in slots for t in slot.tokens], dtype=np.int32),
            stride=np.array([s for slot in slots for s in slot.strides], dtype=np.int64),
        )


def scaled_exp(logarithm: float) -> tuple[float, int]:
    """The exponential as a mantissa in [1/2, 1) and a power of two, whatever its size."""
    if logarithm == -np.inf:
        return 0.0, 0
    if logarithm == 0.0:
        return 0.5, 1
    powers = round(logarithm / LN2)
    mantissa, shift = frexp(float(np.exp(logarithm - powers * LN2)))
    return mantissa, powers + shift
