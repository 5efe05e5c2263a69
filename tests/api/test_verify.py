"""Verify: what the compiler makes of grammars is proved equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fgg
from fgg.api import verify as verifying
from fgg.compiler import load, loads
from fgg.compiler.driver import PIPELINES
from fgg.diagnostics import GrammarError
from fgg.grammar.values import Constant, Table
from fgg.library import library_names
from fgg.runtime.interpret.semirings.modular import random_prime
from fgg.runtime.verify.items import items_of
from fgg.runtime.verify.result import Verification
from tests.helpers.verifying import PLAIN, QUICK, rows, with_edges

NONE: tuple[str | None] = (None,)


QUERIES = [(name, query) for name in library_names() for query in tuple(load(name).query) or NONE]


LARGE = ("ctc", "dmv", "lexpcfg", "lexpcfg_rank", "pair_hmm", "pcfg", "pcfg_la", "qcfg")
"""Grammars with many rules or lengths; `slow` tests try longer inputs of these too."""


def assert_complete(name: str, found: Verification) -> None:
    """All that can be compared is there; what cannot be has a reason."""
    if name == "branching":
        assert found.verdict == "undecided" and not found.ok
        assert found.reasons[0] == "nothing could be compared"
        assert {"exact comparison"} < {left.what for left in found.left_out}
        return
    assert found.ok and found.proved and found.verdict == "proved", str(found)
    assert 2 <= found.alive <= found.items
    spaces = {row.space for row in found.rows if row.what == "program"}
    for space in spaces:
        kinds = {row.quantity for row in found.rows if row.space == space and row.error is not None}
        assert kinds == {"log Z", "gradients", "expected counts", "marginals"}
    told = " ".join(left.what for left in found.left_out) + " ".join(found.unchanged)
    for space in PIPELINES:
        assert space in spaces or space in told


@pytest.mark.parametrize(
    ("name", "query"),
    [
        pytest.param(*pair, marks=pytest.mark.slow) if pair[0] == "lexpcfg_rank" else pair
        for pair in QUERIES
    ],
)
def test_library_grammars_are_proved(name: str, query: str | None) -> None:
    length = 2 if name in LARGE else 3
    assert_complete(name, verifying.verify(load(name), query, **{**QUICK, "length": length}))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_library_grammars_are_proved_for_longer_inputs(name: str, query: str | None) -> None:
    found = verifying.verify(load(name), query, length=5, items=60, seed=1)
    assert_complete(name, found)


def test_rank_space_is_proved() -> None:
    found = verifying.verify(load("pcfg"), space="rank", **QUICK)
    assert rows(found)["rank", "after rank_space", "Z"]
    assert rows(found)["rank", "plan", "Z"] and rows(found)["rank", "program", "gradients"]
    (row,) = (row for row in found.rows if row.what == "plan")
    assert row.bound is not None
    # One root, two binary factors of three pieces each, three words.
    assert row.bound.degree == 1 + 2 * 3 + 3
    assert 0 < row.bound.chance < 1e-6


# the numbers behind a proof


def test_a_verification_is_short_in_a_session_and_a_table_in_a_notebook() -> None:
    found = fgg.verify(load("hmm"), floats=False)
    assert repr(found) == f"Verification({found.name!r}, proved, {len(found.rows)} comparisons)"
    picture = found._repr_html_()
    assert ">proved</text>" in picture and picture.count("<circle") == len(found.rows)
    for row in found.rows:
        assert f">{row.what}</text>" in picture


def test_degrees_are_those_of_derivations() -> None:
    for name, degree in (("hmm", 2 * 3), ("hmm_rank", 1 + 3 * 3), ("cnf", 1 + 2 + 3)):
        found = verifying.verify(load(name), after="fold", trials=1, length=3, items=6)
        plans = verifying.verify(load(name), trials=1, length=3, items=6, floats=False)
        for row in (*found.rows, *plans.rows):
            assert row.bound is not None and row.bound.degree == degree, (name, row)


def test_more_trials_are_surer() -> None:
    chances = []
    for trials in (1, 3):
        found = verifying.verify(load("hmm"), trials=trials, length=2, items=6, floats=False)
        bounds = [row.bound for row in found.rows if row.what == "plan"]
        chances += [bound.chance for bound in bounds if bound is not None]
    assert chances[1] == pytest.approx(chances[0] ** 3)


def test_values_in_the_grammar_count_by_their_digits() -> None:
    text = "factor half() = 1/2\nfactor f()\nnonterminal S()\nstart S\nrule S -> half half f\n"
    other = loads(text.replace("half half", "quarter").replace("half() = 1/2", "quarter() = 0.25"))
    (exact, real) = verifying.verify(loads(text), other, trials=1).rows
    assert exact.holds and real.holds
    assert exact.bound is not None and exact.bound.degree == 1
    assert exact.bound.bits == pytest.approx(2 * 2 + 1)  # denominators 2 and 4, twice at most
    wrong = replace(
        other,
        factors=tuple(replace(f, value=Constant(0.3)) if f.value else f for f in other.factors),
    )
    assert not verifying.verify(loads(text), wrong, trials=1)


def test_primes_are_primes_and_differ() -> None:
    rng = np.random.default_rng(0)
    found = [random_prime(rng) for _ in range(20)]
    assert len(set(found)) == 20
    divisors = np.arange(3, 2**15.5, 2, dtype=np.int64)
    assert all(2**30 < p < 2**31 and p % 2 and (p % divisors).all() for p in found)


def test_short_inputs_are_all_tried() -> None:
    grammar = fgg.rewrite.conjoin(load("hmm", sizes={"k": 2, "d": 2}), load("hmm").query["string"])
    items = items_of(grammar, 3, 40, np.random.default_rng(0))
    words = [tuple(item.inputs["w"].tolist()) for item in items]
    assert words[0] == () and set(words[1:4]) == {(-1,), (0,), (1,)}
    assert len({w for w in words if len(w) == 2}) == 9
    assert len(set(words)) == len(words) and (-1, -1, -1) in words


# other grammars, and what cannot be asked


CYCLE = """
domain A = 2
domain B = 2
domain C = A + B
factor first(-> C)
factor again(C, C) = 0.2
factor last(C)
nonterminal S()
nonterminal X(C)
start S
rule S -> first(a) X(a)
rule more: X(a) -> again(a, b) X(b)
rule end: X(a) -> last(a)
"""


def test_what_is_not_a_polynomial_is_compared_in_float64() -> None:
    found = verifying.verify(loads(CYCLE))
    assert found.verdict == "undecided" and not found.refuted and not found.ok
    assert any("no bound" in reason for reason in found.reasons)
    assert rows(found)[PLAIN, "after split", "log Z"]
    reasons = {left.what: left.reason for left in found.left_out}
    assert "no bound" in reasons["exact comparison"]
    assert any("cannot be compiled" in reason for reason in reasons.values())


def test_grammars_can_be_compared_with_each_other() -> None:
    hmm = load("hmm", sizes={"k": 3, "d": 3})
    assert fgg.verify(hmm, hmm, **QUICK).proved
    transposed = with_edges(
        hmm,
        lambda rule, edge: (
            replace(edge, attachments=edge.attachments[::-1]) if edge.label == "trans" else edge
        ),
    )
    found = fgg.verify(hmm, transposed, **QUICK)
    assert not found and found.counterexample is not None
    assert [row.numbers for row in found.rows] == ["GF(p)", "float64"]
    moved = found.rows[1].error
    assert moved is not None and moved > 1e-3


def test_merging_factors_is_proved() -> None:
    hmm = load("hmm")
    merged = fgg.low_rank.merge(hmm)
    assert "emit_trans" in merged.factor
    assert fgg.verify(hmm, merged, **QUICK).proved
    found = rows(fgg.verify(merged, **QUICK))
    assert found[PLAIN, "program", "gradients"] and all(found.values())


def test_grammars_with_other_inputs_are_refused() -> None:
    for other in ("crf", "pair_hmm"):
        with pytest.raises(GrammarError) as caught:
            fgg.verify(load("hmm"), load(other))
        assert caught.value.diagnostics[0].code == "F304"


def test_sizes_that_values_depend_on_stay() -> None:
    text = "size k = 4\nsize m = 9\ndomain A = k\ndomain B = m\n"
    text += "factor f(A) = [1, 2, 3, 4]\nfactor g(A, B)\nnonterminal S()\nstart S\n"
    text += "rule S -> f(a) g(a, b)\n"
    found = fgg.verify(loads(text))
    assert found.sizes == {"k": 4, "m": 3} and found.shrunk == {"m": 3}
    assert fgg.verify(loads(text), sizes={"m": 5}).sizes == {"k": 4, "m": 5}
    assert isinstance(loads(text).factor["f"].value, Table)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"trials": 0}, "F415"),
        ({"length": 0}, "F415"),
        ({"items": 0}, "F415"),
        ({"space": "outer"}, "F415"),
        ({"after": "nothing"}, "F415"),
        ({"after": "conjoin"}, "F415"),
        ({"after": "cpd", "space": PLAIN}, "F415"),
        ({"sizes": {"q": 2}}, "F410"),
        ({"query": "none"}, "F409"),
        ({"sizes": {"k": 5000, "d": 5000}}, "F420"),
    ],
)
def test_what_cannot_be_asked_is_an_error(options: dict[str, Any], code: str) -> None:
    with pytest.raises(GrammarError) as caught:
        fgg.verify(load("hmm"), **options)
    assert caught.value.diagnostics[0].code == code


def test_progress_goes_up_to_its_end() -> None:
    calls: list[tuple[int, int]] = []
    verifying.verify(
        load("hmm"), trials=2, length=2, items=4, progress=lambda *pair: calls.append(pair)
    )
    assert [done for done, _ in calls] == list(range(1, calls[0][1] + 1))
