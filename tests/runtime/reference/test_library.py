"""The library's grammars in every semiring, for short inputs."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from fgg.compiler.resolve.load import load
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.library import library_names
from fgg.rewrite.ground import ground
from fgg.runtime.reference.solve import solve

CASES: list[tuple[str, str | None]] = [
    (name, query)
    for name in library_names()
    for query in ([q.name for q in load(name).queries] or (None,))
]


@cache
def small(name: str) -> Grammar:
    """A library grammar with sizes of two, but for those that its shape needs."""
    grammar = load(name)
    return load(name, sizes={s.name: 2 for s in grammar.sizes if not [*s.value.names()]})


def trees(n: int) -> dict[str, list[int]]:
    """A binary tree of 2 n - 1 nodes that branches to the right, as the tables have it."""
    size = 2 * n - 1
    inner = [v % 2 == 0 and v < size - 1 for v in range(size)]
    return {
        "left": [v + 1 if deep else -1 for v, deep in enumerate(inner)],
        "right": [v + 2 if deep else -1 for v, deep in enumerate(inner)],
    }


def scores(name: str, n: int) -> dict[str, Any]:
    """Random log-potentials for the grammars that take some."""
    rng = np.random.default_rng(n)
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "crf": {"score": (n, 2)},
        "semicrf": {"score": (n, n + 1, 2)},
        "ctc": {"score": (n, 3)},
        "eisner": {"root": (n,), "arc": (n, n)},
    }
    return {key: rng.normal(size=s).tolist() for key, s in shapes.get(name, {}).items()}


def finite(name: str, query: str | None, n: int) -> Grammar:
    """A ground library grammar for inputs of length n; what is not observed is weighed randomly."""
    grammar = small(name)
    asked = grammar if query is None else grammar.query[query]
    if name == "ctc":
        labels = [1 + i % 2 for i in range((n + 1) // 2)]
        return ground(grammar, lengths={"n": n}, inputs={"y": labels, **scores(name, n)})
    if asked.tables:
        return ground(grammar, query=query, inputs=trees(n))
    names = {x for item in asked.inputs for extent in item.shape for x in extent.names()}
    lengths = {length: n for length in names - {*grammar.size}}
    return ground(grammar, query=query, lengths=lengths, inputs=scores(name, n))


@pytest.mark.parametrize(
    "lengths", [range(1, 5), pytest.param(range(5, 6), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("name", "query"), CASES)
def test_semirings_agree_on_library_grammars(name: str, query: str | None, lengths: range) -> None:
    for n in lengths:
        grammar = finite(name, query, n)
        real = float(solve(grammar, "real", seed=n).value)
        logs = float(solve(grammar, "log", seed=n).value)
        truth = bool(solve(grammar, "boolean", seed=n).value)
        number = solve(grammar, "counting", seed=n).value.item()
        best = float(solve(grammar, "max", seed=n).value)
        assert np.exp(logs) == pytest.approx(real, rel=1e-10)
        assert truth == (number > 0) == (real > 0) == np.isfinite(best)
        assert best <= logs + 1e-12
        if np.isfinite(best):
            assert number >= 1 and logs <= best + np.log(number) + 1e-9
        try:
            exactly = solve(grammar, "exact", seed=n).value.item()
            residue = solve(grammar, "gf", seed=n).value.item()
        except GrammarError as error:
            assert "F419" in str(error) and name == "branching"
            continue
        prime = 2**31 - 1
        assert float(exactly) == pytest.approx(real, rel=1e-10)
        assert residue == exactly.numerator * pow(exactly.denominator, -1, prime) % prime


@pytest.mark.parametrize("name", ["hmm", "hmm_rank", "lhmm", "hsmm", "lcm"])
def test_the_mass_of_all_strings_of_a_length_is_one(name: str) -> None:
    grammar = small(name)
    for n in (1, 3):
        total = 0.0
        for w in product(range(2), repeat=n):
            string = ground(grammar, query="string", inputs={"w": list(w)})
            total += float(solve(string, "real", seed=0).value)
        assert total == pytest.approx(1, rel=1e-10)
