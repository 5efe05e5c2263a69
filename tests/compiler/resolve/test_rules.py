"""Rules: the domains of nodes, paths, and positions of inputs."""

from __future__ import annotations

import pytest

from tests.helpers.front_end import MODEL, USE_HEAD, domains, grammar_of, marked, problem


def test_domains_of_nodes_follow_from_the_edges() -> None:
    grammar = grammar_of(MODEL + USE_HEAD)
    root, binary, word, lex = grammar.rules
    assert domains(root) == {"a": "C"}
    assert domains(binary) == {"a": "C", "b": "C", "c": "C"}
    assert domains(word) == {"a": "C", "o": "W"}
    assert domains(lex) == {"a": "C", "l": "L"}


def test_externals_are_the_nodes_of_the_head_in_order() -> None:
    text = "domain T = 2 nonterminal X(T, T) start X rule X(b, a) -> rule r: X(a, a) ->"
    grammar = grammar_of(text)
    assert [rule.rhs.externals for rule in grammar.rules] == [("b", "a"), ("a", "a")]


def test_a_path_touches_a_part_of_a_union_and_a_component_of_a_product() -> None:
    grammar = grammar_of(MODEL + USE_HEAD)
    edge = grammar.rules[0].rhs.edges[0]
    assert (edge.attachments[0].node, edge.attachments[0].path) == ("a", ("N",))
    assert [a.path for a in grammar.rules[3].rhs.edges[0].attachments] == [("N",), ("W",)]


def test_a_path_can_go_through_several_domains() -> None:
    text = """
    domain A = 2  domain B = 3  domain AB = A * B  domain D = 5  domain U = AB + D
    factor f(B) nonterminal X(U) start X
    rule X(u) -> f(u.AB.B)
    """
    assert grammar_of(text).rules[0].rhs.edges[0].attachments[0].path == ("AB", "B")


def test_a_path_that_ends_in_another_domain_is_a_conflict() -> None:
    text = MODEL + "rule bad: X(a) -> emit(a.N, o)"
    found = problem(text)
    assert found.code == "F113"
    assert found.message == "`a.N` has domain `N`, but `emit` wants `P`"
    assert marked(text, found) == "a.N"


def test_a_conflict_with_a_part_proposes_the_part() -> None:
    found = problem(MODEL + "rule bad: X(a) -> emit(a, o)")
    assert found.code == "F113"
    assert found.help == "write `a.P` for the `P` part"


def test_a_node_can_be_declared_where_it_is_touched() -> None:
    text = "domain T = 2 factor f(T) nonterminal S() start S rule S -> f(u: T) (v: T)"
    assert domains(grammar_of(text).rules[0]) == {"u": "T", "v": "T"}


def test_one_position_is_one_node_and_two_positions_are_two() -> None:
    text = """
    domain W = 4 factor f(W, W) input w: W[n] nonterminal S() start S
    rule S -> f(w[0], w[0]) f(w[0], w[1])
    """
    rule = grammar_of(text).rules[0]
    assert len(rule.rhs.clamps) == 2
    assert [a.node for e in rule.rhs.edges for a in e.attachments] == ["w", "w", "w", "w2"]


def test_a_position_does_not_take_the_name_of_a_node() -> None:
    text = """
    domain W = 4 factor f(W, W) input w: W[n] nonterminal S() start S
    rule S -> f(w, w[0])
    """
    assert set(domains(grammar_of(text).rules[0])) == {"w", "w2"}


@pytest.mark.parametrize("body", ["f(w[0], u)", "o = w[0] f(o, u)", "f(o, u) o = w[0]"])
def test_an_input_of_another_domain_is_one_error(body: str) -> None:
    text = f"""
    domain T = 2 domain W = 4 factor f(T, W) input w: W[1] nonterminal S() start S
    rule S -> {body}
    """
    assert problem(text).code == "F148"
