"""Values in the place of nodes: what they mean, how they are written, and what is said of them."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from fgg.check.describe import equations
from fgg.compiler import load_text
from fgg.draw.scene import rule_scene
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar, print_rule
from fgg.grammar.semantics import brute_force
from fgg.json import from_json, to_json
from fgg.rewrite import conjoin
from tests.helpers.problems import codes, grammar_of, marked, problem

MODEL = """
domain D = {stop, go, "New York"}
domain T = 3
domain C = D + T
factor f(T, D)
factor g(C)
nonterminal S()
nonterminal X(D, T)
start S
"""


def rule_of(text: str) -> str:
    grammar = grammar_of(MODEL + text)
    return print_rule(grammar, grammar.rules[0]).split(": ", 1)[1]


def value(grammar: Grammar) -> float:
    total = brute_force(grammar, {})
    assert isinstance(total, float)
    return total


@pytest.mark.parametrize(
    "rule",
    [
        "S -> f(h, stop)",
        'S -> f(2, "New York") f(2, go)',
        "S -> X(stop, 0) g(stop) g(2)",
        'X("stop", t) -> f(t, go)',
        'X("stop", 1) ->',
        "X(d, t) -> f(t, d) f(t, go) (go: D)",
        'X(d, t) -> f(t, d) g("stop") f(t, stop) (stop: D)',
    ],
)
def test_values_are_written_as_they_are_read(rule: str) -> None:
    assert rule_of(f"rule r: {rule}") == rule
    grammar = grammar_of(f"{MODEL}rule r: {rule}")
    assert grammar_of(print_grammar(grammar)) == grammar


def test_a_value_is_a_node_that_an_indicator_fixes() -> None:
    plain = """
    domain D = {stop, go, no} domain T = 3 nonterminal S() start S
    factor w(T, D) = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    """
    short = grammar_of(f"{plain} rule S -> w(h, go) w(h, go)")
    long = grammar_of(f"{plain} factor is(D) = {{go: 1}} rule S -> w(h, d) w(h, d) is(d)")
    assert value(short) == value(long) == 4 + 25 + 64


def test_equal_values_share_a_node_and_an_indicator() -> None:
    grammar = grammar_of(MODEL + "rule a: S -> f(h, go) f(i, go) rule b: S -> g(go) f(1, go)")
    assert [f.name for f in grammar.factors[2:]] == ["D.go", "C.go", "T.1"]
    assert [node.name for node in grammar.rules[0].rhs.nodes] == ["h", "D.go", "i"]


SMALL = ("A", "B")
SIZES = {"A": 2, "B": 3}
NAMES = {"A": ("x", "y"), "B": ("x", "u", "v")}


def random_rule(rng: random.Random) -> tuple[str, float]:
    """A rule over random factors with nodes and values as arguments, and its value by hand."""
    edges = [tuple(rng.choice(SMALL) for _ in range(rng.randint(1, 3))) for _ in range(3)]
    nodes = {"a": "A", "b": "B"}
    declared, body, tables = [], [], []
    for number, domains in enumerate(edges):
        shown = []
        for domain in domains:
            pick = rng.randrange(3)
            name = rng.choice(NAMES[domain])
            shown.append((domain.lower(), name, f'"{name}"')[pick])
        numbers = [rng.randint(0, 4) for _ in itertools.product(*(NAMES[d] for d in domains))]
        weights = dict(zip(itertools.product(*(NAMES[d] for d in domains)), numbers, strict=True))
        declared.append(f"factor f{number}({', '.join(domains)}) = {table(weights, domains)}")
        body.append(f"f{number}({', '.join(shown)})")
        tables.append(([s.strip('"') for s in shown], weights))
    used = [n for n in nodes if any(n in shown for shown, _ in tables)]
    total = 0.0
    for chosen in itertools.product(*(NAMES[nodes[n]] for n in used)):
        at = dict(zip(used, chosen, strict=True))
        term = 1.0
        for shown, weights in tables:
            term *= weights[tuple(at.get(s, s) for s in shown)]
        total += term
    header = "domain A = {x, y} domain B = {x, u, v}\n" + "\n".join(declared)
    return f"{header}\nnonterminal S() start S\nrule S -> {' '.join(body)}", total


def table(weights: dict[tuple[str, ...], int], domains: tuple[str, ...]) -> str:
    def nested(prefix: tuple[str, ...]) -> str:
        if len(prefix) == len(domains):
            return str(weights[prefix])
        inner = ", ".join(nested((*prefix, name)) for name in NAMES[domains[len(prefix)]])
        return f"[{inner}]"

    return nested(())


def test_random_rules_with_values_have_the_value_that_enumeration_finds() -> None:
    rng = random.Random(0)
    for _ in range(100):
        text, expected = random_rule(rng)
        grammar = grammar_of(text)
        assert value(grammar) == expected, text
        assert grammar_of(print_grammar(grammar)) == grammar
        again, _ = from_json(to_json(grammar))
        assert again is not None and value(again) == expected


def test_a_name_that_is_a_node_anywhere_in_the_rule_is_a_node_everywhere() -> None:
    head = "rule r: X(go, t) -> f(t, go) (go: D)"
    fixed = "input w: D[n] rule r: S -> f(t, go) go = w[0]"
    for text in (head, fixed):
        grammar = grammar_of(MODEL + text)
        assert "go" in grammar.rules[0].rhs.by_name
        assert len(grammar.factors) == 2


def test_a_node_of_the_head_that_is_called_like_a_value_is_warned_of() -> None:
    text = MODEL + "rule a: S -> X(d, t) rule r: X(go, t) -> f(t, go) g(1)"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F210", "go")
    assert found.help == 'rename the node, or write `"go"` for the value'


def test_words_of_a_file_are_values_only_between_quotes(tmp_path: Path) -> None:
    tmp_path.joinpath("words.txt").write_text("a\nw\n")
    text = """
    domain W = file("words.txt") domain C = W + T domain T = 2 factor f(W) factor g(C)
    nonterminal S() start S rule r: S -> f(a) f("w") g(b) g("a")
    """
    grammar, _, _ = load_text(text, folder=str(tmp_path))
    assert grammar is not None
    assert [node.name for node in grammar.rules[0].rhs.nodes] == ["a", "W.w", "b", "C.a"]
    assert print_rule(grammar, grammar.rules[0]).endswith('f(a) f("w") g(b) g("a")')


@pytest.mark.parametrize(
    ("rule", "code", "place"),
    [
        ('S -> f(t, "stip")', "F129", '"stip"'),
        ("S -> f(3, d)", "F129", "3"),
        ("S -> X(stop, go)", "F113", "go"),
        ("S -> f(0)", "F112", "f(0)"),
        ('X("stop") ->', "F112", 'X("stop")'),
    ],
)
def test_mistakes_with_values_are_reported(rule: str, code: str, place: str) -> None:
    text = f"{MODEL}rule r: {rule}"
    if code == "F113":  # `go` is no value of T: so it is a node
        text = f"{MODEL}rule r: S -> X(stop, go) f(t, go)"
    assert code in codes(text)
    if code != "F113":
        assert marked(text, problem(text)) == place


def test_a_query_fixes_no_node_to_a_value() -> None:
    text = MODEL + 'rule r: S -> f(h, d) query q() { rule r: S -> f(h, "go") }'
    found = problem(text)
    assert (found.code, found.message) == ("F149", "a query cannot fix nodes to values")


def test_a_query_touches_nodes_called_like_values() -> None:
    model = MODEL + "rule r: S -> f(h, go) (go: D) query q() { rule r: S -> f(h, go) }"
    grammar = grammar_of(model)
    assert conjoin(grammar, grammar.query["q"]).rules[0].rhs.edges[-1].attachments[1].node == "go"


def test_equations_and_pictures_show_values_and_no_indicators() -> None:
    grammar = grammar_of(MODEL + "rule r: S -> f(h, go) g(1)")
    assert equations(grammar) == ("S += Σ_{h} f(h, go) · g(1)",)
    scene = rule_scene(grammar, grammar.rules[0])
    shown = [(v.name, v.observed) for v in scene.right.vertices if v.key.startswith("n")]
    assert shown == [("h", False), ("go", True), ("1", True)]
    assert sum(v.key.startswith("e") for v in scene.right.vertices) == 2


def test_a_declared_indicator_is_used() -> None:
    text = MODEL + "factor `D.go`(D) = {go: 1} rule r: S -> f(h, go)"
    grammar = grammar_of(text)
    assert [f.name for f in grammar.factors] == ["f", "g", "D.go"]
    other = grammar_of(MODEL + "factor `D.go`(D) = {go: 2} rule r: S -> f(h, go) `D.go`(d)")
    assert [f.name for f in other.factors] == ["f", "g", "D.go", "D.go_2"]
    assert grammar_of(print_grammar(other)) == other


def test_a_name_between_backquotes_is_no_number() -> None:
    text = MODEL + "rule r: X(d, `1`) -> f(`1`, d) f(`0`, go) f(0, go)"
    grammar = grammar_of(text)
    assert list(grammar.rules[0].rhs.by_name) == ["d", "1", "0", "D.go", "T.0"]
    assert grammar_of(print_grammar(grammar)) == grammar


def test_a_query_that_takes_a_value_for_a_node_is_told_so() -> None:
    text = """
    domain Note = {c, a, b}
    factor note(-> Note)
    nonterminal S()
    start S
    rule play: S -> note(a)
    query heard(w: Note[1]) { rule play: S -> a = w[0] }
    """
    _, diagnostics, _ = load_text(text)
    (error,) = diagnostics
    assert error.code == "F146"
    assert error.help is not None and "`a` is the value `a` of `Note`" in error.help
    declared = text.replace("note(a)", "note(a: Note)")
    assert load_text(declared)[1] == ()
