"""Domains of nodes, sizes and indices: what they mean, and what is said if nothing."""

from __future__ import annotations

import pytest

from fgg.grammar.index import Expr
from tests.helpers.problems import grammar_of, marked, problem, problems
from tests.helpers.resolving import MODEL, USE_HEAD, domains

# Domains of nodes


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


# Sizes and domains


def test_sizes_are_evaluated_and_can_be_overridden() -> None:
    from fgg.grammar.domains import domain_size, size_values

    text = "size k = 2 size m = 3 * k - 1 domain T = m + k nonterminal X(T) start X rule X(t) ->"
    assert size_values(grammar_of(text)) == {"k": 2, "m": 5}
    assert domain_size(grammar_of(text, k=10), "T") == 39


def test_a_size_that_does_not_exist_cannot_be_set() -> None:
    assert problem(MODEL + USE_HEAD, states=3).code == "F410"


def test_a_size_cannot_be_set_to_a_negative_number() -> None:
    assert "F120" in {d.code for d in problems(MODEL, k=-1)}


@pytest.mark.parametrize("kind", ["size", "domain"])
def test_a_definition_by_itself_is_called_so(kind: str) -> None:
    text = f"{kind} A = A + A nonterminal S() start S rule S ->"
    found = [d for d in problems(text) if d.is_error]
    assert len(found) == 1
    if kind == "size":
        assert found[0].message == "size `A` depends on itself"


def test_a_rank_domain_is_a_number() -> None:
    text = "domain N = 2 rank R = N nonterminal S() start S rule S ->"
    assert problem(text).code == "F124"


def test_a_rank_can_be_a_rank_domain_or_an_expression() -> None:
    text = """
    size k = 2 rank R = 3 * k domain T = 9
    factor f(T, T) rank R
    factor g(T, T) rank k + 1
    nonterminal S() start S rule S -> f(t, u) g(t, u)
    """
    grammar = grammar_of(text)
    ranks = [factor.rank.evaluate({"k": 2}) for factor in grammar.factors if factor.rank]
    assert ranks == [6, 3]


# Indices


def test_names_in_the_shapes_of_inputs_are_lengths() -> None:
    text = """
    size k = 2 domain W = k input w: W[n, n + k] nonterminal X[i] for 0 <= i < n start X[0]
    rule X[i] -> (o: W) o = w[i, i + 1]
    """
    grammar = grammar_of(text)
    assert list(grammar.inputs[0].shape[1].names()) == ["k", "n"]
    assert grammar.start.indices == (Expr.of(0),)


def test_an_unknown_name_in_a_condition_is_underlined() -> None:
    text = "nonterminal X[i] for 0 <= i < n start X[0] rule X[i] ->"
    found = problem(text)
    assert found.code == "F101"
    assert marked(text, found) == "n"


def test_an_unknown_name_in_the_start_index_is_underlined() -> None:
    text = "size k = 4 nonterminal X[i] for 0 <= i < k start X[2*m] rule X[i] ->"
    found = problem(text)
    assert found.code == "F101"
    assert marked(text, found) == "m"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rule r: S -> X(t)", "`X` has no indices here, but it takes 1"),
        ("rule r: S -> X[0, 1](t)", "`X` has 2 indices here, but it takes 1"),
        ("rule r: S -> f[0](t)", "`f` has 1 index here, but it takes none"),
        ("rule r: S -> f(w[0, 0])", "`w` has 2 indices here, but it takes 1"),
        ("rule r: S -> X[left[0, 1]](t)", "`left` has 2 indices here, but it takes 1"),
    ],
)
def test_indices_are_counted(text: str, message: str) -> None:
    base = """
    domain T = 2 factor f(T) input w: T[n] input table left[n]
    nonterminal S() nonterminal X[i](T) for 0 <= i < 3 start S
    """
    found = problems(base + text)
    assert [(d.code, d.message) for d in found] == [("F114", message)]


def test_heads_are_counted_too() -> None:
    found = problem("domain T = 2 nonterminal X(T) start X rule X(a, b) ->")
    assert found.message == "head `X` touches 2 nodes, but the nonterminal takes 1"
    assert found.help == "it is declared as `X(T)`"
