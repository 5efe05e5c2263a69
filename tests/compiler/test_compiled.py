"""Compiled programs agree with the reference engine on the whole library."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from fgg.api.compile import selected
from fgg.compiler import load
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.domains import with_sizes
from fgg.library import library_names
from fgg.runtime.program.program import Program
from tests.oracles.comparing import (
    Answer,
    Item,
    compare,
    compare_marginals,
    compile_checked,
    lengths_of,
    peaked,
    random_item,
    random_weights,
    reference,
)

SIZES = {
    **{"k": 2, "d": 3, "nt": 2, "pt": 2, "words": 3, "r": 2, "labels": 2, "tags": 2, "dmax": 3},
    **{"lmax": 2, "substrings": 4, "h": 2, "letters": 2, "matches": 2, "inserts": 1, "deletes": 2},
}
NOT_COMPILED: set[tuple[str, str | None]] = {("branching", None)}  # no index goes down
# Chains of every length, trees of those that the reference does in no time.
CHAINS = {"crf", "hmm", "hmm_rank", "lcm", "lhmm", "semicrf"}
CASES: list[tuple[str, str | None]] = [
    (name, query)
    for name in library_names()
    for query in ([q.name for q in load(name).queries] or (None,))
]
COMPILED = [case for case in CASES if case not in NOT_COMPILED]


def source(name: str, query: str | None) -> Grammar:
    grammar = load(name)
    sizes = {k: v for k, v in SIZES.items() if k in grammar.size}
    return selected(with_sizes(grammar, sizes), query)


LOW_RANK = [case for case in COMPILED if cpd(source(*case)) != source(*case)]
SPACES = [(*case, "dense") for case in COMPILED]
SPACES += [(*case, space) for case in LOW_RANK for space in ("state", "rank")]
NOT_RANK_SPACE = {"lhmm"}


@cache
def program(name: str, query: str | None, space: str = "dense") -> Program:
    """A program in a space; where factors are decomposed, its grammar has their pieces."""
    grammar = source(name, query)
    return compile_checked(grammar if space == "dense" else cpd(grammar), space)


def own(found: Program, weights: Mapping[str, Any]) -> dict[str, Any]:
    """The weights that a program asks for; in dense space, of whole factors."""
    return {n: w for n, w in weights.items() if n in found.compiled.plan.parameters}


def batch(found: Program, lengths: Sequence[int], rng: random.Random) -> list[Item]:
    """An item of each length; where there are several lengths, they differ a little."""
    names = lengths_of(found.grammar)
    return [
        random_item(
            found.grammar,
            {x: n if i == 0 else max(1, n - rng.randint(0, 1)) for i, x in enumerate(names)},
            rng,
            impossible=0.02 if n % 2 else 0.0,
        )
        for n in lengths
    ]


@pytest.mark.parametrize(("name", "query", "space"), SPACES)
def test_compiled_is_reference(name: str, query: str | None, space: str) -> None:
    if space == "rank" and name in NOT_RANK_SPACE:
        with pytest.raises(GrammarError, match="cannot be compiled in rank space"):
            program(name, query, space)
        return
    found = program(name, query, space)
    rng = random.Random(f"{name} {query}")
    weights = own(found, random_weights(found.grammar, rng))
    sharp = own(found, peaked(found.grammar, random_weights(found.grammar, rng), 12.0))
    lengths = range(1, 9) if name in CHAINS else (1, 2, 3, 5)
    for used, chosen in ((weights, lengths), (sharp, (2, 4))):
        items = batch(found, chosen, rng)
        answers = [reference(found.grammar, item, used) for item in items]
        known = [(i, a) for i, a in zip(items, answers, strict=True) if a is not None]
        compare(found, [i for i, _ in known], [a for _, a in known], used)
        compare(found, [known[-1][0]], [known[-1][1]], used)
        compare_marginals(found, [i for i, _ in known if max(i.lengths.values()) <= 3], used)


@pytest.mark.parametrize("name", ["hmm", "pcfg", "dmv", "pair_hmm", "eisner"])
def test_float32_is_nearly_reference(name: str) -> None:
    found = program(name, next(iter(load(name).query), None))
    rng = random.Random(name)
    weights = random_weights(found.grammar, rng)
    items = [
        Item(i.lengths, {n: a.round(3) for n, a in i.inputs.items()})
        for i in batch(found, (1, 2, 4), rng)
    ]
    # Weights that float32 can hold, so that both see the same.
    weights = {n: torch.tensor(w).float().double().numpy() for n, w in weights.items()}
    answers: list[Answer] = []
    for item in items:
        answer = reference(found.grammar, item, weights)
        assert answer is not None
        answers.append(answer)
    compare(found, items, answers, weights, dtype=torch.float32, tolerance=1e-4)


@pytest.mark.parametrize(("name", "query"), sorted(NOT_COMPILED, key=str))
def test_what_has_no_schedule_is_refused(name: str, query: str | None) -> None:
    with pytest.raises(GrammarError) as error:
        program(name, query)
    assert [d.code for d in error.value.diagnostics] == ["F425"]
