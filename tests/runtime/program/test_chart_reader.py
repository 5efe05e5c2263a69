"""Derivations and expectations from emitted programs, against the interpreter of plans."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.compiler.emit.python import emit
from fgg.compiler.passes.fold import fold
from fgg.compiler.passes.narrow import narrow
from fgg.compiler.plan.derivation_plan import plan_of_trees
from fgg.compiler.plan.lower import plan
from fgg.plan import Plan
from fgg.runtime.derive.decode import k_best, sample, viterbi
from fgg.runtime.derive.mbr import cell_marginals, mbr
from fgg.runtime.interpret.batch import batch_of
from fgg.runtime.interpret.interpret import inside, interpret
from fgg.runtime.interpret.prepare import checked_weights
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.posterior.expectation import entropy, kl
from fgg.runtime.program.chart_reader import (
    DerivationCharts,
    DerivationModules,
    best_charts,
    covers,
    log_charts,
    slopes,
)
from fgg.runtime.program.emitted import load_module
from fgg.runtime.program.program import Program
from tests.helpers.compiled import compiled, programs
from tests.helpers.plans import CASES, Case, case


def modules_of(given: Plan) -> DerivationModules:
    return DerivationModules(given, lambda best: load_module(emit(given, best=best)))


@cache
def plans(name: str, query: str | None) -> tuple[Case, Plan, tuple[DerivationModules, ...]]:
    """A case, the plan of its trees, and programs: its own, and one with messages."""
    given = case(name, query)
    trees = plan_of_trees(given.plan.grammar)
    folded = plan(fold(narrow(given.plan.grammar)))
    found = [modules_of(trees)]
    if covers(folded, trees):
        found.append(modules_of(folded))
    return given, trees, tuple(found)


def arguments(given: Case, trees: Plan) -> tuple[Any, Any, Any]:
    """Weights, inputs and lengths of the items that have derivations."""
    weights = given.weights(seed=1)
    inputs, lengths = given.batch((1, 2, 3, 4))
    truth = interpret(trees, weights, inputs, lengths, "boolean").z
    sizes = [n for n, found in zip((1, 2, 3, 4), truth.tolist(), strict=True) if found]
    if not sizes:
        pytest.skip("no item has a derivation")
    return weights, *given.batch(sizes)


def same(found: Any, wanted: Any) -> None:
    assert set(found) == set(wanted)
    for name in wanted:
        np.testing.assert_allclose(
            to_numpy(found[name]), to_numpy(wanted[name]), rtol=1e-9, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize(("name", "query"), CASES)
def test_charts_are_those_of_the_interpreter(name: str, query: str | None) -> None:
    given, trees, several = plans(name, query)
    weights, inputs, lengths = arguments(given, trees)
    real, batch = checked_weights(trees, weights), batch_of(trees, inputs, lengths)
    sums, best = inside(trees, real, batch, "log"), inside(trees, real, batch, "max")
    chance = np.random.default_rng(0)
    marks = {name: chance.random(array.shape) for name, array in best.arrays.items()}
    marked = inside(trees, real, batch, "max", scores=marks)
    for modules in several:
        same(log_charts(trees, modules, real, batch).arrays, sums.arrays)
        same(best_charts(trees, modules, real, batch).arrays, best.arrays)
        same(best_charts(trees, modules, real, batch, marks).arrays, marked.arrays)
        if not modules.plan.chart[modules.plan.start.name].states:
            uses = DerivationCharts(trees, real, batch, modules).uses
            assert uses is not None
            same(uses, cell_marginals(sums))


@pytest.mark.parametrize(("name", "query"), CASES)
def test_derivations_are_those_of_the_interpreter(name: str, query: str | None) -> None:
    given, trees, several = plans(name, query)
    weights, inputs, lengths = arguments(given, trees)
    source = given.source
    charts = DerivationCharts.of(given.plan, weights, inputs, lengths)
    best = viterbi(charts, source=source)
    lists = k_best(charts, number=4, source=source)
    risks = mbr(charts, source=source)
    of_trees = DerivationCharts.of(trees, weights, inputs, lengths)
    drawn = sample(of_trees, number=3, seed=1, source=source)
    for modules in several:
        emitted = DerivationCharts.of(trees, weights, inputs, lengths, modules=modules)
        found = viterbi(emitted, source=source)
        for one, two, order in zip(found, best, lists, strict=True):
            assert one.log_weight == pytest.approx(two.log_weight, abs=1e-9)
            if len(order) < 2 or order[0].log_weight - order[1].log_weight > 1e-9:
                assert one.key == two.key and one.spans() == two.spans()
        for some, other in zip(k_best(emitted, number=4, source=source), lists, strict=True):
            assert [d.log_weight for d in some] == pytest.approx(
                [d.log_weight for d in other], abs=1e-9
            )
        for risk, old in zip(mbr(emitted, source=source), risks, strict=True):
            assert risk.score == pytest.approx(old.score, abs=1e-6)
        again = sample(emitted, number=3, seed=1, source=source)
        assert [[d.key for d in ds] for ds in again] == [[d.key for d in ds] for ds in drawn]


@pytest.mark.parametrize(("name", "query"), CASES)
def test_expectations_are_those_of_the_interpreter(name: str, query: str | None) -> None:
    given, trees, several = plans(name, query)
    weights, inputs, lengths = arguments(given, trees)
    if trees.chart[trees.start.name].states:
        return
    other = given.weights(seed=2)
    found = entropy(trees, weights, inputs, lengths)
    gap = kl(trees, weights, other, inputs, lengths)
    real = {n: torch.as_tensor(to_numpy(w).astype(float)) for n, w in weights.items()}
    batch = batch_of(trees, inputs, lengths)
    for modules in several:
        new = entropy(trees, weights, inputs, lengths, modules=modules)
        torch.testing.assert_close(new, found, rtol=1e-9, atol=1e-9)
        apart = kl(trees, weights, other, inputs, lengths, modules=modules)
        torch.testing.assert_close(apart, gap, rtol=1e-8, atol=1e-8)
        own = slopes(modules, real, batch.item(0))
        assert own is not None
        torch.testing.assert_close(own[0], inside(trees, real, batch.item(0), "log").z)


def test_trees_keep_variables_that_are_fixed() -> None:
    given = fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 2, "pt": 2, "words": 3}))
    steps = {step.rule.name: step for step in given.compiled.trees.steps}
    assert set(steps["binary_P_N"].variables) == {"i", "j", "k"}
    assert not steps["binary_P_N"].splits
    assert given.compiled.tree_modules.plan is given.compiled.plan


@pytest.mark.parametrize("name", programs())
def test_log_z_is_zero_where_the_boolean_semiring_has_no_derivation(name: str) -> None:
    program = compiled(name)
    weights = program.weights(seed=0)
    for number, w in enumerate(weights.values()):
        chance = torch.rand(w.shape, generator=torch.Generator().manual_seed(number))
        w.masked_fill_(chance < 0.6, 0.0)
    inputs, lengths = items_of(program)
    log_z = program.log_z(weights, inputs, lengths)
    wanted = interpret(
        program.compiled.plan, program.check_weights(weights), inputs, lengths, "boolean"
    ).z
    assert (log_z > -torch.inf).tolist() == wanted.tolist()


def items_of(program: Program) -> tuple[dict[str, torch.Tensor], dict[str, list[int]]]:
    """Three items of the lengths 1, 2 and 4 with random tokens and tables."""
    from fgg.grammar.domains import domain_size, size_values
    from fgg.grammar.domains import lengths as length_names

    grammar, chance = program.grammar, torch.Generator().manual_seed(1)
    lengths = {name: [1, 2, 4] for name in length_names(grammar)}
    known = {**size_values(grammar), **{name: 4 for name in lengths}}
    inputs = {}
    for item in grammar.observed:
        shape = [3, *(e.evaluate(known) or 0 for e in item.shape)]
        top = domain_size(grammar, item.domain) if item in grammar.inputs else 4
        inputs[item.name] = torch.randint(-1, top, shape, generator=chance)
    for factor in grammar.input_factors:
        states = [domain_size(grammar, d) for d in factor.domains]
        extents = [1 + max(known.values()) for _ in factor.indices]
        logs = torch.randn((3, *extents, *states), generator=chance)
        inputs[factor.name] = logs.masked_fill(logs < -0.5, -float("inf"))
    return inputs, lengths


def test_an_absorbing_state_is_not_lost_at_any_length() -> None:
    """Beside 3^2000 derivations of other states, one that alone has the last word."""
    program = fgg.compile(fgg.load("hmm", sizes={"k": 4, "d": 2}))
    trans = torch.zeros(4, 4)
    trans[0, 0] = 1.0
    trans[1:, 1:] = 1.0
    emit = torch.ones(4, 2)
    emit[1:, 1] = 0.0  # the last word is emitted by the absorbing state alone
    weights = {"init": torch.ones(4), "trans": trans, "emit": emit}
    words = torch.zeros(1, 2001, dtype=torch.long)
    words[0, -1] = 1
    assert program.log_z(weights, {"w": words}).tolist() == [0.0]


def test_states_beyond_the_range_of_numbers_are_decoded_all_the_same() -> None:
    """Only the absorbing state has the first word; all others are 10^1200 times as probable."""
    program = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 2}))
    trans = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]])
    emit = torch.tensor([[0.001, 0.999], [1.0, 0.0], [1.0, 0.0]])
    weights = {"init": torch.full((3,), 1 / 3), "trans": trans, "emit": emit}
    words = torch.zeros(1, 401, dtype=torch.long)
    words[0, 0] = 1  # the charts are filled from the last word on
    call = (weights, {"w": words})
    values = [v for _, _, v in program.posterior(*call).best()[0].spans() if v]
    assert set(values) == {(0,)}
    assert [v for _, _, v in program.posterior(*call).sample(seed=0)[0][0].spans() if v] == values
    assert [v for _, _, v in program.posterior(*call).mbr()[0].spans() if v] == values
    assert program.posterior(*call).entropy().tolist() == pytest.approx([0.0], abs=1e-9)


def test_gradients_can_be_changed_in_place() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4}))
    weights = {n: w.requires_grad_() for n, w in program.weights(seed=0).items()}
    for _ in range(2):
        torch.autograd.backward(program.log_z(weights, {"w": [[0, 1, 2]]}).sum())
    for w in weights.values():
        assert w.grad is not None
        w.grad.mul_(0.5).zero_()
