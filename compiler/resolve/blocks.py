"""Blocks: a factor over states of which each value has one block only, written as a smaller one.

With `domain T = M * K`, `factor clusters(W -> M) = map(…)` and

    factor emit(T -> W) with blocks = clusters,

a state (m, k) gives weight to the values of W that belong to block m only:

    emit((m, k), w)  =  clusters(w, m) * emit(k, w).

So the factor that is kept is `emit(K -> W)`, whose weights sum to one over the values of each
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
    """A factor whose axis `place`, of a product, is to lose the component that the map gives.

    `rest` are the components that are left, `whole` the number of axes, the last one the map's.
    """

    factor: Factor
    place: int
    block: str
    rest: tuple[str, ...]


def with_blocks(grammar: Grammar, report: Report) -> Grammar:
    """The grammar with the map as an edge of its own; what does not fit is reported (F494, F495).

    Guarantees that a factor with `blocks` touches no node of the map's second domain.
    """
    found: dict[str, Blocked] = {}
    fitting: set[str] = set()
    for factor in grammar.factors:
        if factor.blocks is None or isinstance(factor.definition, Slice):
            continue
        if _fits(grammar, factor, report):
            fitting.add(factor.name)
            blocked = _blocked(grammar, factor, report)
            if blocked is not None:
                found[factor.name] = blocked
    if found:
        grammar = replace(
            grammar,
            factors=tuple(found[f.name].factor if f.name in found else f for f in grammar.factors),
            rules=tuple(_rule(rule, found) for rule in grammar.rules),
            queries=tuple(_query(query, found) for query in grammar.queries),
        )
    _check_tied(grammar, fitting, report)
    return grammar


def _fits(grammar: Grammar, factor: Factor, report: Report) -> bool:
    """Whether a factor's blocks are those of a map from what it is a distribution over."""
    name = factor.blocks
    assert name is not None
    attribute = _attribute(factor)
    other = grammar.factor.get(name)

    def refuse(message: str, help: str = "") -> bool:
        report.add("F494", message, attribute.span or factor.span, help=help)
        return False

    if other is None:
        maps = [f.name for f in grammar.factors if is_map(f)]
        help = did_you_mean(name, maps) or f"declare `factor {name}(W -> M) = map(…)`"
        return refuse(f"`{factor.name}` has the blocks of `{name}`, which is not there", help)
    if not is_map(other):
        help = f"give it the value of one: `factor {name}(W -> M) = map(…)`"
        return refuse(f"`{factor.name}` has the blocks of `{name}`, which is not a map", help)
    if factor.given is None or factor.domains[factor.given :] != other.domains[:1]:
        source = other.domains[0]
        return refuse(
            f"`{factor.name}` is not a distribution over `{source}`, of which `{name}` has blocks",
            f"declare it as `factor {factor.name}(… -> {source})`",
        )
    if factor.rank is not None:
        return refuse(f"`{factor.name}` has both blocks and a rank", "drop one of them")
    return True


def _blocked(grammar: Grammar, factor: Factor, report: Report) -> Blocked | None:
    """What a factor becomes; None if it has no axis with the blocks, as when it is written so."""
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


def _replaced(edges: tuple[Edge, ...], found: dict[str, Blocked]) -> tuple[Edge, ...]:
    """Edges, with those of maps."""
    return tuple(new for edge in edges for new in _edges(edge, found.get(edge.label)))


def _rule(rule: Rule, found: dict[str, Blocked]) -> Rule:
    rhs, edges = rule.rhs, _replaced(rule.rhs.edges, found)
    if edges == rhs.edges:
        return rule
    return replace(rule, rhs=Fragment.make(rhs.nodes, edges, rhs.clamps, rhs.externals))


def _query(query: Query, found: dict[str, Blocked]) -> Query:
    rules = tuple(replace(rule, edges=_replaced(rule.edges, found)) for rule in query.rules)
    return replace(query, rules=rules)


def _edges(edge: Edge, blocked: Blocked | None) -> tuple[Edge, ...]:
    """An edge, or the two that stand for it."""
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
    """Warn of edges of a factor with blocks whose value no map ties to a block (F495)."""
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
            own = [c for c in clamps if c.attachment.node == place.node]
            tied = any(e.label == name and e.attachments[:1] == (place,) for e in edges) or any(
                (c.input, c.indices) in through for c in own
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
