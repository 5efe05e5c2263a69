"""Checks of families and their indices: ranges, references, bounds."""

from __future__ import annotations

import pytest

from tests.helpers.problems import codes, marked, problem

CHAIN = """
size k = 4
domain W = 2
factor emit(W)
input w: W[n]
nonterminal X[i] for 0 <= i <= n
start X[0]
rule next: X[i] -> emit(w[i]) X[i+1]
rule last: X[n] ->
"""


def changed(right: str, wrong: str) -> str:
    assert right in CHAIN
    return CHAIN.replace(right, wrong, 1)


def test_positions_of_inputs_bound_indices() -> None:
    assert codes(CHAIN) == []


def test_conditions_that_contradict_each_other() -> None:
    text = changed("X[i+1]", "X[i+1] for i < n, i >= n")
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F117", "i < n, i >= n")


def test_a_rule_outside_the_range_of_its_head() -> None:
    text = changed("X[n] ->", "X[n+1] ->")
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F117", "X[n+1]")
    assert found.help == "its range is `0 <= i <= n`"


def test_a_range_without_indices() -> None:
    assert codes(changed("0 <= i <= n", "n < i < n")) == ["F117"]


def test_a_reference_outside_the_range() -> None:
    text = changed("X[i+1]", "X[i+2]")
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F118", "X[i+2]")
    assert found.label == "nothing ensures `0 <= i + 2 <= n`"
    assert codes(text.replace("X[i+2]", "X[i+2] for i + 2 <= n")) == []


def test_a_start_outside_the_range() -> None:
    found = problem(changed("start X[0]", "start X[n+1]"))
    assert (found.code, found.help) == ("F118", "refer to an index in the range")


def test_an_input_factor_outside_its_range() -> None:
    text = CHAIN + "input factor phi[i](W) for 0 <= i < n-1"
    assert codes(text) == []
    assert codes(text.replace("emit(w[i])", "emit(w[i]) phi[i](w[i])")) == ["F118"]


def test_a_declared_range_has_two_ends() -> None:
    found = problem(changed("0 <= i <= n", "i <= n"))
    assert (found.code, found.message) == (
        "F116",
        "index `i` of `X[i]` is not bounded on both sides",
    )


@pytest.mark.parametrize(
    ("conditions", "side"),
    [("", "on either side"), (" for j > 0", "above"), (" for j < n", "below")],
)
def test_an_index_variable_without_bounds(conditions: str, side: str) -> None:
    text = changed("X[n] ->", f"X[n] -> Y[j]{conditions}") + (
        "nonterminal Y[j] for 0 <= j < n rule y: Y[j] ->"
    )
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F116", "j")
    assert found.message == f"index `j` of rule `last` has no bound {side}"


def test_ranges_are_inferred_from_the_start() -> None:
    assert codes(changed("X[i] for 0 <= i <= n", "X[i]")) == []


@pytest.mark.parametrize("bound", ["k", "9", "n", "2*k + 1"])
def test_a_bound_of_any_kind_makes_a_range_finite(bound: str) -> None:
    text = f"""
    size k = 4 domain W = 2 factor emit(W) input w: W[n] nonterminal X[i] start X[0]
    rule next: X[i] -> emit(w[0]) X[i+1] for i < {bound}
    rule last: X[i] ->
    """
    assert codes(text) == []


def test_a_range_that_cannot_be_inferred() -> None:
    text = """
    domain W = 2 factor emit(W) nonterminal X[i] start X[0]
    rule next: X[i] -> emit(w) X[i+1]
    rule last: X[i] ->
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F119", "X")


def test_a_look_up_is_known_at_run_time_only() -> None:
    text = """
    input table left[n]
    nonterminal X[v] for 0 <= v < n
    start X[0]
    rule down: X[v] -> X[left[v]]
    rule stop: X[v] ->
    """
    assert codes(text) == []
    assert codes(text.replace("[v] for 0 <= v < n", "[v]")) == ["F119"]


def test_indices_of_queries_are_checked_in_the_conjunction() -> None:
    text = """
    domain W = 2 factor emit(W) nonterminal S() start S
    rule next: S -> emit(o) S
    rule last: S ->
    query string(w: W[n]) {
      nonterminal S[i] for 0 <= i <= n
      start S[0]
      rule next: S[i] -> o = w[i] S[i+2]
      rule last: S[n] ->
    }
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F118", "S[i+2]")
    assert codes(text.replace("S[i+2]", "S[i+1]")) == []


def test_a_size_as_a_bound_is_no_cause_for_a_warning() -> None:
    assert codes(changed("X[i+1]", "X[i+1] for 0 <= i < k")) == []
