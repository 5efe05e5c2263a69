"""Inlining: a fragment that a nonterminal can be takes the place of an edge of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from fgg.grammar import Clamp, Edge, Fragment, Grammar, Node, Rule
from fgg.grammar.domains import size_values
from fgg.grammar.index import Condition, Expr
from fgg.grammar.linear import implies
from fgg.grammar.names import fresh
from fgg.grammar.ranges import condition_rows, input_rows, length_rows


@dataclass(frozen=True)
class Option:
    """One fragment that a nonterminal with external nodes `states` can be.

    It applies at `indices` where the conditions hold. `rule` is the rule that it comes from.
    """

    name: str
    states: tuple[Node, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    clamps: tuple[Clamp, ...]
    indices: tuple[Expr, ...]
    conditions: tuple[Condition, ...]
    rule: Rule


def leaf_option(rule: Rule) -> Option:
    """A rule whose external nodes are all different, as it is."""
    externals = rule.rhs.externals
    return Option(
        name=rule.name,
        states=tuple(rule.rhs.by_name[name] for name in externals),
        nodes=tuple(node for node in rule.rhs.nodes if node.name not in externals),
        edges=rule.rhs.edges,
        clamps=rule.rhs.clamps,
        indices=rule.indices,
        conditions=rule.conditions,
        rule=rule,
    )


def written_out(
    grammar: Grammar,
    rule: Rule,
    number: int,
    option: Option,
    known: Set[str],
    free: Set[str] = frozenset(),
) -> Rule | None:
    """The rule with an option in place of an edge; None if their indices are never equal.

    Where the edge's indices may lie outside the range of its family, the rule says that they do
    not: the family is zero there. `known` are the names of lengths and sizes: all others in indices
    are variables. Variables of the rule that are `free` get values wherever that makes indices
    equal.
    """
    use = rule.rhs.edges[number]
    inside = _in_range(grammar, rule, use)
    placed = _placed_option(rule, use, option, known, free)
    if placed is None:
        return None
    option, values = placed
    rule = with_indices(rule, values)
    inside = [condition.substitute(values) for condition in inside]
    taken = {node.name for node in rule.rhs.nodes}
    names = {s.name: a.node for s, a in zip(option.states, use.attachments, strict=True)}
    nodes: list[Node] = []
    for node in option.nodes:
        names[node.name] = fresh(node.name, taken)
        taken.add(names[node.name])
        nodes.append(replace(node, name=names[node.name]))
    edges = list(rule.rhs.edges)
    edges[number : number + 1] = [renamed(e, names) for e in option.edges]
    clamps = tuple(_renamed_clamp(clamp, names) for clamp in option.clamps)
    rhs = Fragment.make(
        (*rule.rhs.nodes, *nodes),
        tuple(edges),
        # Two that say the same are one: a node that both observe is observed.
        tuple(dict.fromkeys((*rule.rhs.clamps, *clamps))),
        rule.rhs.externals,
    )
    conditions = tuple(dict.fromkeys((*rule.conditions, *option.conditions, *inside)))
    return replace(rule, rhs=rhs, conditions=conditions)


def _in_range(grammar: Grammar, rule: Rule, use: Edge) -> list[Condition]:
    """The conditions of a family's range at the indices of a use that the rule does not imply."""
    family, head = grammar.nonterminal.get(use.label), grammar.nonterminal.get(rule.lhs)
    if family is None or not family.conditions:
        return []
    sizes = size_values(grammar)
    said = list(rule.conditions)
    if head is not None and len(head.indices) == len(rule.indices):
        at = dict(zip(head.indices, rule.indices, strict=True))
        said += [condition.substitute(at) for condition in head.conditions]
    rows = [*condition_rows(said, sizes), *length_rows(grammar), *input_rows(grammar, rule)]
    at = dict(zip(family.indices, use.indices, strict=True))
    wanted = [condition.substitute(at) for condition in family.conditions]
    return [c for c in wanted if not all(implies(rows, r) for r in condition_rows([c], sizes))]


def with_indices(rule: Rule, values: Mapping[str, int | Expr]) -> Rule:
    """A rule with expressions for index variables."""
    if not values:
        return rule
    edges = tuple(
        replace(e, indices=tuple(i.substitute(values) for i in e.indices)) for e in rule.rhs.edges
    )
    clamps = tuple(
        replace(c, indices=tuple(i.substitute(values) for i in c.indices)) for c in rule.rhs.clamps
    )
    return replace(
        rule,
        indices=tuple(i.substitute(values) for i in rule.indices),
        conditions=tuple(c.substitute(values) for c in rule.conditions),
        rhs=replace(rule.rhs, edges=edges, clamps=clamps),
    )


def renamed_rule(rule: Rule, names: Mapping[str, str]) -> Rule:
    """A rule with other names for some of its nodes."""
    rhs = rule.rhs
    return replace(
        rule,
        rhs=Fragment.make(
            tuple(replace(n, name=names.get(n.name, n.name)) for n in rhs.nodes),
            tuple(renamed(edge, names) for edge in rhs.edges),
            tuple(_renamed_clamp(clamp, names) for clamp in rhs.clamps),
            tuple(names.get(name, name) for name in rhs.externals),
        ),
    )


def _placed_option(
    rule: Rule, use: Edge, option: Option, known: Set[str], free: Set[str]
) -> tuple[Option, dict[str, int | Expr]] | None:
    """The option at the indices of a use, its own variables renamed apart from the rule's.

    And the values of the rule's own variables that are free.
    """
    taken = _index_names(rule.indices, rule.conditions, rule.rhs.edges, rule.rhs.clamps)
    variables = _index_names(option.indices, option.conditions, option.edges, option.clamps)
    apart: dict[str, int | Expr] = {}
    new_names: set[str] = set()
    for name in sorted(variables):
        if name not in known:
            new = fresh(name, taken | variables | new_names | known)
            apart[name] = Expr.of(new)
            new_names.add(new)
    wanted = [index.substitute(apart) for index in option.indices]
    matched = matching(wanted, use.indices, new_names, free)
    if matched is None:
        return None
    fixed, equalities = matched
    values = {name: Expr.of(value).substitute(fixed) for name, value in apart.items()}
    # A variable that the use does not fix gets its old name back if the rule has none like it.
    left = {n for n in variables if n in values and values[n] == apart[n] and n not in taken}
    back: dict[str, int | Expr] = {str(next(values[n].names())): Expr.of(n) for n in left}
    final: dict[str, int | Expr] = {n: v.substitute(back) for n, v in values.items()}
    conditions = [c.substitute(final) for c in option.conditions]
    conditions += [c.substitute(back) for c in equalities]
    placed = replace(
        option,
        edges=tuple(
            replace(e, indices=tuple(i.substitute(final) for i in e.indices)) for e in option.edges
        ),
        clamps=tuple(
            replace(c, indices=tuple(i.substitute(final) for i in c.indices)) for c in option.clamps
        ),
        indices=use.indices,
        conditions=tuple(conditions),
    )
    return placed, {n: Expr.of(v).substitute(back) for n, v in fixed.items() if n in free}


def matching(
    wanted: Sequence[Expr],
    given: Sequence[Expr],
    first: Container[str],
    second: Container[str] = (),
) -> tuple[dict[str, int | Expr], tuple[Condition, ...]] | None:
    """Values of variables that make expressions equal, and conditions for the rest.

    Those in `first` do not occur in the given values and are solved for before those in `second`.
    None if the expressions never are equal.
    """
    values: dict[str, int | Expr] = {}
    conditions = []
    pairs = sorted(zip(wanted, given, strict=True), key=lambda pair: len([*pair[0].names()]))
    for left, right in pairs:
        difference = (left - right).substitute(values)
        solved = _solvable(difference, first) or _solvable(difference, second)
        if solved is not None:
            name, sign = solved
            value = (difference - Expr.of(name) * sign) * -sign
            values = {n: Expr.of(v).substitute({name: value}) for n, v in values.items()}
            values[name] = value
        elif difference.constant is None:
            conditions.append(difference)
        elif difference.constant:
            return None
    return values, tuple(c.substitute(values).equals(0) for c in conditions)


def _solvable(difference: Expr, free: Container[str]) -> tuple[str, int] | None:
    """A free variable that occurs once, alone and with coefficient 1 or -1; and which."""
    # The last one: `X[i, i+1]` rather than `X[j-1, j]`.
    for monomial, sign in reversed(difference.terms):
        if len(monomial) == 1 and isinstance(monomial[0], str) and sign in (1, -1):
            name = monomial[0]
            if name in free and name not in (difference - Expr.of(name) * sign).names():
                return name, sign
    return None


def renamed(edge: Edge, names: Mapping[str, str]) -> Edge:
    """An edge with other nodes."""
    attachments = tuple(replace(a, node=names.get(a.node, a.node)) for a in edge.attachments)
    return replace(edge, attachments=attachments)


def _renamed_clamp(clamp: Clamp, names: Mapping[str, str]) -> Clamp:
    node = names.get(clamp.attachment.node, clamp.attachment.node)
    return replace(clamp, attachment=replace(clamp.attachment, node=node))


def _index_names(
    indices: Iterable[Expr],
    conditions: Iterable[Condition],
    edges: Iterable[Edge],
    clamps: Iterable[Clamp],
) -> set[str]:
    exprs = [*indices, *(t for c in conditions for t in c.terms)]
    exprs += [index for edge in edges for index in edge.indices]
    exprs += [index for clamp in clamps for index in clamp.indices]
    return {name for expr in exprs for name in expr.names()}
