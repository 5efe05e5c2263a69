"""Numbers that leave the range of their type: right all the same, or refused."""

from __future__ import annotations

import importlib.util
import sys
from math import exp, log
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

import fgg
from fgg.diagnostics import GrammarError
from fgg.runtime.posterior.posterior import Posterior
from fgg.runtime.program.prepared_batch import start
from fgg.runtime.program.program import Program
from fgg.runtime.program.range_certificate import Certified
from tests.helpers.compiled import compiled, programs
from tests.helpers.native import needs_compiler
from tests.runtime.program.test_chart_reader import items_of

DIALECTS = """
domain T = {a, b}
domain W = {x, y}
factor init(-> T) = [.5, .5]
factor trans(T -> T) = eye
factor emit(T -> W) = [[.9, .1], [.1, .9]]
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> init(t) X(t)
rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
rule last:  X(t) -> emit(t, o)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule step:  X[i]   -> X[i+1] o = w[i]   for 0 <= i < n-1
  rule last:  X[n-1] -> o = w[n-1]
}
"""
"""Two states that never change: a string is all of one or all of the other."""

BACKENDS = ["torch", pytest.param("cpp", marks=needs_compiler)]
LONG = [(torch.float32, 100, 45), (torch.float32, 100, 60), (torch.float64, 450, 400)]


def dialects(backend: str = "torch") -> Program:
    return fgg.compile(fgg.loads(DIALECTS), backend=backend)


def truth(a: int, b: int) -> tuple[float, float]:
    """log Z of x^a y^b, and the probability of the state `a`."""
    one, two = a * log(0.9) + b * log(0.1), a * log(0.1) + b * log(0.9)
    both = torch.tensor([one, two], dtype=torch.float64)
    return float(both.logsumexp(0)) + log(0.5), float(both.softmax(0)[0])


def words(a: int, b: int) -> list[int]:
    return [0] * a + [1] * b


@pytest.mark.parametrize(
    ("dtype", "a", "b", "backend"),
    [
        *((*case, "torch") for case in LONG),
        *(pytest.param(*case, "cpp", marks=needs_compiler) for case in LONG[:2]),
        pytest.param(*LONG[2], "cpp", marks=(needs_compiler, pytest.mark.slow)),
    ],
)
def test_states_that_differ_beyond_the_range_are_right(
    dtype: torch.dtype, a: int, b: int, backend: str
) -> None:
    program = dialects(backend)
    weights = {n: w.requires_grad_() for n, w in program.weights(dtype=dtype).items()}
    items = {"w": [words(a, b), [0, 1, 1]]}
    log_z = program.log_z(weights, items)
    wanted, first = truth(a, b)
    assert float(log_z[0].detach()) == pytest.approx(wanted, rel=1e-6)
    assert float(log_z[1].detach()) == pytest.approx(truth(1, 2)[0], rel=1e-5)
    torch.autograd.backward(log_z[0])
    emit = weights["emit"].grad
    assert emit is not None and emit[0].tolist() == pytest.approx([a / 0.9, b / 0.1], rel=1e-5)
    posterior = program.posterior({n: w.detach() for n, w in weights.items()}, items).marginals["X"]
    assert posterior[0, :, 0].tolist() == pytest.approx([first] * (a + b), abs=1e-5)
    assert posterior[1, 3:].abs().sum() == 0
    counts = program.posterior(weights, items).counts["emit"]
    share = truth(1, 2)[1]
    assert counts.flatten().tolist() == pytest.approx(
        [a + share, b + 2 * share, 1 - share, 2 - 2 * share], rel=1e-4
    )


def test_everything_that_can_be_asked_is_right_beyond_the_range() -> None:
    program = dialects()
    weights = program.weights()
    item = {"w": [words(100, 60)]}
    (best,) = program.posterior(weights, item).best()
    assert best.log_weight <= float(program.log_z(weights, item)) + 1e-5
    (mbr,) = program.posterior(weights, item).mbr()
    assert set(best.cell_values()) == {"a"} == set(mbr.cell_values())
    assert float(program.posterior(weights, item).entropy()) == pytest.approx(0.0, abs=1e-9)
    (draws,) = program.posterior(weights, item).sample(3, seed=0)
    assert all(set(draw.cell_values()) == {"a"} for draw in draws)


def test_only_the_items_concerned_are_computed_again() -> None:
    program = dialects()
    program.log_z(program.weights(), {"w": [[0, 1], words(100, 60), [1, 1, 1]]})
    report = program.ranges
    assert (report.items, report.lifted, report.float64, report.logarithms) == (3, 0, 1, 0)
    assert "1 of 3 items" in report.line()


SMALL = """
domain A = 2
input w: A[n]
factor f(A, A)
factor g(A)
nonterminal S()
nonterminal Y[i](A) for 0 <= i < n
start S
rule begin: S -> Y[0](a)
rule one: Y[i](a) -> f(a, w[i]) g(a)
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("small", [3e-19, 1e-28, 1e-37])
def test_small_products_are_not_lost_in_gradients(small: float, backend: str) -> None:
    program = fgg.compile(fgg.loads(SMALL), backend=backend)
    weights = {"f": torch.full((2, 2), small), "g": torch.full((2,), small)}
    log_z = program.log_z(weights, {"w": [[0]]})
    assert float(log_z) == pytest.approx(2 * log(small) + log(2), rel=1e-5)
    counts = program.posterior(weights, {"w": [[0]]}).counts
    assert counts["f"].tolist() == [pytest.approx([0.5, 0.0]), pytest.approx([0.5, 0.0])]
    assert counts["g"].tolist() == pytest.approx([0.5, 0.5])


ZERO = """
domain A = 2
input w: A[n]
factor f(A) = [0, .5]
factor h(A) = [.5, .5]
nonterminal S()
nonterminal X[i]() for 0 <= i < n
start S
rule one: S -> X[0]
rule two: S -> h(w[0])
rule x: X[i] -> f(w[i]) for 0 <= i < n
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_cells_that_are_zero_pass_gradients_on(backend: str) -> None:
    program = fgg.compile(fgg.loads(ZERO), backend=backend)
    weights = {n: w.requires_grad_() for n, w in program.weights(dtype=torch.float64).items()}
    torch.autograd.backward(program.log_z(weights, {"w": [[0]]}).sum())
    for weight in weights.values():
        assert weight.grad is not None and weight.grad.tolist() == pytest.approx([2.0, 0.0])


def test_an_impossible_item_has_no_gradient_in_weights_of_zero() -> None:
    program = dialects()
    emit = torch.tensor([[1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    weights = {**program.weights(), "emit": emit}
    log_z = program.log_z(weights, {"w": [[0, 1]]})
    assert log_z.tolist() == [-torch.inf]
    torch.autograd.backward(log_z.nan_to_num(neginf=0.0).sum())
    assert emit.grad is not None and emit.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("name", programs())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ordinary_weights_are_computed_once(name: str, dtype: torch.dtype) -> None:
    program = compiled(name)
    before = program.ranges.lifted, program.ranges.wider
    inputs, lengths = items_of(program)
    inputs = {n: x.to(dtype) if x.is_floating_point() else x for n, x in inputs.items()}
    program.log_z(program.weights(seed=0, dtype=dtype), inputs, lengths)
    assert (program.ranges.lifted, program.ranges.wider) == before


def test_peaked_models_need_no_more_range() -> None:
    """Weights as EM leaves them: most of them nothing, the states of a word a few."""
    program = fgg.compile(fgg.load("hmm", sizes={"k": 12, "d": 30}))
    chance = torch.Generator().manual_seed(0)
    peaked = {
        name: (30 * torch.randn(program.shape(name), generator=chance)).softmax(-1)
        for name in program.parameter_names
    }
    assert min(float(w.min()) for w in peaked.values()) < 1e-37
    sentences = torch.randint(30, (40, 25), generator=chance)
    log_z = program.log_z(peaked, {"w": sentences})
    wide = program.log_z({n: w.double() for n, w in peaked.items()}, {"w": sentences})
    torch.testing.assert_close(log_z.double(), wide, rtol=1e-5, atol=1e-5)


def test_weights_too_large_for_the_type_are_right() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 2}))
    weights = {n: torch.full(program.shape(n), 1e30) for n in program.parameter_names}
    log_z = program.log_z(weights, {"w": [[0, 1, 0]]})
    assert float(log_z) == pytest.approx(6 * log(1e30) + 3 * log(2), rel=1e-5)


def test_log_potentials_of_any_size_are_right() -> None:
    text = """
    domain T = 2
    input factor phi[i](T) for 0 <= i < n
    nonterminal S()
    nonterminal X[i]() for 0 <= i <= n
    start S
    rule begin: S    -> X[0]
    rule step:  X[i] -> phi[i](t) X[i+1]   for 0 <= i < n
    rule stop:  X[n] ->
    """
    program = fgg.compile(fgg.loads(text))
    logs = torch.tensor([[[1000.0, -1000.0], [-1000.0, -1001.0]]], requires_grad=True)
    log_z = program.log_z({}, {"phi": logs})
    assert float(log_z.detach()) == pytest.approx(
        log(1 + torch.tensor(-1.0).exp().item()), abs=1e-3
    )
    torch.autograd.backward(log_z.sum())
    share = float(torch.tensor([0.0, -1.0]).softmax(0)[0])
    assert logs.grad is not None
    assert logs.grad[0, 0].tolist() == pytest.approx([1.0, 0.0])
    assert logs.grad[0, 1].tolist() == pytest.approx([share, 1 - share], rel=1e-5)


def test_log_z_that_its_type_does_not_hold_is_refused() -> None:
    text = """
    input factor phi[i]() for 0 <= i < n
    nonterminal S()
    nonterminal X[i]() for 0 <= i <= n
    start S
    rule begin: S    -> X[0]
    rule step:  X[i] -> phi[i] X[i+1]   for 0 <= i < n
    rule stop:  X[n] ->
    """
    program = fgg.compile(fgg.loads(text))
    logs = torch.full((1, 2), 3e38)
    with pytest.raises(GrammarError) as error:
        program.log_z({}, {"phi": logs})
    assert [d.code for d in error.value.diagnostics] == ["F427"]
    assert float(program.log_z({}, {"phi": logs.double()})) == pytest.approx(6e38)


def test_a_derivative_that_no_number_holds_is_refused() -> None:
    program = fgg.compile(fgg.loads("factor f()  nonterminal S()  start S  rule one: S -> f"))
    f = torch.tensor(1e-40, requires_grad=True)
    log_z = program.log_z({"f": f})
    assert float(log_z.detach()) == pytest.approx(log(1e-40), rel=1e-4)
    with pytest.raises(GrammarError) as error:
        torch.autograd.backward(log_z.sum())
    assert [d.code for d in error.value.diagnostics] == ["F427"]
    assert float(program.posterior({"f": f}).counts["f"]) == pytest.approx(1.0)


def module_of(program: Program, folder: Path) -> ModuleType:
    path = folder / "emitted_program.py"
    path.write_text(program.compiled.source)
    spec = importlib.util.spec_from_file_location("emitted_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["emitted_program"] = module
    spec.loader.exec_module(module)
    return module


def test_a_module_of_its_own_turns_to_float64_or_refuses(tmp_path: Path) -> None:
    program = dialects()
    module = module_of(program, tmp_path)
    weights = {n: w.requires_grad_() for n, w in program.weights().items()}
    tokens = torch.tensor([words(100, 60)])
    log_z: Tensor = module.log_z(weights, {"w": tokens})
    assert float(log_z.detach()) == pytest.approx(truth(100, 60)[0])
    assert log_z.dtype == torch.float32
    with pytest.raises(ArithmeticError, match="items \\[0\\] need more range than float64"):
        module.log_z(weights, {"w": torch.tensor([words(2000, 1900)])})


def test_what_is_found_out_again_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ladder: lifted, float64, lifted, logarithms; each gives what the next one would."""
    program = dialects()
    weights = program.weights(dtype=torch.float64)
    run = start(program.compiled, weights, {"w": [words(60, 40)]}, None)
    plain = Certified(run)
    assert len(plain.groups) == 1 and plain.groups[0].items is None
    logs = next(plain._wider(torch.float64, torch.tensor([0])))
    torch.testing.assert_close(plain.log_z, logs.log_z.detach())
    one = torch.ones(1, dtype=torch.float64)
    for name, slope in plain.gradients(one).items():
        there = program.weights(dtype=torch.float64)[name] > 0
        other = logs.gradients(one)
        assert other is not None
        torch.testing.assert_close(slope[there], other[name][there])


def test_products_of_pieces_that_are_too_small_are_not_lost() -> None:
    sizes = {"nt": 2, "pt": 2, "words": 3, "r": 2}
    dense, state = (fgg.compile(fgg.load("pcfg", sizes=sizes), space=s) for s in ("dense", "state"))
    for small, dtype in ((1e-20, torch.float32), (1e-200, torch.float64)):
        weights = {n: torch.full(dense.shape(n), small, dtype=dtype) for n in dense.parameter_names}
        item = {"w": [[0, 1, 2]]}
        wanted = state.log_z({n: w.double() for n, w in weights.items()}, item)
        assert float(dense.log_z(weights, item)) == pytest.approx(float(wanted), rel=1e-6)
        if dtype == torch.float32:
            counts = dense.posterior(weights, item).counts
            assert float(counts["binary_1"].sum()) == pytest.approx(2.0)
            continue
        for program, question in ((dense, "counts"), (state, "best")):
            with pytest.raises(GrammarError) as error:
                asked(program.posterior(weights, item), question)
            assert [d.code for d in error.value.diagnostics] == ["F427"]


def test_products_of_pieces_that_are_too_large_have_right_gradients() -> None:
    program = fgg.compile(fgg.load("hmm_rank", sizes={"k": 2, "d": 2, "r": 2}), space="dense")
    weights = {n: torch.full(program.shape(n), 0.5) for n in program.parameter_names}
    large = [n for n in weights if program.shape(n) == (2, 2) and n != "emit"]
    weights |= {n: torch.full((2, 2), 1e25) for n in large}
    item = {"w": [[0, 1, 0]]}
    counts = program.posterior(weights, item).counts
    assert all(float(counts[n].sum()) == pytest.approx(3.0) for n in large)
    leaves = {n: w.clone().requires_grad_() for n, w in weights.items()}
    torch.autograd.backward(program.log_z(leaves, item).sum())
    for name in large:
        slope = leaves[name].grad
        assert slope is not None
        assert float((slope.double() * 1e25).sum()) == pytest.approx(3.0, rel=1e-4)


def test_lost_terms_of_a_sum_count_where_factors_have_zeros() -> None:
    """A split of the greatest scale that no state has hides one of e^-200 that all have."""
    text = """
    domain T = 2
    input factor a[i](T) for 0 <= i < 2
    input factor b[i](T) for 0 <= i < 2
    nonterminal S()
    nonterminal X[i](T) for 0 <= i < 2
    nonterminal Y[i](T) for 0 <= i < 2
    nonterminal Z[j](T) for j == 0
    start S
    rule s: S -> Z[0](t)
    rule z: Z[j](t) -> X[i](t) Y[i](t) for 0 <= i < 2
    rule x: X[i](t) -> a[i](t)
    rule y: Y[i](t) -> b[i](t)
    """
    program = fgg.compile(fgg.loads(text))
    none = -torch.inf
    one = torch.tensor([[[0.0, none], [-200.0, -201.0]]])
    two = torch.tensor([[[none, 0.0], [0.0, 0.0]]])
    log_z = program.log_z({}, {"a": one, "b": two})
    assert float(log_z) == pytest.approx(-200 + log(1 + exp(-1)), rel=1e-6)


def asked(post: Posterior, question: str) -> object:
    """The answer to a question without arguments."""
    answer = getattr(post, question)
    return answer() if callable(answer) and not isinstance(answer, Tensor) else answer


def test_infinite_weights_are_refused_by_every_question() -> None:
    program = dialects()
    weights = {**program.weights(), "trans": torch.tensor([[torch.inf, 0.0], [0.0, 1.0]])}
    post = program.posterior(weights, {"w": [[0, 1]]})
    for question in ("log_z", "best", "sample", "entropy"):
        with pytest.raises(GrammarError) as error:
            asked(post, question)
        assert [d.code for d in error.value.diagnostics] == ["F417"]
