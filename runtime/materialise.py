"""Factors from their pieces: the sum over the rank node, as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.domains import domain_size
from fgg.grammar import Grammar
from fgg.runtime.weights import MAX_ENTRIES
from fgg.runtime.weights import product_of as array_product


def product_of(grammar: Grammar, name: str, pieces: Sequence[Any]) -> Any:
    """The weights of a factor of declared rank, from its pieces in order; differentiable.

    Raises GrammarError (F420) if it has more entries than can be.
    """
    factor = grammar.factor[name]
    entries = 1
    for domain in factor.domains:
        entries *= domain_size(grammar, domain)
    if entries > MAX_ENTRIES:
        message = f"factor `{name}` has {entries:,} entries as a whole"
        help = "ask for what its pieces can answer: log Z, marginals, counts, MBR"
        raise GrammarError([Diagnostic(code="F420", message=message, help=help)])
    given = factor.given or 0
    if not any(isinstance(piece, Tensor) for piece in pieces):
        return array_product([_array(piece) for piece in pieces], given)
    tensors = [torch.as_tensor(piece) for piece in pieces]
    count = given + len(tensors) - 1
    operands: list[Any] = [tensors[0], [*range(given), count]]
    for axis, piece in enumerate(tensors[1:], given):
        operands += [piece, [count, axis]]
    result: Tensor = torch.einsum(*operands, list(range(count)))
    return result


def _array(piece: Any) -> Any:
    import numpy as np

    return np.asarray(piece)
