"""Whole-grammar checks: values, families and indices, useless symbols, attributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fgg.compiler import load_text
from fgg.diagnostics import Diagnostic
from fgg.library import library_names, library_text


def problems(text: str, folder: str = ".") -> tuple[Diagnostic, ...]:
    grammar, diagnostics, _ = load_text(text, "test.fgg", folder=folder)
    assert (grammar is None) == any(d.is_error for d in diagnostics)
    return diagnostics


def codes(text: str, folder: str = ".") -> list[str]:
    return [d.code for d in problems(text, folder)]


def problem(text: str, folder: str = ".") -> Diagnostic:
    """The one problem of a text."""
    found = problems(text, folder)
    assert len(found) == 1, [f"{d.code}: {d.message}" for d in found]
    return found[0]


def marked(text: str, diagnostic: Diagnostic) -> str:
    """What the carets of a message underline."""
    assert diagnostic.span is not None
    return text[diagnostic.span.start : diagnostic.span.end]


@pytest.mark.parametrize("name", library_names())
def test_the_library_is_without_errors_and_warnings(name: str) -> None:
    assert codes(library_text(name)) == []


# Values


def with_factor(declaration: str) -> str:
    """A grammar with a factor `f` over one or two nodes."""
    nodes = "t, u" if declaration.split("=")[0].count("T") == 2 else "t"
    return f"""
    domain T = {{a, b}}
    {declaration}
    nonterminal S() start S
    rule S -> f({nodes})
    """


@pytest.mark.parametrize(
    "declaration",
    [
        "factor f(T) = 3",
        "factor f(T) = 0",
        "factor f(-> T) = 0.5",
        "factor f(-> T) = [1/3, 2/3]",
        "factor f(T -> T) = [[0.1, 0.9], [0.7, 0.3]]",
        "factor f(T -> T) = {a: {b: 1}, b: {a: 0.5, b: 0.5}}",
        "factor f(T, T) = {a: {b: 17}}",
        "factor f(-> T, T) = [[0.1, 0.2], [0.3, 0.4]]",
        "factor f(T -> T) = uniform",
        "factor f(T -> T) = eye",
        "factor f(T, T) = eye",
    ],
)
def test_good_values_are_accepted(declaration: str) -> None:
    assert codes(with_factor(declaration)) == []


@pytest.mark.parametrize(
    ("declaration", "code", "place"),
    [
        ("factor f(T) = [0.5, -0.5]", "F126", "-0.5"),
        ("factor f(T) = -1", "F126", "-1"),
        ("factor f(T) = {a: -1}", "F126", "{a: -1}"),
        ("factor f(T) = [1, 1/0]", "F127", "1/0"),
        ("factor f(T) = nan", "F127", "nan"),
        ("factor f(T) = [inf, 1]", "F127", "inf"),
        ("factor f(T) = {a: inf}", "F127", "inf"),
        ("factor f(T) = [1, 1e309]", "F127", "1e309"),
        ("factor f(T) = [1, 2, 3]", "F125", "[1, 2, 3]"),
        ("factor f(T) = [[1, 2], 3]", "F125", "[1, 2]"),
        ("factor f(T, T) = [1, [2, 3]]", "F125", "1"),
        ("factor f(T, T) = [[1, 2], [3]]", "F125", "[3]"),
        ("factor f(T, T) = {a: 1}", "F125", "1"),
        ("factor f(T) = {a: {b: 1}}", "F125", "{b: 1}"),
        ("factor f(T) = {a: 1, c: 1}", "F129", "c"),
        ("factor f(T) = {a: 1, a: 1}", "F130", "a"),
        ("factor f(-> T) = [0.5, 0.4]", "F128", "[0.5, 0.4]"),
        ("factor f(T -> T) = [[1, 0], [0.5, 0.6]]", "F128", "[0.5, 0.6]"),
        ("factor f(-> T) = 1", "F128", "1"),
        ("factor f(T -> T) = {a: {a: 1}}", "F128", "{a: {a: 1}}"),
        ("factor f(T) = uniform", "F131", "uniform"),
        ("factor f(T) = eye", "F131", "eye"),
        ("factor f(T) = gauss", "F132", "gauss"),
        ("factor f(T) = load(trans)", "F132", "load(trans)"),
    ],
)
def test_wrong_values_are_underlined(declaration: str, code: str, place: str) -> None:
    text = with_factor(declaration)
    found = problem(text)
    assert (found.code, marked(text, found)) == (code, place)


def test_a_negative_weight_is_taken_for_a_logarithm() -> None:
    found = problem(with_factor("factor f(T) = [1, -2]"))
    assert found.help == "weights are never logarithms: for the log-weight -2 write 0.1353"


def test_fractions_are_summed_exactly() -> None:
    text = """
    domain D = 3 factor f(-> D) = [1/3, 1/3, 1/3] nonterminal S() start S rule S -> f(d)
    """
    assert codes(text) == []
    assert codes(text.replace("[1/3, 1/3, 1/3]", "[0.333, 0.333, 0.333]")) == ["F128"]


def test_the_row_that_does_not_sum_to_one_is_named() -> None:
    found = problem(with_factor("factor f(T -> T) = [[1, 0], [0.5, 0.6]]"))
    assert found.message == "factor `f`: the weights given `b` sum to 1.1, not to 1"


def test_a_hundred_wrong_weights_are_not_a_hundred_messages() -> None:
    weights = ", ".join(["-1"] * 100)
    text = f"domain D = 100 factor f(D) = [{weights}] nonterminal S() start S rule S -> f(d)"
    assert 1 <= len(problems(text)) <= 5


ARRAY = with_factor('factor f(T -> T) = load("f.npy")')


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.array([[0.5, 0.5], [0.2, 0.8]]), None),
        (np.array([[0.5, 0.5], [0.2, 0.8]], np.float32), None),
        (np.array([[1, 0], [0, 1]]), None),
        (np.array([[0.5, 0.5], [0.2, 0.2]]), "F128"),
        (np.array([[0.5, 0.5], [1.2, -0.2]]), "F126"),
        (np.array([[0.5, 0.5], [np.nan, 1.0]]), "F127"),
        (np.array([[0.5, 0.5], [np.inf, 1.0]]), "F127"),
        (np.array([0.5, 0.5]), "F125"),
        (np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), "F125"),
        (np.array([["a", "b"], ["c", "d"]]), "F404"),
        (np.array([[1j, 0], [0, 1]]), "F404"),
    ],
)
def test_array_files_are_checked_like_values(
    array: np.ndarray, code: str | None, tmp_path: Path
) -> None:
    np.save(tmp_path / "f.npy", array)
    assert codes(ARRAY, str(tmp_path)) == ([code] if code else [])


@pytest.mark.parametrize(
    ("dtype", "error", "code"),
    [
        (np.float32, 1e-5, None),
        (np.float32, 1e-3, "F128"),
        (np.float64, 1e-9, None),
        (np.float64, 1e-5, "F128"),
    ],
)
def test_single_precision_is_given_more_room(
    dtype: type[np.floating], error: float, code: str | None, tmp_path: Path
) -> None:
    np.save(tmp_path / "f.npy", np.array([[0.5, 0.5], [0.5, 0.5 + error]], dtype))
    assert codes(ARRAY, str(tmp_path)) == ([code] if code else [])


def test_a_large_array_in_single_precision_is_summed_in_double(tmp_path: Path) -> None:
    rows = np.full((2, 50_000), 1 / 50_000, np.float32)
    np.save(tmp_path / "f.npy", rows)
    text = """
    domain T = 2 domain W = 50000 factor f(T -> W) = load("f.npy")
    nonterminal S() start S rule S -> f(t, w)
    """
    assert codes(text, str(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("g.npy", b"", "no such file or directory"),
        ("f.npy", b"", "it is not an array file"),
        ("f.npy", b"0.5 0.5", "it is not an array file"),
        ("f.npy", b"\x93NUMPY\x01\x00", "it is not an array file"),
    ],
)
def test_array_files_that_cannot_be_used(
    name: str, content: bytes, reason: str, tmp_path: Path
) -> None:
    tmp_path.joinpath(name).write_bytes(content)
    found = problem(ARRAY, str(tmp_path))
    assert (found.code, found.message) == ("F404", f"factor `f`: `f.npy` cannot be used: {reason}")


def test_only_one_kind_of_array_file_is_read() -> None:
    found = problem(with_factor('factor f(T -> T) = load("f.csv")'))
    assert found.message == "factor `f`: `f.csv` cannot be used: only .npy files are read"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file or directory"),
        (b"the\n\ndog\n", "line 2 is empty"),
        (b"the\ndog\nthe\n", "line 3 repeats line 1, `the`"),
        (b"caf\xe9\n", "it is not utf-8 text"),
    ],
)
def test_vocabularies_that_cannot_be_used(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    if content is not None:
        tmp_path.joinpath("v.txt").write_bytes(content)
    text = 'domain W = file("v.txt") factor f(W) nonterminal S() start S rule S -> f(w)'
    found = problem(text, str(tmp_path))
    assert found.code == "F403"
    assert found.message == f"the vocabulary `v.txt` cannot be used: {reason}"
    assert marked(text, found) == '"v.txt"'


def test_an_empty_vocabulary_is_an_empty_domain(tmp_path: Path) -> None:
    tmp_path.joinpath("v.txt").write_bytes(b"")
    text = 'domain W = file("v.txt") factor f(W) nonterminal S() start S rule S -> f(w)'
    assert codes(text, str(tmp_path)) == ["F121"]


# Attributes


@pytest.mark.parametrize(
    ("attribute", "code"),
    [
        ("prior = dirichlet(0.1)", None),
        ("prior = dirichlet(0)", "F134"),
        ("prior = dirichlet", "F134"),
        ("prior = beta(1)", "F134"),
        ("frozen = yes", None),
        ("frozen = maybe", "F134"),
        ("net = residual(dim=16)", None),
        ("net = 3", "F134"),
        ("blocks = clusters", "F494"),
        ('blocks = "clusters.txt"', "F134"),
        ("tied = stationary(trans)", None),
        ("tied = stationary(other)", "F134"),
        ("tied = stationary(f)", "F134"),
        ("tied = trans", "F134"),
        ("colour = red", "F133"),
    ],
)
def test_attributes_are_checked(attribute: str, code: str | None) -> None:
    text = f"""
    domain T = 2
    factor f(-> T) with {attribute}
    factor trans(T -> T)
    nonterminal S() start S rule S -> f(t) trans(t, u)
    """
    assert codes(text) == ([code] if code else [])


@pytest.mark.parametrize("fixed", ["= uniform", ""])
def test_attributes_of_learning_on_fixed_factors_are_warned_of(fixed: str) -> None:
    tied = "" if fixed else "tied = stationary(trans), "
    text = f"""
    domain T = 2
    factor f(-> T) {fixed} with {tied}init = normal(0.1)
    factor trans(T -> T)
    nonterminal S() start S rule S -> f(t) trans(t, u)
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F208", "init = normal(0.1)")


def test_a_tied_factor_has_no_value() -> None:
    text = """
    domain T = 2
    factor f(-> T) = uniform with tied = stationary(trans)
    factor trans(T -> T)
    nonterminal S() start S rule S -> f(t) trans(t, u)
    """
    assert problem(text).message == "`f` is tied to `trans`, but has a value besides"


# Families and indices


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


# Warnings


def test_warnings_do_not_stop_a_grammar() -> None:
    grammar, diagnostics, _ = load_text("nonterminal S() start S rule S -> S")
    assert grammar is not None
    assert [d.severity for d in diagnostics] == ["warning"]


def test_an_unreachable_nonterminal() -> None:
    text = "nonterminal S() nonterminal X() start S rule S -> rule X ->"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F201", "X")


def test_a_nonterminal_that_a_query_starts_at_is_reachable() -> None:
    text = """
    nonterminal S() nonterminal X() start S rule s: S -> rule x: X ->
    query q { start X rule s: S -> rule x: X -> }
    """
    assert codes(text) == []


def test_an_unproductive_nonterminal() -> None:
    text = "nonterminal S() nonterminal X() start S rule S -> rule t: S -> X rule X -> X"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F202", "X")


def test_a_nonterminal_without_rules() -> None:
    text = "nonterminal S() nonterminal X() start S rule S -> rule t: S -> X"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F203", "X")


@pytest.mark.parametrize(
    ("rules", "help_text"),
    [
        ("", "add a rule for `S`"),
        ("rule S -> S", "no derivation comes to an end: add a rule that ends one"),
    ],
)
def test_a_grammar_that_derives_nothing_is_one_warning(rules: str, help_text: str) -> None:
    found = problem(f"nonterminal S() start S {rules}")
    assert (found.code, found.help) == ("F206", help_text)


def test_an_unused_factor() -> None:
    text = "domain T = 2 factor f(T) nonterminal S() start S rule S ->"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F204", "f")


def test_a_factor_that_only_a_query_uses_is_used() -> None:
    text = """
    domain T = 2 factor f(T) factor g(T) nonterminal S() start S rule s: S -> f(t)
    query q { rule s: S -> g(t) }
    """
    assert codes(text) == []


def test_a_rule_that_a_query_leaves_out() -> None:
    text = """
    nonterminal S() start S rule a: S -> rule b: S ->
    query q { rule a: S -> }
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F205", "q")
    assert found.labels[0].text == "the rule"


def test_a_size_in_the_place_of_an_index_variable() -> None:
    text = """
    size k = 2 domain W = k factor emit(W) input w: W[n]
    nonterminal X[i, j] for 0 <= i < j <= n
    start X[0, n]
    rule split: X[i, j] -> X[i, k] X[k, j] for i < k < j
    rule word: X[i, i+1] -> emit(w[i])
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F207", "i < k < j")
    assert codes(text.replace("size k = 2 domain W = k", "domain W = 2")) == []


def test_a_size_as_a_bound_is_no_cause_for_a_warning() -> None:
    assert codes(changed("X[i+1]", "X[i+1] for 0 <= i < k")) == []
