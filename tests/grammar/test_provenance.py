"""Provenance: rules and families of any derived grammar say what of the user's they stand for."""

from __future__ import annotations

import pytest

import fgg
from fgg.api.compile import selected
from fgg.compiler.driver import SPACES, Expected, passed, plan_of
from fgg.compiler.passes.split import split
from fgg.grammar import Grammar
from fgg.grammar.definitions import Variant
from fgg.grammar.printer import print_grammar
from fgg.grammar.provenance import (
    FamilySource,
    NodeSource,
    families_of,
    origins_of,
    pins_of,
    traced,
)

PAIRS = """
domain A = 2
domain B = 3
domain U = A + B
domain P = U * A
factor f(P)
factor g(A -> U)
nonterminal S
nonterminal X(U)
start S
rule top: S -> f(p) X(p.U)
rule leaf: X(u) -> g(a, u)
"""


def joined(name: str, query: str) -> Grammar:
    return selected(fgg.load(name), query)


def test_sources_take_no_part_in_equality_hash_or_text() -> None:
    grammar = joined("pcfg", "string")
    result = traced(grammar)
    assert result == grammar and hash(result.rules[0]) == hash(grammar.rules[0])
    assert print_grammar(result) == print_grammar(grammar)
    assert repr(result.rules) == repr(grammar.rules)
    assert traced(result) is result


@pytest.mark.parametrize(
    ("name", "query", "space"),
    [("pair_hmm", "pair", "state"), *(("pcfg", "string", space) for space in SPACES)],
)
def test_after_every_pass_sources_name_rules_and_families_of_the_grammar(
    name: str, query: str, space: str
) -> None:
    grammar = joined(name, query)
    rules = {rule.name: rule for rule in grammar.rules}
    for _, derived in passed(grammar, Expected(), space):
        families = families_of(derived)
        for rule in derived.rules:
            if rule.source is None:
                continue
            whole = rules[rule.source.rule]
            assert {*rule.source.nodes} == {node.name for node in whole.rhs.nodes}
            assert families[rule.lhs].family == whole.lhs
        for label, source in families.items():
            leaves = [d for variant in source.variants for _, d in variant.leaves()]
            assert tuple(leaves) == derived.nonterminal[label].domains
            domains = tuple(variant.domain for variant in source.variants)
            assert domains == grammar.nonterminal[source.family].domains


def test_messages_and_the_closing_rule_stand_for_nothing() -> None:
    plan = plan_of(joined("pcfg", "string"), Expected(), "state")
    helpers = {n.name for n in plan.grammar.nonterminals} - {*families_of(plan.grammar)}
    assert helpers and not helpers & {*joined("pcfg", "string").nonterminal}
    assert not any(rule.source for rule in plan.grammar.rules if rule.lhs in helpers)


def test_pins_are_read_off_any_later_grammar() -> None:
    grammar = selected(fgg.load("hmm_blocks", sizes={"m": 3, "k": 2, "d": 7}), None)
    stages = dict(passed(grammar, Expected(), "dense"))
    assert pins_of(stages["split"]) == {}
    first, second = pins_of(stages["pin"])["X"]
    assert first is not None and (first.input, first.path) == ("w", ("clusters",))
    assert second is None
    assert pins_of(plan_of(grammar, Expected(), "dense").grammar) == pins_of(stages["pin"])
    assert pins_of(plan_of(grammar, Expected(), "dense", pinned=False).grammar) == {}


def test_variants_compose_when_a_variant_is_split_again() -> None:
    half = NodeSource(Variant("P", (Variant("U"), Variant("A"))), ("p_U", "p_A"))
    inner = {
        "p_U": NodeSource(Variant("U", (Variant("B"),)), ("p_B",)),
        "p_A": NodeSource(Variant("A"), ("p_A",)),
    }
    whole = Variant("P", (Variant("U", (Variant("B"),)), Variant("A")))
    assert half.refined(inner) == NodeSource(whole, ("p_B", "p_A"))
    family = FamilySource("Y", (half.variant, Variant("A")))
    assert family.refined(
        (Variant("U", (Variant("B"),)), Variant("A"), Variant("A"))
    ) == FamilySource("Y", (whole, Variant("A")))


def test_values_of_split_nodes_are_those_of_the_users_node() -> None:
    grammar = fgg.loads(PAIRS)
    found = split(traced(grammar))
    sources = origins_of(found)
    seen = set()
    for name, source in sources.items():
        if source.rule == "top":
            first, second = source.nodes["p"].nodes
            seen.add(source.values(grammar, {first: 1, second: 1})["p"])
            assert source.rule in name
    # Value 1 of A is the second value of U and value 1 of B is its fourth; each has two pairs.
    assert seen == {1 * 2 + 1, 3 * 2 + 1}
