"""Generating: draws of derivations from a model, with the inputs that they come with.

Without lengths, a draw is one of all derivations of all lengths and all inputs that the query
admits, with probability weight / (the sum of all their weights). The derivation then says how long
its inputs are. A model whose derivations do not stop by themselves has no such distribution: it is
asked for given lengths, and draws from the derivations of these lengths and all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from fgg.diagnostics import GrammarError, refuse
from fgg.grammar.domains import lengths as length_names
from fgg.progress import steps
from fgg.rewrite.ground import ground
from fgg.runtime.derive.align import Aligner
from fgg.runtime.derive.decode_ground import draws
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.posterior.posterior import check_number

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program, Weights

DrawnLengths = Mapping[str, int | Sequence[int]] | Sequence[int] | int | None
"""A length, or several of which each draw takes one at random; by name if there are several."""
MAX_REFUSED = 1000
"""The most draws in a row that the query may not admit."""


def generate(
    program: Program,
    weights: Weights,
    number: int = 1,
    *,
    lengths: DrawnLengths = None,
    seed: int | None = None,
) -> list[Derivation]:
    """Independent draws from a model. Raises GrammarError if it does not stop by itself (F424)."""
    check_number(number)
    if not length_names(program.grammar):
        return program.posterior(weights).sample(number, seed=seed)[0]
    if lengths is not None:
        return _of_lengths(program, weights, number, lengths, seed)
    found: list[Derivation] = []
    refused = 0
    generator = np.random.default_rng(seed)
    aligner = _aligner(program)
    for derivation in _of_all_lengths(program, weights, aligner, generator):
        refused = refused + 1 if derivation is None else 0
        if derivation is not None:
            found.append(derivation)
        if len(found) == number:
            break
        if refused > MAX_REFUSED:
            query, help = program.compiler.query, _lengths_help(program)
            if aligner.open:
                message = f"the lengths of `{query}` do not follow from derivations of the model"
                refuse("F499", message, help)
            message = f"the query `{query}` admits none of {refused:,} draws from the model"
            refuse("F499", message, help)
    return found


def _aligner(program: Program) -> Aligner:
    model = program.compiler.model
    if model.is_indexed:
        message = f"the rules of `{model.name}` have indices, so that lengths are needed"
        refuse("F499", message, _lengths_help(program))
    return Aligner(program.grammar)


def _of_all_lengths(
    program: Program, weights: Weights, aligner: Aligner, generator: np.random.Generator
) -> Iterator[Derivation | None]:
    """Draws from the model alone, placed in the query; None for one that it does not admit."""
    model, help = program.compiler.model, _lengths_help(program)
    used = {rule.origin_or_self.rule for rule in program.grammar.rules}
    rules = tuple(rule for rule in model.rules if rule.name in used)
    finite = ground(replace(model, rules=rules, queries=()))
    names = {*model.factor, *(f.name for f in program.weighted.factors)}
    given = {name: weight for name, weight in weights.items() if name in names}
    try:
        for derivation in draws(finite, weights=given, generator=generator):
            yield aligner.aligned(derivation)
    except GrammarError as error:
        codes = {diagnostic.code for diagnostic in error.diagnostics}
        if codes <= {"F418", "F422", "F424"}:
            message = f"`{model.name}` does not stop by itself, so that lengths are needed"
            refuse("F424", f"{message}: {error.diagnostics[0].message}", help)
        raise


def _of_lengths(
    program: Program, weights: Weights, number: int, lengths: DrawnLengths, seed: int | None
) -> list[Derivation]:
    """Draws of given lengths; of several, each draw takes one at random."""
    names = sorted(length_names(program.grammar))
    if not isinstance(lengths, Mapping):
        if len(names) != 1:
            shown = ", ".join(f"`{name}`" for name in names)
            refuse("F411", f"lengths must be given by name; the lengths are {shown}")
        assert lengths is not None
        lengths = {names[0]: lengths}
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    several = {n: [x] if isinstance(x, int) else list(x) for n, x in lengths.items()}
    counts = {len(values) for values in several.values() if len(values) != 1}
    if len(counts) > 1 or not all(several.values()):
        refuse("F411", "each length is given once, or all of them equally often")
    choices = torch.randint(max(counts, default=1), (number,), generator=generator).tolist()
    made: dict[int, Iterator[Derivation]] = {}
    for choice in steps(sorted(set(choices)), "length"):
        chosen = {n: [values[choice % len(values)]] for n, values in several.items()}
        post = program.posterior(weights, None, chosen)
        made[choice] = iter(post.sample(choices.count(choice), seed=generator)[0])
    return [next(made[choice]) for choice in choices]


def _lengths_help(program: Program) -> str:
    name = min(length_names(program.grammar), default="n")
    return f"give lengths: `model.sample(10, lengths={{'{name}': 5}})`, `--length {name}=5`"
