"""Marginals of cells without their states, as derivatives of log Z in weights of the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.grammar.domains import size_values
from fgg.grammar.ranges import condition_rows, index_extents
from fgg.runtime.program.parameters import as_weight

if TYPE_CHECKING:
    from fgg.runtime.posterior.compiled_posterior import CompiledPosterior
    from fgg.runtime.program.program import CompiledProgram


def cell_marginals(
    weighted: CompiledProgram, factors: Mapping[str, str], posterior: CompiledPosterior
) -> dict[str, Tensor]:
    """How often each cell of each indexed family is used, `[batch, *indices]`.

    `weighted` is the posterior's program with a log-potential for each cell (`factors`, by
    family). All are 0, so that log Z is the same; its derivative in one is the cell's marginal.
    Items without derivations have 0 everywhere.
    """
    from fgg.runtime.posterior.compiled_posterior import CompiledPosterior

    weights = {name: as_weight(name, value).detach() for name, value in posterior.weights.items()}
    collated = posterior.collated
    like = next(iter(weights.values()), torch.zeros((), dtype=torch.float64))
    with torch.inference_mode(False), torch.enable_grad():
        logs = {
            family: like.new_zeros(
                (collated.size, *_extents(weighted, name, collated.lengths))
            ).requires_grad_()
            for family, name in factors.items()
        }
        inputs = {**(posterior.inputs or {}), **{factors[f]: x for f, x in logs.items()}}
        lengths = dict(collated.lengths)
        log_z = CompiledPosterior(weighted, weights, inputs, lengths, counting=False).log_z
        slopes = torch.autograd.grad(log_z.sum(), list(logs.values()), allow_unused=True)
    return {
        family: torch.zeros_like(x) if slope is None else slope
        for (family, x), slope in zip(logs.items(), slopes, strict=True)
    }


def _extents(
    weighted: CompiledProgram, factor: str, lengths: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    """The positions that the log-potentials of an input factor need for a batch."""
    grammar = weighted.grammar
    item = grammar.input_factor[factor]
    longest = {name: max(values) for name, values in lengths.items()}
    rows = condition_rows(item.conditions, size_values(grammar))
    ends = index_extents(grammar, item.indices, rows, longest)
    assert all(end is not None for end in ends), "cells of a chart lie within the lengths"
    return tuple(end or 0 for end in ends)
