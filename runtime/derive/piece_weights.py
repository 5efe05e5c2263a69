"""The weight of a derivation from the pieces of its factors, without the factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, log, nan
from typing import Any

import numpy as np

from fgg.grammar import Attachment, Edge, Grammar
from fgg.grammar.domains import select
from fgg.runtime.derive.derivation import Derivation, Step
from fgg.runtime.interpret.semirings.base import to_numpy

Pieces = Callable[[str], tuple[str, ...]]


def log_weight(
    derivation: Derivation, grammar: Grammar, weights: Mapping[str, Any], pieces: Pieces
) -> float:
    """The log-weight of a derivation; no number if a node has no value, or for log-potentials.

    `pieces` are the names of a factor's pieces, or its own; an entry of the whole factor is a sum
    over the rank.
    """
    arrays = {name: to_numpy(w) for name, w in weights.items()}
    total = 0.0
    for step in derivation.steps:
        for edge in step.rule.rhs.edges:
            if edge.label in derivation.grammar.nonterminal:
                continue
            found = _entry(edge, step, grammar, arrays, pieces)
            if found is None:
                return nan
            total += log(found) if found > 0 else -inf
    return total


def _entry(
    edge: Edge, step: Step, grammar: Grammar, arrays: Mapping[str, Any], pieces: Pieces
) -> float | None:
    """The weight of an edge in a step."""
    if edge.label not in grammar.factor:
        return None  # log-potentials
    index = [_value(a, step, grammar) for a in edge.attachments]
    if any(i is None for i in index):
        return None
    names = pieces(edge.label)
    if any(name not in arrays for name in names):
        return None
    if names == (edge.label,):
        return float(arrays[edge.label][tuple(index)])
    given = grammar.factor[edge.label].given or 0
    product = np.asarray(arrays[names[0]][tuple(index[:given])], dtype=float)
    for name, i in zip(names[1:], index[given:], strict=True):
        product = product * arrays[name][:, i]
    return float(product.sum())


def _value(attachment: Attachment, step: Step, grammar: Grammar) -> int | None:
    """The value that an edge sees at a node: that of the part of it that a path names."""
    value = step.values.get(attachment.node)
    if value is None:
        return None
    domain = step.rule.rhs.by_name[attachment.node].domain
    return select(grammar, domain, attachment.path, value)
