"""`unmix` finds the parameters of a latent tree model from moments, without iterating [ID §5].

The moments come from the compiled program or from sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from fgg.diagnostics import Diagnostic, GrammarError, refuse
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from torch import Tensor

    from fgg.runtime.matching.model_moments import MomentModel
    from fgg.runtime.matching.precision import Precision
    from fgg.runtime.program.program import Program
    from fgg.runtime.unmix.mixing import Mixing
    from fgg.runtime.unmix.moments import ExactMoments, Ints, SampledMoments
    from fgg.runtime.unmix.result import Unmixing
    from fgg.runtime.unmix.structure import Structure

DIRECTIONS = 20
MAX_LENGTH = 12
STARTS = 20
METHODS = ("auto", "spectral", "moments")


def unmix(
    grammar: Grammar,
    sentences: Sequence[Sequence[int]] | Mapping[int, object] | None = None,
    *,
    weights: Mapping[str, object] | None = None,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    method: str = "auto",
    moments: str = "***",
    max_length: int = 3,
    directions: int = DIRECTIONS,
    starts: int = STARTS,
    refine: int = 0,
    seed: int = 0,
) -> Unmixing:
    """The parameters of a grammar from moments of sentences, or from exact ones of `weights`.

    Sentences are lists of word numbers, or arrays `[sentences, words]` by their length; those of at
    most `max_length` words are used. `method` is `spectral` (linear algebra, for grammars of a
    known structure, whatever they are called and however their rules are written; others are
    refused, F460), `moments` (weighted moment matching from `starts` random starts, for every
    grammar whose parameters the observation function `moments` determines; others are refused,
    F461), or `auto`: spectral where the grammar has the structure. `refine` is the most steps that
    follow towards the maximum of the likelihood of all sentences.

    Raises GrammarError: F461 where moments do not determine the parameters, F462 and F463 where
    eigenvalues are complex or collide. Notes of the result say that an estimate was projected to
    the simplex (F464), that the likelihood is not maximised (F465), that moments do not fit (F466)
    or that several estimates fit equally well (F467).
    """
    from fgg.api.compile import compile
    from fgg.api.identify import check_moments

    if (sentences is None) == (weights is None):
        raise TypeError("either sentences or weights are expected")
    if method not in METHODS:
        raise TypeError(f"a method is one of {', '.join(METHODS)}, not {method!r}")
    if not 2 <= max_length <= MAX_LENGTH:
        refuse("F415", f"the greatest length is {max_length}; 2 to {MAX_LENGTH} can be unmixed")
    check_moments([moments])
    program = compile(grammar, query, sizes=sizes)
    shape = _shape(program, method)
    data = _data(program, sentences, weights, max_length)
    search = _Search(moments, max_length, directions, starts, seed)
    result = _estimated(grammar, query, sizes, program, shape, data, method, search)
    if refine and sentences is not None:
        return refined(result, cast("SampledMoments", data), refine)
    return result


def _shape(program: Program, method: str) -> Structure | None:
    """The structure of a program's grammar, if linear algebra is to find its parameters.

    Raises GrammarError (F460) if it must have one.
    """
    from fgg.runtime.unmix.structure import Arcs, shape_of

    try:
        shape = shape_of(program.grammar)
    except GrammarError as error:
        if method == "spectral" or error.diagnostics[0].code != "F460":
            raise
        return None
    if method != "moments" and not isinstance(shape, Arcs) and shape.words < shape.states:
        message = f"there are {shape.words} words for {shape.states} states"
        help = (
            "moments of three words distinguish at most as many states as there are words; "
            "longer sentences may: `--method moments --max-length 5`"
        )
        refuse("F461", message, help)
    return shape


def _data(
    program: Program,
    sentences: Sequence[Sequence[int]] | Mapping[int, object] | None,
    weights: Mapping[str, object] | None,
    max_length: int,
) -> ExactMoments | SampledMoments:
    from fgg.runtime.unmix.moments import ExactMoments
    from fgg.runtime.unmix.topology import only_input

    only_input(program.grammar)
    if sentences is None:
        lengths = tuple(range(2, max_length + 1))
        return ExactMoments(program, checked(program, weights or {}), lengths)
    return _sentences(program, sentences)


def _sentences(
    program: Program, sentences: Sequence[Sequence[int]] | Mapping[int, object]
) -> SampledMoments:
    from fgg.grammar.domains import domain_size
    from fgg.runtime.unmix.moments import sampled

    return sampled(sentences, domain_size(program.grammar, program.grammar.inputs[0].domain))


@dataclass(frozen=True)
class _Search:
    """What is matched, and from where."""

    moments: str
    max_length: int
    directions: int
    starts: int
    seed: int


def _estimated(
    grammar: Grammar,
    query: str | None,
    sizes: Mapping[str, int] | None,
    program: Program,
    shape: Structure | None,
    data: ExactMoments | SampledMoments,
    method: str,
    search: _Search,
) -> Unmixing:
    """The estimate by linear algebra or by moment matching."""
    from fgg.runtime.unmix.solve import solve

    if method == "moments" or shape is None:
        return _matched(grammar, query, sizes, program, shape, data, search)
    return solve(program, shape, data, search.max_length, search.directions, search.seed)


def _matched(
    grammar: Grammar,
    query: str | None,
    sizes: Mapping[str, int] | None,
    program: Program,
    shape: Structure | None,
    data: ExactMoments | SampledMoments,
    search: _Search,
) -> Unmixing:
    """The estimate by moment matching, from the spectral one if there is one."""
    from fgg.runtime.matching.estimate import match
    from fgg.runtime.unmix.solve import solve

    lengths = [n for n in data.lengths if n <= search.max_length]
    model = moment_model_of(grammar, query, sizes, lengths, search.moments)
    first = []
    if shape is not None:
        try:
            spectral = solve(
                program, shape, data, search.max_length, search.directions, search.seed
            )
            first.append(spectral.weights)
        except GrammarError:  # too few sentences, or complex numbers: random starts are left
            pass
    return match(program, model, data, first, search.moments, search.starts, search.seed)


def moment_model_of(
    grammar: Grammar,
    query: str | None,
    sizes: Mapping[str, int] | None,
    lengths: Sequence[int],
    moments: str,
) -> MomentModel:
    """The moments of a grammar as differentiable functions of its parameters.

    Raises GrammarError: F450 for factors that are not normalised, F461 if no length has moments.
    """
    from fgg.api.identify import model_of
    from fgg.runtime.matching.model_moments import moment_model

    model = model_of(grammar, query, sizes)
    return moment_model(model.grammar, model.plan, model.parameters, lengths, moments)


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


def precision(
    grammar: Grammar,
    weights: Mapping[str, object],
    lengths: Mapping[int, float] | Sequence[int] = (3,),
    *,
    sentences: Sequence[Sequence[int]] | Mapping[int, object] | None = None,
    moments: str | None = None,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Precision:
    """How precise estimates near `weights` are: standard errors, and how many sentences are needed.

    By default that of the greatest likelihood, by the Fisher information of sentences of some
    lengths, with their shares if `lengths` is a mapping. The information is a sum over all
    sentences; with `sentences`, over products of their scores. With `moments` it is the precision
    of moment matching. Raises GrammarError: F420 for too many sentences, F461 where the parameters
    have no standard errors.
    """
    from fgg.api.compile import compile
    from fgg.runtime.matching import precision as measures

    program = compile(grammar, query, sizes=sizes)
    tensors = checked(program, weights)
    values = {f.name: tensors[f.name].numpy() for f in program.parameters if f.value is None}
    if sentences is not None:
        data = _sentences(program, sentences)
        model = moment_model_of(grammar, query, sizes, data.lengths, "all")
        return measures.observed_precision(model, values, data)
    given = lengths if isinstance(lengths, Mapping) else dict.fromkeys(lengths, 1.0)
    whole = sum(given.values())
    if not given or min(given.values()) < 0 or not 0 < whole < float("inf"):
        refuse("F415", "shares of lengths are positive numbers")
    shares = {length: share / whole for length, share in given.items() if share}
    model = moment_model_of(grammar, query, sizes, tuple(shares), moments or "all")
    if moments is None:
        return measures.precision(model, values, shares)
    kept = {n: share for n, share in shares.items() if n in model.by_length}
    return measures.matched_precision(model, values, kept)


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
    method: str = "auto",
    lengths: Sequence[int] = (),
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> tuple[CurvePoint, ...]:
    """How the greatest error of the estimate falls as sentences grow in number.

    Sentences have the lengths that the structure needs, if `lengths` names no others: three words,
    or two and three; there are `numbers` of each. Raises GrammarError if the grammar cannot be
    unmixed.
    """
    from fgg.api.compile import compile
    from fgg.runtime.unmix.moments import ExactMoments
    from fgg.runtime.unmix.moments import draw as drawn
    from fgg.runtime.unmix.structure import Arcs

    program = compile(grammar, query, sizes=sizes)
    shape = _shape(program, method)
    chosen = tuple(lengths) or ((2, 3) if isinstance(shape, Arcs) else (3,))
    truth = checked(program, weights)
    exact = ExactMoments(program, truth, chosen)
    points = []
    for number in numbers:
        plain: list[float] = []
        after: list[float] = []
        for turn in range(draws):
            own = {n: drawn(exact, n, number, seed + 1000 * turn + n) for n in chosen}
            data = _sentences(program, cast("Mapping[int, object]", own))
            search = _Search("***", max(chosen), DIRECTIONS, STARTS, seed + turn)
            try:
                result = _estimated(grammar, query, sizes, program, shape, data, method, search)
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
