"""Contractions of several arrays, pair by pair, in the order that opt_einsum finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from fgg.diagnostics import refuse
from fgg.runtime.interpret.semirings import Letters, Semiring
from fgg.runtime.interpret.semirings.base import Array

MAX_INTERMEDIATE = 2**29
"""The most entries of an array that a contraction may make."""


def contract(
    semiring: Semiring[Array],
    operands: Sequence[tuple[Array, Letters]],
    out: Letters,
    sizes: Mapping[int, int],
) -> Array:
    """The product of the operands, summed over all letters that `out` does not have.

    The letters of each operand differ. A letter of `out` that no operand has is broadcast; a letter
    of `sizes` that neither has multiplies the result by its size.
    """
    arrays = [(array, letters) for array, letters in operands]
    present = {letter for _, letters in arrays for letter in letters}
    for letter, size in sizes.items():
        if letter not in present:
            arrays.append((semiring.full((size,), one=True), (letter,)))
    if not arrays:
        return semiring.full((), one=True)
    whole: Callable[..., Array | None] | None = getattr(semiring, "contract_all", None)
    if whole is not None:
        result = whole(arrays, out, sizes, _pairwise)
        if result is not None:
            return result
    return _pairwise(semiring, arrays, out, sizes)


def _pairwise(
    semiring: Semiring[Array],
    arrays: list[tuple[Array, Letters]],
    out: Letters,
    sizes: Mapping[int, int],
) -> Array:
    """The contraction, pair by pair."""
    extents = tuple(sorted(sizes.items()))
    for one, two in _path(tuple(letters for _, letters in arrays), out, extents):
        if two is None:
            arrays[one] = (_finish(semiring, *arrays[one], out), out)
            continue
        (x, xs), (y, ys) = arrays[one], arrays[two]
        rest = [letters for i, (_, letters) in enumerate(arrays) if i not in (one, two)]
        needed = {*out, *(letter for letters in rest for letter in letters)}
        kept = tuple(letter for letter in dict.fromkeys((*xs, *ys)) if letter in needed)
        result = semiring.contract(x, xs, y, ys, kept)
        arrays = [item for i, item in enumerate(arrays) if i not in (one, two)]
        arrays.append((result, kept))
    array, letters = arrays[0]
    return array if letters == out else _finish(semiring, array, letters, out)


def _finish(semiring: Semiring[Array], array: Array, letters: Letters, out: Letters) -> Array:
    axes = tuple(i for i, letter in enumerate(letters) if letter not in out)
    if axes:
        array = semiring.reduce(array, axes)
        letters = tuple(letter for letter in letters if letter in out)
    if letters != out:
        array = semiring.permute(array, [letters.index(letter) for letter in out])
    return array


@lru_cache(maxsize=4096)
def _path(
    operands: tuple[Letters, ...], out: Letters, sizes: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int | None], ...]:
    """The pairs to contract, in order; positions are those of the list at that time."""
    if len(operands) == 1:
        return ((0, None),)
    if len(operands) == 2:
        return ((0, 1),)
    import opt_einsum

    extents = dict(sizes)
    symbol = {letter: opt_einsum.get_symbol(i) for i, letter in enumerate(extents)}
    inputs = ",".join("".join(symbol[letter] for letter in letters) for letters in operands)
    equation = inputs + "->" + "".join(symbol[letter] for letter in out)
    shapes = [tuple(extents[letter] for letter in letters) for letters in operands]
    method = "dp" if len(operands) <= 12 else "auto"
    path, info = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=method)
    if info.largest_intermediate > MAX_INTERMEDIATE:
        refuse(
            "F420",
            f"a contraction would need an array of {float(info.largest_intermediate):.2g} entries",
            "choose smaller sizes, or split the rule's fragment",
        )
    pairs: list[tuple[int, int | None]] = []
    count = len(operands)
    for step in path:
        # A step over several operands is done as a chain of pairs.
        positions = sorted(step, reverse=True)
        while len(positions) > 1:
            first, second = positions.pop(), positions.pop()
            pairs.append((first, second))
            positions = [p - (p > first) - (p > second) for p in positions]
            count -= 1
            positions.append(count - 1)
            positions.sort(reverse=True)
    return tuple(pairs)
