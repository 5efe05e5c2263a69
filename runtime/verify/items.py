"""Items to compare grammars on: lengths and inputs, all of them where they are few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar, InputFactor
from fgg.grammar.domains import domain_size, domain_values, size_values
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.index import Expr
from fgg.grammar.ranges import condition_rows, index_extents
from fgg.inputs.tokens import IMPOSSIBLE, MISSING
from fgg.rewrite.ground import ground
from fgg.runtime.interpret.semirings.base import NumpyArray

FEW = 16
"""So many inputs of given lengths are all tried, if they are not most of all items."""
MAX_LENGTHS = 12
"""More combinations of lengths than these are drawn from."""
MANY_TABLES = 60
"""So many random tables of given lengths are drawn; see `others_of`."""


@dataclass(frozen=True, eq=False)
class Item:
    """Lengths, and inputs as arrays: tokens, tables and log-potentials."""

    lengths: Mapping[str, int]
    inputs: Mapping[str, NumpyArray]

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for equal items."""
        arrays = ((name, array.tobytes()) for name, array in self.inputs.items())
        return (*self.lengths.items(), *arrays)

    @property
    def lists(self) -> dict[str, list[object]]:
        """The inputs as `ground` takes them."""
        return {name: array.tolist() for name, array in self.inputs.items()}

    def described(self, grammar: Grammar) -> dict[str, object]:
        """The inputs for people: values by name, `?` for missing ones."""
        shown: dict[str, object] = {}
        for name, array in self.inputs.items():
            if name in grammar.input:
                values = domain_values(grammar, grammar.input[name].domain)
                words = [
                    {MISSING: "?", IMPOSSIBLE: "!"}.get(t) or values[t]
                    for t in array.reshape(-1).tolist()
                ]
                shown[name] = np.array(words, dtype=object).reshape(array.shape).tolist()
            else:
                shown[name] = array.tolist()
        return shown


def flat_of(grammar: Grammar, item: Item) -> Grammar | None:
    """The ground grammar of an item; None where it needs log-potentials that do not exist."""
    try:
        return ground(grammar, lengths=item.lengths, inputs=item.lists)
    except GrammarError as error:
        if item.inputs and {d.code for d in error.diagnostics} == {"F411"}:
            return None
        raise


def items_of(
    grammar: Grammar,
    length: int,
    number: int,
    rng: np.random.Generator,
    *,
    known: bool = False,
) -> tuple[Item, ...]:
    """Items of all lengths up to `length`, the shortest first; about `number` of them.

    Where there are few inputs of given lengths, all are there; else the one in which everything is
    missing, and random ones; with `known`, about as many more in which nothing is.
    """
    names = sorted(length_names(grammar))
    combinations = sorted(product(range(length + 1), repeat=len(names)), key=lambda x: (sum(x), x))
    if len(combinations) > MAX_LENGTHS:
        chosen = rng.choice(len(combinations), MAX_LENGTHS, replace=False)
        small = {i for i, x in enumerate(combinations) if max(x) <= 1}
        combinations = [combinations[i] for i in sorted({*chosen.tolist(), *small})]
    each = max(2, number // len(combinations))
    items: list[Item] = []
    for values in combinations:
        lengths = dict(zip(names, values, strict=True))
        items += _inputs_of(grammar, lengths, each, number, rng, each if known else 0)
    return tuple(items)


def is_answered(known: Iterable[str], item: Item) -> bool:
    """Whether an item misses no token of the inputs that must be known."""
    return not any((item.inputs[name] == MISSING).any() for name in known)


def missing_item(grammar: Grammar, item: Item) -> Item:
    """The same item with every token missing: all others have fewer derivations."""
    inputs = {
        name: np.full_like(array, MISSING) if name in grammar.input else array
        for name, array in item.inputs.items()
    }
    return Item(item.lengths, inputs)


def _inputs_of(
    grammar: Grammar,
    lengths: Mapping[str, int],
    number: int,
    total: int,
    rng: np.random.Generator,
    whole: int,
) -> list[Item]:
    """Items of given lengths: `number` of the `total`, or all if these are not many more."""
    shapes = {i.name: input_extents(grammar, i.shape, lengths) for i in grammar.inputs}
    sizes = {i.name: domain_size(grammar, i.domain) for i in grammar.inputs}
    count = prod((sizes[n] + 1) ** prod(shape) for n, shape in shapes.items())
    few = min(FEW, max(number, total // 4))
    if grammar.tables or grammar.input_factors or count > few:
        draws = [1.0, 0.0, *([0.2] * (number - 2)), *([0.0] * whole)]
        tokens = [_draw(shapes, sizes, chance, rng) for chance in draws]
    else:
        tokens = list(_all(shapes, sizes))
    others = others_of(grammar, lengths, len(tokens), rng)
    items = [Item(lengths, {**inputs, **more}) for inputs, more in zip(tokens, others, strict=True)]
    return list({item.key: item for item in items}.values())


def others_of(
    grammar: Grammar, lengths: Mapping[str, int], number: int, rng: np.random.Generator
) -> list[dict[str, NumpyArray]]:
    """Random tables and log-potentials for several items.

    Random tables seldom have derivations, so of many those with the most rules are kept.
    """
    if not grammar.tables:
        return [_others(grammar, lengths, rng) for _ in range(number)]
    drawn = [_others(grammar, lengths, rng) for _ in range(max(number, MANY_TABLES))]
    flats = [flat_of(grammar, Item(lengths, inputs)) for inputs in drawn]
    rules = [0 if flat is None else len(flat.rules) for flat in flats]
    best = [
        inputs for inputs, count in zip(drawn, rules, strict=True) if 4 * count >= 3 * max(rules)
    ]
    return [best[i % len(best)] for i in range(number)]


def _all(
    shapes: Mapping[str, Sequence[int]], sizes: Mapping[str, int]
) -> Iterator[dict[str, NumpyArray]]:
    ranges = [range(-1, sizes[n]) for n, shape in shapes.items() for _ in range(prod(shape))]
    for values in product(*ranges):
        yield _split(values, shapes)


def _draw(
    shapes: Mapping[str, Sequence[int]],
    sizes: Mapping[str, int],
    missing: float,
    rng: np.random.Generator,
) -> dict[str, NumpyArray]:
    values = []
    for name, shape in shapes.items():
        for _ in range(prod(shape)):
            chance = rng.random()
            token = int(rng.integers(sizes[name]))
            if missing and chance > 0.97 and missing < 1:
                token = IMPOSSIBLE
            values.append(MISSING if chance < missing else token)
    return _split(values, shapes)


def _split(values: Sequence[int], shapes: Mapping[str, Sequence[int]]) -> dict[str, NumpyArray]:
    arrays, place = {}, 0
    for name, shape in shapes.items():
        count = prod(shape)
        arrays[name] = np.array(values[place : place + count], dtype=np.int64).reshape(shape)
        place += count
    return arrays


def _others(
    grammar: Grammar, lengths: Mapping[str, int], rng: np.random.Generator
) -> dict[str, NumpyArray]:
    """Random tables and log-potentials."""
    inputs: dict[str, NumpyArray] = {}
    top = max(lengths.values(), default=1)
    for table in grammar.tables:
        shape = input_extents(grammar, table.shape, lengths)
        entries = rng.integers(0, top + 1, size=shape)
        # -1 is what trees have where there is no child.
        inputs[table.name] = np.where(rng.random(shape) < 0.5, -1, entries)
    for factor in grammar.input_factors:
        if factor.definition is not None:
            continue
        shape = potential_extents(grammar, factor, lengths)
        shape += [domain_size(grammar, d) for d in factor.domains]
        # Few digits, so that the exponentials are not longer than they need be.
        logs = np.round(rng.normal(size=shape), 3)
        inputs[factor.name] = np.where(rng.random(shape) < 0.03, -np.inf, logs)
    return inputs


def input_extents(grammar: Grammar, shape: Sequence[Expr], lengths: Mapping[str, int]) -> list[int]:
    """How many positions an input or a table has on each axis."""
    known = {**size_values(grammar), **lengths}
    return [max(0, expr.evaluate(known) or 0) for expr in shape]


def potential_extents(
    grammar: Grammar, factor: InputFactor, lengths: Mapping[str, int]
) -> list[int]:
    """How many positions log-potentials have on each axis: up to the greatest index in range."""
    rows = condition_rows(factor.conditions, size_values(grammar))
    return [end or 0 for end in index_extents(grammar, factor.indices, rows, lengths)]


def batch_of_items(items: Sequence[Item]) -> tuple[dict[str, Tensor], dict[str, list[int]] | None]:
    """Items as padded tensors and their lengths; the padding is nonsense, so reading it shows."""
    tensors: dict[str, Tensor] = {}
    for name in items[0].inputs:
        arrays = [item.inputs[name] for item in items]
        shape = tuple(max(a.shape[d] for a in arrays) for d in range(arrays[0].ndim))
        filler = 0 if arrays[0].dtype.kind == "i" else 7.5
        whole = np.full((len(items), *shape), filler, dtype=arrays[0].dtype)
        for number, array in enumerate(arrays):
            whole[number, ...][tuple(slice(0, size) for size in array.shape)] = array
        tensors[name] = torch.tensor(whole)
    lengths = {n: [item.lengths[n] for item in items] for n in items[0].lengths}
    return tensors, lengths or None
