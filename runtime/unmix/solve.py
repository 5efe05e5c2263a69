"""From moments to parameters: unmix, then the algorithm that the structure asks for [ID §5]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fgg.diagnostics import Diagnostic, refuse
from fgg.runtime.memory import require
from fgg.runtime.program.bind import stationary
from fgg.runtime.unmix import spectral
from fgg.runtime.unmix import stationary as roots
from fgg.runtime.unmix.mixing import Mixing, mixing
from fgg.runtime.unmix.moments import Exact, Moments
from fgg.runtime.unmix.result import MOVED, Unmixed
from fgg.runtime.unmix.shapes import Arcs, States
from fgg.runtime.unmix.simplex import project

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program


def solve(
    program: Program,
    shape: States | Arcs,
    moments: Moments,
    max_length: int,
    directions: int,
    seed: int,
) -> Unmixed:
    """The estimate of the base algorithm that the structure asks for."""
    order = 3 if isinstance(shape, States) else 2
    lengths = [n for n in moments.lengths if order <= n <= max_length]
    if not lengths:
        found = ", ".join(map(str, moments.lengths)) or "none"
        message = f"sentences of {order} to {max_length} words are needed; there are {found}"
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
) -> Unmixed:
    require(32 * (number + 1) * shape.words**2, torch.device("cpu"), "slices of moments")
    random = spectral.directions(shape.words, number, seed)
    tried = np.concatenate([np.ones((1, shape.words)), random])
    # Ψ₂ and Ψ₃ say the same of other words: the mean of both varies less than either.
    ways = [
        (weights, turn)
        for target, turn in ((shape.target, False), (shape.transposed, True))
        if (weights := mixed.combination({target: 1.0})) is not None
    ]
    if not ways:
        message = "the moments of sentences of these lengths do not determine the parameters"
        help = "sentences of three words do"
        refuse("F461", message, help)
    found = np.zeros((len(tried), shape.words, shape.words))
    for weights, turn in ways:
        for at, weight in weights.items():
            slices = moments.slices(at, tried)
            found += weight / len(ways) * (np.swapaxes(slices, 1, 2) if turn else slices)
    used = [str(at) for weights, _ in ways for at in weights]
    estimate = spectral.recover(
        found[0], found[1:], tried[1:], shape.states, exact=isinstance(moments, Exact)
    )
    raw = {shape.root: estimate.root, shape.child: estimate.child, shape.emit: estimate.emit}
    facts = {
        "method": "spectral",
        "directions": estimate.directions,
        "complex": estimate.complex,
    }
    return _finished(program, shape, raw, estimate.residual, estimate.gap, mixed, used, facts)


def _stationary(program: Program, shape: Arcs, moments: Moments, mixed: Mixing) -> Unmixed:
    # Every word of a sentence has the stationary distribution.
    pairs = [moments.pair(at) for at in mixed.rows]
    root = np.mean([pair.sum(axis=axis) for pair in pairs for axis in (0, 1)], axis=0)
    estimate = roots.recover(shape, mixed, moments.pair, root, exact=isinstance(moments, Exact))
    used = [str(at) for at in roots.polynomial(mixed, shape).weights]
    facts = {
        "method": "roots",
        "polynomial": roots.text(estimate.polynomial),
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
    except np.linalg.LinAlgError:  # projection made a chain of several parts: what was seen stays
        pass
    return replace(done, weights={shape.root: root, **done.weights})


def _finished(
    program: Program,
    shape: States | Arcs,
    raw: Mapping[str, Any],
    residual: float,
    gap: float,
    mixed: Mixing,
    used: Sequence[str],
    facts: Mapping[str, Any],
) -> Unmixed:
    """The result with its estimate projected to distributions, and a note if that moved it."""
    weights = {name: project(value) for name, value in raw.items()}
    moved = max(float(np.abs(weights[name] - raw[name]).max()) for name in raw)
    notes: tuple[Diagnostic, ...] = ()
    if moved > MOVED:
        message = f"the estimate lies outside the simplex and was projected to it, by {moved:.3g}"
        help = "more sentences bring it nearer; EM from here uses all of them (`refine`)"
        notes = (Diagnostic(code="F464", message=message, help=help),)
    return Unmixed(
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
