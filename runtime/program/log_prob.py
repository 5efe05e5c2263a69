"""The log-probability of derivations under a posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar.domains import size_values
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.log_weights import explains, log_weight
from fgg.runtime.program.inputs import collate
from fgg.runtime.program.parameters import as_weight

if TYPE_CHECKING:
    from fgg.runtime.program.posterior import Posterior


def log_prob(posterior: Posterior, derivations: Sequence[Derivation]) -> Tensor:
    """The log-probability of one derivation of each item, `[batch]`."""
    program = posterior.program
    log_z = posterior.log_z
    if len(derivations) != len(log_z):
        message = f"{len(derivations)} derivations are given for {len(log_z)} items"
        refuse("F415", message, "give one for each item")
    given = {name: as_weight(name, value) for name, value in posterior.weights.items()}
    wholes: dict[str, Tensor] = {}

    def weight(name: str) -> Tensor:
        if name not in wholes:
            wholes[name] = given[name] if name in given else program.whole(given, [name])[name]
        return wholes[name]

    batch = collate(program.grammar, posterior.inputs or {}, posterior.lengths, dtype=torch.float64)
    sums = []
    for number, derivation in enumerate(derivations):
        if derivation.observed is None or derivation.observed.grammar != program.grammar:
            message = f"the derivation of item {number} is of another grammar"
            refuse("F415", message, "derivations come from posteriors and draws of the same model")
        lengths = {name: values[number] for name, values in batch.lengths.items()}
        tensors = _of_item(posterior, batch.inputs, lengths, number)
        if lengths == dict(derivation.observed.lengths) and explains(derivation, tensors):
            sums.append(log_weight(derivation, program.grammar, weight, tensors))
        else:
            sums.append(torch.tensor(-inf, dtype=torch.float64))
    return (torch.stack(sums) - log_z.double()).to(log_z)


def _of_item(
    posterior: Posterior, inputs: Mapping[str, Tensor], lengths: Mapping[str, int], number: int
) -> dict[str, Tensor]:
    """The inputs of one item of a padded batch, without what lies beyond its lengths."""
    grammar = posterior.program.grammar
    known = {**size_values(grammar), **lengths}
    tensors = {name: tensor[number] for name, tensor in inputs.items()}
    for item in grammar.observed:
        for axis, expr in enumerate(item.shape):
            extent = expr.evaluate(known) or 0
            tensors[item.name] = tensors[item.name].narrow(axis, 0, extent)
    return tensors
