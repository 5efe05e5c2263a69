"""Solutions of the moment equations: renamings of hidden values, and others."""

from __future__ import annotations

import numpy as np
import pytest

import fgg
from fgg.diagnostics import GrammarError
from fgg.runtime.identify.solutions import Solutions, hidden_domains, solutions_of


def solved(name: str, sizes: dict[str, int], length: int, moments: str, starts: int) -> Solutions:
    grammar = fgg.load(name, sizes=sizes)
    result = fgg.identify(grammar, length=length, moments=moments, second=False, null=False)
    assert result.question is not None and result.rank is not None
    return solutions_of(result.question, result.rank, starts)


@pytest.mark.parametrize(
    ("name", "sizes", "possible"),
    [("lcm", {"k": 2, "d": 2}, 2), ("lcm", {"k": 3, "d": 3}, 6), ("dep_ie", {"d": 2}, 1)],
)
def test_solutions_of_triples_are_renamings(
    name: str, sizes: dict[str, int], possible: int
) -> None:
    # Kruskal: three views determine a latent class model up to the order of its classes.
    solutions = solved(name, sizes, 3, "123", 12)
    assert solutions.possible == possible and solutions.others == 0
    assert 1 <= solutions.renamings <= possible and solutions.missed < 12
    assert len(solutions.tables) == solutions.renamings
    program = fgg.compile(fgg.load(name, sizes=sizes))
    seen = [
        program.posterior(dict(tables), {}, {"n": [3]}).moments({"w": [0, 1, 2]})
        for tables in solutions.tables
    ]
    assert all(float(abs(one - seen[0]).max()) < 1e-9 for one in seen)


def test_a_latent_class_model_has_both_orders() -> None:
    solutions = solved("lcm", {"k": 2, "d": 2}, 3, "123", 12)
    first, second = solutions.tables
    assert solutions.renamings == 2
    assert np.allclose(first["class"], second["class"][::-1], atol=1e-4)
    assert np.allclose(first["emit"], second["emit"][::-1], atol=1e-4)
    text = "\n".join(solutions.lines())
    assert "of 12 starts reached" in text and "2 of 2 renamings" in text


def test_words_are_not_renamed() -> None:
    grammar = fgg.load("hmm", sizes={"k": 2, "d": 3})
    result = fgg.identify(grammar, length=3, second=False, null=False)
    assert result.question is not None
    assert hidden_domains(result.question) == ("T",)


def test_what_cannot_be_solved_is_refused() -> None:
    for moments, sizes, code in (
        ("12", {"k": 2, "d": 2}, "F461"),
        ("**", {"k": 12, "d": 12}, "F420"),
    ):
        with pytest.raises(GrammarError) as caught:
            solved("hmm", sizes, 3, moments, 1)
        assert caught.value.diagnostics[0].code == code


def test_factors_that_can_be_exchanged_make_another_solution() -> None:
    text = """
    domain W = 2
    factor a(-> W)
    factor b(-> W)
    nonterminal S()
    start S
    rule one: S -> a(x) b(y)
    rule two: S -> b(x) a(y)
    query string(w: W[n]) {
      rule one: S -> x = w[0] y = w[1]
      rule two: S -> x = w[0] y = w[1]
    }
    """
    result = fgg.identify(fgg.loads(text), length=2, moments="all", second=False, null=False)
    assert result.question is not None and result.rank == 2
    solutions = solutions_of(result.question, 2, 12)
    assert (solutions.renamings, solutions.possible, solutions.others) == (1, 1, 1)
    first, second = solutions.tables
    assert np.allclose(first["a"], second["b"], atol=1e-4)
    assert np.allclose(first["b"], second["a"], atol=1e-4)
