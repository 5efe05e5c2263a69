"""log Z as operations of torch alone, for `torch.export` of a model or of a network around one.

An exported graph may be run in another process, where a program is not known: so it holds the plan
itself, with loops over levels, as an exported program does (`fgg.runtime.export`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.inputs.tokens import MISSING
from fgg.runtime.export.export import MAX_LENGTH, program_signature
from fgg.runtime.export.module import PlanModule
from fgg.runtime.export.signature import Signature

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

Named = Mapping[str, Tensor]


def exported_log_z(program: Program, weights: Named, inputs: Named, lengths: Named) -> Tensor:
    """log Z of every item, `[batch]`; a length of no name is the only one.

    Raises GrammarError: F425 for a program that cannot be exported, F411 if lengths do not follow
    from the inputs.
    """
    plan = program.compiled.plan
    whole = program.whole(weights, plan.parameters)
    dtype = next((w.dtype for w in whole.values()), torch.float32)
    known = program_signature(program, dtype, MAX_LENGTH)
    if "" in lengths:
        lengths = {known.lengths[0]: lengths[""]}
    arguments = _arguments(known, {**whole, **inputs}, lengths)
    log_z: Tensor = PlanModule(plan, known)(*arguments)
    return log_z.detach()  # loops over levels have no derivatives


def _arguments(known: Signature, given: Named, lengths: Named) -> tuple[Tensor, ...]:
    """The arguments of the plan's module, in its order.

    Tokens of an input that is not given are missing, and items of unknown length are not padded.
    """
    there = [x for x in known.arguments if x.kind != "lengths" and x.name in given]
    high = replace(known, arguments=tuple(there)).high(tuple(given[x.name] for x in there))
    sizes = [given[x.name].shape[0] for x in there if x.kind != "weights"]
    unknown = [name for name in known.lengths if name not in high]
    if unknown or not sizes:
        length = f"length `{unknown[0]}`" if unknown else "the size of the batch"
        refuse("F411", f"{length} does not follow from the inputs", "give an input that has it")
    arguments = []
    for argument in known.arguments:
        if argument.kind == "lengths":
            longest = torch.full((sizes[0],), high[argument.name])
            value = lengths.get(argument.name, longest)
        elif argument.name in given:
            value = given[argument.name]
        elif argument.kind == "tokens":
            value = torch.full(known.extents(argument, sizes[0], high), MISSING)
        else:
            refuse("F411", f"`{argument.name}` is not given")
        arguments.append(value.to(argument.dtype(known.dtype)))
    return tuple(arguments)
