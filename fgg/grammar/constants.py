"""Values of domains in the place of nodes: `stop_left(h, v, stop)`.

A value is a node of its own, which an *indicator* fixes: a factor with weight 1 for this value and
0 for all others. Node and factor are called `D.stop`, for the value `stop` of the domain `D`. So
nothing but the reader and the writers of rules knows about values:

    stop_left(h, v, stop)  =  stop_left(h, v, `D.stop`) `D.stop`(`D.stop`)
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import replace

from fgg.diagnostics import GrammarError
from fgg.grammar import (
    Attachment,
    Edge,
    Factor,
    Fragment,
    FromFile,
    Grammar,
    Product,
    Union,
)
from fgg.grammar.domains import domain_values, value_index
from fgg.grammar.index import is_plain_name
from fgg.grammar.memo import per_grammar
from fgg.grammar.values import Sparse


def indicator_name(domain: str, value: str) -> str:
    """The name of the indicator of a value, and of the node that it fixes."""
    return f"{domain}.{value}"


def indicator(domain: str, value: str, position: int, name: str = "") -> Factor:
    """The factor with weight 1 for one value of a domain, and 0 for all others."""
    entries = (((position,), 1.0),)
    name = name or indicator_name(domain, value)
    return Factor(name=name, domains=(domain,), value=Sparse(entries))


def indicator_edge(label: str, node: str) -> Edge:
    """The edge that fixes a node."""
    return Edge(label=label, attachments=(Attachment(node=node),))


def is_bare_value(grammar: Grammar, domain: str, name: str) -> bool:
    """Whether a rule may name a value of a domain by a bare name, without quotes.

    It may if the grammar itself names the value: words of a file may well be names of nodes.
    """
    return is_plain_name(name) and name in _named_values(grammar, domain)


@per_grammar
def _named_values(grammar: Grammar, domain: str) -> Container[str]:
    """The values of a domain, unless some of them are read from a file."""
    if _has_file(grammar, domain):
        return ()
    try:
        return value_index(grammar, domain)
    except GrammarError:  # too many values to name
        return ()


def _has_file(grammar: Grammar, domain: str) -> bool:
    shape = grammar.domain[domain].shape
    if isinstance(shape, Union | Product):
        return any(_has_file(grammar, part) for part in shape.parts)
    return isinstance(shape, FromFile)


@per_grammar
def indicators(grammar: Grammar) -> Mapping[str, str]:
    """The value that each indicator of the grammar stands for, by the factor's name."""
    values = {}
    for factor in grammar.factors:
        if not isinstance(factor.value, Sparse) or len(factor.value.entries) != 1:
            continue
        ((position, _),) = factor.value.entries
        if len(factor.domains) == len(position) == 1:
            value = domain_values(grammar, factor.domains[0])[position[0]]
            if factor == indicator(factor.domains[0], value, position[0]):
                values[factor.name] = value
    return values


def constants(grammar: Grammar, fragment: Fragment) -> dict[str, str]:
    """The nodes that can be written as values, with the values.

    An indicator fixes each of them, and edges or the head touch it as a whole. The edges of the
    indicators come last, in the order in which their nodes are touched first.
    """
    values = indicators(grammar)
    count = 0
    for edge in reversed(fragment.edges):
        if edge.label not in values or [(a.node, a.path) for a in edge.attachments] != [
            (edge.label, ())
        ]:
            break
        count += 1
    while count:
        first = len(fragment.edges) - count
        fixed = [edge.label for edge in fragment.edges[first:]]
        if _reads_back(fragment, first, fixed):
            return {name: values[name] for name in fixed}
        count -= 1
    return {}


def unfixed_edges(fragment: Fragment, values: Collection[str]) -> tuple[Edge, ...]:
    """The edges without those that fix the nodes that `constants` has found."""
    return fragment.edges[: len(fragment.edges) - len(values)]


def _reads_back(fragment: Fragment, first: int, fixed: list[str]) -> bool:
    """Whether reading a rule with values in the place of nodes gives its last edges back."""
    touching = [a for edge in fragment.edges[:first] for a in edge.attachments]
    order = dict.fromkeys([*fragment.externals, *(a.node for a in touching)])
    parts = {a.node for a in touching if a.path} | {c.attachment.node for c in fragment.clamps}
    return [name for name in order if name in fixed] == fixed and parts.isdisjoint(fixed)


@per_grammar
def implied_factors(grammar: Grammar) -> Container[str]:
    """The indicators that need no declaration: rules that are written with values imply them."""
    used = _used(grammar)
    for rule in grammar.rules:
        plain = unfixed_edges(rule.rhs, constants(grammar, rule.rhs))
        if any(edge.label in indicators(grammar) for edge in plain):
            return ()
    asked = {edge.label for query in grammar.queries for r in query.rules for edge in r.edges}
    needed = asked | {source for factor in grammar.factors for source in factor.sources}
    last = [factor.name for factor in grammar.factors[len(grammar.factors) - len(used) :]]
    return used if last == list(used) and needed.isdisjoint(used) else ()


def indicators_last(grammar: Grammar, brought: Collection[str]) -> Grammar:
    """The grammar with its indicators after all other factors, as rules use them first.

    Without indicators among the factors that were `brought` from other files, they are there.
    """
    used = list(_used(grammar))
    if not any(name in brought for name in used):
        return grammar
    factors = [f for f in grammar.factors if f.name not in used]
    factors += [grammar.factor[name] for name in used]
    return replace(grammar, factors=tuple(factors))


def _used(grammar: Grammar) -> dict[str, None]:
    """The indicators of nodes that are written as values, in the order of first use."""
    return {name: None for rule in grammar.rules for name in constants(grammar, rule.rhs)}
