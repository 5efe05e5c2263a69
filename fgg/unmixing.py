"""Unmixing: the parameters of a latent tree model from moments, without iterating [ID §5].

Joins all three layers: moments come from the compiled program or from sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.runtime.identify.unmix.mixing import Mixing
    from fgg.runtime.identify.unmix.moments import Moments, Sampled
    from fgg.runtime.identify.unmix.shapes import Arcs, States
    from fgg.runtime.program import Program

DIRECTIONS = 20
MAX_LENGTH = 12
MOVED = 1e-6
"""An estimate that is this near to distributions is one, up to rounding."""


@dataclass(frozen=True, eq=False)
class Unmixed:
    """Estimated weights, and how they came about.

    `weights` are distributions. `raw` is what the moments say, which may lie outside the simplex by
    `moved`. `residual` is the greatest error of the moments that were used, `gap` the least
    relative distance of eigenvalues. `levels` are the mean log-likelihoods of the steps of EM.
    """

    program: Program
    shape: States | Arcs
    weights: Mapping[str, Any]
    raw: Mapping[str, Any]
    moved: float
    residual: float
    gap: float
    mixing: Mixing
    used: tuple[str, ...]
    facts: Mapping[str, Any]
    levels: tuple[float, ...] = ()
    notes: tuple[Diagnostic, ...] = ()

    def aligned(self, truth: Mapping[str, Any]) -> dict[str, Any]:
        """The weights with their states in the order of others: states have no names."""
        from fgg.runtime.identify.unmix.matching import aligned

        return aligned(self.shape, self.weights, truth)

    def errors(self, truth: Mapping[str, Any]) -> dict[str, float]:
        """The greatest error of each factor, states being matched."""
        from fgg.runtime.identify.unmix.matching import errors

        return errors(self.aligned(truth), truth)

    def error(self, truth: Mapping[str, Any]) -> float:
        """The greatest error of all."""
        return max(self.errors(truth).values())

    def as_json(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {
            "method": self.facts["method"],
            "weights": {name: value.tolist() for name, value in self.weights.items()},
            "raw": {name: value.tolist() for name, value in self.raw.items()},
            "projected": self.moved > MOVED,
            "moved": self.moved,
            "residual": self.residual,
            "gap": self.gap,
            "mixing": {
                "rows": len(self.mixing.rows),
                "columns": len(self.mixing.columns),
                "rank": self.mixing.rank,
                "used": list(self.used),
            },
            **{name: value for name, value in self.facts.items() if name != "method"},
            "log_likelihoods": list(self.levels),
        }


def unmix(
    grammar: Grammar,
    sentences: Sequence[Sequence[int]] | Mapping[int, Any] | None = None,
    *,
    weights: Mapping[str, Any] | None = None,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    max_length: int = 3,
    directions: int = DIRECTIONS,
    refine: int = 0,
    seed: int = 0,
) -> Unmixed:
    """The parameters of a grammar from moments of sentences, or from exact ones of `weights`.

    Sentences are lists of word numbers, or arrays `[sentences, words]` by their length; those of at
    most `max_length` words are used. Works for grammars with the structure of PCFG-IE (with as many
    words as states, or more) and of DEP-IES, whatever they are called and however their rules are
    written; all others are refused (F460). `refine` is the most steps of EM that follow, on all sentences.
    Raises GrammarError: F461 where moments do not determine the parameters, F462 and F463 where
    eigenvalues are complex or collide. Estimates outside the simplex are projected to it, with a
    note (F464).
    """
    from fgg.compiling import compile
    from fgg.runtime.identify.unmix.moments import Exact, Sampled, sampled
    from fgg.runtime.identify.unmix.shapes import States, shape_of

    if (sentences is None) == (weights is None):
        raise TypeError("either sentences or weights are expected")
    if not 2 <= max_length <= MAX_LENGTH:
        message = f"the greatest length is {max_length}; 2 to {MAX_LENGTH} can be unmixed"
        raise GrammarError([Diagnostic(code="F415", message=message)])
    program = compile(grammar, query, sizes=sizes)
    shape = shape_of(program.grammar)
    if isinstance(shape, States) and shape.words < shape.states:
        message = f"there are {shape.words} words for {shape.states} states"
        help = "from moments of three words, as many states as words can be told apart"
        raise GrammarError([Diagnostic(code="F461", message=message, help=help)])
    moments: Moments
    if sentences is None:
        lengths = tuple(range(2, max_length + 1))
        moments = Exact(program, checked(program, weights or {}), lengths)
    else:
        moments = sampled(sentences, shape.words)
    solved = solve(program, shape, moments, max_length, directions, seed)
    if refine and isinstance(moments, Sampled):
        return refined(solved, moments, refine)
    return solved


def solve(
    program: Program,
    shape: States | Arcs,
    moments: Moments,
    max_length: int,
    directions: int,
    seed: int,
) -> Unmixed:
    """The estimate of the base algorithm that the structure asks for."""
    from fgg.runtime.identify.unmix.mixing import mixing
    from fgg.runtime.identify.unmix.shapes import States

    order = 3 if isinstance(shape, States) else 2
    lengths = [n for n in moments.lengths if order <= n <= max_length]
    if not lengths:
        found = ", ".join(map(str, moments.lengths)) or "none"
        message = f"sentences of {order} to {max_length} words are needed; there are {found}"
        raise GrammarError([Diagnostic(code="F461", message=message)])
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
    import numpy as np

    from fgg.runtime.identify.unmix.moments import Exact
    from fgg.runtime.identify.unmix.spectral import directions, recover

    tried = np.concatenate([np.ones((1, shape.words)), directions(shape.words, number, seed)])
    found = np.zeros((len(tried), shape.words, shape.words))
    used: list[str] = []
    # Ψ₂ and Ψ₃ say the same of other words: the mean of both varies less.
    for target, turn in ((shape.target, False), (shape.transposed, True)):
        weights = mixed.combination({target: 1.0})
        if weights is None:
            message = "the moments of sentences of these lengths do not determine the parameters"
            help = "sentences of three words do"
            raise GrammarError([Diagnostic(code="F461", message=message, help=help)])
        for at, weight in weights.items():
            slices = moments.slices(at, tried)
            found += weight / 2 * (np.swapaxes(slices, 1, 2) if turn else slices)
        used += [str(at) for at in weights]
    estimate = recover(
        found[0], found[1:], tried[1:], shape.states, exact=isinstance(moments, Exact)
    )
    raw = dict(
        zip(
            (shape.root, shape.child, shape.emit),
            (estimate.root, estimate.child, estimate.emit),
            strict=True,
        )
    )
    facts = {
        "method": "spectral",
        "directions": estimate.directions,
        "complex": estimate.complex,
    }
    return _finished(program, shape, raw, estimate.residual, estimate.gap, mixed, used, facts)


def _stationary(program: Program, shape: Arcs, moments: Moments, mixed: Mixing) -> Unmixed:
    import numpy as np

    from fgg.runtime.identify.unmix.moments import Exact
    from fgg.runtime.identify.unmix.stationary import polynomial, recover, text
    from fgg.runtime.weights import stationary

    lengths = sorted(mixed.topologies)
    # Every word of a sentence has the stationary distribution.
    root = np.mean([moments.word(n) for n in lengths], axis=0)
    estimate = recover(shape, mixed, moments.pair, root, exact=isinstance(moments, Exact))
    used = [str(at) for at in polynomial(mixed, shape).weights]
    facts = {
        "method": "roots",
        "polynomial": text(estimate.polynomial),
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
    own = {shape.root: stationary(done.weights[shape.arc]), **done.weights}
    return replace(done, weights=own)


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
    import numpy as np

    from fgg.runtime.identify.unmix.simplex import project

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


def refined(result: Unmixed, data: Sampled, steps: int) -> Unmixed:
    """A result after at most so many steps of EM on all sentences."""
    from fgg.runtime.identify.unmix.refine import refine

    weights, levels = refine(result.program, result.weights, data, steps=steps)
    own = {name: weights[name].detach().numpy() for name in result.weights}
    return replace(result, weights=own, levels=levels)


def checked(program: Program, weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights in float64, each a distribution. Raises GrammarError (F417)."""
    import torch

    found = program.weights(weights, dtype=torch.float64)
    for factor in program.parameters:
        given = factor.given
        axes = tuple(range(given or 0, len(factor.domains)))
        sums = found[factor.name].sum(dim=axes)
        if given is None or float((sums - 1).abs().max()) > 1e-6:
            message = f"weights for `{factor.name}` are not distributions"
            raise GrammarError([Diagnostic(code="F417", message=message)])
    return found


def draw(
    grammar: Grammar,
    weights: Mapping[str, Any],
    length: int,
    number: int,
    *,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Any:
    """Independent sentences of one length as word numbers, `[number, length]`.

    They come from the table of all sentences of this length, so large ones are refused (F420); a
    million sentences of three words take no time.
    """
    from fgg.compiling import compile
    from fgg.runtime.identify.unmix.moments import Exact
    from fgg.runtime.identify.unmix.moments import draw as drawn

    program = compile(grammar, query, sizes=sizes)
    return drawn(Exact(program, checked(program, weights), (length,)), length, number, seed)


def mixing_matrix(
    grammar: Grammar, max_length: int, *, order: int = 3, query: str | None = None
) -> Mixing:
    """The mixing matrix of a grammar, all lengths up to the greatest combined [ID eq. 4].

    Any grammar will do whose derivations are trees of nodes, each drawn given one other.
    """
    from fgg.compiling import selected
    from fgg.runtime.identify.unmix.mixing import mixing

    return mixing(selected(grammar, query), range(order, max_length + 1), order=order)
