"""From moments to parameters: the base algorithm of the structure [ID §5], and EM from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, refuse
from fgg.grammar import Factor
from fgg.progress import steps as progress
from fgg.runtime.memory import require
from fgg.runtime.stationary_distribution import stationary
from fgg.runtime.unmix import dep_ies, pcfg_ie
from fgg.runtime.unmix.mixing import Floats, Mixing, mixing, stationary_roots
from fgg.runtime.unmix.moments import ExactMoments, Moments, SampledMoments
from fgg.runtime.unmix.pcfg_ie import project
from fgg.runtime.unmix.result import MOVED, Unmixing
from fgg.runtime.unmix.structure import Arcs, States
from fgg.runtime.unmix.topology import only_input

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

ITEMS = 4096
FLOOR = 1e-2
"""The least weight that EM starts from: it never leaves a weight of 0, and small ones slowly."""


def solve(
    program: Program,
    shape: States | Arcs,
    moments: Moments,
    max_length: int,
    directions: int,
    seed: int,
) -> Unmixing:
    """The estimate by the base algorithm of the grammar's structure."""
    order = 3 if isinstance(shape, States) else 2
    lengths = [n for n in moments.lengths if order <= n <= max_length]
    if not lengths:
        present = ", ".join(map(str, moments.lengths)) or "none"
        message = f"sentences of {order} to {max_length} words are needed; there are {present}"
        refuse("F461", message)
    mixed = mixing(program.grammar, lengths, order=order)
    if isinstance(shape, States):
        return _spectral(program, shape, moments, mixed, directions, seed)
    return _stationary(program, shape, moments, mixed)


def _spectral(
    program: Program,
    shape: States,
    moments: Moments,
    mixed: Mixing,
    number: int,
    seed: int,
) -> Unmixing:
    require(32 * (number + 1) * shape.words**2, torch.device("cpu"), "slices of moments")
    random = pcfg_ie.directions(shape.words, number, seed)
    tried = np.concatenate([np.ones((1, shape.words)), random])
    # Ψ₂ and Ψ₃ hold the same numbers for other words: the mean of both varies less than either.
    ways = [
        (weights, turn)
        for target, turn in ((shape.target, False), (shape.transposed, True))
        if (weights := mixed.combination({target: 1.0})) is not None
    ]
    if not ways:
        message = "the moments of sentences of these lengths do not determine the parameters"
        refuse("F461", message, "sentences of three words do")
    unmixed = np.zeros((len(tried), shape.words, shape.words))
    for weights, turn in ways:
        for at, weight in weights.items():
            slices = moments.slices(at, tried)
            unmixed += weight / len(ways) * (np.swapaxes(slices, 1, 2) if turn else slices)
    used = [str(at) for weights, _ in ways for at in weights]
    estimate = pcfg_ie.recover(
        unmixed[0], unmixed[1:], tried[1:], shape.states, exact=isinstance(moments, ExactMoments)
    )
    raw = {shape.root: estimate.root, shape.child: estimate.child, shape.emit: estimate.emit}
    facts = {
        "method": "spectral",
        "directions": estimate.directions,
        "complex": estimate.complex,
    }
    return _finished(program, shape, raw, estimate.residual, estimate.gap, mixed, used, facts)


def _stationary(program: Program, shape: Arcs, moments: Moments, mixed: Mixing) -> Unmixing:
    # Every word of a sentence has the stationary distribution.
    pairs = [moments.pair(at) for at in mixed.rows]
    root = np.mean([pair.sum(axis=axis) for pair in pairs for axis in (0, 1)], axis=0)
    estimate = dep_ies.recover(
        shape, mixed, moments.pair, root, exact=isinstance(moments, ExactMoments)
    )
    used = [str(at) for at in dep_ies.polynomial(mixed, shape).weights]
    facts = {
        "method": "roots",
        "polynomial": dep_ies.text(estimate.polynomial),
        "choices": estimate.choices,
    }
    done = _finished(
        program,
        shape,
        {shape.arc: estimate.arc},
        estimate.residual,
        estimate.gap,
        mixed,
        used,
        facts,
    )
    try:
        root = stationary(done.weights[shape.arc])
    except np.linalg.LinAlgError:  # projection disconnected the chain: the observed root stays
        pass
    return replace(done, weights={shape.root: root, **done.weights})


def _finished(
    program: Program,
    shape: States | Arcs,
    raw: Mapping[str, Floats],
    residual: float,
    gap: float,
    mixed: Mixing,
    used: Sequence[str],
    facts: Mapping[str, object],
) -> Unmixing:
    """The result with its estimate projected to distributions, and a note if that moved it."""
    weights = {name: project(value) for name, value in raw.items()}
    moved = max(float(np.abs(weights[name] - raw[name]).max()) for name in raw)
    notes: tuple[Diagnostic, ...] = ()
    if moved > MOVED:
        message = f"the estimate lies outside the simplex and was projected to it, by {moved:.3g}"
        help = "more sentences bring it nearer; EM from here uses all of them (`refine`)"
        notes = (Diagnostic(code="F464", message=message, help=help),)
    return Unmixing(
        program,
        shape,
        weights,
        raw,
        moved,
        residual,
        gap,
        mixed,
        tuple(dict.fromkeys(used)),
        facts,
        (),
        notes,
    )


# EM


def refine(
    program: Program,
    weights: Mapping[str, Floats | Tensor],
    data: SampledMoments,
    *,
    steps: int,
    tolerance: float = 1e-9,
) -> tuple[dict[str, Tensor], tuple[float, ...]]:
    """Weights after at most `steps` steps of EM, and the mean log-likelihood before and after each.

    A step normalises the expected counts. A factor that is tied to another one follows it; since
    the counts then do not tell the best weights exactly, a step is halved until it helps.
    """
    factors = {f.name: f for f in program.parameters}
    ties = {name: to for name, to in stationary_roots(program.grammar).items() if name in factors}
    now = {name: _inside(weights[name], factors[name]) for name in factors}
    now = _tied(now, ties)
    level, counts = expected(program, now, data)
    levels = [level]
    for _ in range(steps):
        whole = {n: _normalised(counts[n], now[n], factors[n]) for n in factors if n not in ties}
        size = 1.0
        while size > 1e-3:
            trial = {n: size * whole[n] + (1 - size) * now[n] for n in whole}
            trial = _tied(trial, ties)
            level, trial_counts = expected(program, trial, data)
            if level >= levels[-1]:
                break
            size /= 2
        else:
            break
        now, counts = trial, trial_counts
        levels.append(level)
        if level - levels[-2] < tolerance:
            break
    return now, tuple(levels)


def expected(
    program: Program, weights: Mapping[str, Tensor], data: SampledMoments
) -> tuple[float, dict[str, Tensor]]:
    """The mean log-likelihood of the sentences, and the expected counts of each factor's entries.

    Each different sentence is parsed once: counts are gradients of log Z in log-weights, times how
    often a sentence occurs.
    """
    name, _ = only_input(program.grammar)
    leaves = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
    total, number = 0.0, 0
    for rows, times in progress(data.distinct.values(), "length"):
        number += int(times.sum())
        for start in progress(range(0, len(rows), ITEMS), "batch"):
            batch = torch.from_numpy(rows[start : start + ITEMS])
            often = torch.from_numpy(times[start : start + ITEMS]).double()
            value = (often * program.log_z(leaves, {name: batch})).sum()
            value.backward()  # type: ignore[no-untyped-call]
            total += float(value.detach())
    counts = {
        n: torch.zeros_like(w) if w.grad is None else w.grad * w.detach() for n, w in leaves.items()
    }
    return total / number, counts


def _inside(weights: Floats | Tensor, factor: Factor) -> Tensor:
    """Weights as a tensor, a little inside the simplex."""
    inner = torch.as_tensor(weights, dtype=torch.float64).clamp_min(FLOOR)
    return inner / inner.sum(dim=_axes(inner, factor), keepdim=True)


def _normalised(counts: Tensor, before: Tensor, factor: Factor) -> Tensor:
    """Counts as distributions; the weights from `before` where there are no counts."""
    sums = counts.sum(dim=_axes(counts, factor), keepdim=True)
    return torch.where(sums > 0, counts / sums.clamp_min(1e-300), before)


def _axes(weights: Tensor, factor: Factor) -> tuple[int, ...]:
    return tuple(range(factor.given or 0, weights.dim()))


def _tied(weights: dict[str, Tensor], ties: Mapping[str, str]) -> dict[str, Tensor]:
    tied = {n: torch.from_numpy(stationary(weights[to].numpy())) for n, to in ties.items()}
    return {**weights, **tied}
