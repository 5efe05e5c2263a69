"""Log-weights of derivations under any weights: sums of logarithms of the entries that they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.maps import is_map, map_values
from fgg.grammar import Attachment, Grammar
from fgg.grammar.domains import select
from fgg.inputs.tokens import MISSING
from fgg.runtime.derive.completed import all_tokens
from fgg.runtime.derive.derivation import Derivation, Step

Entry = tuple[int, ...]


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
