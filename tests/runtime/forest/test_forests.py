"""Forests: their log Z, expected counts and draws are those of programs, whatever the grammar."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fgg
from fgg.compiler.passes.cpd import cpd
from fgg.compiler.resolve.load import loads
from fgg.diagnostics import GrammarError
from fgg.runtime.forest.engine import Counts, ForestWeights, PackedForest, joined, machine_code
from fgg.runtime.forest.forest import Alternative, Forest, Slot, scaled_exp
from fgg.runtime.forest.grow import Entries, Forests, ItemForest
from fgg.runtime.learn import CVB, EM, VB, Hastings, Items
from fgg.runtime.learn.distributions import log_beta
from fgg.runtime.program.program import Program
from tests.generators.indexed import write_grammar
from tests.helpers.plans import CASES, case
from tests.oracles.comparing import collated, lengths_of, random_item, random_weights

pytestmark = pytest.mark.skipif(machine_code() is None, reason="there is no C++ compiler")
NOTHING = np.zeros(1, dtype=np.int64)


class Model:
    """The weights of a program as forests take them, all of them given."""

    def __init__(self, program: Program, weights: Mapping[str, Tensor]) -> None:
        self.weights = {name: torch.as_tensor(w).double() for name, w in weights.items()}
        self.entries = Entries.of({n: tuple(w.shape) for n, w in self.weights.items()})
        flat = torch.cat([torch.zeros(0), *(w.flatten() for w in self.weights.values())])
        zeros, group = torch.zeros(len(flat)).double(), torch.zeros(len(flat))
        self.flat = ForestWeights(zeros, zeros + 1, group, flat.log())
        self.flat.give(True)
        self.forests = Forests(program.compiled, self.entries, self.weights, 2**14)

    def counted(self, forest: ItemForest) -> tuple[float, dict[str, Tensor]]:
        """log Z and expected counts by factor."""
        log_z, _, counts = self.flat.count(forest.packed, forest.tokens)
        return log_z, self.shaped(counts)

    def shaped(self, counts: Counts) -> dict[str, Tensor]:
        flat = torch.zeros(len(self.flat.alpha)).double()
        flat[torch.from_numpy(counts.index)] = torch.from_numpy(counts.value)
        parts = torch.split(flat, [w.numel() for w in self.weights.values()])
        return {n: x.view(w.shape) for (n, w), x in zip(self.weights.items(), parts, strict=True)}


def assert_counts(
    program: Program,
    weights: Mapping[str, Any],
    inputs: Mapping[str, Any],
    lengths: Any,
    model: Model | None = None,
) -> Model | None:
    """Compare one item with the program itself; None if it has no forest."""
    leaves = program.weights(dict(weights), dtype=torch.float64)
    model = model or Model(program, leaves)
    item = program.compiled.collate(inputs, lengths, dtype=torch.float64)
    forest = model.forests.of(item)
    if forest is None:
        return None
    posterior = program.posterior(leaves, inputs, lengths)
    wanted = float(posterior.log_z.detach().squeeze())
    log_z, counts = model.counted(forest)
    if math.isinf(wanted):
        assert log_z == wanted
        return model
    assert log_z == pytest.approx(wanted, rel=1e-10, abs=1e-10)
    for name, table in counts.items():
        want = posterior.counts.get(name, torch.zeros_like(table))
        torch.testing.assert_close(table, want.detach().double(), rtol=1e-8, atol=1e-10)
    return model


@pytest.mark.parametrize(("name", "query"), CASES)
def test_library_grammars_are_counted_as_programs_count(name: str, query: str | None) -> None:
    asked = case(name, query)
    program = fgg.compile(asked.grammar)
    weights = program.weights(seed=3, dtype=torch.float64)
    model = None
    for n in (1, 3, 4, 4):
        own, inputs = asked.item(n)
        if n > 3 and model is not None:  # items of one shape, with other tokens, without missing
            rng = np.random.default_rng(n)
            for item in asked.grammar.inputs:
                inputs[item.name] = np.where(inputs[item.name] < 0, 0, inputs[item.name])
                rng.shuffle(inputs[item.name])
        batch = {key: torch.as_tensor(np.asarray(value))[None] for key, value in inputs.items()}
        model = assert_counts(program, weights, batch, {k: [v] for k, v in own.items()}, model)
        assert model is not None


def random_grammar(seed: int) -> str:
    """Compare a random grammar's items; what became of them."""
    written = write_grammar(random.Random(seed).choice)
    if written is None:
        return "none"
    grammar, _ = written
    try:
        program = fgg.compile(grammar, fallback=False)
    except GrammarError as error:
        assert [d.code for d in error.diagnostics] == ["F425"]
        return "refused"
    rng = random.Random(seed)
    weights = random_weights(cpd(grammar), rng, zero=0.1)
    model = None
    for _ in range(3):
        own = {n: rng.randint(0, 4) for n in lengths_of(grammar)}
        inputs, lengths = collated([random_item(grammar, own, rng, missing=0.1)], torch.float64)
        try:
            model = assert_counts(program, weights, inputs, lengths or None, model)
        except GrammarError as error:
            assert [d.code for d in error.diagnostics] == ["F427"]
    return "none" if model is None else "compared"


@pytest.mark.parametrize(
    "seeds", [range(25), pytest.param(range(25, 1000), marks=pytest.mark.slow)]
)
def test_random_grammars_are_counted_as_programs_count(seeds: range) -> None:
    outcomes = [random_grammar(seed) for seed in seeds]
    assert outcomes.count("compared") >= len(seeds) // 4


def test_items_of_one_shape_share_a_forest() -> None:
    program = fgg.compile(fgg.load("dmv", sizes={"tags": 4}))
    model = Model(program, program.weights(seed=0, dtype=torch.float64))
    rng = random.Random(0)
    for _ in range(6):
        words = [[rng.randrange(4) for _ in range(5)]]
        assert_counts(program, model.weights, {"w": torch.tensor(words)}, {"n": [5]}, model)
    assert len(model.forests.forests) == 1


ZEROS = """
domain T = 2
domain W = 3
factor first(-> T)
factor step(T -> T)
factor says(T, W) = [[0, 1, 2], [3, 0, 1]]
nonterminal S()
nonterminal X(T)
start S
rule begin: S -> first(t) X(t)
rule step: X(t) -> says(t, o) step(t, u) X(u)
rule last: X(t) -> says(t, o)
query string(w: W[n]) {
  rule begin: S -> X[0]
  rule step: X[i] -> X[i+1] o = w[i] for 0 <= i < n-1
  rule last: X[n-1] -> o = w[n-1]
}
"""
COPIES = """
domain T = 3
factor pick(-> T)
nonterminal S()
nonterminal Odd(T)
start S
input w: T[n]
rule pair: S -> pick(a) Odd(a) a = w[0]
rule last: Odd(a) -> pick(a) a = w[1]
"""


@pytest.mark.parametrize("text", [ZEROS, COPIES], ids=["zeros", "copies"])
def test_what_is_possible_may_depend_on_tokens(text: str) -> None:
    program = fgg.compile(loads(text))
    model = Model(program, program.weights(seed=0, dtype=torch.float64))
    for first in range(3):
        for second in range(3):
            words = {"w": torch.tensor([[first, second]])}
            assert assert_counts(program, model.weights, words, {"n": [2]}, model) is not None
    assert len(model.forests.forests) > 1


def test_a_forest_that_would_be_too_large_is_not_grown() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 200, "d": 3}))
    model = Model(program, program.weights(seed=0, dtype=torch.float64))
    item = program.compiled.collate({"w": [[0, 1, 2]]}, dtype=torch.float64)
    assert model.forests.of(item) is None
    assert not model.forests.forests  # not even begun: a single rule has 40,000 assignments
    model.forests.limit = 2**17
    assert model.forests.of(item) is not None


def chain(length: int) -> Forest:
    """One derivation that uses entry 0 so many times, and another that uses entry 1."""
    slots = [Slot(0), Slot(1)]
    nodes: list[tuple[int, list[Alternative]]] = [(0, [Alternative((), ())])]
    for n in range(1, length + 1):
        nodes.append((n, [Alternative((slot,), (n - 1,)) for slot in slots]))
    return Forest.of(nodes)


def test_no_number_is_too_small_or_too_large() -> None:
    logs = torch.tensor([-5000.0, -5000.0 + math.log(3)], dtype=torch.float64)
    zeros = torch.zeros(2).double()
    weights = ForestWeights(zeros, zeros + 1, zeros, logs)
    weights.give(True)
    log_z, _, counts = weights.count(PackedForest(chain(1000)), NOTHING)
    assert log_z == pytest.approx(1000 * (-5000 + math.log(4)), rel=1e-12)
    order = np.argsort(counts.index)
    assert counts.value[order] == pytest.approx([250.0, 750.0], rel=1e-12)


@pytest.mark.parametrize("log", [0.0, -1.5, 700.0, -745.2, 1e5, -1e5])
def test_exponentials_of_any_size_are_a_mantissa_and_a_power_of_two(log: float) -> None:
    mantissa, exponent = scaled_exp(log)
    assert 0.5 <= mantissa < 1
    assert math.log(mantissa) + exponent * math.log(2) == pytest.approx(log, rel=1e-12, abs=1e-15)


def test_impossible_items_have_no_counts() -> None:
    zeros = torch.zeros(2).double()
    weights = ForestWeights(zeros, zeros + 1, zeros, torch.full((2,), -math.inf).double())
    weights.give(True)
    log_z, _, counts = weights.count(PackedForest(chain(3)), NOTHING)
    assert log_z == -math.inf
    assert not len(counts.index)


def test_draws_have_the_expected_counts() -> None:
    program = fgg.compile(fgg.load("pcfg", sizes={"nt": 2, "pt": 2, "words": 3, "r": 2}))
    model = Model(program, program.weights(seed=2, dtype=torch.float64))
    forest = model.forests.of(program.compiled.collate({"w": [[0, 1, 2, 0]]}, dtype=torch.float64))
    assert forest is not None
    _, expected = model.counted(forest)
    number = 4000
    draws = [model.flat.count(forest.packed, forest.tokens, seed)[2] for seed in range(number)]
    mean = {n: x / number for n, x in model.shaped(joined(draws)).items()}
    squares = joined([Counts(c.index, c.value**2) for c in draws])
    square = {n: x / number for n, x in model.shaped(squares).items()}
    for name, table in expected.items():
        deviation = ((square[name] - mean[name] ** 2).clamp_min(0) / number).sqrt()
        assert ((mean[name] - table).abs() <= 5 * deviation + 5 / number).all(), name


def test_the_ratio_of_target_and_proposal_is_that_of_gamma_functions() -> None:
    alpha = torch.tensor([0.1, 1e-5, 2.0, 0.5, 0.5]).double()
    group = torch.tensor([0, 0, 0, 1, 1])
    f = torch.tensor([3.0, 0.0, 1.5, 2.0, 0.0]).double()
    weights = ForestWeights(f, alpha, group, torch.zeros(5).double())
    drawn = Counts(np.array([1, 4, 0]), np.array([2.0, 3.0, 1.0]))
    more = f.clone()
    more[torch.from_numpy(drawn.index)] += torch.from_numpy(drawn.value)
    target = 0.0
    for number in range(2):
        mine = group == number
        betas = [log_beta((x + alpha)[mine][None], alpha[mine][None]) for x in (more, f)]
        target += float(betas[0] - betas[1])
    totals = torch.zeros(2).double().index_add_(0, group, f + alpha)
    means = ((f + alpha) / totals[group]).log()
    proposal = float(torch.from_numpy(drawn.value) @ means[torch.from_numpy(drawn.index)])
    assert weights.log_ratio(drawn) == pytest.approx(target - proposal, rel=1e-12)


DATA = [[0, 1, 2], [3, 4], [0, 1, 4, 3], [2, 2, 2], [-1, 1, 0]]


@pytest.mark.parametrize("together", [1, 2])
def test_collapsed_variational_bayes_is_the_same_with_and_without(together: int) -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 5}))
    totals, objectives = [], []
    for forests in (True, False):
        method = CVB(program.model(seed=0, dtype=torch.float64), prior=0.3, forests=forests)
        units = [range(i, min(i + together, 5)) for i in range(0, 5, together)]
        batches = [Items({"w": [DATA[i] for i in unit]}, None, tuple(unit)) for unit in units]
        items = [method.ready(batch) for batch in batches]
        objectives.append([method.sweep(items).objective for _ in range(5)])
        totals.append(method.store.total.clone())
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-12)
    torch.testing.assert_close(totals[0], totals[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [EM, VB])
def test_whole_sweeps_are_the_same_with_and_without(kind: Any) -> None:
    program = fgg.compile(fgg.load("hmm_blocks", sizes={"m": 2, "k": 2, "d": 5}))
    batches = [Items({"w": DATA[:2]}, None, (0, 1)), Items({"w": DATA[2:]}, None, (2, 3, 4))]
    logs, objectives = [], []
    for forests in (True, False):
        method = kind(program.model(seed=0, dtype=torch.float64), forests=forests)
        items = [method.ready(batch) for batch in batches]
        objectives.append([method.sweep(items).objective for _ in range(5)])
        state = method.state_dict()
        resumed = kind(program.model(seed=1, dtype=torch.float64), forests=forests)
        resumed.load_state_dict(state)
        objectives[-1].append(resumed.sweep([resumed.ready(b) for b in batches]).objective)
        assert method.sweep(items).objective == objectives[-1][-1]
        logs.append(method.logs)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-12)
    for name, table in logs[0].items():
        torch.testing.assert_close(table, logs[1][name], rtol=1e-9, atol=1e-9)


def test_an_item_without_derivations_is_refused_or_left_out() -> None:
    program = fgg.compile(loads(ZEROS))
    batch = Items({"w": [[0, 1], [1, 1]]}, None, (0, 1))
    nothing = {"first": torch.tensor([1.0, 0.0]), "step": torch.eye(2)}  # state 0 never says 0
    method = EM(program.model(dtype=torch.float64), weights=nothing, forests=True)
    with pytest.raises(GrammarError) as error:
        method.sweep([batch])
    assert error.value.diagnostics[0].code == "F474"
    method = EM(program.model(dtype=torch.float64), weights=nothing, forests=True, skip=True)
    assert method.sweep([batch]).items == 1 and method.skipped == 1


def test_forests_and_charts_mix() -> None:
    # Items above the limit are counted over charts; both change the same sum.
    program = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 5}))
    results = []
    for limit in (0, 30, 2**15):
        method = CVB(program.model(seed=0, dtype=torch.float64), prior=0.3)
        method.item_forests.limit = limit
        items = [method.ready(Items({"w": [x]}, None, (i,))) for i, x in enumerate(DATA[:4])]
        results.append([method.sweep(items).objective for _ in range(4)])
        grown = [forest is not None for forest in method.item_forests.of_item.values()]
        assert grown.count(True) == {0: 0, 30: 3, 2**15: 4}[limit]
    assert results[0] == pytest.approx(results[1], rel=1e-12)
    assert results[0] == pytest.approx(results[2], rel=1e-12)


@pytest.mark.parametrize("kind", [CVB, Hastings])
def test_sums_of_distributions_stay_right(kind: Any) -> None:
    program = fgg.compile(fgg.load("hmm_blocks", sizes={"m": 2, "k": 2, "d": 5}))
    method = kind(program.model(seed=0, dtype=torch.float64), prior=0.1)
    items = [method.ready(Items({"w": [x]}, None, (i,))) for i, x in enumerate(DATA)]
    for _ in range(30):
        method.sweep(items)
    weights = method.forest_weights
    kept = weights.totals.clone()
    weights.set_counts(method.store.total)
    torch.testing.assert_close(kept, weights.totals, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(method.store.total, method.store.resum(), rtol=1e-10, atol=1e-10)
