"""What a posterior believes about one item, as tables and pictures show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor

from fgg.diagnostics import refuse
from fgg.draw.beliefs import Beliefs
from fgg.grammar import Grammar, Nonterminal
from fgg.grammar.domains import domain_size, domain_values, size_values
from fgg.inputs.written import Words, of_item

if TYPE_CHECKING:
    from fgg.runtime.posterior.posterior import Posterior
    from fgg.runtime.program.inputs import Collated


def beliefs(
    posterior: Posterior, item: int = 0, words: Sequence[str] | None = None
) -> list[Beliefs]:
    """The marginals of one item, a table for each family. Raises GrammarError (F411)."""
    marginals, grammar = posterior.marginals, posterior.program.grammar
    count = len(next(iter(marginals.values()))) if marginals else 0
    if not 0 <= item < count:
        refuse("F411", f"there is no item {item}", f"the batch has {count}, counted from 0")
    if words is None:
        collated = getattr(posterior, "collated", None)
        written = of_item(posterior.written, item)
        words = [] if collated is None else known_words(grammar, collated, item, written)
    tables = []
    for family in grammar.nonterminals:
        table = marginals[family.name][item]
        rows = table.detach().double().cpu().reshape(*table.shape[: len(family.indices)], -1)
        cells = {cell: tuple(rows[cell].tolist()) for cell in _used(rows)}
        if cells:
            axes = len(family.indices)
            tables.append(_table(grammar, family.name, family.domains, axes, cells, words))
    return tables


def _used(rows: Tensor) -> list[tuple[int, ...]]:
    """The indices of the cells that have any weight, in order."""
    return [tuple(cell) for cell in (rows.sum(-1) > 0).nonzero().tolist()]


def ground_beliefs(grammar: Grammar, uses: Mapping[str, Tensor]) -> list[Beliefs]:
    """The same from the expected uses of the nonterminals of a ground grammar."""
    families: dict[str, dict[tuple[int, ...], Sequence[float]]] = {}
    members: dict[str, Nonterminal] = {}
    for nonterminal in grammar.nonterminals:
        family, indices = nonterminal.origin or (nonterminal.name, ())
        if nonterminal.name in uses:
            row = uses[nonterminal.name].detach().double().reshape(-1).tolist()
            families.setdefault(family, {})[indices] = row
            members.setdefault(family, nonterminal)
    tables = []
    for family, cells in families.items():
        axes, domains = len(next(iter(cells))), members[family].domains
        tables.append(_table(grammar, family, domains, axes, dict(sorted(cells.items()))))
    return tables


def _table(
    grammar: Grammar,
    family: str,
    domains: Sequence[str],
    axes: int,
    cells: Mapping[tuple[int, ...], Sequence[float]],
    words: Sequence[str] = (),
) -> Beliefs:
    """The table of a family, from the expected uses of its cells with each of their values."""
    return Beliefs(
        family=family,
        axes=axes,
        width=prod(domain_size(grammar, domain) for domain in domains),
        value=_Names(grammar, domains),
        cells=cells,
        words=words,
    )


class _Names:
    """The names of joint values of several domains, by number."""

    def __init__(self, grammar: Grammar, domains: Sequence[str]) -> None:
        self.names = [domain_values(grammar, domain) for domain in domains]

    def __call__(self, place: int) -> str:
        parts: list[str] = []
        for names in reversed(self.names):
            place, inner = divmod(place, len(names))
            parts.append(names[inner])
        return "*".join(reversed(parts))


def known_words(
    grammar: Grammar, collated: Collated, item: int, written: Mapping[str, Words]
) -> list[str]:
    """The tokens of the first input with one axis, as they were written, if they are known."""
    lengths = {name: values[item] for name, values in collated.lengths.items()}
    for given in grammar.inputs:
        if len(given.shape) != 1 or given.name not in collated.inputs:
            continue
        end = given.shape[0].evaluate({**size_values(grammar), **lengths}) or 0
        names = domain_values(grammar, given.domain)
        tokens = collated.inputs[given.name][item][:end].tolist()
        words = written.get(given.name, (None,) * len(tokens))
        return [
            (word or names[token]) if token >= 0 else "·"
            for word, token in zip(words, tokens, strict=True)
        ]
    return []
