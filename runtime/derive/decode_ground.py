"""Derivations of ground grammars by the reference engine: the best, the k best, and draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.progress import steps
from fgg.rewrite.factorise import Factorised
from fgg.runtime.derive import search
from fgg.runtime.derive.assemble import ground_derivation, small_fragments
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.ground_choices import GroundChoices
from fgg.runtime.program.bind import bind_with_logs
from fgg.runtime.reference.solve import solve

Weights = Mapping[str, object]

MAX_STEPS = 1_000_000
"""The most steps of a best derivation."""


class _Search:
    """A grammar of small fragments, and the choices it has with values in a semiring."""

    def __init__(
        self,
        grammar: Grammar,
        semiring: str,
        weights: Weights | None,
        seed: int | None,
    ) -> None:
        self.grammar = grammar
        self.small: Factorised = small_fragments(grammar)
        bound = bind_with_logs(grammar, weights, seed=seed)
        self.choices = GroundChoices(solve(self.small.grammar, semiring, weights=bound))
        inside = np.array([self.choices.inside(cell) for cell in self.choices.start])
        self.infinite = bool(np.isposinf(inside).any())
        self.empty = not np.isfinite(inside).any()

    def derivation(self, path: search.Path) -> Derivation:
        """The derivation of choices, in terms of the whole grammar."""
        weight = search.log_weight(self.choices, path)
        return ground_derivation(path, weight, self.small, self.grammar)


def _best_search(grammar: Grammar, weights: Weights | None, seed: int | None) -> _Search:
    """The search for best derivations. Raises GrammarError if there is none, or no best one."""
    prepared = _Search(grammar, "max", weights, seed)
    if prepared.infinite:
        refuse("F421", "a cycle of rules has a weight of more than 1, so no derivation is the best")
    if prepared.empty:
        refuse("F421", "there is no derivation of weight other than 0")
    return prepared


def viterbi(
    grammar: Grammar,
    *,
    weights: Weights | None = None,
    seed: int | None = None,
) -> Derivation:
    """The derivation and assignment of the greatest weight; the first one under ties."""
    prepared = _best_search(grammar, weights, seed)
    return prepared.derivation(search.best(prepared.choices, max_steps=MAX_STEPS))


def k_best(
    grammar: Grammar,
    number: int,
    *,
    weights: Weights | None = None,
    seed: int | None = None,
) -> list[Derivation]:
    """The derivations of greatest weight, at most `number`, best first; exact under ties."""
    if number < 1:
        return []
    return list(islice(enumerate_best(grammar, weights=weights, seed=seed), number))


def enumerate_best(
    grammar: Grammar,
    *,
    weights: Weights | None = None,
    seed: int | None = None,
) -> Iterator[Derivation]:
    """All derivations, best first, as far as asked for."""
    prepared = _best_search(grammar, weights, seed)
    yield from map(prepared.derivation, search.best_first(prepared.choices))


def sample(
    grammar: Grammar,
    number: int = 1,
    *,
    weights: Weights | None = None,
    seed: int | None = None,
    generator: np.random.Generator | None = None,
    max_steps: int = 100_000,
) -> list[Derivation]:
    """Independent draws of derivations with assignments, with probability weight / Z.

    From a ground grammar with inputs these are draws from the posterior. `seed` is for factors
    without weights, `generator` for the draws. Raises GrammarError if there is nothing to draw
    from, or a draw has more than `max_steps` steps.
    """
    random = generator if generator is not None else np.random.default_rng(seed)
    drawn = draws(grammar, weights=weights, seed=seed, generator=random, max_steps=max_steps)
    return [derivation for _, derivation in zip(steps(range(number), "draw"), drawn, strict=False)]


def draws(
    grammar: Grammar,
    *,
    weights: Weights | None = None,
    seed: int | None = None,
    generator: np.random.Generator,
    max_steps: int = 100_000,
) -> Iterator[Derivation]:
    """The same, as many as asked for."""
    prepared = _Search(grammar, "log", weights, seed)
    if prepared.infinite or prepared.empty:
        reason = "the sum over derivations diverges" if prepared.infinite else "the sum is 0"
        refuse("F424", f"nothing can be drawn: {reason}")
    paths = search.samples(prepared.choices, generator.random, max_steps=max_steps)
    yield from map(prepared.derivation, paths)
