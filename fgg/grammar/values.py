"""The values a factor can be given: frozen, comparable, exact where written exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

Number = float | Fraction
"""A weight: a float (a decimal as written) or a Fraction (written as `1/3`)."""

Nested = Number | tuple["Nested", ...]
"""A number, or a tuple of nested values: the entries of a table, row by row."""


MAX_LOG = 700.0
"""Logarithms between this and its negative have exponentials that are normal floats."""

ZERO = "zero"
"""How the logarithm of 0 is written."""


def exact(number: Number) -> Fraction:
    """The number the user meant: 0.1 is one tenth, not its nearest binary fraction."""
    return number if isinstance(number, Fraction) else Fraction(repr(number))


@dataclass(frozen=True)
class Constant:
    """The same weight everywhere, `= 0.5`."""

    number: Number


@dataclass(frozen=True)
class Table:
    """A weight for each entry, as nested lists, `= [[0.2, 0.8], [0.5, 0.5]]`."""

    entries: Nested


@dataclass(frozen=True)
class Exp:
    """A weight for each entry by its logarithm, `= exp([[0.5, -800], [zero, 3]])`.

    So weights can be given that no float holds. The logarithm of 0, -inf, is written `zero`.
    """

    entries: Nested


@dataclass(frozen=True)
class Sparse:
    """Weights of some entries, by position; the rest is 0. Written as a map by domain values."""

    entries: tuple[tuple[tuple[int, ...], Number], ...]


@dataclass(frozen=True)
class Load:
    """An array read from a `.npy` file, `= load("f.npy")`.

    `path` is relative to `folder`, the folder of the grammar.
    """

    path: str
    folder: str = "."


@dataclass(frozen=True)
class Uniform:
    """The uniform distribution over the right side of the arrow, `= uniform`."""


@dataclass(frozen=True)
class Eye:
    """The identity matrix, `= eye`."""


@dataclass(frozen=True)
class Map:
    """A function: each value of the first domain goes with one of the second, with weight 1.

    Its values are written out, `= map(0, 1, 1)`; or they follow a pattern, `map(cycle)`,
    `map(runs)` or `map(part)`; or they are read from a file, `map("clusters.txt")`. What they are
    is found by `fgg.factors.maps`.
    """

    values: tuple[int | str, ...] = ()
    pattern: str = ""
    path: str = ""
    folder: str = "."


Value = Constant | Table | Exp | Sparse | Load | Uniform | Eye | Map


@dataclass(frozen=True)
class Call:
    """An attribute's value with arguments, `dirichlet(0.1)` or `residual(dim=256)`."""

    name: str
    arguments: tuple[AttributeValue, ...] = ()
    keywords: tuple[tuple[str, AttributeValue], ...] = ()


@dataclass(frozen=True)
class Word:
    """An attribute's value that is a bare name, `clusters`."""

    name: str


AttributeValue = Word | Call | str | float | Fraction
