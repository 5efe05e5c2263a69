"""Derivations of a factorised grammar, put together again to speak of the rules that were cut."""

from __future__ import annotations

from math import prod

from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.rewrite.factorise import Factorised, factorise
from fgg.runtime.derive.derivation import Derivation, Step

LARGE = 2**14
"""The number of assignments of inner nodes from which on a fragment is cut."""


def small_fragments(grammar: Grammar) -> Factorised:
    """The grammar, cut into small fragments if some have very many assignments."""
    for rule in grammar.rules:
        count = prod(domain_size(grammar, node.domain) for node in rule.rhs.internals)
        if count > LARGE:
            return factorise(grammar)
    return Factorised(grammar, {})


def join_parts(derivation: Derivation, factorised: Factorised, grammar: Grammar) -> Derivation:
    """The derivation in terms of `grammar`, from which `factorised` was made."""
    if factorised.grammar is grammar:
        return derivation
    steps: list[Step] = []
    children: list[list[int]] = []
    agenda: list[tuple[int, int | None]] = [(0, None)]
    while agenda:
        first, parent = agenda.pop()
        values: dict[str, int] = {}
        below: list[tuple[int, int]] = []  # (place among the source's edges, step)
        parts = [first]
        while parts:
            step = derivation.steps[parts.pop()]
            part = factorised.parts[step.rule.name]
            values.update(step.values)
            places = [
                place
                for place, edge in zip(part.edges, step.rule.rhs.edges, strict=True)
                if edge.label in factorised.grammar.nonterminal
            ]
            for place, child in zip(places, step.children, strict=True):
                if place is None:
                    parts.append(child)
                else:
                    below.append((place, child))
        number = len(steps)
        if parent is not None:
            children[parent].append(number)
        source = factorised.parts[derivation.steps[first].rule.name].source
        steps.append(Step(source, values, (), parent))
        children.append([])
        agenda += [(child, number) for _, child in sorted(below, reverse=True)]
    whole = tuple(
        Step(step.rule, step.values, tuple(found), step.parent)
        for step, found in zip(steps, children, strict=True)
    )
    return Derivation(grammar, whole, derivation.log_weight)
