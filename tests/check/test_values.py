"""Checks of values: shapes, weights, sums, array files and vocabularies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.problems import codes, marked, problem, problems


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
