"""Small sizes: a grammar of the same structure that is quick to compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fgg.check.grammar import check_grammar
from fgg.grammar import Grammar, Product, Sized, Union
from fgg.grammar.domains import size_values, with_sizes
from fgg.grammar.values import Exp, Load, Map, Sparse, Table


@dataclass(frozen=True)
class Small:
    """Small sizes: those that index expressions use, and those of domains and ranks only.

    `free` names all of the latter that could be still smaller.
    """

    structure: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    free: tuple[str, ...] = ()


def small_sizes(source: Grammar, kept: Mapping[str, int]) -> Small:
    """Two or three in place of each larger size that the user has not set.

    Sizes in index expressions are made small before the passes, which reckon with them. The others
    afterwards: so the passes decide as they would for the sizes of the grammar. Sizes that say how
    many numbers a factor's value has stay as they are.
    """
    numbers = size_values(source)
    fixed = _valued(source)
    structural = _structural(source)
    small: dict[str, int] = {}
    free: list[str] = []
    for number, size in enumerate(source.sizes):
        if [*size.value.names()] or size.name in fixed:
            continue
        if size.name not in structural:
            free.append(size.name)
        if size.name not in kept and numbers[size.name] > 3:
            small[size.name] = 2 + number % 2
    if any(d.is_error for d in check_grammar(with_sizes(source, small))):
        return Small()
    return Small(
        {n: v for n, v in small.items() if n in structural},
        {n: v for n, v in small.items() if n not in structural},
        tuple(free),
    )


def _closure(source: Grammar, names: set[str]) -> set[str]:
    """The sizes that some sizes are computed from, and these."""
    while True:
        more = {n for s in source.sizes if s.name in names for n in s.value.names()}
        if more <= names:
            return names
        names = names | more


def _structural(source: Grammar) -> set[str]:
    exprs = [*source.start.indices, *(e for i in source.observed for e in i.shape)]
    conditions = [c for item in source.nonterminals for c in item.conditions]
    conditions += [c for factor in source.input_factors for c in factor.conditions]
    exprs += [term for c in conditions for term in c.terms]
    for rule in source.rules:
        exprs += [*rule.indices, *(term for c in rule.conditions for term in c.terms)]
        exprs += [e for edge in rule.rhs.edges for e in edge.indices]
        exprs += [e for clamp in rule.rhs.clamps for e in clamp.indices]
    return _closure(source, {name for expr in exprs for name in expr.names()})


def _valued(source: Grammar) -> set[str]:
    """The sizes of domains of factors whose values are listed."""
    listed = [
        f
        for f in source.factors
        if isinstance(f.value, Table | Exp | Sparse | Load)
        or (isinstance(f.value, Map) and not f.value.pattern)
    ]
    agenda = [d for f in listed for d in f.domains]
    names: set[str] = set()
    while agenda:
        shape = source.domain[agenda.pop()].shape
        if isinstance(shape, Union | Product):
            agenda += shape.parts
        elif isinstance(shape, Sized):
            names |= {*shape.size.names()}
    return _closure(source, names)
