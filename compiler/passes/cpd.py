"""Decomposition: edges of factors of low rank become edges of their pieces around rank nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fgg.diagnostics import did_you_mean
from fgg.factors.pieces import piece_names, signatures
from fgg.grammar import (
    Attachment,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Node,
    Rule,
    Sized,
)
from fgg.grammar.definitions import Piece, ProductOf
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh

CARRIED = ("prior", "net", "init", "frozen")
"""The attributes that the pieces of a factor inherit from it."""


class CpdImpossible(Exception):
    """A factor cannot be decomposed, for the reason given."""

    def __init__(self, reason: str, help: str = "") -> None:
        super().__init__(reason)
        self.help = help


def cpd(
    grammar: Grammar,
    ranks: Mapping[str, int] | None = None,
    only: Collection[str] | None = None,
) -> Grammar:
    """The grammar with the pieces of every factor of declared rank in place of the factor.

    An edge `f(a, b, c)` of `factor f(A -> B, C) rank r` becomes edges around a new rank node q,

        f(a, b, c)  =  Σ_q  f_0(a, q) f_1(q, b) f_2(q, c),        q of `rank R_f = r`,

    the CP decomposition of [RS §2.2, Fig. 2]. The pieces are those that `fgg.factors.pieces`
    describes: normalised if the factor is [RS §3, validity], each with the attribute `piece`.
    `ranks` declares ranks of further factors, or other ranks: the value is that of the grammar so
    declared. `only` names the factors to decompose; by default, all that have a rank.

    Requires that no query has edges of these factors. Guarantees the same value Z, with the same
    seed; the source factors stay, for their pieces to follow from. Derivations have rank nodes
    besides, so the best one need not be the best one of the source. Factors with a value, or that
    follow from others, are not decomposed; a grammar without factors to decompose is returned as it
    is. Raises CpdImpossible if `ranks` names what cannot have a rank.
    """
    grammar = declared(grammar, ranks or {})
    used = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    wanted = [f for f in grammar.factors if f.name in used and f.rank is not None and is_free(f)]
    wanted = [f for f in wanted if only is None or f.name in only]
    names = {f.name for f in wanted}
    asked = {e.label for query in grammar.queries for r in query.rules for e in r.edges}
    assert not names & asked, "conjoin the grammar with a query first"
    if not wanted:
        return grammar
    decomposer = _Decomposer(grammar, wanted)
    return replace(
        grammar,
        domains=(*grammar.domains, *decomposer.domains),
        factors=tuple(g for f in grammar.factors for g in (f, *decomposer.pieces.get(f.name, ()))),
        rules=tuple(map(decomposer.rule, grammar.rules)),
    )


def declared(grammar: Grammar, ranks: Mapping[str, int]) -> Grammar:
    """The grammar with these ranks declared, in place of any that the factors have.

    A joint factor does not follow from its parts any more: it is a parameter, of low rank. Raises
    CpdImpossible for what cannot have a rank. A grammar that has these ranks is returned as it is.
    """
    for name in ranks:
        if name not in grammar.factor:
            help = did_you_mean(name, grammar.factor)
            raise CpdImpossible(f"there is no factor `{name}`", help)
    factors = tuple(_declared(grammar, f, ranks) for f in grammar.factors)
    return grammar if factors == grammar.factors else replace(grammar, factors=factors)


def _declared(grammar: Grammar, factor: Factor, ranks: Mapping[str, int]) -> Factor:
    """A factor with the rank that it is to have."""
    if factor.name not in ranks:
        return factor
    rank = ranks[factor.name]
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise CpdImpossible(f"rank {rank} of factor `{factor.name}` is not positive")
    if len(factor.domains) < 2:
        raise CpdImpossible(f"factor `{factor.name}` has fewer than two nodes, so it has no rank")
    factor = unjoined(factor)
    if not is_free(factor):
        raise CpdImpossible(
            f"the weights of factor `{factor.name}` are not free to have a rank",
            "`fggc decompose` finds pieces for the weights that a factor has"
            if factor.value is not None
            else "",
        )
    return replace(factor, rank=Expr.of(rank))


def unjoined(factor: Factor) -> Factor:
    """The factor as a parameter of its own, which no longer follows from parts."""
    if not isinstance(factor.definition, ProductOf):
        return factor
    return replace(factor, definition=None)


def is_free(factor: Factor) -> bool:
    """Whether no value, definition or map determines the weights of a factor."""
    return factor.value is None and factor.definition is None and factor.blocks is None


class _Decomposer:
    """Declares the rank domains and pieces of factors, and rewrites rules."""

    def __init__(self, grammar: Grammar, wanted: list[Factor]) -> None:
        taken = {*grammar.domain, *grammar.size}
        names = piece_names(grammar, [factor.name for factor in wanted])
        self.domains: list[Domain] = []
        self.pieces: dict[str, tuple[Factor, ...]] = {}
        self.ranks: dict[str, str] = {}
        for factor in wanted:
            assert factor.rank is not None
            name = fresh(f"R_{factor.name}", taken)
            taken.add(name)
            self.ranks[factor.name] = name
            self.domains.append(
                Domain(name=name, shape=Sized(factor.rank), rank=True, span=factor.span)
            )
            carried = tuple(a for a in factor.attributes if a.key in CARRIED)
            pieces = []
            for number, signature in enumerate(signatures(factor, name)):
                pieces.append(
                    Factor(
                        name=names[factor.name][number],
                        domains=signature.domains,
                        given=signature.given,
                        definition=Piece(factor.name, number),
                        attributes=carried,
                        span=factor.span,
                    )
                )
            self.pieces[factor.name] = tuple(pieces)
        self.given = {factor.name: factor.given or 0 for factor in wanted}

    def rule(self, rule: Rule) -> Rule:
        """A rule with the pieces of its low-rank edges."""
        if not any(edge.label in self.pieces for edge in rule.rhs.edges):
            return rule
        # Neither a node nor an index variable is called so: plans have both as axes.
        taken = {node.name for node in rule.rhs.nodes}
        used = [*rule.indices, *(i for edge in rule.rhs.edges for i in edge.indices)]
        used += [i for clamp in rule.rhs.clamps for i in clamp.indices]
        taken |= {name for expr in used for name in expr.names()}
        nodes: list[Node] = []
        edges: list[Edge] = []
        for edge in rule.rhs.edges:
            if edge.label not in self.pieces:
                edges.append(edge)
                continue
            rank = Node(name=fresh("q", taken), domain=self.ranks[edge.label], span=edge.span)
            taken.add(rank.name)
            nodes.append(rank)
            edges += self.edges(edge, Attachment(node=rank.name))
        return replace(
            rule,
            rhs=Fragment.make(
                (*rule.rhs.nodes, *nodes), tuple(edges), rule.rhs.clamps, rule.rhs.externals
            ),
            origin=rule.origin_or_self,
        )

    def edges(self, edge: Edge, rank: Attachment) -> list[Edge]:
        """The edges of the pieces of an edge."""
        first, *rest = self.pieces[edge.label]
        given = self.given[edge.label]
        edges = [replace(edge, label=first.name, attachments=(*edge.attachments[:given], rank))]
        for piece, attachment in zip(rest, edge.attachments[given:], strict=True):
            edges.append(replace(edge, label=piece.name, attachments=(rank, attachment)))
        return edges
