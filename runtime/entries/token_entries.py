"""log Z with weights that are made where they are read.

For each factor that a plan reads at tokens only, the tuples of tokens of a batch are numbered, the
entries at these tuples are made, and a program that is given just these computes log Z. Batches
with missing tokens, and plans that read more of a factor, take all of its weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fgg.grammar.slices import take
from fgg.inputs.tokens import IMPOSSIBLE
from fgg.plan import Plan
from fgg.plan.token_entries import (
    TokenReading,
    entry_names,
    grammar_with_entries,
    token_readings,
    with_entries,
)
from fgg.runtime.entries.factor_reader import FactorReader, whole_weights
from fgg.runtime.interpret.batch import held
from fgg.runtime.interpret.prepare import part_tokens
from fgg.runtime.prelude.evidence import shifted
from fgg.runtime.program.inputs import Collated, Inputs, Lengths
from fgg.runtime.program.prepared_batch import suited_to

if TYPE_CHECKING:
    from fgg.runtime.program.program import CompiledProgram, Program, Weights

LEAST = 16
"""The fewest numbers that a program is made for; it is made for powers of two."""


def read_log_z(
    program: CompiledProgram, weights: Weights, inputs: Inputs, lengths: Lengths
) -> Tensor:
    """log Z of every item, `[batch]`, with readers among the weights."""
    readers = {n: w for n, w in weights.items() if isinstance(w, FactorReader)}
    first = next(iter(readers.values()))
    collated = program.collate(inputs, lengths, dtype=first.dtype, device=first.device)
    whole = suited_to(program, collated) is not program
    if not whole:
        program = program.in_cheapest_space(collated)
    wanted = () if whole else readings_of(program, readers)
    tuples = {reading: _tokens(program.plan, reading, collated) for reading in wanted}
    if any(bool((tokens == -1).any()) for tokens in tuples.values()):
        tuples = {}
    gone = {reading.factor for reading in tuples}
    made: dict[str, object] = {n: w for n, w in weights.items() if n not in gone}
    given = {**dict(inputs or {})}
    names = entry_names(program.plan, tuple(tuples))
    counts: dict[str, int] = {}
    for reading, tokens in tuples.items():
        name = names[reading.gather.name]
        entries, given[name.input] = _entries(readers[reading.factor], reading, tokens)
        made[name.factor] = entries
        counts[reading.gather.name] = len(entries)
    if tuples:
        program = program_with_entries(program, tuple(tuples), counts)
    return program.log_z(whole_weights(made), given, lengths)


def entries_at_start(
    program: Program, name: str, inputs: Inputs, lengths: Lengths
) -> Tensor | None:
    """The entries of a factor that a program reads at the first tokens, `[items, entries]`.

    They are numbered in the order of the factor's weights. None if tokens do not decide them.
    """
    from fgg.runtime.program.program import CompiledProgram

    if not isinstance(program, CompiledProgram):
        return None
    readings = token_readings(program.plan).get(name, ())
    if len(readings) != 1 or len(readings[0].gather.tokens[0].shift) != 1:
        return None
    (reading,) = readings
    collated = program.collate(inputs, lengths)
    tokens = _tokens(program.plan, reading, collated)[:, 0]
    if bool((tokens < 0).any()):
        return None
    shape = program.shape(name)
    part = take(torch.arange(prod(shape)).reshape(shape), reading.steps)
    axes = [token.axis for token in reading.gather.tokens]
    return part.permute(*axes, *(a for a in range(part.dim()) if a not in axes))[
        tuple(tokens)
    ].flatten(1)


def readings_of(
    program: CompiledProgram, readers: Mapping[str, FactorReader]
) -> tuple[TokenReading, ...]:
    """The readings of factors that have readers, where readers can make the entries."""
    readings: list[TokenReading] = []
    for name, some in token_readings(program.plan).items():
        reader = readers.get(name)
        if reader is not None and all(
            reader.can_read(r.steps, [t.axis for t in r.gather.tokens]) for r in some
        ):
            readings += some
    return tuple(readings)


def program_with_entries(
    program: CompiledProgram, readings: tuple[TokenReading, ...], counts: Mapping[str, int]
) -> CompiledProgram:
    """The program that is given the entries of some readings; kept by the program."""
    key = tuple(sorted(counts.items()))
    if key not in program.reading_programs:
        plan = with_entries(program.plan, readings, counts)
        program.reading_programs[key] = replace(
            program,
            grammar=grammar_with_entries(program.grammar, program.plan, readings, counts),
            decomposed=None
            if program.decomposed is None
            else grammar_with_entries(program.decomposed, program.plan, readings, counts),
            plan=plan,
            source=program.compiler.emit(plan),
            settled=True,
        )
    return program.reading_programs[key]


def _tokens(plan: Plan, reading: TokenReading, collated: Collated) -> Tensor:
    """The tokens at each position of a batch, `[tokens of a tuple, *indices, batch]`."""
    grammar = plan.grammar
    lengths = {n: np.asarray(x, dtype=np.int64) for n, x in collated.lengths.items()}
    parts = []
    for token in reading.gather.tokens:
        known = collated.inputs[token.input].cpu().numpy()
        inside = torch.from_numpy(held(grammar, token.input, known, lengths)).movedim(0, -1)
        domain = grammar.input[token.input].domain
        parts.append(shifted(part_tokens(grammar, domain, token.path, inside), token.shift))
    return torch.stack(parts)


def _entries(reader: FactorReader, reading: TokenReading, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The entries at the tuples of a batch, and the number of each position's tuple."""
    possible = (tokens >= 0).all(0)
    met, numbers = torch.unique(tokens[:, possible], dim=1, return_inverse=True)
    if not met.shape[1]:
        met = tokens.new_zeros((len(tokens), 1))
    axes = [token.axis for token in reading.gather.tokens]
    entries = reader.entries(reading.steps, axes, met)
    # Few programs serve all batches: each has room for a power of two of tuples.
    room = max(LEAST, 1 << (len(entries) - 1).bit_length()) - len(entries)
    if room:
        more = entries[:1].detach().expand(room, *entries.shape[1:])
        entries = torch.cat([entries, more])
    where = torch.full(possible.shape, IMPOSSIBLE, dtype=torch.long)
    where[possible] = numbers
    return entries, where.movedim(-1, 0)
