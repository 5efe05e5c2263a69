"""The JSON format: grammars written and read back, names, documents that lack something."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Enumerated, Factor, Grammar, Sized
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Expr
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.grammar.values import Constant
from fgg.json import from_json, to_json
from fgg.rewrite.plain import plain
from tests.conftest import Golden
from tests.generators.grammars import finite_grammars, grammars
from tests.generators.json_documents import (
    COIN,
    changed,
    problems,
    read,
)


def test_a_document_becomes_a_grammar(golden: Golden) -> None:
    golden(print_grammar(read(COIN)), "fgg")
    assert brute_force(read(COIN), {}) == 0.25 + 0.75 * 2


def test_a_grammar_becomes_a_document(golden: Golden) -> None:
    grammar = loads(
        """
        size k = 2
        domain N = k
        domain P = {x, "a b"}
        domain C = N + P
        rank R = 3
        factor f(N -> C) = [[1/4, 1/4, 1/2, 0], [0, 0, 0, 1]]
        factor g(C, C) rank k with prior = dirichlet(0.1), frozen = yes
        factor h(R) = 1/3
        nonterminal S()
        nonterminal X(C, C)
        start S
        rule first: S -> f(a.N, b) X(a, b) h(r)
        rule X(c, c) -> g(c, d)
        """
    )
    golden(json.dumps(to_json(grammar), indent=1) + "\n", "json")


@pytest.mark.parametrize(
    "name", ["hmm", "pcfg", "lexpcfg", "dyck", "branching", "hmm_rank", "hmm_blocks"]
)
def test_library_models_come_back(name: str) -> None:
    grammar = load(name)
    result = read(json.loads(json.dumps(to_json(grammar))))
    model = plain(replace(grammar, queries=()))
    assert result.rules == model.rules and result.nonterminals == model.nonterminals
    assert [f.name for f in result.factors] == [f.name for f in model.factors]
    for mine, other in zip(result.factors, model.factors, strict=True):
        assert (mine.domains, mine.given) == (other.domains, other.given)
        assert mine.attributes == other.attributes and mine.definition == other.definition
    for domain in model.domains:
        assert domain_size(result, domain.name) == domain_size(model, domain.name)


@given(finite_grammars())
def test_a_round_trip_keeps_the_value(grammar: Grammar) -> None:
    result = read(json.loads(json.dumps(to_json(grammar))))
    np.testing.assert_allclose(brute_force(result, {}), brute_force(grammar, {}), rtol=1e-9)


@given(grammars())
def test_a_second_round_trip_changes_nothing(grammar: Grammar) -> None:
    data = json.loads(json.dumps(to_json(grammar)))
    result, diagnostics = from_json(data)
    assert result is not None, diagnostics
    assert to_json(result) == data
    assert loads(print_grammar(result)) == result
    bare = replace(result, factors=tuple(replace(f, value=None) for f in result.factors))
    assert bare == _bare(plain(grammar))


def _bare(grammar: Grammar) -> Grammar:
    """The grammar as JSON can say it, without values."""
    known = {name: domain_size(grammar, name) for name in grammar.domain}

    def rank(factor: Factor) -> Expr | None:
        if factor.rank is None:
            return None
        value = factor.rank.evaluate(size_values(grammar))
        assert value is not None
        return Expr.of(value)

    return replace(
        grammar,
        sizes=(),
        domains=tuple(
            replace(d, shape=Sized(Expr.of(known[d.name]))) if isinstance(d.shape, Sized) else d
            for d in grammar.domains
        ),
        factors=tuple(replace(f, value=None, rank=rank(f)) for f in grammar.factors),
    )


def test_a_grammar_with_indices_must_be_grounded_first() -> None:
    with pytest.raises(GrammarError, match=r"F303(.|\n)*give lengths to ground it first"):
        to_json(load("eisner"))


def test_rules_whose_conditions_on_sizes_fail_are_left_out() -> None:
    grammar = loads(
        """
        size k = 2
        nonterminal S()
        start S
        rule yes: S -> for k == 2
        rule no:  S -> for k > 2
        """
    )
    rules: Any = to_json(grammar)["grammar"]
    assert [rule["name"] for rule in rules["rules"]] == ["yes"]


def test_any_text_may_be_a_name() -> None:
    text = json.dumps(COIN)
    for name in ("a b", "`", "two\nlines", "rule", "", "\ud800", "N.0", "é"):
        data = json.loads(text.replace('"X"', json.dumps(name)).replace('"B"', json.dumps(name)))
        grammar = read(data)
        assert loads(print_grammar(grammar)) == grammar
        kept = name not in ("`", "two\nlines", "", "\ud800")
        assert (name in grammar.nonterminal) == kept and (name in grammar.domain) == kept
    clash = json.loads(text.replace('"X"', '"c`"').replace('"same"', '"c_"'))
    assert set(read(clash).nonterminal) == {"S", "c__2"}


def test_nodes_without_ids_are_numbered() -> None:
    data = changed("grammar.rules.1.rhs.nodes", [{"label": "B"}, {"label": "B", "id": "n0"}])
    assert [node.name for node in read(data).rules[1].rhs.nodes] == ["n0", "n1"]
    assert read(data).rules[1].rhs.externals == ("n0",)


def test_rules_are_named_after_their_nonterminals() -> None:
    data = changed(
        "grammar.rules", COIN["grammar"]["rules"] + [{"name": 5, **COIN["grammar"]["rules"][1]}]
    )
    assert [rule.name for rule in read(data).rules] == ["S", "X", "X_2"]


def test_values_of_any_type_are_named() -> None:
    data = changed("interpretation.domains.B.values", [1, "1"])
    assert read(data).domain["B"].shape == Enumerated(("1_2", "1"))
    data = changed("interpretation.domains.B.values", [None, {"a": [True]}])
    assert read(data).domain["B"].shape == Enumerated(("null", '{"a": [true]}'))


def test_a_grammar_alone_needs_sizes() -> None:
    inner = COIN["grammar"]
    assert problems(inner) == [
        (
            "F406",
            "`interpretation`: the number of values of `B` is not known, "
            "and every domain needs one",
        )
    ]
    grammar = read(inner, B=3)
    assert grammar.domain["B"].shape == Sized(Expr.of(3))
    assert [factor.value for factor in grammar.factors] == [None, None]
    assert read({"grammar": inner}, B=3) == grammar
    assert [code for code, _ in problems(inner, B=0)] == ["F410", "F406"]
    assert [code for code, _ in problems(inner, B=2, C=2)] == ["F410"]
    assert [code for code, _ in problems(COIN, B=2)] == ["F410"]


def test_unused_labels_and_unknown_keys_are_passed_over() -> None:
    data = changed("grammar.terminals.unused", {"type": ["Z"], "description": 1})
    data["interpretation"]["domains"]["Y"] = {"class": "range", "size": 7}
    data["description"] = "a coin"
    grammar = read(data)
    assert set(grammar.domain) == {"B", "Y"} and "unused" not in grammar.factor


def test_terminals_may_lack_weights() -> None:
    assert read(changed("interpretation.factors.coin", None)).factor["coin"].value is None


def test_a_constant_factor_is_the_same_everywhere() -> None:
    data = changed("interpretation.factors.coin", {"function": "constant", "weight": 2})
    assert read(data).factor["coin"].value == Constant(2.0)


def test_normalised_weights_stay_potentials_unless_the_document_says_otherwise() -> None:
    assert read(COIN).factor["coin"].given is None
    assert read(changed("grammar.terminals.coin.given", 0)).factor["coin"].given == 0
    [(code, message)] = problems(changed("grammar.terminals.same.given", 1))
    assert code == "F128" and "sum to 2" in message


def test_warnings_do_not_stop_reading() -> None:
    grammar, diagnostics = from_json(changed("grammar.nonterminals.Y", {"type": []}))
    assert grammar is not None
    assert {d.code for d in diagnostics} == {"F201", "F203"}
    assert [d.code for d in check_grammar(grammar)] == [d.code for d in diagnostics]
