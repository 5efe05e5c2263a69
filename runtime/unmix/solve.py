"""From moments to parameters: the base algorithm of the structure [ID §5]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from fgg.diagnostics import Diagnostic, refuse
from fgg.runtime.memory import require
from fgg.runtime.stationary_distribution import stationary
from fgg.runtime.unmix import dep_ies, pcfg_ie, three_views
from fgg.runtime.unmix.alignment import alignment_of
from fgg.runtime.unmix.backbone import Backbone
from fgg.runtime.unmix.mixing import Floats, Mixing, mixing
from fgg.runtime.unmix.moments import ExactMoments, Moments
from fgg.runtime.unmix.pcfg_ie import project
from fgg.runtime.unmix.result import MOVED, Unmixing
from fgg.runtime.unmix.structure import Arcs, States, Structure
from fgg.runtime.unmix.three_views import Views

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program


def solve(
    program: Program,
    shape: Structure,
    moments: Moments,
    max_length: int,
    directions: int,
    seed: int,
) -> Unmixing:
    """The estimate by the base algorithm of the grammar's structure."""
    order = 2 if isinstance(shape, Arcs) else 3
    lengths = [n for n in moments.lengths if order <= n <= max_length]
    if not lengths:
        present = ", ".join(map(str, moments.lengths)) or "none"
        message = f"sentences of {order} to {max_length} words are needed; there are {present}"
        refuse("F461", message)
    mixed = mixing(program.grammar, lengths, order=order)
    if isinstance(shape, States):
        return _spectral(program, shape, moments, mixed, directions, seed)
    if isinstance(shape, Views):
        return _three_views(program, shape, moments, mixed, directions, seed)
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
    # Ψ₂ and Ψ₃ hold the same numbers for other words.
    unmixed, used = _unmixed(shape.target, moments, mixed, tried)
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


def _three_views(
    program: Program,
    shape: Views,
    moments: Moments,
    mixed: Mixing,
    number: int,
    seed: int,
) -> Unmixing:
    require(32 * (number + 2) * shape.words**2, torch.device("cpu"), "slices of moments")
    random = pcfg_ie.directions(shape.words, number, seed)
    ones = np.ones((1, shape.words))
    unmixed, used = _unmixed(shape.target, moments, mixed, np.concatenate([ones, random]))
    pair, more = _unmixed(shape.pair, moments, mixed, ones)
    exact = isinstance(moments, ExactMoments)
    estimate = three_views.recover(shape, unmixed[0], unmixed[1:], pair[0], random, exact=exact)
    facts = {
        "method": "three views",
        "directions": estimate.directions,
        "complex": estimate.complex,
    }
    raw = estimate.weights
    return _finished(
        program, shape, raw, estimate.residual, estimate.gap, mixed, [*used, *more], facts
    )


def _unmixed(
    target: Backbone, moments: Moments, mixed: Mixing, directions: Floats
) -> tuple[Floats, list[str]]:
    """A compound parameter for each direction of its third word, and the observations it is of.

    Its transpose may be determined, too: the mean of both varies less than either.
    """
    ways = [
        (weights, turn)
        for backbone, turn in ((target, False), (target.renamed({1: 2, 2: 1}), True))
        if (weights := mixed.combination({backbone: 1.0})) is not None
    ]
    if not ways:
        message = "the moments of sentences of these lengths do not determine the parameters"
        refuse("F461", message, "sentences of three words do")
    words = directions.shape[1]
    unmixed = np.zeros((len(directions), words, words))
    for weights, turn in ways:
        for at, weight in weights.items():
            slices = moments.slices(at, directions)
            unmixed += weight / len(ways) * (np.swapaxes(slices, 1, 2) if turn else slices)
    return unmixed, [str(at) for weights, _ in ways for at in weights]


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
    shape: Structure,
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
        alignment_of(program),
        weights,
        raw,
        moved,
        residual,
        gap,
        mixed,
        tuple(dict.fromkeys(used)),
        facts,
        notes=notes,
    )
