"""Programs and models as users hold them: questions, gradients, the reference engine."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor

import fgg
from fgg.runtime.program.program import Program
from fgg.runtime.program.reference_program import ReferenceProgram

SENTENCES = [[1, 2, 3], [0, 3, 1, 2, 2]]


@pytest.fixture(scope="module")
def pcfg() -> Program:
    return fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 2, "pt": 3, "words": 4}))


@pytest.fixture(scope="module")
def hmm() -> Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4}))


def test_a_model_trains(pcfg: Program) -> None:
    model = pcfg.model(seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        loss = -model(w=SENTENCES).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)


def test_distributions_are_normalised() -> None:
    grammar = fgg.load("pcfg", sizes={"nt": 2, "pt": 3, "words": 4, "r": 2})
    for space in ("dense", "state", "rank"):
        model = fgg.compile(grammar, space=space).model(seed=1, dtype=torch.float64)
        assert list(model.weights()) == ["root", "binary_0", "binary_1", "binary_2", "emit"]
        for name, given in (("root", 0), ("binary", 1), ("binary_2", 1), ("emit", 1)):
            total = model.weight(name).flatten(given).sum(-1)
            torch.testing.assert_close(total, torch.ones_like(total))


def test_seeds_and_state() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    one, two, other = program.model(seed=3), program.model(seed=3), program.model(seed=4)
    item = [[0, 1, 2]]
    assert torch.equal(one(w=item), two(w=item))
    assert not torch.equal(one(w=item), other(w=item))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(w=item), other(w=item))


def test_tied_parameters_are_stationary() -> None:
    weights = fgg.compile(fgg.load("dep_ies", sizes={"d": 4})).model().weights()
    torch.testing.assert_close(weights["root"] @ weights["arc"], weights["root"])


@pytest.mark.parametrize("name", ["hmm", "pcfg_dense", "semicrf"])
def test_derivatives_of_both_orders(name: str) -> None:
    small = {"k": 2, "d": 3, "nt": 2, "pt": 2, "words": 3, "lmax": 2}
    sizes = {n: v for n, v in small.items() if n in fgg.load(name).size}
    program = fgg.compile(fgg.load(name, sizes=sizes))
    weights = program.weights(seed=0, dtype=torch.float64)
    inputs: dict[str, Tensor] = {}
    if name == "semicrf":
        inputs["score"] = torch.randn(1, 3, 4, 2, dtype=torch.float64)
    else:
        inputs["w"] = torch.tensor([[0, 2, 1]])
    names = [*weights, *(n for n in inputs if n == "score")]

    def log_z(*tensors: Tensor) -> Tensor:
        given = dict(zip(names, tensors, strict=True))
        own = {n: given[n] for n in weights}
        return program.log_z(own, {n: given.get(n, x) for n, x in inputs.items()}, {"n": [3]})

    tensors = tuple({**weights, **inputs}[n].clone().requires_grad_() for n in names)
    assert torch.autograd.gradcheck(log_z, tensors)
    assert torch.autograd.gradgradcheck(log_z, tensors)


def test_counts_follow_from_marginals(hmm: Program) -> None:
    weights = hmm.weights(seed=2, dtype=torch.float64)
    states = hmm.posterior(weights, {"w": SENTENCES}).marginals["X"]
    assert states.shape == (2, 5, 3)
    ends = torch.tensor([[1.0] * 3 + [0.0] * 2, [1.0] * 5], dtype=torch.float64)
    torch.testing.assert_close(states.sum(-1), ends)
    counts = hmm.posterior(weights, {"w": SENTENCES}).counts
    torch.testing.assert_close(counts["init"], states[:, 0].sum(0))
    torch.testing.assert_close(counts["trans"].sum(), torch.tensor(6.0, dtype=torch.float64))
    pairs = hmm.posterior(weights, {"w": SENTENCES}).rule_marginals("step")
    torch.testing.assert_close(pairs.values.sum((0, 1)).sum(), counts["trans"].sum())


def test_questions_agree_with_each_other(pcfg: Program) -> None:
    model = pcfg.model(seed=5, dtype=torch.float64)
    weights = model.detached()
    log_z = model(w=SENTENCES).detach()
    best = model.posterior(w=SENTENCES).best()
    top = model.posterior(w=SENTENCES).k_best(2)
    for item, (first, second) in enumerate(top):
        assert first == best[item]
        assert second.log_weight <= first.log_weight < float(log_z[item])
    through = pcfg.posterior(weights, {"w": SENTENCES}).max_marginals()["X"]
    assert through[0, 0, 3].max() == pytest.approx(best[0].log_weight)
    assert through[1].max() == pytest.approx(best[1].log_weight)
    same = pcfg.posterior(weights, {"w": SENTENCES}).kl(pcfg.posterior(weights, {"w": SENTENCES}))
    torch.testing.assert_close(same, torch.zeros(2, dtype=torch.float64))
    assert (
        pcfg.posterior(weights, {"w": SENTENCES}).kl(
            pcfg.posterior(pcfg.model(seed=6).detached(), {"w": SENTENCES})
        )
        > 0
    ).all()
    assert (model.posterior(w=SENTENCES).entropy() > 0).all()
    assert len(model.posterior(w=SENTENCES).sample(3, seed=0)[1]) == 3
    for derivation in model.posterior(w=SENTENCES).mbr():
        assert derivation.brackets().startswith("(root ")
    charts = pcfg.posterior(weights, {"w": SENTENCES}).charts("boolean")
    assert charts.z.tolist() == [True, True]


def test_moments_are_what_single_strings_weigh(hmm: Program) -> None:
    weights = hmm.weights(seed=1, dtype=torch.float64)
    pairs = hmm.posterior(weights, {}, {"n": [3]}).moments({"w": [0, 2]})[0]
    item = hmm.log_z(weights, {"w": [[1, -1, 2]]})
    torch.testing.assert_close(pairs[1, 2], item.exp()[0])
    torch.testing.assert_close(pairs.sum(), torch.tensor(1.0, dtype=torch.float64))


def test_without_a_schedule_the_reference_engine_answers() -> None:
    with pytest.warns(UserWarning, match=r"F434.*form a cycle on one level"):
        program = fgg.compile(fgg.load("branching"))
    assert isinstance(program, ReferenceProgram)
    assert program.notes[0].code == "F434"
    weights = program.weights(dtype=torch.float64)
    torch.testing.assert_close(
        program.log_z(weights), torch.tensor([2 / 3], dtype=torch.float64).log()
    )
    assert program.posterior(weights).best()[0].brackets() == "(none)"
    assert len(program.posterior(weights).sample(4, seed=1)[0]) == 4
    counts = program.posterior(weights).counts
    torch.testing.assert_close(counts["none"] - counts["two"], torch.ones((), dtype=torch.float64))
    torch.testing.assert_close(
        program.posterior(weights).marginals["S"], 1 + 2 * counts["two"][None]
    )
    used = sum(float(count * weights[name].log()) for name, count in counts.items())
    wanted = program.log_z(weights) - used
    torch.testing.assert_close(program.posterior(weights).entropy(), wanted)
    with pytest.raises(fgg.GrammarError, match="F425"):
        program.posterior(weights).mbr()
    with pytest.raises(fgg.GrammarError, match="F425"):
        _ = program.compiled
    with pytest.raises(fgg.GrammarError, match="F425"):
        fgg.compile(fgg.load("branching"), fallback=False)


def test_an_impossible_item_does_not_disturb_the_others() -> None:
    program = fgg.compile(fgg.load("dyck"))
    weights = program.weights(dtype=torch.float64)
    leaves = {n: w.requires_grad_() for n, w in weights.items()}
    log_z = program.log_z(leaves, {"w": [["(", ")"], ["(", "]"], ["[", "]", "(", ")"]]})
    assert torch.isfinite(log_z).tolist() == [True, False, True]
    torch.autograd.backward(log_z[torch.isfinite(log_z)].sum())
    assert all(torch.isfinite(w.grad).all() for w in leaves.values() if w.grad is not None)
    with pytest.raises(fgg.GrammarError, match="F421"):
        program.posterior(weights, {"w": [["(", ")"], ["(", "]"]]}).best()


def test_an_observed_tree_is_gathered() -> None:
    grammar = fgg.load("pcfg_la", sizes={"nt": 2, "pt": 2, "h": 2, "words": 3})
    program = fgg.compile(grammar, "tree", fallback=False)
    # ((a b) c): node 0 is the root, its children are 1 and 4; 1 has the children 2 and 3.
    tree = {
        "left": [1, 2, -1, -1, -1],
        "right": [4, 3, -1, -1, -1],
        "phrase": [0, 1, -1, -1, -1],
        "tag": [-1, -1, 1, 0, 1],
        "w": [-1, -1, 0, 1, 2],
    }
    weights = program.weights(seed=0, dtype=torch.float64)
    found = program.log_z(weights, {name: [values] for name, values in tree.items()})
    ground = fgg.rewrite.ground(program.grammar, inputs=tree)
    expected = fgg.reference.solve(
        ground, "log", weights={n: w.numpy() for n, w in weights.items()}
    )
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found[0], expected.log_z.detach())


def test_numbers_that_are_too_small_are_not_taken_for_zero(hmm: Program) -> None:
    weights = hmm.weights(seed=0, dtype=torch.float64)
    # State 1 alone can begin, and what follows it is 1e-50 times what follows state 0.
    weights["init"] = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    weights["trans"] = torch.eye(3, dtype=torch.float64)
    weights["emit"] = torch.tensor([[1.0] * 4, [1e-25] * 4, [1.0] * 4], dtype=torch.float64)
    item = {"w": [[0, 1]]}
    assert float(hmm.log_z(weights, item)) == pytest.approx(2 * math.log(1e-25))
    narrow = hmm.log_z({n: w.float() for n, w in weights.items()}, item)
    assert float(narrow) == pytest.approx(2 * math.log(1e-25))


def test_a_start_symbol_with_a_union_node_has_log_z_and_derivations() -> None:
    text = """
    domain A = 2  domain B = 3  domain C = A + B
    factor f(A) = [1, 2]
    factor g(B) = [3, 4, 5]
    nonterminal X(C)
    start X
    rule one: X(c) -> f(c.A)
    rule two: X(c) -> g(c.B)
    """
    program = fgg.compile(fgg.loads(text), fallback=False)
    weights = program.weights()
    torch.testing.assert_close(program.log_z(weights).exp(), torch.tensor([15.0]))
    (best,) = program.posterior(weights).best()
    assert best.log_weight == pytest.approx(math.log(5))
    assert best.rules == ("two",)


def test_models_are_copied_and_programs_pickled(hmm: Program) -> None:
    model = hmm.model(seed=1)
    other = copy.deepcopy(model)
    assert torch.equal(other(w=[[0, 1]]), model(w=[[0, 1]]))
    assert next(other.parameters()) is not next(model.parameters())
    again = pickle.loads(pickle.dumps(hmm))
    assert torch.equal(again.model(seed=1)(w=[[0, 1]]), model(w=[[0, 1]]))
    wide = model.to(torch.float64)
    assert wide(w=[[0, 1]]).dtype == torch.float64


def test_labels_of_mbr_trees_are_probable_ones(pcfg: Program) -> None:
    model = pcfg.model(seed=1, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    item = [[0, 1]]  # one tree only: nothing but its labels can differ
    (best,) = model.posterior(w=item).best()
    (found,) = model.posterior(w=item).mbr()
    (labelled,) = model.posterior(w=item).mbr(states=True)
    assert found.log_weight == pytest.approx(labelled.log_weight)
    assert found.log_weight > best.log_weight - 3


def test_counts_need_no_gradient_mode(hmm: Program) -> None:
    model = hmm.model(seed=0)
    expected = model.posterior(w=SENTENCES).counts["init"]
    with torch.no_grad():
        torch.testing.assert_close(model.posterior(w=SENTENCES).counts["init"], expected)
    with torch.inference_mode():
        torch.testing.assert_close(model.posterior(w=SENTENCES).counts["init"], expected)


def test_a_model_can_be_asked_what_a_program_can(hmm: Program) -> None:
    model, other = hmm.model(seed=0), hmm.model(seed=1)
    assert (model.posterior(w=SENTENCES).kl(other.posterior(w=SENTENCES)) > 0).all()
    assert model.posterior(lengths=[2]).moments({"w": [0]}).shape == (1, 4)
    assert model.posterior(w=SENTENCES).max_marginals()["X"].shape == (2, 5, 3)
    assert model.posterior(w=SENTENCES).charts("counting").z.tolist() == [3**3, 3**5]
    assert model.posterior(w=SENTENCES).rule_marginals("step").values.shape[0] == 2


def test_models_on_the_reference_engine_train() -> None:
    text = """
    domain T = 2
    factor grow(-> T)
    factor stay(T) = [0.2, 0.3]
    nonterminal S()
    start S
    rule more: S -> grow(t) stay(t) S
    rule stop: S -> grow(t)
    """
    with pytest.warns(UserWarning, match="F434"):
        model = fgg.compile(fgg.loads(text)).model(seed=0)
    (log_z,) = model()
    log_z.backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())


def test_arrays_and_odd_names(hmm: Program) -> None:
    weights = {n: w.numpy() for n, w in hmm.weights(seed=0).items()}
    tensors = hmm.weights(seed=0)
    item = {"w": [[0, 1]]}
    assert torch.equal(hmm.log_z(weights, item), hmm.log_z(tensors, item))
    named = fgg.compile(
        fgg.loads("domain T = 2 factor `a.b`(-> T) nonterminal S() start S\nrule s: S -> `a.b`(t)")
    )
    torch.testing.assert_close(named.model()(), torch.zeros(1))


def test_the_gradient_can_be_asked_for_twice() -> None:
    program = fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 2, "pt": 3, "words": 4}))
    weights = {n: w.requires_grad_() for n, w in program.weights(seed=1).items()}
    log_z = program.log_z(weights, {"w": [[0, 1, 2, 3], [3, 2]]}).sum()
    once = torch.autograd.grad(log_z, list(weights.values()), retain_graph=True)
    twice = torch.autograd.grad(log_z, list(weights.values()))
    for one, two in zip(once, twice, strict=True):
        torch.testing.assert_close(one, two)


COUNTED = """
domain W = 2
input w: W[n]
nonterminal S()
nonterminal X[i]() for 0 <= i <= n
start S
rule S -> X[0]()
rule X[i]() -> o = w[i] X[i+1]() for i < n
rule X[n]() ->
"""


def test_a_program_without_parameters_has_no_expected_counts() -> None:
    program = fgg.compile(fgg.loads(COUNTED))
    assert program.posterior({}, {"w": [[0, 1]]}).counts == {}
