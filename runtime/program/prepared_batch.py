"""A batch ready for its charts: weights and inputs checked, parameters and evidence prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.inputs.tokens import IMPOSSIBLE, MISSING
from fgg.plan import Cut, Gather, Plan, TokenAxis
from fgg.progress import levels
from fgg.runtime.devices import check_kind
from fgg.runtime.layer.precision import HALF, full_precision
from fgg.runtime.memory import require
from fgg.runtime.prelude.batch import Batch
from fgg.runtime.prelude.certificate import least_power
from fgg.runtime.prelude.scaled import ROOM
from fgg.runtime.program.emitted import Prepares
from fgg.runtime.program.inputs import Collated, Inputs, Lengths
from fgg.runtime.program.parameters import Ends, as_weight

if TYPE_CHECKING:
    from fgg.runtime.program.emitted import Engine, Made
    from fgg.runtime.program.program import CompiledProgram, Weights


@dataclass(frozen=True, eq=False)
class Run:
    """A batch ready for its charts.

    `weights` are those of the factors that the plan reads. `tensors` are copies of weights and
    log-potentials, `leaves` the tensors prepared from them: derivatives go back through leaves to
    the `sources`. `scales` are the powers of two taken out of leaves. Leaves are in the graph of
    derivatives, unless machine code `made` them. `engine` carries out all passes over this batch.
    """

    program: CompiledProgram
    weights: Mapping[str, Tensor]
    collated: Collated
    batch: Batch
    tensors: Mapping[str, Tensor]
    sources: tuple[Tensor, ...]
    leaves: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]
    engine: Engine
    made: Made | None = None
    # The least and the greatest entry of leaves, as far as they are known.
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # The factors whose weights are products of pieces, and these pieces.
    joined: Mapping[str, tuple[Tensor, ...]] = field(default_factory=dict)
    # Whether derivatives in weights that are 0 are asked for.
    limits: bool = True

    @cached_property
    def passing(self) -> frozenset[str]:
        """The leaves that derivatives go back through."""
        if self.made is not None:
            return frozenset(self.leaves) - self.made.constants
        return frozenset(name for name, leaf in self.leaves.items() if leaf.requires_grad)

    @full_precision
    def through_leaves(self, slopes: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The derivatives in weights and log-potentials, from those in leaves."""
        if not slopes:
            return {}
        sources = {name: x for name, x in self.tensors.items() if x.requires_grad}
        if self.made is not None:
            return self.made.through(slopes, sources)
        grads = torch.autograd.grad(
            [self.leaves[name] for name in slopes],
            list(sources.values()),
            list(slopes.values()),
            allow_unused=True,
            retain_graph=True,
        )
        return {n: grad for n, grad in zip(sources, grads, strict=True) if grad is not None}

    def in_type(self, dtype: torch.dtype) -> Mapping[str, Tensor]:
        """The weights in a type; products of pieces are made in it."""
        if dtype == self.batch.dtype or not self.joined:
            return self.weights
        pieces = {
            piece: x.detach().to(dtype)
            for name, some in self.joined.items()
            for piece, x in zip(self.program.pieces(name), some, strict=True)
        }
        return {**self.weights, **self.program.whole(pieces, self.joined)}

    def loses_pieces(self, dtype: torch.dtype) -> bool:
        """Whether products of pieces may be too small or too large for a type."""
        return any(out_of_range(some, dtype) for some in self.joined.values())

    def piece_logs(self) -> dict[str, Tensor] | None:
        """The logarithms of products of pieces, if products would lose some."""
        if not self.loses_pieces(torch.float64):
            return None
        return {
            name: log_product([x.detach().double().log() for x in some])
            for name, some in self.joined.items()
        }


@full_precision
def start(
    program: CompiledProgram,
    weights: Weights,
    inputs: Inputs,
    lengths: Lengths,
    *,
    any_space: bool = False,
) -> Run:
    """Check weights and inputs, and prepare everything that comes before the charts.

    With `any_space`, the program is that of the cheapest space for the batch, if `auto` chooses.
    """
    ends: dict[str, Ends] = {}
    given = {name: as_weight(name, value) for name, value in weights.items()}
    for weight in given.values():
        check_kind(weight.device)
    dtype, device = number_type([*given.values(), *(inputs or {}).values()])
    collated = program.collate(inputs, lengths, dtype=dtype, device=device)
    suited = suited_to(program, collated)
    if any_space:
        suited = suited.in_cheapest_space(collated, given)
    whole = suited.check_weights(given, ends)
    run = prepared(suited, whole, collated, dtype, device, ends)
    pieces = {
        name: tuple(given[piece] for piece in program.pieces(name))
        for name in whole
        if name not in given
    }
    return replace(run, joined=pieces) if pieces else run


def number_type(values: Sequence[object]) -> tuple[torch.dtype, torch.device | None]:
    """The type and device of the first tensor of real numbers; float64 if there is none."""
    for value in values:
        if isinstance(value, Tensor) and value.is_floating_point():
            return torch.float32 if value.dtype in HALF else value.dtype, value.device
    return torch.float64, None


def suited_to(program: CompiledProgram, collated: Collated) -> CompiledProgram:
    """The program for a batch: another one if tokens are missing that the plan needs to know."""
    known = program.plan.known if collated.missing else ()
    missing = any(bool((collated.inputs[name] == MISSING).any()) for name in known)
    return program.summing if missing else program


@full_precision
def prepared(
    program: CompiledProgram,
    weights: Mapping[str, Tensor],
    collated: Collated,
    dtype: torch.dtype,
    device: torch.device | None,
    ends: Mapping[str, Ends] | None = None,
    *,
    passes: bool = True,
) -> Run:
    """Prepare a batch from checked weights of whole factors and collated inputs.

    `ends` are the least and greatest weights, as far as they are known. Without `passes`, none
    over this batch is to come.
    """
    plan = program.plan
    place = device or torch.device("cpu")
    needed = program.bytes_of(collated.lengths, collated.size, dtype, place)
    require(needed, place, "this batch")
    tables = {t.name: collated.inputs[t.name] for t in program.grammar.tables}
    batch = Batch(collated.size, dict(collated.lengths), tables, dtype, place)
    batch.levels = levels
    potentials = {n: collated.inputs[n] for n in program.grammar.input_factor}
    sources = {**weights, **potentials}
    # What is prepared has a graph of its own, from copies: so its memory is the charts' only.
    tensors = {n: t.detach().requires_grad_(t.requires_grad) for n, t in sources.items()}
    known = _leaf_ends(plan, ends or {}, collated)
    engine = (
        program.module
        if not passes
        else program.engines.of(
            batch, derivatives=any(source.requires_grad for source in sources.values())
        )
    )
    made = engine.make_leaves(batch, tensors, collated) if isinstance(engine, Prepares) else None
    if made is None:
        leaves, scales = program.module.prepare(
            {n: tensors[n] for n in weights},
            {**collated.inputs, **{n: tensors[n] for n in potentials}},
            batch,
            collated.missing,
        )
    else:
        leaves, scales, known = made.leaves, made.scales, {**known, **made.ends}
    return Run(
        program=program,
        weights=dict(weights),
        collated=collated,
        batch=batch,
        tensors=tensors,
        sources=tuple(sources.values()),
        leaves=leaves,
        scales=scales,
        engine=engine,
        made=made,
        ends=known,
    )


def _leaf_ends(plan: Plan, ends: Mapping[str, Ends], collated: Collated) -> dict[str, Ends]:
    """Bounds of the entries of leaves that are parts of factors without zeros."""
    known = {name: ends[name] for name in plan.parameters if ends.get(name, (0, 0))[0] > 0}
    for step in plan.preparations if known else ():
        if isinstance(step, Cut | Gather) and step.source in known:
            # A token that has no entry makes zeros, one that is missing a sum.
            if isinstance(step, Cut) or all(_is_plain(t, collated) for t in step.tokens):
                known[step.name] = known[step.source]
    return known


def _is_plain(token: TokenAxis, collated: Collated) -> bool:
    """Whether a table's entries are those of an input's tokens as they are, and all are there."""
    if token.path or any(token.shift) or collated.missing:
        return False
    return not bool((collated.inputs[token.input] == IMPOSSIBLE).any())


def out_of_range(pieces: Sequence[Tensor], dtype: torch.dtype) -> bool:
    """Whether products of the entries of pieces may be too small or too large for a type."""
    some = [x.detach() for x in pieces if x.numel()]
    low = sum(min(float(least_power(x, None)), 0.0) for x in some)
    high = sum(max(log2(float(x.amax())), 0.0) if float(x.amax()) > 0 else 0.0 for x in some)
    room = ROOM[dtype]
    return low < room.least + 2 or high + log2(pieces[0].shape[-1] + 1) > -room.least


def log_product(pieces: Sequence[Tensor]) -> Tensor:
    """The logarithms of a factor's weights, from those of its pieces."""
    first, *rest = pieces
    rank = first.shape[-1]
    total = first.movedim(-1, 0)  # [rank, *left]
    for piece in rest:  # [rank, values]
        total = total.unsqueeze(-1) + piece.reshape(rank, *(1,) * (total.dim() - 1), -1)
    return torch.logsumexp(total, 0)
