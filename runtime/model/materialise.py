"""From pieces back to whole factors: the product of a factor's pieces, summed over the rank.

`runtime/model/decompose.py` goes the other way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeGuard, overload

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.pieces import given_pieces, signatures
from fgg.grammar import Factor, Grammar
from fgg.grammar.domains import domain_size, size_values
from fgg.runtime.memory import require
from fgg.runtime.program.bind import MAX_ENTRIES, Array, product_of


def materialised(grammar: Grammar, weights: Mapping[str, object]) -> dict[str, object]:
    """The weights with each factor of declared rank whole, in place of its pieces:

        binary(a, b, c)  =  Σ_q  binary_0(a, q) binary_1(q, b) binary_2(q, c)        [RS §2.2]

    Pieces have the names that the grammar gives them, or would give them if it were decomposed. The
    product of tensors is a tensor, with gradients, and the product of arrays an array. Other
    weights are unchanged. Raises GrammarError for pieces that are missing or of a wrong shape
    (F416, F417), and for factors that are too large, before anything is computed (F420).
    """
    result = dict(weights)
    for name, labels in given_pieces(grammar).items():
        if not any(label in weights for label in labels):
            continue
        missing = [f"`{label}`" for label in labels if label not in weights]
        if missing:
            refuse("F416", f"no weights for {', '.join(missing)}: `{name}` needs all pieces")
        if name in weights:
            refuse("F417", f"weights are given for `{name}`, and for its pieces")
        result[name] = multiplied(grammar, name, {label: result.pop(label) for label in labels})
    return result


def with_tensors(grammar: Grammar, weights: Mapping[str, object]) -> dict[str, object]:
    """The weights with pieces that are tensors multiplied out, where rules use the whole factor.

    So gradients reach the pieces. `runtime.program.bind` multiplies out arrays.
    """
    result = dict(weights)
    for name, labels in given_pieces(grammar).items():
        pieces = {label: weights.get(label) for label in labels}
        if labels[0] in grammar.factor or name in weights:
            continue
        if are_tensors(list(pieces.values())):
            result[name] = multiplied(grammar, name, pieces)
            for label in labels:
                del result[label]
    return result


@overload
def multiplied(grammar: Grammar, name: str, pieces: Mapping[str, Tensor]) -> Tensor: ...
@overload
def multiplied(grammar: Grammar, name: str, pieces: Mapping[str, object]) -> Tensor | Array: ...
def multiplied(grammar: Grammar, name: str, pieces: Mapping[str, object]) -> Tensor | Array:
    """The weights of a factor of declared rank, in its shape, from its pieces by name, in order."""
    factor = grammar.factor[name]
    checked = _checked(grammar, factor, tuple(pieces), tuple(pieces.values()))
    return whole(checked, factor.given or 0)


@overload
def whole(pieces: Sequence[Tensor], given: int) -> Tensor: ...
@overload
def whole(pieces: Sequence[Tensor | Array], given: int) -> Tensor | Array: ...
def whole(pieces: Sequence[Tensor | Array], given: int) -> Tensor | Array:
    """The product of pieces, summed over the rank.

    Piece 0 is `[*left, rank]`, with `given` axes on the left; the others are `[rank, right axis]`.
    The result is `[*left, *right axes]`: a tensor if all pieces are tensors, else an array.
    """
    if not are_tensors(pieces):
        return product_of([_array(piece) for piece in pieces], given)
    rank = given + len(pieces) - 1
    operands: list[Tensor | list[int]] = [pieces[0], [*range(given), rank]]
    for axis, piece in enumerate(pieces[1:], given):
        operands += [piece, [rank, axis]]
    return torch.einsum(*operands, list(range(rank)))


def are_tensors(pieces: Sequence[object]) -> TypeGuard[Sequence[Tensor]]:
    """Whether all pieces are tensors."""
    return all(isinstance(piece, Tensor) for piece in pieces)


def _array(piece: Tensor | Array) -> Array:
    return np.asarray(piece.detach().cpu().numpy() if isinstance(piece, Tensor) else piece)


def _checked(
    grammar: Grammar, factor: Factor, labels: Sequence[str], given: Sequence[object]
) -> list[Tensor | Array]:
    """The pieces of a factor. Raises GrammarError if a shape is wrong, or the factor too large."""
    assert factor.rank is not None
    rank = factor.rank.evaluate(size_values(grammar))
    assert rank is not None
    pieces = [piece if isinstance(piece, Tensor) else np.asarray(piece) for piece in given]
    for signature, label, piece in zip(signatures(factor, ""), labels, pieces, strict=True):
        shape = tuple(domain_size(grammar, d) if d else rank for d in signature.domains)
        if tuple(piece.shape) != shape:
            message = f"weights for `{label}` have shape {tuple(piece.shape)}, not {shape}"
            refuse("F417", message)
    sizes = [domain_size(grammar, domain) for domain in factor.domains]
    entries = prod(sizes)
    if entries > MAX_ENTRIES:
        refuse("F420", f"factor `{factor.name}` has {entries:,} entries", "leave it in rank space")
    first = pieces[0]
    device = first.device if isinstance(first, Tensor) else torch.device("cpu")
    # The last product before the sum has all axes but one, and the rank.
    needed = 8 * (entries + rank * entries // max(sizes))
    require(needed, device, f"factor `{factor.name}` with {entries:,} entries")
    return pieces
