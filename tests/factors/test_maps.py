"""Maps: factors that are functions, as they are written, read, printed and checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fgg
from fgg.compiler import load_text
from fgg.factors.maps import groups, map_values
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.grammar.values import Map
from fgg.json import from_json, to_json
from fgg.runtime.program.bind import bind
from tests.helpers.limits import time_limit

WORDS = """
domain W = {{the, a, dog, "'s"}}
domain M = {blocks}
factor clusters(W -> M) = {value}
factor block(-> M)
nonterminal S()
start S
rule S -> block(m) clusters(o, m)
"""


def text(value: str, blocks: str = "3") -> str:
    return WORDS.format(value=value, blocks=blocks)


def codes(value: str, blocks: str = "3", folder: str = ".") -> list[str]:
    _, found, _ = load_text(text(value, blocks), folder=folder)
    return [d.code for d in found]


@pytest.mark.parametrize(
    ("value", "blocks", "wanted"),
    [
        ("map(0, 2, 1, 1)", "3", (0, 2, 1, 1)),
        ("map(cycle)", "3", (0, 1, 2, 0)),
        ("map(runs)", "2", (0, 0, 1, 1)),
        ('map(low, high, low, "a b")', '{low, high, "a b"}', (0, 1, 0, 2)),
    ],
)
def test_a_map_is_one_for_one_value_only(value: str, blocks: str, wanted: tuple[int, ...]) -> None:
    grammar = fgg.loads(text(value, blocks))
    assert map_values(grammar, "clusters") == wanted
    array = np.zeros((4, len(set(wanted)) if blocks != "3" else 3))
    array[np.arange(4), list(wanted)] = 1
    assert np.array_equal(bind(grammar, seed=0)["clusters"], array)
    assert fgg.loads(print_grammar(grammar)) == grammar
    again, _ = from_json(to_json(grammar))
    assert again is not None and again.factor["clusters"].value == Map(wanted)
    weights = {"block": np.arange(1.0, array.shape[1] + 1)}
    assert brute_force(grammar, weights) == pytest.approx(sum(w + 1 for w in wanted))


def test_files_of_words_of_numbers_and_arrays(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("dog 2\nthe 0\nunseen 7\n's 1\na 0\n", "utf-8")
    (tmp_path / "tabs.txt").write_text("dog\t2\nthe\t0\n's\t1\na\t0\n", "utf-8")
    (tmp_path / "numbers.txt").write_text("0\n0\n2\n1\n", "utf-8")
    np.save(tmp_path / "numbers.npy", np.array([0, 0, 2, 1]))
    for name in ("words.txt", "tabs.txt", "numbers.txt", "numbers.npy"):
        path = tmp_path / "grammar.fgg"
        path.write_text(text(f'map("{name}")'), "utf-8")
        grammar = fgg.load(path)
        assert map_values(grammar, "clusters") == (0, 0, 2, 1)
        assert f'map("{name}")' in print_grammar(grammar)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("the 0\na 0\ndog 1\n", "F491"),
        ("the 0\na 0\ndog 1\n's 1\nthe 1\n", "F491"),
        ("the 0\na 0\ndog 3\n's 1\n", "F492"),
        ("the 0\na 0\ndog x\n's 1\n", "F492"),
        ("0\n1\n2\n", "F491"),
        ("the 0\na\ndog 1\n's 1\n", "F490"),
        (None, "F490"),
    ],
)
def test_files_that_do_not_fit_are_reported(content: str | None, code: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "clusters.txt").write_text(content, "utf-8")
    assert codes('map("clusters.txt")', folder=str(tmp_path)) == [code]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("map(0, 1)", "F491"),
        ("map(0, 1, 3, 0)", "F492"),
        ("map(0, 1, -1, 0)", "F132"),
        ("map(0.5, 1, 1, 0)", "F132"),
        ("map()", "F132"),
    ],
)
def test_written_maps_that_do_not_fit_are_reported(value: str, code: str) -> None:
    assert codes(value) == [code]


def test_a_map_has_one_domain_on_each_side() -> None:
    _, found, _ = load_text(text("map(0, 1, 2, 0)").replace("(W -> M)", "(W, M)"))
    assert [d.code for d in found] == ["F493"]


def test_sizes_may_change_where_a_map_is_a_pattern() -> None:
    grammar = fgg.load("hmm_blocks", sizes={"m": 4, "k": 2, "d": 9})
    assert map_values(grammar, "clusters") == (0, 1, 2, 3, 0, 1, 2, 3, 0)
    assert groups(grammar, grammar.factor["emit"]) == (0, 1, 2, 3, 0, 1, 2, 3, 0)
    assert groups(grammar, grammar.factor["trans"]) is None


def test_a_node_may_be_fixed_to_the_block_of_a_token() -> None:
    grammar = fgg.loads("""
    domain W = 4
    domain M = 3
    factor clusters(W -> M) = map(0, 2, 1, 1)
    factor f(M)
    input w: W[n]
    nonterminal S()
    start S
    rule S -> f(m) m = w[0].clusters
    """)
    assert fgg.loads(print_grammar(grammar)) == grammar
    for token, wanted in ((0, 1.0), (1, 3.0), (3, 2.0), (-1, 6.0), (-2, 0.0)):
        flat = fgg.rewrite.ground(grammar, inputs={"w": [token]}, lengths={"n": 1})
        assert brute_force(flat, {"f": np.array([1.0, 2.0, 3.0])}) == wanted
    _, found, _ = load_text(print_grammar(grammar).replace(".clusters", ".f"))
    assert [d.code for d in found] == ["F105"]


def test_a_map_from_a_domain_that_is_too_large_is_refused_at_once() -> None:
    large = text("map(cycle)").replace('{the, a, dog, "\'s"}', "2000000000")
    with time_limit(60):
        found = load_text(large)[1]
    assert [d.code for d in found if d.is_error] == ["F131"]
    assert "2,000,000,000 values; a map has at most 16,777,216" in found[0].message
