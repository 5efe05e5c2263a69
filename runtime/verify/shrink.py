"""Counterexamples made small: sizes, tokens, and weights that are zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fgg.factors.pieces import signatures
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size, domain_values, size_values
from fgg.grammar.semantics import brute_force
from fgg.runtime.derive.decode_ground import viterbi
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.interpret.semirings.modular import Modular
from fgg.runtime.program.bind import bind
from fgg.runtime.reference.solve import solve
from fgg.runtime.verify.compared_sides import GroundSide, Side, Value
from fgg.runtime.verify.exact import FAILURES, Difference, said
from fgg.runtime.verify.items import Item
from fgg.runtime.verify.points import FreeWeights, Key, free_weights
from fgg.runtime.verify.result import Counterexample

MAX_TESTS = 600
"""The most comparisons that are made to find a smaller example."""

MAX_ENUMERATED = 20_000
"""The most derivations and assignments that are enumerated to confirm an example."""

Make = Callable[[Mapping[str, int]], tuple[Grammar, Side]]
"""The source and the other side with some sizes set."""


@dataclass(frozen=True, eq=False)
class Example:
    """Two sides, an item and weights at which they differ, and their values there."""

    source: GroundSide
    side: Side
    free: FreeWeights
    ring: Modular
    item: Item
    values: Mapping[Key, NumpyArray]
    wanted: Value = None
    found: Value = None
    failure: str = ""

    def tested(self) -> Example | None:
        """The example with the values of both sides; None if they agree."""
        point = self.free.residues(self.values, self.ring.prime)
        try:
            (wanted,) = self.source.values([self.item], point.weights, self.ring)
        except FAILURES:
            return None
        try:
            (found,) = self.side.values([self.item], point.weights, self.ring)
        except FAILURES as error:
            return replace(self, wanted=wanted, found=None, failure=said(error))
        return None if wanted == found else replace(self, wanted=wanted, found=found)


def counterexample(
    difference: Difference,
    make: Make,
    shrinkable: Sequence[str],
    *,
    what: str,
    space: str,
    seed: int,
    shorter: Sequence[Item] = (),
) -> Counterexample | None:
    """The example of a difference with small sizes, plain tokens and few weights other than 0.

    `shorter` are items at which the two sides agree. None if a second evaluation does not have
    the source's value.
    """
    base, side = make({})
    start = Example(
        GroundSide(base),
        side,
        free_weights(base, side.grammar),
        difference.trial.ring,
        difference.item,
        difference.trial.point.leaves,
    )
    best = start.tested()
    if best is None:  # together with other items only
        whole = replace(start, wanted=difference.wanted, found=difference.found)
        note = "the values differ in a batch of items, and not for this item alone"
        return _if_confirmed(_report(whole, what, space, note), whole)
    budget = iter(range(MAX_TESTS))
    best = _smaller_sizes(best, make, shrinkable, np.random.default_rng(seed), budget)
    best = _plainer_tokens(best, budget)
    best = _fewer_weights(best, budget)
    ones = {k: np.where(np.asarray(a != 0, dtype=bool), 1, 0).astype(object) for k, a in _of(best)}
    plain = replace(best, values=ones).tested()
    best = plain or best
    report = _report(best, what, space, best.failure and f"it has no value: {best.failure}")
    if plain is not None and not plain.failure:
        wanted, other = _rational(plain)
        report = replace(report, wanted=wanted, found=other, modulus=None)
    text, rules = _derivation(best)
    used = {rule for item in shorter for rule in _rules(GroundSide(base), item)}
    suspects = tuple(rule for rule in rules if rule not in used) or rules
    return _if_confirmed(replace(report, derivation=text, rules=suspects), best)


def _if_confirmed(report: Counterexample, example: Example) -> Counterexample | None:
    """The counterexample, if another way to evaluate the source gives the same value."""
    flat = example.source.flat(example.item)
    assert flat is not None
    point = example.free.residues(example.values, example.ring.prime)
    weights = bind(flat, point.weights(flat), exactly=True)
    ones = {name: np.ones(array.shape) for name, array in weights.items()}
    number = int(np.sum(solve(flat, "counting", weights=ones).value))
    if number <= MAX_ENUMERATED:
        lists = {name: array.tolist() for name, array in weights.items()}
        nested = brute_force(flat, lists, exact=True)
        value = np.sum(np.asarray(nested, dtype=object))
        how = f"all {number} derivations and assignments, one by one"
    else:
        value = np.sum(np.asarray(solve(flat, "exact", weights=weights).value, dtype=object))
        how = "a second evaluation of the source, in fractions"
    residue = example.ring.convert(np.asarray(Fraction(value), dtype=object))
    return replace(report, confirmed=how) if int(residue) == example.wanted else None


def _of(example: Example) -> list[tuple[Key, NumpyArray]]:
    return list(example.values.items())


def _smaller_sizes(
    best: Example,
    make: Make,
    shrinkable: Sequence[str],
    rng: np.random.Generator,
    budget: Iterator[int],
) -> Example:
    sizes: dict[str, int] = {}
    for name in shrinkable:
        for number in range(1, size_values(best.source.grammar)[name]):
            if next(budget, None) is None:
                return best
            try:
                source, side = make({**sizes, name: number})
                free = free_weights(source, side.grammar)
            except (*FAILURES, ArithmeticError):
                continue
            item = _fitting(best.item, source)
            point = free.in_field(best.ring.prime, rng)
            smaller = Example(GroundSide(source), side, free, best.ring, item, point.leaves)
            tested = smaller.tested()
            if tested is not None:
                best = tested
                sizes[name] = number
                break
    return best


def _fitting(item: Item, grammar: Grammar) -> Item:
    """The item with tokens that a grammar's domains have."""
    inputs = dict(item.inputs)
    for name, array in item.inputs.items():
        if name in grammar.input:
            top = domain_size(grammar, grammar.input[name].domain) - 1
            inputs[name] = np.minimum(array, top)
        elif name in grammar.input_factor:
            factor = grammar.input_factor[name]
            ends = [*array.shape[: len(factor.indices)]]
            ends += [domain_size(grammar, d) for d in factor.domains]
            inputs[name] = array[tuple(slice(0, end) for end in ends)]
    return Item(item.lengths, inputs)


def _plainer_tokens(best: Example, budget: Iterator[int]) -> Example:
    """Every token the first one, and none missing, where that still shows the difference."""
    for name, array in best.item.inputs.items():
        if name not in best.source.grammar.input:
            continue
        for place in range(array.size):
            token = int(best.item.inputs[name].reshape(-1)[place])
            if token == 0 or next(budget, None) is None:
                continue
            changed = best.item.inputs[name].copy()
            changed.reshape(-1)[place] = 0
            item = Item(best.item.lengths, {**best.item.inputs, name: changed})
            best = replace(best, item=item).tested() or best
    return best


def _fewer_weights(best: Example, budget: Iterator[int]) -> Example:
    for key, array in _of(best):
        for place in range(array.size):
            if not best.values[key].reshape(-1)[place]:
                continue
            if next(budget, None) is None:
                return best
            changed = best.values[key].copy()
            changed.reshape(-1)[place] = 0
            best = replace(best, values={**best.values, key: changed}).tested() or best
    return best


def _rational(example: Example) -> tuple[int | str, ...]:
    """The values of both sides as rational numbers, where weights are zeros and ones."""
    point = example.free.point(example.values)
    values = []
    for side in (example.source, example.side):
        (value,) = side.values([example.item], point.weights, "exact")
        assert value is not None
        values.append(int(value) if value == int(value) else str(value))
    return tuple(values)


def _derivation(best: Example) -> tuple[str, tuple[str, ...]]:
    """A derivation of the source (or else of the other side) at the example, and its rules."""
    point = best.free.point({k: (a != 0).astype(float) for k, a in best.values.items()})
    for side in (best.source, best.side):
        flat = side.flat(best.item) if isinstance(side, GroundSide) else None
        if flat is None:
            continue
        try:
            derivation = viterbi(flat, weights=point.weights(flat))
        except FAILURES:
            continue
        return derivation.brackets(), tuple(dict.fromkeys(derivation.source_rules))
    return "", ()


def _rules(side: GroundSide, item: Item) -> set[str]:
    flat = side.flat(item)
    if flat is None:
        return set()
    return {rule.origin_or_self.rule for rule in flat.rules}


def _report(best: Example, what: str, space: str, note: str) -> Counterexample:
    grammar = best.source.grammar
    weights: dict[str, dict[str, int]] = {}
    for (name, number), array in _of(best):
        label = name if number is None else f"{name}, piece {number}"
        axes = _axes(grammar, name, number) or [None] * array.ndim
        for place in np.argwhere(np.asarray(array != 0, dtype=bool)).tolist():
            shown = ", ".join(
                values[i] if values is not None else str(i)
                for i, values in zip(place, axes, strict=True)
            )
            weights.setdefault(label, {})[f"({shown})"] = int(array[tuple(place)])
    return Counterexample(
        what=what,
        space=space,
        quantity="Z",
        sizes=size_values(grammar),
        lengths=best.item.lengths,
        inputs=best.item.described(grammar),
        wanted=best.wanted,
        found=best.found,
        modulus=best.ring.prime,
        weights=weights,
        note=note,
    )


def _axes(grammar: Grammar, name: str, number: int | None) -> list[Sequence[str] | None]:
    """The names of values along the axes of a factor or a piece; None for ranks."""
    if name not in grammar.factor:
        return []
    factor = grammar.factor[name]
    domains = factor.domains if number is None else signatures(factor, "")[number].domains
    return [domain_values(grammar, d) if d else None for d in domains]
