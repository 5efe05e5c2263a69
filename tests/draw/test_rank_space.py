"""Pictures of rank space: figures 4(b) and 5(c) of Yang, Liu and Tu 2022."""

from __future__ import annotations

from xml.etree import ElementTree

from fgg.api.compile import selected
from fgg.compiler import load
from fgg.compiler.driver import Expected, after
from fgg.draw import draw_grammar, render
from fgg.draw.scene import Graph, Kind, RuleScene, rule_scene
from fgg.grammar import Grammar

SVG = "{http://www.w3.org/2000/svg}"


def scenes(name: str) -> dict[str, RuleScene]:
    grammar = ranked(name)
    return {rule.name: rule_scene(grammar, rule) for rule in grammar.rules}


def ranked(name: str) -> Grammar:
    return after(selected(load(name), None), "rank_space", Expected(), "rank")


def nodes(graph: Graph) -> list[tuple[str, bool]]:
    """The domains of the nodes, and whether they are rank nodes."""
    return [(v.text, v.rank) for v in graph.vertices if v.kind is Kind.NODE]


def factors(graph: Graph) -> list[str]:
    return [v.name for v in graph.vertices if v.kind is Kind.FACTOR]


def nonterminals(graph: Graph) -> list[str]:
    return [v.text for v in graph.vertices if v.kind is Kind.NONTERMINAL]


def lines(graph: Graph) -> set[frozenset[str]]:
    """What is joined by lines, by the names that are shown."""
    shown = {v.key: v.text if v.kind is Kind.NONTERMINAL else v.name for v in graph.vertices}
    return {frozenset((shown[x.edge], shown[x.node])) for x in graph.links}


def test_rules_between_ranks_are_those_of_figure_4b() -> None:
    by_rule = scenes("pcfg")
    kinds = {
        "binary": ["X_binary_1[i,k]", "X_binary_2[k,j]"],
    }
    for name, children in kinds.items():
        scene = by_rule[name]
        assert nodes(scene.left) == nodes(scene.right) == [("R_binary", True)]
        assert nonterminals(scene.left) == ["X_N_rank[i,j]"]
        assert nonterminals(scene.right) == children and not factors(scene.right)
        assert lines(scene.right) == {frozenset((child, "q")) for child in children}


def test_messages_are_the_matrices_of_figure_4() -> None:
    by_rule = scenes("pcfg")
    matrices = {  # H, I, J, K: a state between two parameters
        "X_N_binary_1": ("N", ["binary_1", "binary_0"], ["X_N_rank[i,j]"]),
        "X_N_binary_2": ("N", ["binary_2", "binary_0"], ["X_N_rank[i,j]"]),
        "X_P_binary_1": ("P", ["binary_1", "emit"], []),
        "X_P_binary_2": ("P", ["binary_2", "emit"], []),
    }
    for name, (state, names, below) in matrices.items():
        scene = by_rule[name]
        assert factors(scene.right) == names and nonterminals(scene.right) == below
        assert (state, False) in nodes(scene.right) and ("R_binary", True) in nodes(scene.right)
        assert {frozenset((x, "a")) for x in names} <= lines(scene.right)
        assert scene.conditions == "a summed beforehand"
    root = by_rule["root"]  # L
    assert factors(root.right) == ["root", "binary_0"]
    assert nonterminals(root.right) == ["X_N_rank[0,n]"]


def test_a_chain_is_that_of_figure_5c() -> None:
    by_rule = scenes("hmm_rank")
    step = by_rule["step"]
    assert nodes(step.right) == [("R_step", True), ("W", False)]
    assert factors(step.right) == ["step_2"] and nonterminals(step.right) == ["X_step_1[i+1]"]
    between = by_rule["X_step_1_X_rank"]
    assert factors(between.right) == ["step_1", "step_0"]
    assert nodes(between.right) == [("R_step", True), ("T", False), ("R_step", True)]
    assert between.conditions == "t summed beforehand"


def test_rank_nodes_have_two_rings_and_trivial_conditions_are_left_out() -> None:
    picture = draw_grammar(ranked("pcfg"))
    texts = [
        e.text or "" for e in ElementTree.fromstring(render(picture, "svg")).iter(f"{SVG}text")
    ]
    assert "for i < k < j" in texts and "rank node" in texts
    assert not [text for text in texts if "_R_binary" in text]
