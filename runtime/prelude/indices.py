"""Indices of cells: loop variables, items' own lengths and table entries, and affine forms of them.

i, k = loops(range(n - width + 1), range(1, width))
L[i, i + k]                   # a view of cells, with an axis for i and one for k
X.gather(0, own_n)            # the cell at each item's own length
own_n > i + width             # a condition for every cell and item
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


class Affine(tuple):  # type: ignore[type-arg]
    """An affine form: a constant, loop variables and other atoms, each with a coefficient.

    A loop variable is an axis of its block, the number of values it takes and a coefficient; its
    first value is part of the constant. Other atoms are numbers for every item. It is a tuple, so
    that forms are quickly made, compared and looked up.
    """

    __slots__ = ()

    def __new__(
        cls,
        constant: int,
        terms: tuple[tuple[int, int, int], ...] = (),
        others: tuple[tuple[Own | Entry, int], ...] = (),
    ) -> Affine:
        """Make a form."""
        return tuple.__new__(cls, (constant, terms, others))

    @property
    def constant(self) -> int:
        """The value where all variables have their first value."""
        return self[0]  # type: ignore[no-any-return]

    @property
    def terms(self) -> tuple[tuple[int, int, int], ...]:
        """The loop variables: axis, number of values, coefficient."""
        return self[1]  # type: ignore[no-any-return]

    @property
    def others(self) -> tuple[tuple[Own | Entry, int], ...]:
        """Atoms that are numbers for every item, and their coefficients."""
        return self[2]  # type: ignore[no-any-return]

    def __add__(self, other: Affine | int) -> Affine:  # type: ignore[override]
        constant, terms, others = self
        if other.__class__ is int:
            return _new(Affine, (constant + other, terms, others))
        more, new_terms, new_others = other  # type: ignore[misc]
        return _new(Affine, (constant + more, terms + new_terms, others + new_others))

    __radd__ = __add__

    def __mul__(self, factor: int) -> Affine:  # type: ignore[override]
        terms = tuple((axis, count, factor * c) for axis, count, c in self.terms)
        others = tuple((atom, factor * c) for atom, c in self.others)
        return Affine(factor * self.constant, terms, others)

    __rmul__ = __mul__  # type: ignore[assignment]

    def __neg__(self) -> Affine:
        return self.__rsub__(0)

    def __sub__(self, other: Affine | int) -> Affine:
        return self + -other

    def __rsub__(self, other: int) -> Affine:
        constant, terms, others = self
        terms = tuple([(axis, count, -c) for axis, count, c in terms])
        if others:
            others = tuple((atom, -c) for atom, c in others)
        return _new(Affine, (other - constant, terms, others))

    def __ge__(self, other: Affine | int) -> Condition:  # type: ignore[override]
        return Condition(self - other)

    def __gt__(self, other: Affine | int) -> Condition:  # type: ignore[override]
        return Condition(self - other - 1)

    def __le__(self, other: Affine | int) -> Condition:  # type: ignore[override]
        return Condition(-self + other)

    def __lt__(self, other: Affine | int) -> Condition:  # type: ignore[override]
        return Condition(-self + other - 1)


_new = tuple.__new__


@dataclass(frozen=True)
class Condition:
    """The condition that a form is not negative; a table entry in it must be there."""

    form: Affine


@dataclass(frozen=True)
class Own:
    """An item's own length."""

    name: str


@dataclass(frozen=True)
class Entry:
    """An entry of a table, for every item."""

    table: str
    index: tuple[Affine | int, ...]


@lru_cache(maxsize=4096)
def loop(values: range, axis: int = 0) -> Affine:
    """A loop variable over a range of values. It is kept: the outside pass asks for it again."""
    return Affine(values.start, ((axis, len(values), 1),))


@lru_cache(maxsize=4096)
def loops(*ranges: range) -> tuple[Affine, ...]:
    """The loop variables of a block, one for each axis of its values. They are kept, too."""
    return tuple(loop(values, axis) for axis, values in enumerate(ranges))


def axes_of(index: tuple[Affine | int, ...]) -> dict[int, int]:
    """The axes of the loop variables in an index, in order, with their numbers of values."""
    counts: dict[int, int] = {}
    for form in index:
        if isinstance(form, Affine):
            for axis, count, _ in form.terms:
                counts[axis] = count
            for atom, _ in form.others:
                if isinstance(atom, Entry):
                    counts |= axes_of(atom.index)
    return dict(sorted(counts.items()))
