"""What the layouts promise: nothing overlaps, and the order of rows and ports can be read off."""

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgg.draw import style
from fgg.draw.geometry import Box, text_width
from fgg.draw.layout.fragment import PlacedGraph, layout, layout_builtin, layout_graphviz
from fgg.draw.layout.rows import components, levels
from fgg.draw.scene import Graph, Kind, rule_scene
from fgg.grammar import Grammar
from tests.draw import examples
from tests.draw.fragments import drawable_grammars

EXAMPLES = (examples.hmm(), examples.pcfg(), examples.rank_space(), examples.oddities())


def graphs(grammar: Grammar) -> list[Graph]:
    scenes = [rule_scene(grammar, rule) for rule in grammar.rules]
    return [graph for scene in scenes for graph in (scene.left, scene.right)]


def overlapping(placed: PlacedGraph) -> list[tuple[Box, Box]]:
    return [(a, b) for a, b in combinations(placed.boxes(), 2) if a.overlap(b) > 1e-6]


@given(drawable_grammars())
@settings(max_examples=60)
def test_shapes_are_disjoint(grammar: Grammar) -> None:
    for graph in graphs(grammar):
        assert not overlapping(layout_builtin(graph))


@given(drawable_grammars())
@settings(max_examples=30)
def test_everything_has_finite_coordinates_from_zero(grammar: Grammar) -> None:
    for graph in graphs(grammar):
        box = layout_builtin(graph).box()
        assert box.left == pytest.approx(0) and box.top == pytest.approx(0)
        assert math.isfinite(box.right) and math.isfinite(box.bottom)


@given(drawable_grammars(max_nodes=40, max_edges=50))
@settings(max_examples=5)
def test_large_fragments_keep_shapes_disjoint(grammar: Grammar) -> None:
    for graph in graphs(grammar):
        assert not overlapping(layout_builtin(graph))


@given(drawable_grammars())
@settings(max_examples=30)
def test_a_link_never_stays_in_its_row(grammar: Grammar) -> None:
    for graph in graphs(grammar):
        level = {key: n for part in components(graph) for key, n in levels(part).items()}
        assert all(level[link.edge] % 2 != level[link.node] % 2 for link in graph.links)
        assert all(level[v.key] == 0 for v in graph.vertices if v.external)


@pytest.mark.parametrize("grammar", EXAMPLES, ids=lambda grammar: grammar.name)
def test_lines_end_at_shapes_and_miss_the_others(grammar: Grammar) -> None:
    for graph in graphs(grammar):
        placed = layout_builtin(graph)
        boxes = dict(zip((v.key for v in graph.vertices), placed.boxes(), strict=True))
        for link, route in zip(graph.links, placed.routes, strict=True):
            ends = (route.points[0], route.points[-1])
            for key, (x, y) in zip((link.edge, link.node), ends, strict=True):
                assert Box(x, y, x, y).grown(0.01).overlap(boxes[key].grown(0.01)) > 0
            for key, box in boxes.items():
                if key not in (link.edge, link.node):
                    a, *_, b = route.flattened()
                    assert not route.is_straight or box.length_inside(a, b) == 0


@pytest.mark.parametrize("grammar", EXAMPLES, ids=lambda grammar: grammar.name)
def test_labels_cover_no_shape_and_no_label(grammar: Grammar) -> None:
    for graph in graphs(grammar):
        placed = layout_builtin(graph)
        boxes = [label.box for label in placed.labels]
        assert not [1 for a in boxes for b in placed.boxes() if a.overlap(b) > 3]
        assert not [1 for a, b in combinations(boxes, 2) if a.overlap(b) > 3]


def test_external_nodes_are_on_top_and_nonterminals_below_their_nodes() -> None:
    for graph in graphs(examples.pcfg()):
        placed = layout_builtin(graph)
        for link in graph.links:
            kind = next(v.kind for v in graph.vertices if v.key == link.edge)
            if kind is Kind.NONTERMINAL:
                assert placed.centers[link.edge][1] > placed.centers[link.node][1]
        tops = [placed.centers[v.key][1] for v in graph.vertices if v.external]
        assert not tops or max(tops) == min(y for _, y in placed.centers.values())


def test_a_node_touched_twice_has_two_lines() -> None:
    rule = next(rule for rule in examples.oddities().rules if rule.name == "twice")
    placed = layout_builtin(rule_scene(examples.oddities(), rule).right)
    first, second = (route.flattened()[6] for route in placed.routes)
    assert math.dist(first, second) > 15 and first[0] < second[0]


def test_layout_is_the_same_every_time() -> None:
    for graph in graphs(examples.large(20)):
        assert layout_builtin(graph) == layout_builtin(graph)


@pytest.mark.parametrize("prog", ["dot", "neato"])
@pytest.mark.parametrize("grammar", EXAMPLES, ids=lambda grammar: grammar.name)
def test_graphviz_keeps_shapes_disjoint(grammar: Grammar, prog: str) -> None:
    pytest.importorskip("pygraphviz")
    for graph in graphs(grammar):
        assert not overlapping(layout_graphviz(graph, prog))


def test_auto_takes_the_builtin_layout_for_small_fragments() -> None:
    for graph in graphs(examples.pcfg()):
        assert layout(graph, "auto") == layout_builtin(graph)


@given(st.text(max_size=20))
def test_text_widths_are_additive(text: str) -> None:
    assert text_width(text + text, 10) == pytest.approx(2 * text_width(text, 10))


def test_shapes_hold_their_texts() -> None:
    for graph in graphs(examples.oddities()):
        for vertex in graph.vertices:
            assert not vertex.text or style.size(vertex)[0] > text_width(vertex.text, style.INSIDE)
