"""Verify: what the compiler makes of grammars is proved equal, and planted faults are refuted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgg
from fgg.api import verify as verifying
from fgg.cli import main
from fgg.compiler import load, loads
from fgg.compiler.driver import PIPELINES, Pass
from fgg.compiler.plan import lower
from fgg.diagnostics import GrammarError
from fgg.grammar import (
    Attachment,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Node,
    Rule,
    Sized,
    Union,
)
from fgg.grammar.index import Expr
from fgg.grammar.slices import Narrow
from fgg.grammar.values import Constant, Table
from fgg.library import library_names
from fgg.plan import Cut, Plan
from fgg.runtime.interpret.semirings.modular import random_prime
from fgg.runtime.program.program import Program
from fgg.runtime.verify.items import items_of
from fgg.runtime.verify.result import Verification
from tests.runtime.reference.test_conformance import FILE, cases, grammar_of

NONE: tuple[str | None] = (None,)
QUERIES = [(name, query) for name in library_names() for query in tuple(load(name).query) or NONE]
QUICK: dict[str, Any] = {"trials": 1, "length": 3, "items": 12, "peaked": False}
LARGE = ("ctc", "dmv", "lexpcfg", "lexpcfg_rank", "pair_hmm", "pcfg", "pcfg_la", "qcfg")
"""Grammars with many rules or lengths; `slow` tests try longer inputs of these too."""


def rows(found: Verification) -> dict[tuple[str, str, str], bool | None]:
    return {(row.space, row.what, row.quantity): row.holds for row in found.rows}


def assert_complete(name: str, found: Verification) -> None:
    """All that can be compared is there; what cannot be has a reason."""
    if name == "branching":
        assert found.verdict == "undecided" and not found.ok
        assert found.reasons[0] == "nothing could be compared"
        assert {"exact comparison"} < {left.what for left in found.left_out}
        return
    assert found.ok and found.proved and found.verdict == "proved", str(found)
    assert 2 <= found.alive <= found.items
    spaces = {row.space for row in found.rows if row.what == "program"}
    for space in spaces:
        kinds = {row.quantity for row in found.rows if row.space == space and row.error is not None}
        assert kinds == {"log Z", "gradients", "expected counts", "marginals"}
    told = " ".join(left.what for left in found.left_out) + " ".join(found.unchanged)
    for space in PIPELINES:
        assert space in spaces or space in told


@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_library_grammars_are_proved(name: str, query: str | None) -> None:
    length = 2 if name in LARGE else 3
    assert_complete(name, verifying.verify(load(name), query, **{**QUICK, "length": length}))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_library_grammars_are_proved_for_longer_inputs(name: str, query: str | None) -> None:
    found = verifying.verify(load(name), query, length=5, items=60, seed=1)
    assert_complete(name, found)


def test_rank_space_is_proved() -> None:
    found = verifying.verify(load("pcfg"), space="rank", **QUICK)
    assert rows(found)["rank", "after rank_space", "Z"]
    assert rows(found)["rank", "plan", "Z"] and rows(found)["rank", "program", "gradients"]
    (row,) = (row for row in found.rows if row.what == "plan")
    assert row.bound is not None
    # One root, two binary factors of three pieces each, three words.
    assert row.bound.degree == 1 + 2 * 3 + 3
    assert 0 < row.bound.chance < 1e-6


# the numbers behind a proof


def test_a_verification_is_short_in_a_session_and_a_table_in_a_notebook() -> None:
    found = fgg.verify(load("hmm"), floats=False)
    assert repr(found) == f"Verification({found.name!r}, proved, {len(found.rows)} comparisons)"
    table = found._repr_markdown_().splitlines()
    assert table[0] == f"**{found.name}: proved**"
    assert len(table) == 4 + len(found.rows)


def test_degrees_are_those_of_derivations() -> None:
    for name, degree in (("hmm", 2 * 3), ("hmm_rank", 1 + 3 * 3), ("cnf", 1 + 2 + 3)):
        found = verifying.verify(load(name), after="fold", trials=1, length=3, items=6)
        plans = verifying.verify(load(name), trials=1, length=3, items=6, floats=False)
        for row in (*found.rows, *plans.rows):
            assert row.bound is not None and row.bound.degree == degree, (name, row)


def test_more_trials_are_surer() -> None:
    chances = []
    for trials in (1, 3):
        found = verifying.verify(load("hmm"), trials=trials, length=2, items=6, floats=False)
        bounds = [row.bound for row in found.rows if row.what == "plan"]
        chances += [bound.chance for bound in bounds if bound is not None]
    assert chances[1] == pytest.approx(chances[0] ** 3)


def test_values_in_the_grammar_count_by_their_digits() -> None:
    text = "factor half() = 1/2\nfactor f()\nnonterminal S()\nstart S\nrule S -> half half f\n"
    other = loads(text.replace("half half", "quarter").replace("half() = 1/2", "quarter() = 0.25"))
    (exact, real) = verifying.verify(loads(text), other, trials=1).rows
    assert exact.holds and real.holds
    assert exact.bound is not None and exact.bound.degree == 1
    assert exact.bound.bits == pytest.approx(2 * 2 + 1)  # denominators 2 and 4, twice at most
    wrong = replace(
        other,
        factors=tuple(replace(f, value=Constant(0.3)) if f.value else f for f in other.factors),
    )
    assert not verifying.verify(loads(text), wrong, trials=1)


def test_primes_are_primes_and_differ() -> None:
    rng = np.random.default_rng(0)
    found = [random_prime(rng) for _ in range(20)]
    assert len(set(found)) == 20
    divisors = np.arange(3, 2**15.5, 2, dtype=np.int64)
    assert all(2**30 < p < 2**31 and p % 2 and (p % divisors).all() for p in found)


def test_short_inputs_are_all_tried() -> None:
    grammar = fgg.conjoin(load("hmm", sizes={"k": 2, "d": 2}), load("hmm").query["string"])
    items = items_of(grammar, 3, 40, np.random.default_rng(0))
    words = [tuple(item.inputs["w"].tolist()) for item in items]
    assert words[0] == () and set(words[1:4]) == {(-1,), (0,), (1,)}
    assert len({w for w in words if len(w) == 2}) == 9
    assert len(set(words)) == len(words) and (-1, -1, -1) in words


# planted faults


def planted(
    monkeypatch: pytest.MonkeyPatch, space: str, name: str, fault: Callable[[Grammar], Grammar]
) -> None:
    """Make a pass of a space wrong."""

    def wrong(item: Pass) -> Pass:
        return Pass(item.name, lambda grammar, expected: fault(item.run(grammar, expected)))

    passes = tuple(wrong(item) if item.name == name else item for item in PIPELINES[space])
    assert passes != PIPELINES[space]
    monkeypatch.setitem(PIPELINES, space, passes)


def refuted(grammar: Grammar, space: str, name: str) -> Verification:
    """A verification that must fail, after the planted pass and no earlier."""
    found = verifying.verify(grammar, space=space, floats=False, trials=2, items=20)
    assert not found.ok and found.verdict == "refuted"
    wrong = [row.what for row in found.rows if not row.holds]
    assert wrong[0] == f"after {name}" and "plan" in wrong
    assert found.counterexample is not None and found.counterexample.what == f"after {name}"
    return found


def with_edges(grammar: Grammar, change: Callable[[Rule, Edge], Edge | None]) -> Grammar:
    changed = []
    for rule in grammar.rules:
        edges = (change(rule, edge) for edge in rule.rhs.edges)
        kept = tuple(edge for edge in edges if edge is not None)
        changed.append(replace(rule, rhs=replace(rule.rhs, edges=kept)))
    return replace(grammar, rules=tuple(changed))


@pytest.mark.parametrize(
    ("dropped", "length"), [("binary", 2), ("X_P_binary_2", 2), ("X_N_binary_1", 3)]
)
def test_a_dropped_rule_is_refuted(
    monkeypatch: pytest.MonkeyPatch, dropped: str, length: int
) -> None:
    def fault(grammar: Grammar) -> Grammar:
        rules = tuple(rule for rule in grammar.rules if rule.name != dropped)
        assert len(rules) < len(grammar.rules)
        return replace(grammar, rules=rules)

    planted(monkeypatch, "rank", "rank_space", fault)
    example = refuted(load("pcfg"), "rank", "rank_space").counterexample
    assert example is not None
    assert example.lengths == {"n": length} and set(example.sizes.values()) == {1}
    assert example.inputs == {"w": ["0"] * length}
    assert (example.wanted, example.found) == (1, 0)
    assert "binary" in example.rules and example.derivation.startswith("(root (binary ")


def test_a_transposed_matrix_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        return with_edges(
            grammar,
            lambda rule, edge: (
                replace(edge, attachments=edge.attachments[::-1]) if edge.label == "trans" else edge
            ),
        )

    planted(monkeypatch, PLAIN, "fold", fault)
    example = refuted(load("hmm"), PLAIN, "fold").counterexample
    assert example is not None
    # One transition from a state to another shows it, with one word: sizes no smaller do.
    assert example.lengths == {"n": 2} and example.sizes == {"k": 2, "d": 1}
    assert len(example.weights["trans"]) == 1 and example.rules == ("step",)


def test_a_wrong_union_slice_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        domains = tuple(
            replace(d, shape=Union(d.shape.parts[::-1])) if isinstance(d.shape, Union) else d
            for d in grammar.domains
        )
        return replace(grammar, domains=domains)

    planted(monkeypatch, "rank", "split", fault)
    refuted(load("pcfg"), "rank", "split")


def test_a_wrong_slice_of_a_plan_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lower.plan

    def wrong(grammar: Grammar, **options: Any) -> Plan:
        found = right(grammar, **options)
        steps = [
            replace(
                step,
                steps=tuple(
                    replace(s, offset=0) if isinstance(s, Narrow) else s for s in step.steps
                ),
            )
            if isinstance(step, Cut)
            else step
            for step in found.preparations
        ]
        return replace(found, preparations=tuple(steps))

    monkeypatch.setattr(lower, "plan", wrong)
    found = verifying.verify(load("pcfg_dense"), space=PLAIN, floats=False, **QUICK)
    assert [row.what for row in found.rows if not row.holds] == ["plan"]
    assert found.counterexample is not None and found.counterexample.lengths == {"n": 2}


def test_a_missing_message_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        return with_edges(
            grammar,
            lambda rule, edge: (
                None if rule.name == "binary" and edge.label == "X_binary_2" else edge
            ),
        )

    planted(monkeypatch, "rank", "rank_space", fault)
    example = refuted(load("pcfg"), "rank", "rank_space").counterexample
    assert example is not None and example.lengths == {"n": 2}


TWO = """
size t = 5
size d = 5
size r = 5
domain N = t
domain W = d
factor root(-> N)
factor one(N -> N, N) rank r
factor two(N -> N, N) rank r
factor emit(N -> W)
nonterminal S()
nonterminal X(N)
start S
rule root: S    -> root(a) X(a)
rule one:  X(a) -> one(a, b, c) X(b) X(c)
rule two:  X(a) -> two(a, b, c) X(b) X(c)
rule word: X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root: S        -> X[0,n]
  rule one:  X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule two:  X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule word: X[i,i+1] -> o = w[i]
}
"""


def test_a_rank_node_shared_by_two_rules_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verifying.verify(loads(TWO), space="rank", floats=False, **QUICK).proved

    def fault(grammar: Grammar) -> Grammar:
        first, second = (x.name for x in grammar.nonterminals if x.name.startswith("X_rank"))
        shared = with_edges(
            grammar,
            lambda rule, edge: replace(edge, label=first) if edge.label == second else edge,
        )
        rules = (replace(r, lhs=first) if r.lhs == second else r for r in shared.rules)
        return replace(shared, rules=tuple(rules))

    planted(monkeypatch, "rank", "rank_space", fault)
    example = refuted(loads(TWO), "rank", "rank_space").counterexample
    assert example is not None and example.lengths == {"n": 2}
    assert {"one", "two"} & set(example.rules)


def test_a_side_without_a_value_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        return with_edges(
            grammar,
            lambda rule, edge: replace(edge, label="emit") if edge.label == "trans" else edge,
        )

    planted(monkeypatch, PLAIN, "fold", fault)
    found = verifying.verify(load("hmm"), space=PLAIN, floats=False, **QUICK)
    assert not found.ok and found.counterexample is not None


def test_a_wrong_program_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = verifying.program_maker

    def maker(space: str, jit: bool) -> Callable[[Grammar], Program]:
        def made(source: Grammar) -> Program:
            swapped = with_edges(
                source,
                lambda rule, edge: (
                    replace(edge, attachments=edge.attachments[::-1])
                    if edge.label == "trans"
                    else edge
                ),
            )
            return right(space, jit)(swapped)

        return made

    monkeypatch.setattr(verifying, "program_maker", maker)
    found = verifying.verify(load("hmm"), space=PLAIN, **QUICK)
    assert rows(found)[PLAIN, "plan", "Z"]  # the plan is right
    assert not rows(found)[PLAIN, "program", "log Z"]
    example = found.counterexample
    assert example is not None and example.what == "program" and example.modulus is None
    assert example.lengths == {"n": 2} and example.wanted != example.found
    assert "log Z" in "\n".join(example.lines())


PLAIN = next(iter(PIPELINES))
"""The space in which factors are taken as they are."""


# numbers given, grammars without a level, other grammars


@pytest.fixture
def low_rank_case() -> Any:
    found = [case for case in cases() if case["id"] == "25_lowrank_hmm"]
    if not found:
        pytest.skip(f"there is no {FILE.name} in FGG_CASES or in shared/cases beside the checkout")
    return found[0]


def low_rank_hmm(case: Any) -> Grammar:
    """The case, its transitions declared of low rank, with the evidence merged into emissions."""
    grammar = grammar_of(case)
    factors = [f for f in grammar.factors if f.name in ("init", "tr")]
    rules = []
    for rule in grammar.rules:
        kept = [e for e in rule.rhs.edges if e.label != "em" and not e.label.startswith("is")]
        if len(kept) < len(rule.rhs.edges):
            place = rule.lhs.removeprefix("X")
            factors.append(Factor(name=f"em{place}", domains=("Q",)))
            kept.append(Edge(label=f"em{place}", attachments=(Attachment(node="q"),)))
        nodes = tuple(node for node in rule.rhs.nodes if node.name != "w")
        rhs = Fragment.make(nodes, tuple(kept), (), rule.rhs.externals)
        rules.append(replace(rule, rhs=rhs))
    low = (replace(f, rank=Expr.of(2)) if f.name == "tr" else f for f in factors)
    return replace(grammar, factors=tuple(low), rules=tuple(rules))


def test_the_low_rank_hmm_is_proved_in_rank_space(low_rank_case: Any) -> None:
    for grammar in (grammar_of(low_rank_case), low_rank_hmm(low_rank_case)):
        assert verifying.verify(grammar).proved
    found = rows(verifying.verify(low_rank_hmm(low_rank_case)))
    assert found["rank", "plan", "Z"] and found["rank", "program", "gradients"]


def test_the_numbers_of_the_low_rank_hmm_are_proved(low_rank_case: Any) -> None:
    """Its matrix is the product of its pieces, exactly, as decimals."""
    dense = valued(grammar_of(low_rank_case), low_rank_case)
    left, right = low_rank_case["cp"]["tr"]["modes"]
    pieces = {"tr_left": left, "tr_right": right}
    rules = []
    for rule in dense.rules:
        edges: list[Edge] = []
        nodes = [*rule.rhs.nodes]
        for edge in rule.rhs.edges:
            if edge.label != "tr":
                edges.append(edge)
                continue
            nodes.append(Node(name="z", domain="R"))
            for name, node in zip(pieces, edge.attachments, strict=True):
                edges.append(Edge(label=name, attachments=(node, Attachment(node="z"))))
        rhs = Fragment.make(tuple(nodes), tuple(edges), (), rule.rhs.externals)
        rules.append(replace(rule, rhs=rhs))
    factors = [f for f in dense.factors if f.name != "tr"]
    factors += [Factor(name=n, domains=("Q", "R"), value=table(v)) for n, v in pieces.items()]
    ranks = Domain(name="R", shape=Sized(Expr.of(2)), rank=True)
    apart = replace(
        dense, domains=(*dense.domains, ranks), factors=tuple(factors), rules=tuple(rules)
    )
    found = fgg.verify(dense, apart)
    assert found.proved, str(found)
    assert found.rows[0].bound is not None and found.rows[0].bound.degree == 0
    pieces["tr_left"] = [[x + 1e-6 * (i == 0) for x in row] for i, row in enumerate(left)]
    factors[-2] = replace(factors[-2], value=table(pieces["tr_left"]))
    assert not fgg.verify(dense, replace(apart, factors=tuple(factors)))


def valued(grammar: Grammar, case: Any) -> Grammar:
    """A case's grammar with its weights as values."""
    factors = (replace(f, value=table(case["factors"][f.name]["weights"])) for f in grammar.factors)
    return replace(grammar, factors=tuple(factors))


def table(nest: Any) -> Table:
    def tuples(entry: Any) -> Any:
        return tuple(map(tuples, entry)) if isinstance(entry, list) else entry

    return Table(tuples(nest))


CYCLE = """
domain A = 2
domain B = 2
domain C = A + B
factor first(-> C)
factor again(C, C) = 0.2
factor last(C)
nonterminal S()
nonterminal X(C)
start S
rule S -> first(a) X(a)
rule more: X(a) -> again(a, b) X(b)
rule end: X(a) -> last(a)
"""


def test_what_is_not_a_polynomial_is_compared_in_float64() -> None:
    found = verifying.verify(loads(CYCLE))
    assert found.verdict == "undecided" and not found.refuted and not found.ok
    assert any("no bound" in reason for reason in found.reasons)
    assert rows(found)[PLAIN, "after split", "log Z"]
    reasons = {left.what: left.reason for left in found.left_out}
    assert "no bound" in reasons["exact comparison"]
    assert any("cannot be compiled" in reason for reason in reasons.values())


def test_grammars_can_be_compared_with_each_other() -> None:
    hmm = load("hmm", sizes={"k": 3, "d": 3})
    assert fgg.verify(hmm, hmm, **QUICK).proved
    transposed = with_edges(
        hmm,
        lambda rule, edge: (
            replace(edge, attachments=edge.attachments[::-1]) if edge.label == "trans" else edge
        ),
    )
    found = fgg.verify(hmm, transposed, **QUICK)
    assert not found and found.counterexample is not None
    assert [row.numbers for row in found.rows] == ["GF(p)", "float64"]
    moved = found.rows[1].error
    assert moved is not None and moved > 1e-3


def test_merging_factors_is_proved() -> None:
    hmm = load("hmm")
    merged = fgg.merge(hmm)
    assert "emit_trans" in merged.factor
    assert fgg.verify(hmm, merged, **QUICK).proved
    found = rows(fgg.verify(merged, **QUICK))
    assert found[PLAIN, "program", "gradients"] and all(found.values())


def test_grammars_with_other_inputs_are_refused() -> None:
    for other in ("crf", "pair_hmm"):
        with pytest.raises(GrammarError) as caught:
            fgg.verify(load("hmm"), load(other))
        assert caught.value.diagnostics[0].code == "F304"


def test_sizes_that_values_depend_on_stay() -> None:
    text = "size k = 4\nsize m = 9\ndomain A = k\ndomain B = m\n"
    text += "factor f(A) = [1, 2, 3, 4]\nfactor g(A, B)\nnonterminal S()\nstart S\n"
    text += "rule S -> f(a) g(a, b)\n"
    found = fgg.verify(loads(text))
    assert found.sizes == {"k": 4, "m": 3} and found.shrunk == {"m": 3}
    assert fgg.verify(loads(text), sizes={"m": 5}).sizes == {"k": 4, "m": 5}
    assert isinstance(loads(text).factor["f"].value, Table)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"trials": 0}, "F415"),
        ({"length": 0}, "F415"),
        ({"items": 0}, "F415"),
        ({"space": "outer"}, "F415"),
        ({"after": "nothing"}, "F415"),
        ({"after": "conjoin"}, "F415"),
        ({"after": "cpd", "space": PLAIN}, "F415"),
        ({"sizes": {"q": 2}}, "F410"),
        ({"query": "none"}, "F409"),
        ({"sizes": {"k": 5000, "d": 5000}}, "F420"),
    ],
)
def test_what_cannot_be_asked_is_an_error(options: dict[str, Any], code: str) -> None:
    with pytest.raises(GrammarError) as caught:
        fgg.verify(load("hmm"), **options)
    assert caught.value.diagnostics[0].code == code


# the command


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "hmm_rank", "--length", "2", "--trials", "2", "--no-float"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("hmm_rank: proved\n  sizes used: k = 2, d = 3, r = 2 (made small")
    assert "after rank_space  rank" in out and "degree 7, chance" in out
    assert "left out: programs" in out


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "hmm", "--length", "2", "--items", "6", "--no-peaked", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and found["verdict"] == "proved" and found["query"] == "string"
    assert {"what", "space", "quantity", "degree", "chance"} <= set(found["rows"][0])


def test_progress_goes_up_to_its_end() -> None:
    calls: list[tuple[int, int]] = []
    verifying.verify(
        load("hmm"), trials=2, length=2, items=4, progress=lambda *pair: calls.append(pair)
    )
    assert [done for done, _ in calls] == list(range(1, calls[0][1] + 1))


def test_the_command_says_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fgg.library import library_text

    path = tmp_path / "other.fgg"
    path.write_text(library_text("hmm").replace("trans(t, u)", "trans(u, t)"), "utf-8")
    command = ["verify", "hmm", "--against", str(path), "--length", "3"]
    assert main([*command, "--no-float"]) == 1
    out = capsys.readouterr().out
    assert "hmm: refuted" in out and "rule: `step`" in out and "source: 1\n" in out
    assert main([*command, "--json", "--set", "k=2", "d=2"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["counterexample"]["lengths"] == {"n": 2} and not found["ok"]
    assert found["sizes"] == {"k": 2, "d": 2}
    assert found["counterexample"]["sizes"] == {"k": 2, "d": 1}


def test_the_command_knows_what_is_wrong_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "branching"]) == 1  # nothing to compare: undecided
    assert main(["verify", "hmm", "--after", "folt"]) == 2
    assert "did you mean `fold`?" in capsys.readouterr().err
    assert main(["verify", "hmm", "--trials", "0"]) == 2
    assert main(["verify", "pcfg_la"]) == 2
    assert main(["verify", "nothing_there"]) == 2
