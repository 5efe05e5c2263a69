"""The estimate by moment matching, for every grammar that the moments determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgg.diagnostics import Diagnostic, refuse
from fgg.runtime.matching.fit import Matched, Matching, targets_of
from fgg.runtime.matching.model_moments import MomentModel
from fgg.runtime.unmix.alignment import alignment_of
from fgg.runtime.unmix.mixing import Floats
from fgg.runtime.unmix.moments import ExactMoments, SampledMoments
from fgg.runtime.unmix.result import Unmixing

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

IMPROBABLE = 1e-3
"""A fit whose statistic is less probable than this is said to be bad."""
EXACT_RESIDUAL = 1e-7
"""Exact moments are met up to this, or no start has reached them."""


def match(
    program: Program,
    model: MomentModel,
    moments: ExactMoments | SampledMoments,
    first: Sequence[Mapping[str, Floats]],
    observed: str,
    starts: int,
    seed: int,
) -> Unmixing:
    """The parameters whose moments are nearest to those of data or of known weights.

    `first` are estimates to start from, before random ones. Raises GrammarError (F461) if the
    moments do not determine the parameters.
    """
    model.check_size(observed)
    check_rank(model, observed, seed)
    exact = isinstance(moments, ExactMoments)
    if isinstance(moments, ExactMoments):
        targets = {
            n: np.concatenate([moments.joint(n, part.tokens).ravel() for part in each.kept])
            for n, each in model.by_length.items()
        }
        matching = Matching(model, targets, None)
    else:
        numbers = {n: int(moments.distinct[n][1].sum()) for n in model.by_length}
        matching = Matching(model, targets_of(moments, model), numbers)
    alignment = alignment_of(program)
    vectors = [matching.coordinates.vector(_inside(tables)) for tables in first]
    vectors += matching.random_starts(starts, seed)
    fit = matching.run(vectors, alignment, exact=exact)
    place = matching.coordinates.point(matching.coordinates.tables(fit.vector))
    weights = {
        f.name: np.asarray(place.arrays[f.name]) for f in program.parameters if f.value is None
    }
    facts = {
        "method": "moments",
        "moments": observed,
        "lengths": list(model.by_length),
        "count": model.count,
        "starts": fit.starts,
        "reached": fit.reached,
        "solutions": fit.solutions,
        "weighting": fit.weighting,
        "statistic": fit.statistic,
        "freedom": fit.freedom,
        "probability": fit.probability,
        "moment_gradient": fit.gradient,
    }
    used = tuple(f"{observed} of length {n}" for n in model.by_length)
    return Unmixing(
        program,
        alignment,
        weights,
        weights,
        0.0,
        fit.residual,
        None,
        None,
        used,
        facts,
        notes=_notes(fit, exact),
    )


def check_rank(model: MomentModel, observed: str, seed: int) -> None:
    """Raise GrammarError (F461) unless the moments determine the parameters almost everywhere."""
    count = model.parameters.count
    if not count:
        refuse("F461", f"`{model.grammar.name}` has no free parameters")
    rank = model.rank(seed)
    if rank < count:
        lengths = ", ".join(map(str, model.by_length))
        message = (
            f"the moments `{observed}` of sentences of {lengths} words determine {rank:,} of "
            f"{count:,} parameters"
        )
        help = (
            "longer sentences may determine more (`--max-length`); `fggc identify` says which "
            "parameters are not determined, and why"
        )
        refuse("F461", message, help)


def _inside(tables: Mapping[str, Floats]) -> dict[str, Floats]:
    """Tables a little inside the simplex."""
    return {n: 0.99 * t + 0.01 / t.shape[-1] for n, t in tables.items()}


def _notes(fit: Matched, exact: bool) -> tuple[Diagnostic, ...]:
    notes = []
    if exact and fit.residual > EXACT_RESIDUAL:
        message = f"no start reached the moments; the best one misses one by {fit.residual:.2g}"
        notes.append(Diagnostic(code="F466", message=message, help="try more of them: `--starts`"))
    probability = fit.probability
    if probability is not None and probability < IMPROBABLE:
        message = (
            f"the moments do not fit: chi-squared is {fit.statistic:,.1f} with {fit.freedom:,} "
            f"degrees of freedom, which has probability {probability:.1g}"
        )
        help = (
            "the sentences are not those of any model of this kind, or no start has reached "
            "the best one (`--starts`)"
        )
        notes.append(Diagnostic(code="F466", message=message, help=help))
    if fit.solutions > 1:
        message = f"{fit.solutions} different estimates fit the moments equally well"
        help = "moments of longer sentences, or other lengths too, may tell them apart"
        notes.append(Diagnostic(code="F467", message=message, help=help))
    return tuple(notes)
