"""Names, domains of nodes, indices and queries: what they mean, and what is said if nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from fgg.compiler import load_text
from fgg.diagnostics import Diagnostic, render
from fgg.grammar import Grammar, Rule
from fgg.grammar.index import Expr


def grammar_of(text: str, **sizes: int) -> Grammar:
    grammar, diagnostics, source = load_text(text, "test.fgg", sizes=sizes)
    assert grammar is not None, "\n\n".join(render(d, source) for d in diagnostics)
    return grammar


def problems(text: str, **sizes: int) -> tuple[Diagnostic, ...]:
    grammar, diagnostics, _ = load_text(text, "test.fgg", sizes=sizes)
    assert (grammar is None) == any(d.is_error for d in diagnostics)
    return diagnostics


def problem(text: str, **sizes: int) -> Diagnostic:
    """The one problem of a text."""
    found = problems(text, **sizes)
    assert len(found) == 1, [f"{d.code}: {d.message}" for d in found]
    return found[0]


def marked(text: str, diagnostic: Diagnostic) -> str:
    """What the carets of a message underline."""
    assert diagnostic.span is not None
    return text[diagnostic.span.start : diagnostic.span.end]


def domains(rule: Rule) -> dict[str, str]:
    return {node.name: node.domain for node in rule.rhs.nodes}


MODEL = """
size k = 3
domain N = k
domain P = 2 * k
domain C = N + P
domain W = {the, dog, barks}
domain L = N * W
factor root(-> N)
factor binary(N -> C, C)
factor emit(P -> W)
factor head(N, W)
nonterminal S()
nonterminal X(C)
start S
rule root:   S    -> root(a.N) X(a)
rule binary: X(a) -> binary(a.N, b, c) X(b) X(c)
rule word:   X(a) -> emit(a.P, o)
"""

QUERY = """
query string(w: W[n]) {
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,k2] X[k2,j]   for i < k2 < j
  rule word:   X[i,i+1] -> o = w[i]
}
"""

USE_HEAD = "rule lex: X(a) -> head(l.N, l.W) (l: L)\n"


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


# Names


def test_namespaces_are_apart() -> None:
    text = """
    size n = 2  domain T = n  factor f(T)  nonterminal T()  input f: T[m]  start T
    rule f: T -> f(f[0])
    """
    grammar = grammar_of(text)
    assert grammar.nonterminal["T"].domains == ()
    assert grammar.rules[0].name == "f"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("size T = 2", "domain T = 3"),
        ("rank T = 2", "domain T = 3"),
        ("factor f(D)", "nonterminal f()"),
        ("factor f(D)", "input factor f(D)"),
        ("input w: D[n]", "input table w[n]"),
        ("rule r: S ->", "rule r: S -> S"),
        ("query q { rule s: S -> }", "query q { rule s: S -> }"),
    ],
)
def test_a_name_cannot_be_declared_twice(first: str, second: str) -> None:
    text = f"domain D = 2 nonterminal S() start S rule s: S -> {first} {second}"
    found = [d for d in problems(text) if d.is_error]
    assert [d.code for d in found] == ["F107"]
    assert found[0].labels[0].span.start < found[0].span.start  # type: ignore[union-attr]


def test_a_query_may_not_redeclare_an_input_or_a_family() -> None:
    text = f"{MODEL} input w: W[m] {QUERY}"
    assert {d.code for d in problems(text) if d.is_error} == {"F107"}
    twice = "nonterminal X[i] for i == 0 nonterminal X[i] for i == 0 }"
    found = [d for d in problems(MODEL + "query q {" + twice) if d.is_error]
    assert [d.code for d in found] == ["F107"]
    assert found[0].labels


def test_rules_without_a_name_are_called_after_their_nonterminal() -> None:
    text = "nonterminal S() start S rule S -> rule S -> S rule S_2: S -> S S"
    names = [rule.name for rule in grammar_of(text).rules]
    assert names[0] == "S" and len(set(names)) == 3 and "S_2" in names


def test_the_order_of_statements_is_free() -> None:
    text = "rule S -> f(u) start S nonterminal S() factor f(T) domain T = k size k = m size m = 2"
    assert grammar_of(text) == grammar_of(
        "size k = m size m = 2 domain T = k factor f(T) nonterminal S() start S rule S -> f(u)"
    )


@pytest.mark.parametrize(
    ("wrong", "code", "hint"),
    [
        ("domain D = kk + 1", "F101", "k"),
        ("nonterminal Y(Cc)", "F102", "C"),
        ("rule r: S -> bniary(a, b, c)", "F103", "binary"),
        ("input words: W[n] rule r: S -> emit(p, word[0])", "F104", "words"),
        ("domain Long = N + W rule r: S -> root(a.M) (a: Long)", "F105", ""),
        ("domain Nn = 2 domain U = Nn + W rule r: S -> root(a.N) (a: U)", "F105", "Nn"),
        ("rule r: Xx(a) ->", "F106", "X"),
        ("input table left[n] nonterminal Z[i] rule r: S -> Z[lft[0]]", "F108", "left"),
        ("factor g(W) = {teh: 1}", "F129", "the"),
        ("factor g(W) with piror = dirichlet(1)", "F133", "prior"),
        ("query q { rule wrod: X -> }", "F143", "word"),
        ("query q(w: W[n]) { rule word: X -> oo = w[0] }", "F146", "o"),
    ],
)
def test_near_names_are_proposed(wrong: str, code: str, hint: str) -> None:
    found = [d for d in problems(MODEL + wrong) if d.is_error]
    assert [d.code for d in found] == [code]
    assert found[0].help == (f"did you mean `{hint}`?" if hint else "")


def test_a_size_in_the_place_of_a_domain_is_explained() -> None:
    found = problem(MODEL + "nonterminal Y(k)")
    assert found.code == "F102"
    assert found.help == "`k` is a size; declare `domain K = k`"


def test_an_input_in_the_place_of_a_factor_is_explained() -> None:
    text = MODEL + "input v: W[n] rule r: S -> v(o)"
    assert problem(text).help == "`v` is an input: touch a position, `f(u, v[i])`"


# All errors at once


MANY = """
size k = mm
size a = b
size b = a
domain T = 3
domain U = T + 2
domain E = {x, y, x}
factor f(T -> Tt)
factor g(T -> T) = [[1, 0], [0, 1], [0, -1]]
factor h(T) with prior = gamma(1)
factor f(T)
nonterminal S()
nonterminal X[i, i](T)
start SS
rule one:  S -> g(t) h(t)
rule two:  S -> zz(t)
rule three: h(t) -> g(t, u)
rule four: S -> g(e, t) (e: E)
rule four: S -> h(t.T) (t: T)
query q {
  rule six: S ->
}
"""


def test_all_errors_of_a_file_come_at_once() -> None:
    found = problems(MANY)
    assert [d.code for d in found] == [
        "F101",  # mm
        "F109",  # a, b
        "F124",  # T + 2
        "F122",  # x
        "F102",  # Tt
        "F125",  # two entries a row
        "F125",
        "F125",
        "F134",  # gamma
        "F107",  # f
        "F142",  # i, i
        "F106",  # SS
        "F112",  # g(t)
        "F103",  # zz
        "F135",  # h(t) ->
        "F113",  # e
        "F107",  # four
        "F140",  # t.T
        "F143",  # six
    ]
    assert all(d.span is not None for d in found)


def test_one_mistake_is_reported_once() -> None:
    """A broken declaration is not reported again wherever its name is used."""
    text = MODEL.replace("domain P = 2 * k", "domain P = 2 * kk")
    assert problem(text + QUERY).code == "F101"


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("domain N = k", "domain N = [k]", "F001"),
        ("size k = 3", "size k = 3 +", "F001"),
        ("factor emit(P -> W)", "factor emit(P -> W", "F017"),
        ("nonterminal X(C)", "nonterminal X(C", "F017"),
        ("start S", "start", "F001"),
        ("rule word:", "rule word", "F020"),
        ("query string(w: W[n])", "query string(w: W[n)", "F017"),
    ],
)
def test_a_statement_that_cannot_be_read_hides_no_name(right: str, wrong: str, code: str) -> None:
    text = MODEL + QUERY
    assert right in text
    assert Counter(d.code for d in problems(text.replace(right, wrong, 1))) == {code: 1}


def test_an_unreadable_input_takes_its_lengths_along() -> None:
    text = """
    domain W = 2 factor f(W) input w: W[n nonterminal S() start S
    nonterminal X[i] for 0 <= i < n
    rule S -> X[0]
    rule X[i] -> f(w[i])
    """
    assert [d.code for d in problems(text)] == ["F017"]


@pytest.mark.parametrize("kind", ["factor phi[i](W", "table left[n"])
def test_other_inputs_that_cannot_be_read_hide_no_name(kind: str) -> None:
    text = f"""
    domain W = 2 input w: W[n] input {kind} nonterminal S() start S
    nonterminal X[i] for 0 <= i < n
    rule S -> X[0]
    rule X[i] -> (o: W) {"phi[i](o)" if "phi" in kind else "X[left[i]]"}
    """
    assert [d.code for d in problems(text)] == ["F017"]


def test_an_error_beside_an_unreadable_statement_is_still_found() -> None:
    text = MODEL.replace("domain N = k", "domain N = [k]") + "rule r: X(a) -> nothing(a)"
    assert [d.code for d in problems(text)] == ["F001", "F103"]


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


# Queries


def test_a_query_is_resolved_against_the_model() -> None:
    grammar = grammar_of(MODEL.replace("factor head(N, W)", "") + QUERY)
    query = grammar.query["string"]
    assert [rule.name for rule in query.rules] == ["root", "binary", "word"]
    assert [str(index) for index in query.rules[2].head.indices] == ["i", "i + 1"]
    assert query.rules[2].clamps[0].attachment.node == "o"


@pytest.mark.parametrize(
    ("right", "wrong", "code", "place"),
    [
        ("rule word:", "rule words:", "F143", "words"),
        ("X[k2,j]  ", "", "F144", "rule binary: X[i,j]   -> X[i,k2]"),
        ("-> X[0,n]", "-> S", "F145", "S"),
        ("rule root:   S ", "rule root:   X[0,n]", "F145", "X[0,n]"),
        ("-> o = w[i]", "-> p = w[i]", "F146", "p"),
        ("X[k2,j]", "X[j]", "F147", "X[j]"),
        ("-> o = w[i]", "-> a.P = w[i]", "F148", "a.P"),
        ("-> o = w[i]", "-> o = v[i]", "F104", "v"),
        ("-> o = w[i]", "-> o = w[i, i]", "F114", "w"),
        ("-> o = w[i]", "-> o = w[i] (u: W)", "F149", "(u: W)"),
        ("-> X[0,n]", "-> X[0,n](a)", "F149", "X[0,n](a)"),
        ("-> o = w[i]", "-> emit(a.P, w[i])", "F149", "emit(a.P, w[i])"),
        ("-> o = w[i]", "-> Y[i]", "F103", "Y"),
    ],
)
def test_what_is_wrong_with_a_query(right: str, wrong: str, code: str, place: str) -> None:
    query = QUERY.replace(right, wrong)
    assert query != QUERY
    text = MODEL + query
    found = [d for d in problems(text) if d.is_error]
    assert [d.code for d in found][:1] == [code]
    assert {d.code for d in found} == {code}
    assert marked(text, found[0]).startswith(place)


def test_nonterminals_in_another_order_are_each_reported() -> None:
    text = """
    nonterminal S() nonterminal A() nonterminal B() start S
    rule ab: S -> A B  rule a: A ->  rule b: B ->
    query q { rule ab: S -> B A  rule a: A ->  rule b: B -> }
    """
    found = problems(text)
    assert [d.code for d in found] == ["F145", "F145"]
    assert found[0].message == "`B` stands where the model's rule `ab` has `A`"


def test_a_query_that_indexes_the_start_symbol_must_say_where_to_start() -> None:
    text = """
    nonterminal S() start S rule more: S -> S rule stop: S ->
    query q { rule more: S[i] -> S[i+1] for i < 3  rule stop: S[3] -> }
    """
    found = problem(text)
    assert (found.code, found.help) == ("F136", "add `start S[…]` to the query")
    assert marked(text, found) == "S[i]"
    grammar_of(text.replace("query q {", "query q { start S[0]"))


def test_a_query_has_one_start_symbol() -> None:
    text = """
    nonterminal S() start S rule stop: S ->
    query q { start S[0] start S[1] rule stop: S[i] -> for 0 <= i < 2 }
    """
    found = problem(text)
    assert (found.code, found.labels[0].text) == ("F137", "the first one")


def test_the_start_of_a_query_has_as_many_indices_as_its_rules_say() -> None:
    text = """
    nonterminal S() start S rule stop: S ->
    query q { start S[0, 1] rule stop: S[0] -> }
    """
    assert [d.code for d in problems(text)] == ["F114"]


def test_a_query_may_declare_the_range_of_a_family() -> None:
    declared = "{\n  nonterminal X[i,j] for 0 <= i < j <= n\n"
    text = MODEL.replace("factor head(N, W)", "") + QUERY
    grammar = grammar_of(text.replace("{\n", declared, 1))
    assert [str(c) for c in grammar.query["string"].families[0].conditions] == ["0 <= i < j <= n"]


def test_a_query_does_not_repeat_domains() -> None:
    text = "domain T = 2 nonterminal X(T) start X rule x: X(t) ->"
    query = "query q { nonterminal X[i](T) for i == 0 start X[0] rule x: X[0] -> }"
    assert problem(text + query).code == "F149"


def test_errors_in_the_model_are_not_repeated_for_its_queries() -> None:
    text = MODEL.replace("emit(a.P, o)", "emmit(a.P, o)") + QUERY
    assert [d.code for d in problems(text)] == ["F103"]
