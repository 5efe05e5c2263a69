"""Schedules: levels that go down in every recursive rule."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fgg.compiler import load, loads
from fgg.compiler.plan.schedule import Schedule, schedule, schedule_lines
from fgg.grammar import Grammar
from fgg.grammar.domains import lengths
from fgg.library import library_names
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.ground import ground


def question(name: str, query: str) -> Grammar:
    model = load(name)
    return conjoin(model, model.query[query])


def text(grammar: Grammar) -> str:
    return "\n".join(schedule_lines(grammar, schedule(grammar)))


def test_spans_go_by_width() -> None:
    assert "X[i, j] at level j - i" in text(question("pcfg", "string"))


def test_chains_go_backwards_from_their_end() -> None:
    assert "X[i] at level -i; levels -n to 0" in text(question("hmm", "string"))


def test_pairs_of_lengths_go_by_antidiagonals() -> None:
    assert "X[i, j] at level -i - j; levels -m - n to 0" in text(question("pair_hmm", "pair"))


def test_families_that_share_a_level_are_ordered() -> None:
    stage = next(s for s in schedule(load("eisner")).stages if s.recursive)
    assert {str(form) for form in stage.level.values()} == {"j - i"}
    assert stage.families.index("IR") < stage.families.index("CR")
    assert stage.families.index("IL") < stage.families.index("CL")


def test_what_does_not_depend_on_itself_is_done_at_once() -> None:
    assert text(question("morphology", "word")).count("all at once") == 5


def test_a_forward_chain_has_the_opposite_sign() -> None:
    grammar = loads(
        "domain T = 2 input w: T[n] nonterminal X[i]() for 0 <= i <= n start X[n]"
        " rule a: X[i] -> X[i-1] for i > 0 rule b: X[0] ->"
    )
    assert text(grammar) == "X[i] at level i; levels 0 to n"


def test_a_recursion_that_stays_where_it_is_names_its_rules() -> None:
    found = schedule(load("branching"))
    assert not found.holds and found.conflicts[0].rules == ("two",)


def test_rules_that_pull_in_two_directions_are_named() -> None:
    grammar = loads(
        "domain T = 2 input w: T[n] nonterminal X[i]() for 0 <= i <= n start X[0]"
        " rule up: X[i] -> X[i+1] for i < n rule down: X[i] -> X[i-1] for i > 0 rule end: X[n] ->"
    )
    found = schedule(grammar)
    assert not found.holds and set(found.conflicts[0].rules) <= {"up", "down"}


def test_a_unary_cycle_on_one_level_is_a_conflict() -> None:
    grammar = loads(
        "domain T = 2 input w: T[n]"
        " nonterminal A[i]() for 0 <= i <= n nonterminal B[i]() for 0 <= i <= n start A[0]"
        " rule ab: A[i] -> B[i] rule ba: B[i] -> A[i] rule b: B[i] -> B[i+1] for i < n"
        " rule end: B[n] ->"
    )
    found = schedule(grammar)
    assert set(found.conflicts[0].rules) == {"ab", "ba"}


def test_conditions_on_tables_make_levels() -> None:
    assert "X[i] at level -i" in text(question("pcfg_la", "tree"))


def test_levels_may_need_larger_coefficients() -> None:
    grammar = loads(
        "domain T = 2 input w: T[n] nonterminal X[i, j]() for 0 <= i, 0 <= j, i + j <= n"
        " start X[n, 0] rule turn: X[i, j] -> X[i-1, j+1] for i > 0"
        " rule down: X[i, j] -> X[i, j-1] for j > 0 rule end: X[0, 0] ->"
    )
    assert text(grammar).startswith("X[i, j] at level 2*i + j")


def test_families_may_need_different_levels() -> None:
    grammar = loads(
        "domain T = 2 input w: T[n] nonterminal A[i]() for 0 <= i <= n"
        " nonterminal B[i]() for -n <= i <= 0 start A[n]"
        " rule a: A[i] -> B[-i] rule b: B[i] -> A[-i-1] for i < 0 rule end: B[0] ->"
    )
    assert "A[i] at level i" in text(grammar) and "B[i] at level -i" in text(grammar)


def test_spans_go_by_width_where_a_single_index_would_do_too() -> None:
    assert "S[i, j] at level j - i" in text(question("dyck", "string"))


def test_simple_levels_need_no_linear_program() -> None:
    code = (
        "import sys\nfrom fgg.compiler import load\n"
        "from fgg.compiler.plan.schedule import schedule\n"
        "from fgg.rewrite.conjoin import conjoin\nfrom fgg.library import library_names\n"
        "for name in library_names():\n"
        "    model = load(name)\n"
        "    for query in model.queries or [None]:\n"
        "        schedule(model if query is None else conjoin(model, query))\n"
        "assert not {'scipy', 'networkx', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_messages_need_no_linear_program_either() -> None:
    """Their indices are some of those of the families that they are made from."""
    code = (
        "import sys\nfrom fgg.compiler import load\n"
        "from fgg.compiler.driver import Expected, plan_of\n"
        "for space in ('dense', 'state', 'rank'):\n"
        "    stages = plan_of(load('lexpcfg_rank'), Expected(), space).stages\n"
        "    assert 'j - i' in {str(form) for stage in stages for form in stage.level.values()}\n"
        "assert not {'scipy', 'networkx', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def levels(
    found: Schedule, name: str, indices: tuple[int, ...], grammar: Grammar
) -> tuple[int, ...]:
    """A cell's place in the schedule: stage, level, order within the level."""
    for number, stage in enumerate(found.stages):
        if name in stage.families:
            if not stage.recursive:
                return (number, 0, 0)
            values = dict(zip(grammar.nonterminal[name].indices, indices, strict=True))
            level = stage.level[name].evaluate(values)
            assert level is not None
            return (number, level, stage.families.index(name))
    raise AssertionError(name)


@pytest.mark.parametrize("name", library_names())
def test_every_ground_rule_goes_down(name: str) -> None:
    model = load(name)
    for query in model.queries or [None]:
        grammar = model if query is None else conjoin(model, query)
        found = schedule(grammar)
        if not found.holds:
            continue
        inputs = {table.name: [1, 2, 2] for table in grammar.tables}
        given = {name for t in grammar.tables for e in t.shape for name in e.names()}
        known = {name: 4 for name in lengths(grammar) if name not in given}
        finite = ground(grammar, lengths=known, inputs=inputs)
        for rule in finite.rules:
            head = finite.nonterminal[rule.lhs].origin
            assert head is not None
            for edge in rule.rhs.edges:
                child = finite.nonterminal.get(edge.label)
                if child is not None and child.origin is not None:
                    below = levels(found, *child.origin, grammar)
                    assert below < levels(found, *head, grammar), (rule.name, edge.label)
