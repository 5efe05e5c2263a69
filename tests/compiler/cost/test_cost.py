"""The cost of plans: orders, exact counts, bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod

import pytest

from fgg.api.compile import selected
from fgg.compiler import load, loads
from fgg.compiler.cost.choose import choose
from fgg.compiler.cost.cost import Cost, cost, cost_lines
from fgg.compiler.cost.point_counts import ONE, CostPolynomial
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.plan.lower import CannotCompile
from fgg.compiler.rank.uses import NotRankSpace
from fgg.grammar import Grammar
from fgg.grammar.domains import size_values
from fgg.library import library_names
from fgg.plan import Contract
from fgg.plan.sizes import chart_bytes, environment
from tests.helpers.kernels import spaces_of


def cost_of(grammar: Grammar, length: int = 12, batch: int = 1, width: int = 4) -> Cost:
    plan = plan_of(selected(grammar, None), Expected(), "dense")
    return cost(plan, dict.fromkeys(plan.lengths, length), batch=batch, width=width)


def order(name: str) -> str:
    found = cost_of(load(name))
    return found.text(found.order)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("hmm", "n*k^2"),
        ("crf", "n*k^2"),
        ("cnf", "n^3*k^2 + n^2*k^3"),
        ("eisner", "n^3"),
        ("rna", "n^3"),
        ("ctc", "n*m"),
        ("semicrf", "n*k^2 + n*k*lmax"),
        ("dep_i", "n^3*d^2"),
    ],
)
def test_orders_are_those_of_the_literature(name: str, wanted: str) -> None:
    assert sorted(order(name).replace("m*n", "n*m").split(" + ")) == sorted(wanted.split(" + "))


def test_a_dense_pcfg_costs_what_the_inside_algorithm_costs() -> None:
    terms = order("pcfg_dense").split(" + ")
    assert terms[:2] == ["n^3*nt^2", "n^2*nt^3"]
    assert all(term.startswith("n*") for term in terms[2:])


def test_two_lengths_are_two_names() -> None:
    assert "n*m*matches^2" in order("pair_hmm").split(" + ")


def test_multiply_adds_of_an_hmm() -> None:
    n, k, batch = 20, 7, 3
    found = {
        item.name: item.multiply_adds
        for item in cost_of(load("hmm", sizes={"k": k}), n, batch).items
    }
    assert found["X_trans"] == (n - 1) * k * k * batch
    assert found["begin"] == k * batch


def test_multiply_adds_of_a_span_are_counted_split_by_split() -> None:
    n, k = 9, 5
    found = {i.name: i for i in cost_of(load("cnf", sizes={"k": k}), n).items}
    splits = sum(1 for i in range(n) for j in range(i + 2, n + 1) for _ in range(i + 1, j))
    spans = sum(1 for i in range(n) for _ in range(i + 2, n + 1))
    assert found["binary"].multiply_adds == splits * k**2 + spans * k**3


@pytest.mark.parametrize("name", library_names())
def test_counts_grow_as_the_order_says(name: str) -> None:
    grammar = load(name)
    if len(grammar.queries) > 1:
        return
    try:
        plan = plan_of(selected(grammar, None), Expected(), "dense")
    except CannotCompile:
        return
    few, many = (cost(plan, dict.fromkeys(plan.lengths, size)) for size in (400, 800))
    for one, two in zip(few.items, many.items, strict=True):
        if one.multiply_adds == 0:
            continue
        names = set(few.plan.lengths)
        degree = max(sum(e for x, e in powers if x in names) for powers in one.order.terms)
        growth = two.multiply_adds / one.multiply_adds
        assert 2**degree * 0.75 <= growth <= 2**degree * 1.25, one.name


def test_a_batch_multiplies_what_depends_on_inputs() -> None:
    one, many = cost_of(load("pair_hmm")), cost_of(load("pair_hmm"), batch=10)
    for a, b in zip(one.items, many.items, strict=True):
        assert b.multiply_adds == a.multiply_adds * (1 if a.kind == "weights" else 10)
    assert any(item.kind == "weights" for item in one.items)


def test_bytes_are_those_that_the_runtime_asks_for() -> None:
    found = cost_of(load("pcfg_dense"), 10, batch=4, width=8)
    values = environment({"n": [10]})
    assert found.chart_bytes == chart_bytes(found.plan, values, 4, 8)
    assert found.peak_bytes >= 2 * (found.chart_bytes + found.table_bytes)
    shapes = [(10,), (10, 30, 30), (20, 1000)]
    assert found.parameter_bytes == 8 * sum(map(prod, shapes))


def test_long_sequences_are_counted_at_once() -> None:
    assert cost_of(load("hmm"), 1_000_000).multiply_adds > 10**6


def test_domains_without_a_size_count_as_numbers() -> None:
    grammar = loads(
        "domain T = {a, b, c} input w: T[n] factor f(T, T)"
        " nonterminal X[i](T) for 0 <= i <= n start S nonterminal S()"
        " rule s: S -> X[0](t) rule x: X[i](t) -> f(t, u) X[i+1](u) for i < n"
        " rule e: X[n](t) ->"
    )
    assert cost_of(grammar).text(cost_of(grammar).order) == "9*n"


def test_the_report_is_plain_data() -> None:
    as_json = cost_of(load("pcfg"), batch=2).as_json()
    report = json.loads(json.dumps(as_json))
    assert report == as_json
    assert report["order"].startswith("O(n^3*nt^2 + ")
    assert report["at"]["lengths"] == {"n": 12} and report["at"]["sizes"]["nt"] == 30
    assert sum(item["multiply_adds"] for item in report["items"]) == report["multiply_adds"]


def test_the_text_has_every_item_and_the_total() -> None:
    found = cost_of(load("hmm"))
    text = "\n".join(cost_lines(found))
    assert text.startswith("hmm_string: O(n*k^2)\n  at n = 12, k = 8, batch 1, float32")
    assert all(item.name in text for item in found.items)


def test_dominated_terms_are_dropped() -> None:
    n, k = CostPolynomial.name("n"), CostPolynomial.name("k")
    found = (n * n * k | n * k | n * k * k | k | ONE).dominant()
    assert found.text(["n", "k"]) == "n^2*k + n*k^2"


def test_terms_of_one_kind_keep_the_largest_coefficient() -> None:
    n = CostPolynomial.name("n")
    found = CostPolynomial.number(4) * n | CostPolynomial.number(3) * n
    assert found.text(["n"]) == "4*n"


QUERIES = [(name, query) for name in library_names() for query in load(name).query or [None]]


def multiply_adds(name: str, query: str | None, space: str, sizes: dict[str, int]) -> float:
    """The cost of a question of the library; 0 where it has no program."""
    source = selected(load(name, sizes=sizes), query)
    try:
        auto = space == "auto"
        plan = choose(source, Expected()).plan if auto else plan_of(source, Expected(), space)
    except (CannotCompile, NotRankSpace):
        return 0.0
    return cost(plan, dict.fromkeys(plan.lengths, 32), batch=16).multiply_adds


def falls(name: str, query: str | None, space: str, factors: Sequence[int]) -> list[str]:
    """The sizes of a question at which it costs less than at smaller ones."""
    known = multiply_adds(name, query, space, {})
    found = []
    for size, value in size_values(load(name)).items():
        costs = [multiply_adds(name, query, space, {size: factor * value}) for factor in factors]
        found += [size] if sorted(costs) != costs or costs[0] < known else []
    return found


@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_no_cost_falls_as_a_size_grows(name: str, query: str | None) -> None:
    assert falls(name, query, "auto", [2]) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_no_cost_falls_in_any_space_as_a_size_grows_to_eight_times(
    name: str, query: str | None
) -> None:
    for space in ("auto", *spaces_of(selected(load(name), query))):
        assert falls(name, query, space, [2, 4, 8]) == [], space


@pytest.mark.parametrize("nt", [10, 20, 40, 80])
def test_rank_space_does_what_the_header_of_lexpcfg_rank_says(nt: int) -> None:
    plan = choose(selected(load("lexpcfg_rank", sizes={"nt": nt, "r": 20}), None), Expected()).plan
    found = cost(plan, {"n": 32}, batch=16)
    assert found.text(found.order).split(" + ")[:2] == ["n^4*r", "n^3*r^2"]
    assert found.multiply_adds < 1.9e8


def test_two_tables_at_one_position_are_multiplied_beforehand() -> None:
    sizes = {"nt": 30, "pt": 60, "r": 20}
    plan = plan_of(selected(load("lexpcfg_rank", sizes=sizes), None), Expected(), "rank")
    made = {item.name: item for item in plan.preparations if isinstance(item, Contract)}
    assert any(len(item.tables) == 2 for item in made.values())
    found = cost(plan, {"n": 32}, batch=16)
    assert found.text(found.order).split(" + ")[:2] == ["n^4*r", "n^3*r^2"]
