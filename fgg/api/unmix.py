"""`unmix` finds the parameters of a latent tree model from moments, without iterating [ID §5].

The moments come from the compiled program or from sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fgg.diagnostics import Diagnostic, GrammarError, refuse
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from torch import Tensor

    from fgg.runtime.program.program import Program
    from fgg.runtime.unmix.mixing import Mixing
    from fgg.runtime.unmix.moments import Ints, Moments, SampledMoments
    from fgg.runtime.unmix.result import Unmixing

DIRECTIONS = 20
MAX_LENGTH = 12


def unmix(
    grammar: Grammar,
    sentences: Sequence[Sequence[int]] | Mapping[int, object] | None = None,
    *,
    weights: Mapping[str, object] | None = None,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    max_length: int = 3,
    directions: int = DIRECTIONS,
    refine: int = 0,
    seed: int = 0,
) -> Unmixing:
    """The parameters of a grammar from moments of sentences, or from exact ones of `weights`.

    Sentences are lists of word numbers, or arrays `[sentences, words]` by their length; those of at
    most `max_length` words are used. Works for grammars with the structure of PCFG-IE (with as many
    words as states, or more) and of DEP-IES, whatever they are called and however their rules are
    written; all others are refused (F460). `refine` is the most steps that follow towards the
    maximum of the likelihood of all sentences. Raises GrammarError: F461 where moments do not
    determine the parameters, F462 and F463 where eigenvalues are complex or collide. Estimates
    outside the simplex are projected to it, with a note (F464).
    """
    from fgg.api.compile import compile
    from fgg.runtime.unmix.moments import ExactMoments, SampledMoments, sampled
    from fgg.runtime.unmix.solve import solve
    from fgg.runtime.unmix.structure import States, shape_of

    if (sentences is None) == (weights is None):
        raise TypeError("either sentences or weights are expected")
    if not 2 <= max_length <= MAX_LENGTH:
        refuse("F415", f"the greatest length is {max_length}; 2 to {MAX_LENGTH} can be unmixed")
    program = compile(grammar, query, sizes=sizes)
    shape = shape_of(program.grammar)
    if isinstance(shape, States) and shape.words < shape.states:
        message = f"there are {shape.words} words for {shape.states} states"
        help = "moments of three words distinguish at most as many states as there are words"
        refuse("F461", message, help)
    moments: Moments
    if sentences is None:
        lengths = tuple(range(2, max_length + 1))
        moments = ExactMoments(program, checked(program, weights or {}), lengths)
    else:
        moments = sampled(sentences, shape.words)
    solved = solve(program, shape, moments, max_length, directions, seed)
    if refine and isinstance(moments, SampledMoments):
        return refined(solved, moments, refine)
    return solved


def refined(result: Unmixing, data: SampledMoments, steps: int) -> Unmixing:
    """A result nearer to the maximum of the likelihood of all sentences, by at most `steps` steps.

    A note (F465) says so where these end before the gradient is as good as zero.
    """
    from fgg.runtime.unmix.likelihood import GRADIENT, refine

    climb = refine(result.program, result.weights, data, steps=steps)
    weights = {name: climb.weights[name].detach().numpy() for name in result.weights}
    notes = result.notes
    if climb.gradient > GRADIENT:
        taken = len(climb.levels) - 1
        message = (
            f"after {taken:,} {'step' if taken == 1 else 'steps'} the gradient of the mean "
            f"log-likelihood is {climb.gradient:.1g}, not {GRADIENT:.0e}"
        )
        help = "more steps bring the estimate nearer to the maximum: `--refine 1000`"
        notes = (*notes, Diagnostic(code="F465", message=message, help=help))
    return replace(
        result, weights=weights, levels=climb.levels, gradient=climb.gradient, notes=notes
    )


def checked(program: Program, weights: Mapping[str, object]) -> dict[str, Tensor]:
    """Weights in float64, each a distribution. Raises GrammarError (F417)."""
    import torch

    tensors = program.weights(weights, dtype=torch.float64)
    for factor in program.parameters:
        given = factor.given
        axes = tuple(range(given or 0, len(factor.domains)))
        sums = tensors[factor.name].sum(dim=axes)
        if given is None or float((sums - 1).abs().max()) > 1e-6:
            refuse("F417", f"weights for `{factor.name}` are not distributions")
    return tensors


def draw(
    grammar: Grammar,
    weights: Mapping[str, object],
    length: int,
    number: int,
    *,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Ints:
    """Independent sentences of one length as word numbers, `[number, length]`.

    They come from the table of all sentences of this length, so large ones are refused (F420); a
    million sentences of three words take no time.
    """
    from fgg.api.compile import compile
    from fgg.runtime.unmix.moments import ExactMoments
    from fgg.runtime.unmix.moments import draw as drawn

    program = compile(grammar, query, sizes=sizes)
    return drawn(ExactMoments(program, checked(program, weights), (length,)), length, number, seed)


def mixing_matrix(
    grammar: Grammar, max_length: int, *, order: int = 3, query: str | None = None
) -> Mixing:
    """The mixing matrix of a grammar, all lengths up to the greatest combined [ID eq. 4].

    Any grammar will do whose derivations are trees of nodes, each drawn given one other.
    """
    from fgg.api.compile import selected
    from fgg.runtime.unmix.mixing import mixing

    return mixing(selected(grammar, query), range(order, max_length + 1), order=order)


@dataclass(frozen=True)
class CurvePoint:
    """The error with a number of sentences: the median over draws, before and after EM.

    `failed` is the number of draws with complex eigenvalues (F462); they count as no estimate.
    """

    sentences: int
    error: float
    refined: float
    failed: int


def curve(
    grammar: Grammar,
    weights: Mapping[str, object],
    numbers: Sequence[int],
    *,
    draws: int = 5,
    refine: int = 0,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> tuple[CurvePoint, ...]:
    """How the greatest error of the estimate falls as sentences grow in number.

    Sentences have the lengths that the structure needs: three words, or two and three, and there
    are `numbers` of each. Raises GrammarError if the grammar cannot be unmixed.
    """
    from fgg.api.compile import compile
    from fgg.runtime.unmix.moments import ExactMoments, sampled
    from fgg.runtime.unmix.moments import draw as drawn
    from fgg.runtime.unmix.solve import solve
    from fgg.runtime.unmix.structure import States, shape_of

    program = compile(grammar, query, sizes=sizes)
    shape = shape_of(program.grammar)
    lengths = (3,) if isinstance(shape, States) else (2, 3)
    truth = checked(program, weights)
    exact = ExactMoments(program, truth, lengths)
    points = []
    for number in numbers:
        plain: list[float] = []
        after: list[float] = []
        for turn in range(draws):
            drawn_sentences = {n: drawn(exact, n, number, seed + 1000 * turn + n) for n in lengths}
            data = sampled(drawn_sentences, shape.words)
            try:
                result = solve(program, shape, data, 3, DIRECTIONS, seed + turn)
            except GrammarError as error:
                if error.diagnostics[0].code not in ("F461", "F462"):
                    raise
                continue
            plain.append(result.error(truth))
            after.append(refined(result, data, refine).error(truth) if refine else plain[-1])
        points.append(CurvePoint(number, _median(plain), _median(after), draws - len(plain)))
    return tuple(points)


def _median(values: Sequence[float]) -> float:
    from statistics import median

    return median(values) if values else float("nan")
