"""Documents that are wrong: what is said, and where."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgg.compiler import loads
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.grammar.values import Table
from fgg.json import from_json, read_json_text
from tests.generators.json_documents import (
    COIN,
    Json,
    changed,
    problems,
    read,
    text_problems,
)

WRONG = [
    ("grammar.start", None, "F406", "`grammar`: there is no `start`"),
    ("grammar.start", "T", "F406", "`grammar.start`: there is no nonterminal `T`"),
    ("grammar.start", "coin", "F406", "`grammar.start`: `coin` is a terminal, not a nonterminal"),
    ("grammar.start", 1, "F406", "`grammar.start`: a text was expected, not a number"),
    ("grammar.rules", {}, "F406", "`grammar.rules`: a list was expected, not an object"),
    ("grammar.rules.1", [], "F406", "`grammar.rules[1]`: an object was expected, not a list"),
    ("grammar.rules.1.lhs", "Y", "F406", "`grammar.rules[1].lhs`: there is no nonterminal `Y`"),
    ("grammar.rules.1.rhs", None, "F406", "`grammar.rules[1]`: there is no `rhs`"),
    (
        "grammar.rules.1.rhs.externals",
        None,
        "F406",
        "`grammar.rules[1].rhs.externals`: head `X` touches 0 nodes, but its type has 1",
    ),
    (
        "grammar.rules.0.rhs.edges.0.attachments",
        [-1],
        "F406",
        "`grammar.rules[0].rhs.edges[0].attachments[0]`: there is no node -1: there are 1",
    ),
    (
        "grammar.rules.0.rhs.edges.0.attachments",
        [1],
        "F406",
        "`grammar.rules[0].rhs.edges[0].attachments[0]`: there is no node 1: there are 1",
    ),
    (
        "grammar.rules.0.rhs.edges.0.attachments",
        [True],
        "F406",
        "`grammar.rules[0].rhs.edges[0].attachments[0]`: "
        "the number of a node was expected, not true or false",
    ),
    (
        "grammar.rules.0.rhs.edges.0.attachments",
        [0, 0],
        "F406",
        "`grammar.rules[0].rhs.edges[0].attachments`: "
        "edge `coin` touches 2 nodes, but its type has 1",
    ),
    (
        "grammar.rules.0.rhs.edges.0.label",
        "con",
        "F406",
        "`grammar.rules[0].rhs.edges[0].label`: there is no terminal or nonterminal `con`",
    ),
    (
        "grammar.rules.1.rhs.nodes",
        [{"label": "B", "id": "a"}, {"label": "B", "id": "a"}],
        "F406",
        "`grammar.rules[1].rhs.nodes[1].id`: nodes 0 and 1 have the same id",
    ),
    (
        "grammar.nonterminals.coin",
        {"type": ["B"]},
        "F406",
        "`grammar.nonterminals.coin`: `coin` is a terminal as well",
    ),
    (
        "grammar.terminals.coin.type",
        "B",
        "F406",
        "`grammar.terminals.coin.type`: a list was expected, not a text",
    ),
    (
        "grammar.terminals.coin.given",
        1,
        "F406",
        "`grammar.terminals.coin.given`: a whole number below 1 was expected",
    ),
    ("interpretation.domains", None, "F406", "`interpretation`: there is no `domains`"),
    (
        "interpretation.domains.B",
        {"class": "range", "size": True},
        "F406",
        "`interpretation.domains.B.size`: a whole number between 1 and 2147483647 was expected",
    ),
    (
        "interpretation.domains.B.class",
        "real",
        "F406",
        '`interpretation.domains.B.class`: "finite" or "range" was expected, not "real"',
    ),
    (
        "interpretation.domains.B.values",
        ["x", "x"],
        "F406",
        "`interpretation.domains.B.values[1]`: the same value as values[0]",
    ),
    (
        "interpretation.factors.dice",
        {"function": "constant", "weight": 1},
        "F406",
        "`interpretation.factors.dice`: there is no terminal `dice`",
    ),
    (
        "interpretation.factors.coin.weights",
        [0.5, -0.5],
        "F407",
        "`interpretation.factors.coin.weights[1]`: weight -0.5 is negative",
    ),
    (
        "interpretation.factors.coin.weights",
        [float("nan"), 1],
        "F407",
        "`interpretation.factors.coin.weights[0]`: the weight is not a finite number",
    ),
    (
        "interpretation.factors.coin.weights",
        [10**400, 1],
        "F407",
        "`interpretation.factors.coin.weights[0]`: the weight is not a finite number",
    ),
    (
        "interpretation.factors.coin.weights",
        [1, True],
        "F407",
        "`interpretation.factors.coin.weights[1]`: a number was expected, not true or false",
    ),
    (
        "interpretation.factors.coin.weights",
        [1],
        "F407",
        "`interpretation.factors.coin.weights`: "
        "weights of shape [1], but the terminal's type has [2]",
    ),
    (
        "interpretation.factors.same.weights",
        [[1, 2], [1]],
        "F407",
        "`interpretation.factors.same.weights[1]`: 1 entries, but the first list beside it has 2",
    ),
    (
        "interpretation.factors.same.weights",
        {"physical": [1, 2], "vaxes": [0, {"before": -1, "term": 0, "after": 1}]},
        "F407",
        "`interpretation.factors.same.weights.vaxes[1].before`: "
        "a whole number from 0 up was expected",
    ),
    (
        "interpretation.factors.same.weights",
        {"physical": [1, 2], "vaxes": [0, [2]]},
        "F407",
        "`interpretation.factors.same.weights.vaxes[1][0]`: "
        "there is no physical axis 2: there are 1",
    ),
    (
        "interpretation.factors.same.weights",
        {"physical": [[1, 2], [3, 4]], "vaxes": [0, 0]},
        "F407",
        "`interpretation.factors.same.weights.vaxes`: physical axis 1 of size 2 is used nowhere",
    ),
    (
        "interpretation.factors.same.map",
        [0, 2],
        "F407",
        "`interpretation.factors.same.map[1]`: a whole number from 0 to 1 was expected",
    ),
    (
        "interpretation.factors.same.weights",
        {"expand": [2]},
        "F407",
        "`interpretation.factors.same.weights`: there is no `physical`",
    ),
]


@pytest.mark.parametrize(("path", "value", "code", "message"), WRONG)
def test_what_is_wrong_is_said_with_its_place(
    path: str, value: object, code: str, message: str
) -> None:
    reported = problems(changed(path, value))
    assert (code, message) in reported, reported


def test_a_node_must_have_the_label_that_an_edge_wants() -> None:
    data = changed("grammar.rules.0.rhs.nodes.0.label", "C")
    data["interpretation"]["domains"]["C"] = {"class": "range", "size": 2}
    assert problems(data) == [
        (
            "F406",
            f"`grammar.rules[0].rhs.edges[{i}].attachments[0]`: "
            f"node 0 has label `C`, but `{label}` wants `B`",
        )
        for i, label in enumerate(("coin", "X"))
    ]


def test_all_problems_come_in_one_go() -> None:
    data = changed("grammar.start", "T")
    data["grammar"]["rules"][0]["lhs"] = "Q"
    data["interpretation"]["factors"]["coin"]["weights"] = [1, 2, 3]
    assert len(problems(data)) == 3


def test_thousands_of_problems_are_cut_short() -> None:
    data = changed("grammar.rules", [5] * 1000)
    reported = problems(data)
    assert len(reported) == 51 and reported[-1] == ("F406", "950 more problems of this kind")


FLAT: Json = {
    "domains": {"T": 2, "W": ["a", "b"]},
    "nonterminals": {"S": [], "X": ["T"]},
    "start": "S",
    "factors": {"f": {"type": ["T", "W"], "weights": [[1, 2], [3, 4]]}},
    "rules": [
        {"lhs": "S", "nodes": {"t": "T"}, "edges": [{"label": "X", "nodes": ["t"]}]},
        {
            "lhs": "X",
            "name": "step",
            "ext": ["t"],
            "nodes": {"w": "W", "t": "T"},
            "edges": [{"label": "f", "nodes": ["t", "w"]}],
        },
    ],
}


def test_a_flat_document_names_its_nodes() -> None:
    grammar = read(FLAT)
    assert [rule.name for rule in grammar.rules] == ["S", "step"]
    assert grammar.rules[1].rhs.externals == ("t",)
    assert grammar.factor["f"].value == Table(((1.0, 2.0), (3.0, 4.0)))
    assert brute_force(grammar, {}) == 10.0


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rules", 3, "`grammar.rules`: a list was expected, not a number"),
        ("rules", [7], "`grammar.rules[0]`: an object was expected, not a number"),
        (
            "rules",
            [{"lhs": "S", "nodes": {"t": "T"}, "edges": [{"label": "X", "nodes": ["u"]}]}],
            "`grammar.rules[0].rhs.edges[0].attachments[0]`: "
            "the number of a node was expected, not a text",
        ),
        (
            "domains",
            {"T": "2"},
            "`interpretation.domains.T.size`: a whole number between 1 and 2147483647 was expected",
        ),
    ],
)
def test_what_is_wrong_in_a_flat_document_is_said(key: str, value: object, message: str) -> None:
    assert ("F406", message) in problems({**FLAT, key: value})


@pytest.mark.parametrize("data", [None, 1, [], {}, {"grammar": None}, {"grammar": {}}, "text"])
def test_what_is_no_grammar_is_refused(data: object) -> None:
    assert {code for code, _ in problems(data)} == {"F406"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is not JSON: expecting value"),
        ('{"a": 1', "this is not JSON: expecting ',' delimiter"),
        ("{} {}", "this is not JSON: extra data"),
        ('{"a": 1, "a": 2}', "key `a` occurs twice in one object"),
        ('{"a": NaN}', "`NaN` is not a number of JSON"),
        ("[-Infinity]", "`-Infinity` is not a number of JSON"),
        ("[" * 100_000, "the document is nested too deep"),
        ("[" * 100_000 + "]" * 100_000, "the document is nested too deep"),
        ("1" * 10_000, "a number has too many digits"),
    ],
)
def test_a_text_that_is_no_json_is_refused(text: str, message: str) -> None:
    assert text_problems(text) == [("F405", message)]


def test_a_text_becomes_a_grammar() -> None:
    grammar, diagnostics = read_json_text("\ufeff" + json.dumps(COIN), "folder/coin.json")
    assert grammar == read(COIN) and not diagnostics
    assert grammar is not None and grammar.name == "coin"


def test_deep_documents_are_refused() -> None:
    deep: object = 1.0
    for _ in range(100_000):
        deep = [deep]
    for path in ("interpretation.factors.coin.weights", "grammar.rules", "grammar.start"):
        assert problems(changed_deep(path, deep))
    axis = {"physical": [1, 2], "vaxes": [deep]}
    assert [
        code for code, _ in problems(changed_deep("interpretation.factors.coin.weights", axis))
    ] == ["F407"]
    deep_values = changed_deep("interpretation.domains.B.values", [deep, 1])
    assert [code for code, _ in problems(deep_values)] == ["F405"]


def changed_deep(path: str, value: object) -> Json:
    data = changed(path, 0)
    place: Any = data
    *keys, last = path.split(".")
    for key in keys:
        place = place[key]
    place[last] = value
    return data


@given(st.data())
def test_broken_documents_never_raise(data: st.DataObject) -> None:
    document: Any = copy.deepcopy(COIN)
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 3)) == 0:
            break
        place = inner
    junk = st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
        lambda x: st.one_of(
            st.lists(x, max_size=3),
            st.dictionaries(st.sampled_from(["type", "label", "physical", "vaxes", "x"]), x),
        ),
        max_leaves=4,
    )
    place[key] = data.draw(junk)
    grammar, diagnostics = from_json(document)
    assert (grammar is None) == any(d.is_error for d in diagnostics)
    if grammar is not None:
        assert loads(print_grammar(grammar)) == grammar
