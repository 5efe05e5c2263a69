"""The definition as code: enumerate derivations and assignments, multiply, add [CR §3; RS eq. 1-2].

    Z = sum over derivations, sum over assignments, product over edges of F(e)(values at e's nodes)

Slow and obviously right: the last oracle. Nothing is shared between derivations, and the meaning of
paths and domain values is defined here again rather than taken from `fgg.grammar.domains`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import exp, prod
from pathlib import Path
from typing import cast

from fgg.factors.maps import map_values
from fgg.grammar import Factor, Grammar, Product, Rule, Sized, Union
from fgg.grammar.definitions import Piece, ProductOf, Slice, Variant
from fgg.grammar.domains import size_values
from fgg.grammar.memo import per_grammar
from fgg.grammar.values import Constant, Exp, Eye, Load, Map, Nested, Number, Sparse, Table, Uniform

DomainValue = int | str | tuple["DomainValue", ...]
"""A value of a domain: a number or a name; of a union (part, value); of a product a tuple."""

Array = float | list["Array"]
"""A number, or nested lists of numbers, one level an external node."""


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """A rule, and a derivation for each nonterminal edge of its right-hand side, in order."""

    rule: Rule
    children: tuple[Derivation, ...] = ()

    def __str__(self) -> str:
        """The derivation as an s-expression of rule names."""
        if not self.children:
            return self.rule.name
        return f"({self.rule.name} {' '.join(map(str, self.children))})"


def derivations(grammar: Grammar, *, max_depth: int | None = None) -> Iterator[Derivation]:
    """The derivation trees of a finite grammar, in the order of its rules.

    With `max_depth`, those with at most so many rules on a path from the root. Without, all of
    them; ValueError if they are infinitely many.
    """
    if grammar.is_indexed:
        raise ValueError("the grammar is indexed: ground it first")
    rules = _productive_rules(grammar)
    if max_depth is None:
        max_depth = len(grammar.nonterminals)
        if _is_recursive(grammar, rules):
            raise ValueError("there are infinitely many derivations: give a max_depth")
    return _derive(grammar, rules, grammar.start.label, max_depth)


def _derive(
    grammar: Grammar, rules: Sequence[Rule], label: str, depth: int
) -> Iterator[Derivation]:
    if depth == 0:
        return
    for rule in rules:
        if rule.lhs == label:
            labels = _children(grammar, rule)
            for children in product(*(_derive(grammar, rules, x, depth - 1) for x in labels)):
                yield Derivation(rule=rule, children=children)


def _children(grammar: Grammar, rule: Rule) -> tuple[str, ...]:
    """The nonterminals of a rule's right-hand side, one for each edge."""
    return tuple(e.label for e in rule.rhs.edges if e.label in grammar.nonterminal)


def _productive_rules(grammar: Grammar) -> tuple[Rule, ...]:
    """The rules from which a derivation can be completed."""
    rules: tuple[Rule, ...] = ()
    while True:
        productive = {rule.lhs for rule in rules}
        more = tuple(r for r in grammar.rules if productive.issuperset(_children(grammar, r)))
        if len(more) == len(rules):
            return rules
        rules = more


def _is_recursive(grammar: Grammar, rules: Sequence[Rule]) -> bool:
    """Whether a nonterminal that the start symbol leads to leads to itself."""
    below: dict[str, set[str]] = {}
    for rule in rules:
        below.setdefault(rule.lhs, set()).update(_children(grammar, rule))

    def reached(start: str) -> set[str]:
        labels: set[str] = set()
        pending = set(below.get(start, ()))
        while pending:
            label = pending.pop()
            labels.add(label)
            pending |= below[label] - labels
        return labels

    start = grammar.start.label
    return any(label in reached(label) for label in {start} | reached(start))


@dataclass(frozen=True)
class NodePart:
    """A node of a factor graph, or the part of it that `path` leads to."""

    node: int
    path: tuple[str, ...] = ()


@dataclass
class FactorGraph:
    """The factor graph of a derivation: nodes by number, factors, and places that must be equal.

    A place is equal to itself only if it exists: if a union node has its value in that part.
    """

    domains: list[str] = field(default_factory=list)
    factors: list[tuple[str, tuple[NodePart, ...]]] = field(default_factory=list)
    equal: list[tuple[NodePart, NodePart]] = field(default_factory=list)
    externals: tuple[int, ...] = ()

    def add_node(self, domain: str) -> NodePart:
        """The place of a new node."""
        self.domains.append(domain)
        return NodePart(len(self.domains) - 1)


def glue(grammar: Grammar, derivation: Derivation) -> FactorGraph:
    """The factor graph of a derivation: its fragments, glued together at external nodes."""
    graph = FactorGraph()
    outside = [graph.add_node(domain) for domain in _start_domains(grammar)]
    graph.externals = tuple(place.node for place in outside)
    _glue(grammar, derivation, outside, graph)
    return graph


def _start_domains(grammar: Grammar) -> tuple[str, ...]:
    return grammar.nonterminal[grammar.start.label].domains


def _glue(
    grammar: Grammar, derivation: Derivation, outside: Sequence[NodePart], graph: FactorGraph
) -> None:
    """Add a derivation whose external nodes lie at the places `outside`."""
    fragment = derivation.rule.rhs
    assert not fragment.clamps, "a ground grammar has no clamps"
    places: dict[str, NodePart] = {}
    for name, place in zip(fragment.externals, outside, strict=True):
        # A node that is external twice joins two places.
        graph.equal.append((places.setdefault(name, place), place))
    for node in fragment.internals:
        places[node.name] = graph.add_node(node.domain)
    children = iter(derivation.children)
    for edge in fragment.edges:
        inner = [(places[a.node], a.path) for a in edge.attachments]
        touched = tuple(NodePart(place.node, place.path + path) for place, path in inner)
        if edge.label in grammar.nonterminal:
            _glue(grammar, next(children), touched, graph)
        else:
            graph.factors.append((edge.label, touched))


def brute_force(
    grammar: Grammar,
    weights: Mapping[str, object],
    *,
    max_depth: int | None = None,
    exact: bool = False,
) -> Array:
    """The sum over derivations and assignments of the product of the edges' weights.

    `weights` has an array (nested lists will do) for each factor, a number for one without nodes;
    a factor that it lacks has the value that the grammar gives it. The result is a number, or an
    array over the external nodes of the start symbol. If it is to be `exact`, numbers stay integers
    and fractions where the weights are.
    """
    arrays = dict(weights)
    definitions = {f.name: f.definition for f in grammar.factors}
    slices = {name: d for name, d in definitions.items() if isinstance(d, Slice)}
    decomposed = {d.source for d in definitions.values() if isinstance(d, Piece)}
    products = {name: d for name, d in definitions.items() if isinstance(d, ProductOf)}
    for factor in grammar.factors:
        if factor.name not in weights and factor.name not in {*slices, *decomposed, *products}:
            arrays[factor.name] = array_of(grammar, factor)
    for name, definition in products.items():
        if name not in weights:
            arrays[name] = _multiplied(grammar, grammar.factor[name], definition, arrays)
    for name, cut in slices.items():
        if name not in weights:
            arrays[name] = _sliced(grammar, cut, arrays[cut.source])
    totals: dict[tuple[int, ...], float] = {}
    for derivation in derivations(grammar, max_depth=max_depth):
        graph = glue(grammar, derivation)
        for index, weight in _assignments(grammar, graph, arrays):
            totals[index] = totals.get(index, 0) + weight
    sizes = tuple(len(_values(grammar, domain)) for domain in _start_domains(grammar))
    number = (lambda total: total) if exact else float
    return _nested(sizes, lambda index: number(totals.get(index, 0)))


def _assignments(
    grammar: Grammar, graph: FactorGraph, arrays: Mapping[str, object]
) -> Iterator[tuple[tuple[int, ...], float]]:
    """The external values and the weight of every assignment whose weight is not zero.

    Nodes get their values one after the other; a factor is multiplied in as soon as all its nodes
    have one, and an assignment is given up when its weight is zero.
    """
    assigned: list[DomainValue] = []
    choices = [_values(grammar, domain) for domain in graph.domains]
    equal: dict[int, list[tuple[NodePart, NodePart]]] = {}
    for places in graph.equal:
        equal.setdefault(max(place.node for place in places), []).append(places)
    factors: dict[int, list[tuple[str, tuple[NodePart, ...]]]] = {}
    for label, touched in graph.factors:
        last = max((place.node for place in touched), default=-1)
        factors.setdefault(last, []).append((label, touched))

    def weight(node: int) -> float:
        """The weight of all factors whose nodes have values once this node has its value."""
        total: float = 1
        for places in equal.get(node, ()):
            first, second = (_at(grammar, graph, place, assigned) for place in places)
            if first is None or first != second:
                return 0
        for label, touched in factors.get(node, ()):
            index = []
            for domain, place in zip(grammar.factor[label].domains, touched, strict=True):
                value = _at(grammar, graph, place, assigned)
                if value is None:
                    return 0
                index.append(_values(grammar, domain).index(value))
            total = total * _entry(arrays[label], index)
        return total

    def assign(total: float) -> Iterator[tuple[tuple[int, ...], float]]:
        node = len(assigned)
        if not total:
            return
        if node == len(choices):
            yield tuple(choices[x].index(assigned[x]) for x in graph.externals), total
            return
        for value in choices[node]:
            assigned.append(value)
            yield from assign(total * weight(node))
            assigned.pop()

    return assign(weight(-1))


def _at(
    grammar: Grammar, graph: FactorGraph, place: NodePart, assigned: Sequence[DomainValue]
) -> DomainValue | None:
    """The value at a place; None if a union node has its value in another part."""
    domain, value = graph.domains[place.node], assigned[place.node]
    for name in place.path:
        shape = grammar.domain[domain].shape
        assert isinstance(shape, Union | Product) and isinstance(value, tuple)
        if isinstance(shape, Product):
            value = value[shape.parts.index(name)]
        elif value[0] == name:
            value = value[1]
        else:
            return None
        domain = name
    return value


@per_grammar
def _values(grammar: Grammar, domain: str) -> tuple[DomainValue, ...]:
    """The values of a domain, in order."""
    shape = grammar.domain[domain].shape
    if isinstance(shape, Sized):
        size = shape.size.evaluate(size_values(grammar))
        assert size is not None
        return tuple(range(size))
    if isinstance(shape, Union):
        return tuple((part, value) for part in shape.parts for value in _values(grammar, part))
    if isinstance(shape, Product):
        return tuple(product(*(_values(grammar, part) for part in shape.parts)))
    return shape.values


def _entry(array: object, index: Iterable[int]) -> float:
    """The entry of an array, or of nested lists, at an index."""
    for i in index:
        array = cast(Sequence[object], array)[i]
    return cast(float, array)


def array_of(grammar: Grammar, factor: Factor) -> object:
    """The array that the grammar itself gives to a factor. Raises KeyError for a parameter."""
    value = factor.value
    sizes = tuple(len(_values(grammar, domain)) for domain in factor.domains)
    match value:
        case Constant(number):
            return _nested(sizes, lambda index: number)
        case Table(entries):
            return entries
        case Exp(entries):
            return _exponentials(entries)
        case Sparse(entries):
            return _nested(sizes, lambda index: dict(entries).get(index, 0))
        case Eye():
            return _nested(sizes, lambda index: int(index[0] == index[1]))
        case Map():
            blocks = map_values(grammar, factor.name)
            return _nested(sizes, lambda index: int(blocks[index[0]] == index[1]))
        case Uniform():
            return _nested(sizes, lambda index: 1 / prod(sizes[factor.given or 0 :]))
        case Load(path, folder):
            import numpy

            return numpy.load(Path(folder) / path, allow_pickle=False)
    raise KeyError(f"no weights for factor {factor.name}")


def _exponentials(entries: Nested) -> Array:
    """The exponentials of logarithms, entry by entry."""
    return [_exponentials(e) for e in entries] if isinstance(entries, tuple) else exp(entries)


def _sliced(grammar: Grammar, cut: Slice, array: object) -> Array:
    """The array of a slice: the source's entries at the values that the variants stand for."""
    domains = [leaf for axis in cut.axes for _, leaf in axis.leaves()]

    def whole(variant: Variant, values: Iterator[DomainValue]) -> DomainValue:
        if not variant.inner:
            return next(values)
        inner = tuple(whole(item, values) for item in variant.inner)
        if isinstance(grammar.domain[variant.domain].shape, Product):
            return inner
        return (variant.inner[0].domain, inner[0])

    def entry(index: tuple[int, ...]) -> float:
        values = iter([_values(grammar, d)[i] for d, i in zip(domains, index, strict=True)])
        wholes = [_values(grammar, a.domain).index(whole(a, values)) for a in cut.axes]
        return _entry(array, wholes)

    return _nested(tuple(len(_values(grammar, domain)) for domain in domains), entry)


def _multiplied(
    grammar: Grammar, factor: Factor, definition: ProductOf, arrays: Mapping[str, object]
) -> Array:
    """The array of a product of factors, entry by entry."""

    def entry(index: tuple[int, ...]) -> float:
        weights = [_entry(arrays[p.source], [index[i] for i in p.axes]) for p in definition.parts]
        return prod(weights)

    return _nested(tuple(len(_values(grammar, d)) for d in factor.domains), entry)


def _nested(
    sizes: tuple[int, ...], entry: Callable[[tuple[int, ...]], Number], index: tuple[int, ...] = ()
) -> Array:
    """Nested lists of the given sizes with what `entry` gives for each index."""
    if len(index) == len(sizes):
        return cast(float, entry(index))  # fractions stay exact
    return [_nested(sizes, entry, (*index, i)) for i in range(sizes[len(index)])]
