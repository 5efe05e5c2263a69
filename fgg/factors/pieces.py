"""Pieces: the small factors around a rank node that a factor of low rank is the product of.

A factor `binary(N -> C, C) rank r` is the sum over a rank node q of a product of pieces [RS §2.2],

    binary(a, b, c)  =  Σ_q  binary_0(a, q) binary_1(q, b) binary_2(q, c).

Piece 0 has the nodes left of the arrow and the rank node, piece i > 0 the rank node and the i-th
node right of it; each is a distribution if the whole is one. Of a potential, which has no arrow,
piece 0 has the rank node alone (the weights λ_q), and piece i > 0 the i-th node besides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from fgg.grammar import Attribute, Factor, Grammar
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.names import fresh
from fgg.grammar.values import AttributeValue, Call


@dataclass(frozen=True)
class Piece:
    """What a derived factor is: a numbered piece of its source."""

    source: str
    number: int

    def attribute(self) -> Attribute:
        """The piece as a factor carries it, `piece = binary(0)`."""
        return Attribute(key="piece", value=Call(self.source, (float(self.number),)))


@dataclass(frozen=True)
class Signature:
    """The domains of a piece, and how many of them stand left of its arrow (None: no arrow)."""

    domains: tuple[str, ...]
    given: int | None


def piece_of(factor: Factor) -> Piece | None:
    """The piece that a factor is, or None if it is no piece."""
    value = factor.attribute("piece")
    return None if value is None else read_piece(value)


def read_piece(value: AttributeValue) -> Piece | None:
    """The piece that an attribute's value stands for, or None if it stands for none."""
    if not isinstance(value, Call) or len(value.arguments) != 1 or value.keywords:
        return None
    (number,) = value.arguments
    if not isinstance(number, float | Fraction) or number < 0 or number != int(number):
        return None
    return Piece(value.name, int(number))


def signatures(factor: Factor, rank: str) -> tuple[Signature, ...]:
    """The signatures of a factor's pieces around a node of the domain `rank`."""
    given = factor.given or 0
    normal = factor.given is not None
    left = Signature((*factor.domains[:given], rank), given if normal else None)
    rest = (Signature((rank, d), 1 if normal else None) for d in factor.domains[given:])
    return (left, *rest)


def is_piece(grammar: Grammar, item: Factor, source: Factor) -> bool:
    """Whether what a factor says of itself, that it is a piece of `source`, can be true."""
    found = piece_of(item)
    if found is None or source.rank is None or source.value is not None or not item.domains:
        return False
    wanted = [
        signature
        for rank in dict.fromkeys((item.domains[0], item.domains[-1]))
        if grammar.domain[rank].rank
        and domain_size(grammar, rank) == source.rank.evaluate(size_values(grammar))
        for signature in signatures(source, rank)[found.number : found.number + 1]
    ]
    free = item.value is None and item.rank is None
    return free and Signature(item.domains, item.given) in wanted


def pieces(grammar: Grammar, source: str) -> dict[int, tuple[str, ...]]:
    """The names of a factor's pieces, by number."""
    found: dict[int, tuple[str, ...]] = {}
    for factor in grammar.factors:
        piece = piece_of(factor)
        if piece is not None and piece.source == source:
            found[piece.number] = (*found.get(piece.number, ()), factor.name)
    return found


def piece_names(grammar: Grammar, wanted: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The names that the pieces of factors are given: `binary_0`, `binary_1`, …"""
    taken = {*grammar.factor, *grammar.nonterminal, *grammar.input_factor}
    found: dict[str, tuple[str, ...]] = {}
    for name in wanted:
        labels = []
        for number in range(len(signatures(grammar.factor[name], ""))):
            labels.append(fresh(f"{name}_{number}", taken))
            taken.add(labels[-1])
        found[name] = tuple(labels)
    return found


def given_pieces(grammar: Grammar) -> dict[str, tuple[str, ...]]:
    """For each factor of declared rank, the names by which its pieces can be given as weights.

    They are the pieces that the grammar has, or those that decomposing it would make.
    """
    low = [f.name for f in grammar.factors if f.rank is not None and f.value is None]
    made = {name: pieces(grammar, name) for name in low}
    missing = piece_names(grammar, [name for name in low if not made[name]])
    found: dict[str, tuple[str, ...]] = {}
    for name in low:
        own = made[name]
        count = len(signatures(grammar.factor[name], ""))
        if not own:
            found[name] = missing[name]
        elif len(own) == count:
            found[name] = tuple(own[number][0] for number in range(count))
    return found
