"""Pieces: the small factors around a rank node that a factor of low rank is the product of.

A factor `binary(N -> C, C) rank r` is the sum over a rank node q of a product of pieces [RS §2.2],

    binary(a, b, c)  =  Σ_q  binary_0(a, q) binary_1(q, b) binary_2(q, c).

Piece 0 has the nodes left of the arrow and the rank node, piece i > 0 the rank node and the i-th
node right of it; each is a distribution if the whole is one. Of a potential, which has no arrow,
piece 0 has the rank node alone (the weights λ_q), and piece i > 0 also has the i-th node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fgg.grammar import Factor, Grammar
from fgg.grammar.definitions import Piece
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.memo import per_grammar
from fgg.grammar.names import fresh


@dataclass(frozen=True)
class PieceSignature:
    """The domains of a piece, and how many of them stand left of its arrow (None: no arrow)."""

    domains: tuple[str, ...]
    given: int | None


def signatures(factor: Factor, rank: str) -> tuple[PieceSignature, ...]:
    """The signatures of a factor's pieces around a node of the domain `rank`."""
    given = factor.given or 0
    normal = factor.given is not None
    left = PieceSignature((*factor.domains[:given], rank), given if normal else None)
    rest = (PieceSignature((rank, d), 1 if normal else None) for d in factor.domains[given:])
    return (left, *rest)


def is_piece(grammar: Grammar, item: Factor, source: Factor) -> bool:
    """Whether a factor that is defined as a piece of `source` can be one."""
    piece = item.definition
    if not isinstance(piece, Piece) or not item.domains:
        return False
    if source.rank is None or source.value is not None:
        return False
    wanted = [
        signature
        for rank in dict.fromkeys((item.domains[0], item.domains[-1]))
        if grammar.domain[rank].rank
        and domain_size(grammar, rank) == source.rank.evaluate(size_values(grammar))
        for signature in signatures(source, rank)[piece.number : piece.number + 1]
    ]
    free = item.value is None and item.rank is None
    return free and PieceSignature(item.domains, item.given) in wanted


@per_grammar
def pieces(grammar: Grammar, source: str) -> Mapping[int, tuple[str, ...]]:
    """The names of a factor's pieces, by number."""
    names: dict[int, tuple[str, ...]] = {}
    for factor in grammar.factors:
        piece = factor.definition
        if isinstance(piece, Piece) and piece.source == source:
            names[piece.number] = (*names.get(piece.number, ()), factor.name)
    return names


def piece_names(grammar: Grammar, wanted: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The names that the pieces of factors are given: `binary_0`, `binary_1`, …"""
    taken = {*grammar.factor, *grammar.nonterminal, *grammar.input_factor}
    names: dict[str, tuple[str, ...]] = {}
    for name in wanted:
        labels = []
        for number in range(len(signatures(grammar.factor[name], ""))):
            labels.append(fresh(f"{name}_{number}", taken))
            taken.add(labels[-1])
        names[name] = tuple(labels)
    return names


def given_pieces(grammar: Grammar) -> dict[str, tuple[str, ...]]:
    """For each factor of declared rank, the names by which its pieces can be given as weights.

    They are the pieces that the grammar has, or those that decomposing it would make.
    """
    low = [f.name for f in grammar.factors if f.rank is not None and f.value is None]
    made = {name: pieces(grammar, name) for name in low}
    missing = piece_names(grammar, [name for name in low if not made[name]])
    names: dict[str, tuple[str, ...]] = {}
    for name in low:
        count = len(signatures(grammar.factor[name], ""))
        if not made[name]:
            names[name] = missing[name]
        elif len(made[name]) == count:
            names[name] = tuple(made[name][number][0] for number in range(count))
    return names
