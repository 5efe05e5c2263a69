"""Log-weights and log-probabilities of derivations under any weights, differentiable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.maps import is_map, map_values
from fgg.grammar import Attachment, Grammar
from fgg.grammar.domains import select, size_values
from fgg.inputs.tokens import MISSING
from fgg.runtime.derive.completed import all_tokens
from fgg.runtime.derive.derivation import Derivation, Step
from fgg.runtime.program.inputs import collate
from fgg.runtime.program.parameters import as_weight

if TYPE_CHECKING:
    from fgg.runtime.posterior.posterior import Posterior

Entry = tuple[int, ...]


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


def log_weight(
    derivation: Derivation,
    grammar: Grammar,
    weight: Callable[[str], Tensor],
    potentials: Mapping[str, Tensor],
) -> Tensor:
    """The log-weight of a derivation, a scalar in float64, differentiable.

    `grammar` is the model joined with its query, `weight` gives the weights of a factor, and
    `potentials` are the log-potentials of the item. Raises GrammarError (F498) for a node without
    a value.
    """
    entries: dict[str, list[Entry]] = {}
    total = torch.zeros((), dtype=torch.float64)
    for step in derivation.steps:
        places = (r for r in step.readings if r.attachment is None)
        for edge in step.rule.rhs.edges:
            if edge.label in derivation.grammar.nonterminal:
                continue
            index = tuple(_value(a, step, grammar) for a in edge.attachments)
            if edge.label in grammar.factor:
                entries.setdefault(edge.label, []).append(index)
            else:
                place = next(places)
                total = total + potentials[place.input][(*place.position, *index)].double()
    for label, indices in entries.items():
        if is_map(grammar.factor[label]):
            values = map_values(grammar, label)
            if any(values[source] != target for source, target in indices):
                return torch.full_like(total, -inf)
            continue
        columns = tuple(torch.tensor(column) for column in zip(*indices, strict=True))
        used = weight(label)[columns] if columns else weight(label).expand(len(indices))
        total = total + used.double().log().sum()
    return total


def explains(derivation: Derivation, tokens: Mapping[str, Tensor]) -> bool:
    """Whether the inputs of a derivation are those of an item, wherever the item's are known."""
    observed = derivation.observed
    if observed is None:
        refuse("F498", "this derivation has no inputs", "give one of a program or a model")
    read = all_tokens(derivation, observed)
    for item in observed.grammar.inputs:
        given = tokens[item.name]
        if tuple(given.shape) != observed.extents(item):
            return False
        for position, token in read[item.name].items():
            if int(given[position]) not in (MISSING, token):
                return False
    return True


def _value(attachment: Attachment, step: Step, grammar: Grammar) -> int:
    whole = step.values.get(attachment.node)
    if whole is None:
        refuse("F498", f"node `{attachment.node}` of this derivation has no value")
    domain = step.rule.rhs.by_name[attachment.node].domain
    value = select(grammar, domain, attachment.path, whole)
    if value is None:
        refuse("F498", f"node `{attachment.node}` of this derivation lies in another part")
    return value
