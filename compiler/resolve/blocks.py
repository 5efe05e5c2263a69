"""Blocks: a factor whose states each give weight to one block of values becomes a smaller factor.

With `domain T = M * K`, `factor clusters(W -> M) = map(…)` and

    factor emit(T -> W) with blocks = clusters,

a state (m, k) gives weight to the values of W that belong to block m only:

    emit((m, k), w)  =  clusters(w, m) * emit(k, w).

The grammar keeps the factor `emit(K -> W)`, whose weights sum to one over the values of each
block, and an edge `emit(t, o)` becomes `emit(t.K, o) clusters(o, t.M)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgg.diagnostics import Report, did_you_mean
from fgg.factors.maps import is_map
from fgg.grammar import Attachment, Attribute, Edge, Factor, Fragment, Grammar, Product, Query, Rule
from fgg.grammar.definitions import Slice


@dataclass(frozen=True)
class Blocked:
    """A factor without the component `block` of the product domain at its axis `place`.

    `factor` is the smaller factor; `rest` are the components that are left at the axis.
    """

    factor: Factor
    place: int
    block: str
    rest: tuple[str, ...]


def with_blocks(grammar: Grammar, report: Report) -> Grammar:
    """Return the grammar with an edge of the map beside each edge of a factor with blocks.

    Reports blocks that are wrong (F494, F495). Guarantees that a factor with `blocks` touches no
    node of the map's second domain.
    """
    blocked_factors: dict[str, Blocked] = {}
    fitting: set[str] = set()
    for factor in grammar.factors:
        if factor.blocks is None or isinstance(factor.definition, Slice):
            continue
        if _fits(grammar, factor, report):
            fitting.add(factor.name)
            blocked = _blocked(grammar, factor, report)
            if blocked is not None:
                blocked_factors[factor.name] = blocked
    if blocked_factors:
        grammar = replace(
            grammar,
            factors=tuple(
                blocked_factors[f.name].factor if f.name in blocked_factors else f
                for f in grammar.factors
            ),
            rules=tuple(_rule(rule, blocked_factors) for rule in grammar.rules),
            queries=tuple(_query(query, blocked_factors) for query in grammar.queries),
        )
    _check_tied(grammar, fitting, report)
    return grammar


def _fits(grammar: Grammar, factor: Factor, report: Report) -> bool:
    """Return whether `blocks` names a map from the domain that the factor distributes over."""
    name = factor.blocks
    assert name is not None
    attribute = _attribute(factor)
    other = grammar.factor.get(name)

    def wrong(message: str, help: str = "") -> bool:
        report.add("F494", message, attribute.span or factor.span, help=help)
        return False

    if other is None:
        maps = [f.name for f in grammar.factors if is_map(f)]
        help = did_you_mean(name, maps) or f"declare `factor {name}(W -> M) = map(…)`"
        return wrong(
            f"`{factor.name}` has the blocks of `{name}`, but there is no factor `{name}`", help
        )
    if not is_map(other):
        help = f"give it the value of one: `factor {name}(W -> M) = map(…)`"
        return wrong(f"`{factor.name}` has the blocks of `{name}`, but `{name}` is not a map", help)
    if factor.given is None or factor.domains[factor.given :] != other.domains[:1]:
        source = other.domains[0]
        return wrong(
            f"`{factor.name}` has the blocks of `{name}`, but does not distribute over `{source}`",
            f"declare it as `factor {factor.name}(… -> {source})`",
        )
    if factor.rank is not None:
        return wrong(f"`{factor.name}` has both blocks and a rank", "drop one of them")
    return True


def _blocked(grammar: Grammar, factor: Factor, report: Report) -> Blocked | None:
    """Return the smaller factor; None if no axis of the factor has the blocks as a component."""
    name = factor.blocks
    assert name is not None and factor.given is not None
    block = grammar.factor[name].domains[1]
    places = []
    for place, domain in enumerate(factor.domains[: factor.given]):
        shape = grammar.domain[domain].shape
        if isinstance(shape, Product) and block in shape.parts:
            places.append((place, tuple(part for part in shape.parts if part != block)))
        elif domain == block:
            places.append((place, ()))
    if not places:
        return None
    if len(places) > 1 or factor.value is not None:
        why = "has a value" if factor.value is not None else f"has several nodes with `{block}`"
        report.add(
            "F494",
            f"`{factor.name}` has blocks and {why}",
            _attribute(factor).span or factor.span,
            help=f"write the edge of `{name}` yourself, and the factor without `{block}`",
        )
    place, rest = places[0]
    domains = factor.domains[:place] + rest + factor.domains[place + 1 :]
    compact = replace(factor, domains=domains, given=factor.given - 1 + len(rest), value=None)
    return Blocked(compact, place, block, rest)


def _attribute(factor: Factor) -> Attribute:
    return next(a for a in factor.attributes if a.key == "blocks")


def _replaced(edges: tuple[Edge, ...], blocked: dict[str, Blocked]) -> tuple[Edge, ...]:
    """Return the edges, with an edge of the map beside each edge of a factor with blocks."""
    return tuple(new for edge in edges for new in _edges(edge, blocked.get(edge.label)))


def _rule(rule: Rule, blocked: dict[str, Blocked]) -> Rule:
    rhs, edges = rule.rhs, _replaced(rule.rhs.edges, blocked)
    if edges == rhs.edges:
        return rule
    return replace(rule, rhs=Fragment.make(rhs.nodes, edges, rhs.clamps, rhs.externals))


def _query(query: Query, blocked: dict[str, Blocked]) -> Query:
    rules = tuple(replace(rule, edges=_replaced(rule.edges, blocked)) for rule in query.rules)
    return replace(query, rules=rules)


def _edges(edge: Edge, blocked: Blocked | None) -> tuple[Edge, ...]:
    """Return the edge, or the smaller edge and the edge of the map that replace it."""
    if blocked is None:
        return (edge,)
    node = edge.attachments[blocked.place]

    def part(name: str) -> Attachment:
        return replace(node, path=(*node.path, name))

    rest = tuple(map(part, blocked.rest))
    attachments = edge.attachments[: blocked.place] + rest + edge.attachments[blocked.place + 1 :]
    # A node of the map's second domain itself has no component of it.
    block = part(blocked.block) if blocked.rest else node
    name = blocked.factor.blocks
    assert name is not None
    tie = Edge(label=name, attachments=(edge.attachments[-1], block), span=edge.span)
    return (replace(edge, attachments=attachments), tie)


def _check_tied(grammar: Grammar, fitting: set[str], report: Report) -> None:
    """Warn of edges of a factor with blocks if no map says which block their value is in (F495)."""
    names = {f.name: f.blocks for f in grammar.factors if f.name in fitting}
    for rule in grammar.rules:
        asked = [r for query in grammar.queries for r in query.rules if r.name == rule.name]
        edges = [*rule.rhs.edges, *(edge for r in asked for edge in r.edges)]
        clamps = [*rule.rhs.clamps, *(clamp for r in asked for clamp in r.clamps)]
        through = {(c.input, c.indices) for c in clamps if c.path}
        for edge in edges:
            name = names.get(edge.label)
            if name is None:
                continue
            place = edge.attachments[-1]
            observed = [c for c in clamps if c.attachment.node == place.node]
            tied = any(e.label == name and e.attachments[:1] == (place,) for e in edges) or any(
                (c.input, c.indices) in through for c in observed
            )
            if not tied:
                report.add(
                    "F495",
                    f"nothing says which block of `{name}` the node `{place.node}` is in, "
                    f"so the weights of `{edge.label}` sum to the number of blocks",
                    edge.span,
                    help=f"give `{edge.label}` a node of a product with "
                    f"`{grammar.factor[name].domains[1]}`, or add `{name}({place.node}, …)`",
                )
