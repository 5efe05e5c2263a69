"""Tables and pictures of posteriors show the marginals under their names."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

import fgg
from fgg.diagnostics import GrammarError
from fgg.draw import TooLarge
from fgg.draw.beliefs import Beliefs, beliefs_picture, shade

SVG = "{http://www.w3.org/2000/svg}"


def titles(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}title")][1:]


def posterior(name: str, sizes: dict[str, int], words: list[list[int]]) -> fgg.Posterior:
    program = fgg.compile(fgg.load(name, sizes=sizes))
    return program.model(seed=2, dtype=torch.float64).posterior(w=words)


def test_a_chain_is_a_table_with_a_cell_for_each_position_and_value() -> None:
    post = posterior("hmm", {"k": 3, "d": 4}, [[0, 1], [3, 2, 1]])
    (table,) = [b for b in post.beliefs(1) if b.family == "X"]
    shares = post.marginals["X"][1]
    for position in range(3):
        assert table.cells[(position,)] == pytest.approx(shares[position].tolist())
        assert table.best((position,))[0][0] == int(shares[position].argmax())
    assert list(table.words) == ["3", "2", "1"]
    shown = titles(post.draw(1).svg())
    assert shown == [f"{v} {shares[i, v]:.4f}" for i in range(3) for v in range(3)]


def test_a_chart_has_a_cell_for_each_span_shaded_by_its_probability() -> None:
    post = posterior("cnf", {"k": 2, "d": 3}, [[0, 1, 2]])
    svg = post.draw(words=["the", "old", "man"]).svg()
    chart = post.marginals["X"][0].sum(-1)
    for i in range(3):
        for j in range(i + 1, 4):
            assert any(t.startswith(f"X[{i}, {j}] {chart[i, j]:.4f}") for t in titles(svg))
    assert "the" in svg and shade(1.0) in svg
    assert shade(0.0) == "#ffffff"


def test_pairs_of_positions_that_are_no_spans_are_a_grid() -> None:
    program = fgg.compile(fgg.load("ctc", sizes={"labels": 2}))
    scores = torch.zeros(5, 3, dtype=torch.float64)
    post = program.model().posterior(y=[[1, 2]], score=[scores], lengths={"n": [5]})
    shown = titles(post.draw().svg())
    for family in ("B", "L"):
        shares = post.marginals[family][0]
        for i in range(6):
            for j in range(3):
                if shares[i, j] > 0:
                    assert f"{family}[{i}, {j}] {shares[i, j]:.4f}" in shown
    assert any(title.startswith("B[0, 0] 1.0000") for title in shown)


def test_lines_mark_the_best_value_and_list_the_cells_of_charts() -> None:
    flat = Beliefs("X", 1, 2, ("no", "yes").__getitem__, {(0,): (0.25, 0.75)}, ["word"])
    assert list(flat.lines())[2].split() == ["0", "word", "0.2500", "0.7500*"]
    chart = Beliefs("X", 2, 1, lambda place: "", {(0, 2): (0.5,), (0, 1): (1e-9,)})
    assert list(chart.lines()) == [
        "posterior of X, by cell",
        "            total",
        "  X[0, 2]  0.5000",
    ]


def test_many_values_show_the_best_of_each_position() -> None:
    row = tuple(i / 435 for i in range(30))
    lines = list(Beliefs("X", 1, 30, str, {(0,): row}).lines())
    assert lines[2].split() == ["X[0]", "1.0000", "29", "0.0667", "28", "0.0644", "27", "0.0621"]


def test_names_of_the_user_are_escaped() -> None:
    evil = "<script>alert(1)</script>"
    table = Beliefs(evil, 1, 1, lambda place: evil, {(0,): (1.0,)}, [evil])
    svg = beliefs_picture(evil, [table]).svg()
    assert "<script" not in svg
    ElementTree.fromstring(svg)


def test_long_items_and_absent_ones_are_refused() -> None:
    post = posterior("hmm", {"k": 2, "d": 3}, [[0] * 90])
    with pytest.raises(TooLarge, match="90 positions"):
        post.draw()
    assert "90 positions" in post._repr_html_()
    with pytest.raises(GrammarError, match="no item 1"):
        post.draw(1)
