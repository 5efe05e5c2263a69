"""Rank space: the value stays, the states go, and what cannot go is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fgg.api.compile import compile
from fgg.check.bfgg import b_status, is_bfgg
from fgg.compiler.passes.cpd import cpd
from fgg.compiler.passes.fold import fold
from fgg.compiler.rank.nodes import state_uses
from fgg.compiler.rank.rank_space import kept, rank_space
from fgg.compiler.rank.uses import NotRankSpace
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.rewrite.ground import ground
from fgg.runtime.reference.solve import solve
from tests.conftest import Golden
from tests.helpers.rank_grammars import (
    LIBRARY,
    OWN,
    WHOLE,
    asked,
    assert_same,
    assert_well_formed,
    decomposed,
    small_dense,
    values,
)


@pytest.mark.parametrize("name", [*LIBRARY, *OWN])
def test_marginalising_states_keeps_the_value(name: str) -> None:
    grammar = asked(name)
    before = decomposed(grammar)
    result = rank_space(before)
    assert_well_formed(result)
    if name in WHOLE:
        assert not [*state_uses(result)] and not kept(before)
        assert rank_space(result) is result
    else:
        assert kept(before)
    assert_same(grammar, result)


@pytest.mark.parametrize("name", [*LIBRARY, *OWN])
def test_messages_in_rank_space_keep_the_value(name: str) -> None:
    before = decomposed(asked(name))
    result = fold(rank_space(before))
    assert_well_formed(result)
    assert values(before, "gf", (4,)) == values(result, "gf", (4,))


@pytest.mark.parametrize("name", ["pcfg", "hmm_rank", "lpcfg", "ternary"])
def test_rank_space_writes(name: str, golden: Golden) -> None:
    golden(print_grammar(rank_space(decomposed(asked(name)))), "fgg")


@pytest.mark.parametrize("name", ["pcfg", "hmm_rank", "several"])
def test_programs_in_rank_space_agree_with_the_source(name: str) -> None:
    grammar = asked(name)
    program = compile(rank_space(decomposed(grammar)), fallback=False)
    weights = program.weights(seed=7)
    words = [[0, 1, 2, 3, 1], [3, -1, 1, 0], [2, 1]]
    for value, row in zip(program.log_z(weights, {"w": words}), words, strict=True):
        flat = ground(grammar, inputs={"w": row})
        assert float(value) == pytest.approx(float(solve(flat, "log", seed=7).value), rel=1e-5)


def rules_without(grammar: Grammar) -> list[Grammar]:
    """The grammar without one of its rules, for each."""
    return [
        replace(grammar, rules=tuple(r for r in grammar.rules if r is not gone))
        for gone in grammar.rules
    ]


def relabelled(grammar: Grammar, old: str, new: str) -> list[Grammar]:
    """The grammar with another label on one edge, for each edge with the old label."""
    found = []
    for rule in grammar.rules:
        for edge in rule.rhs.edges:
            if edge.label == old:
                edges = tuple(replace(e, label=new) if e is edge else e for e in rule.rhs.edges)
                wrong = replace(rule, rhs=replace(rule.rhs, edges=edges))
                rules = tuple(wrong if r is rule else r for r in grammar.rules)
                found.append(replace(grammar, rules=rules))
    return found


def test_a_wrong_rewrite_is_caught() -> None:
    right = rank_space(decomposed(asked("pcfg")))
    want = values(right, "gf", (3,))
    wrong = rules_without(right)
    for number in "NP":
        one, two = f"binary_1_R_binary_{number}", f"binary_2_R_binary_{number}"
        wrong += relabelled(right, one, two) + relabelled(right, two, one)
    for one, two in ("12", "21"):
        wrong += relabelled(right, f"X_binary_{one}", f"X_binary_{two}")
    assert len(wrong) == 12
    for planted in wrong:
        assert values(planted, "gf", (3,)) != want


@pytest.mark.parametrize(
    ("change", "rule", "node", "reason"),
    [
        (lambda: asked("lhmm"), "step", "t", "`emit` depends on the input"),
        (lambda: small_dense("cnf"), "root", "a", "no rule has a rank node"),
        (lambda: small_dense("hmm"), "begin", "t", "no rule has a rank node"),
        (lambda: cpd(small_dense("hsmm"), {"trans": 2}), "next_None", "t", "`emit` depends"),
    ],
)
def test_grammars_outside_the_class_are_refused(
    change: Callable[[], Grammar], rule: str, node: str | None, reason: str
) -> None:
    with pytest.raises(NotRankSpace) as caught:
        rank_space(decomposed(change()))
    assert (caught.value.rule, caught.value.node) == (rule, node)
    assert reason in caught.value.reason and f"rule `{caught.value.rule}`" in str(caught.value)


def test_unions_are_split_before_states_go() -> None:
    with pytest.raises(NotRankSpace, match="split"):
        rank_space(cpd(asked("pcfg")))


def test_what_stays_in_state_space_is_said() -> None:
    (dense,) = kept(decomposed(asked("mixed")))
    assert (dense.rule, dense.node) == ("high", "a") and "no factor leads" in dense.reason
    reasons = {(item.rule, item.reason) for item in kept(decomposed(asked("shared")))}
    assert ("both", "two nonterminals touch it") in reasons
    result = rank_space(decomposed(asked("shared")))
    assert {x.name for x in result.nonterminals} >= {"X", "X_rank", "Y", "Y_rank"}


@pytest.mark.parametrize("name", ["pcfg", "lpcfg", "hmm_rank", "cnf", "ternary"])
def test_only_messages_touch_external_nodes(name: str) -> None:
    """Decomposition leaves a B-FGG one; in rank space messages are all that does."""
    grammar = decomposed(asked(name))
    assert is_bfgg(grammar)
    result = rank_space(grammar)
    for status in b_status(result):
        assert status.holds or (status.edge or "").startswith("X_"), status
