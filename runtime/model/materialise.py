"""From pieces back to whole factors: the product of a factor's pieces, summed over the rank.

`runtime/model/decompose.py` is the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.pieces import given_pieces, signatures
from fgg.grammar import Factor, Grammar
from fgg.grammar.domains import domain_size, size_values
from fgg.runtime.memory import require
from fgg.runtime.program.bind import MAX_ENTRIES, product_of


def materialised(grammar: Grammar, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights with each factor of declared rank whole, in place of its pieces:

        binary(a, b, c)  =  Σ_q  binary_0(a, q) binary_1(q, b) binary_2(q, c)        [RS §2.2]

    Pieces are found by the names that the grammar's own pieces have, or would have if it were
    decomposed. Tensors stay tensors, with their gradients, and arrays arrays; what is no piece
    stays as it is. Raises GrammarError for pieces that are missing or do not fit (F416, F417), and
    for factors that are too large, before anything is computed (F420).
    """
    found = dict(weights)
    for name, labels in given_pieces(grammar).items():
        known = [label for label in labels if label in weights]
        if not known:
            continue
        factor = grammar.factor[name]
        missing = [f"`{label}`" for label in labels if label not in weights]
        if missing:
            refuse("F416", f"no weights for {', '.join(missing)}: `{name}` needs all pieces")
        if name in weights:
            refuse("F417", f"weights are given for `{name}`, and for its pieces")
        own = _checked(grammar, factor, labels, [found.pop(label) for label in labels])
        found[name] = whole(own, factor.given or 0)
    return found


def with_tensors(grammar: Grammar, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights in which pieces that are tensors are multiplied out, where rules use the whole.

    So gradients reach the pieces; `runtime.weights.bind` does the same for arrays.
    """
    found = dict(weights)
    for name, labels in given_pieces(grammar).items():
        own = [weights.get(label) for label in labels]
        if labels[0] in grammar.factor or name in weights:
            continue
        if all(isinstance(piece, Tensor) for piece in own):
            given = grammar.factor[name].given or 0
            found[name] = whole(_checked(grammar, grammar.factor[name], labels, own), given)
            for label in labels:
                del found[label]
    return found


def multiplied(grammar: Grammar, name: str, pieces: Mapping[str, Any]) -> Any:
    """The weights of a factor of declared rank, from its pieces by name, in order."""
    factor = grammar.factor[name]
    own = _checked(grammar, factor, tuple(pieces), tuple(pieces.values()))
    return whole(own, factor.given or 0)


def whole(pieces: Sequence[Any], given: int) -> Any:
    """The product of pieces, of which the first has `given` axes besides the rank."""
    if not all(isinstance(piece, Tensor) for piece in pieces):
        return product_of([_array(piece) for piece in pieces], given)
    count = given + len(pieces) - 1
    operands: list[Any] = [pieces[0], [*range(given), count]]
    for axis, piece in enumerate(pieces[1:], given):
        operands += [piece, [count, axis]]
    return torch.einsum(*operands, list(range(count)))


def _array(piece: Any) -> Any:
    return piece.detach().cpu().numpy() if isinstance(piece, Tensor) else np.asarray(piece)


def _checked(
    grammar: Grammar, factor: Factor, labels: Sequence[str], pieces: Sequence[Any]
) -> Sequence[Any]:
    """The pieces of a factor, if they and it are of the sizes that they should be."""
    assert factor.rank is not None
    rank = factor.rank.evaluate(size_values(grammar))
    assert rank is not None
    pieces = [piece if hasattr(piece, "shape") else np.asarray(piece) for piece in pieces]
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
