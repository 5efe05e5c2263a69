"""Methods stop and go on: states, processes, and Adam's own concerns."""

from __future__ import annotations

import copy
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import pytest
import torch
from torch import Tensor

import fgg
from fgg.runtime.learn import METHODS, Adam, Items, Method, bucketed, in_memory, learn
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

SENTENCES = [[0, 1, 2], [3, 1], [2, 2, 0, 1, 3], [1], [0, 3, 3, 2], [1, 1, 0]]
TEXT = """
domain T = 3 domain W = 4
factor init(-> T)
factor trans(T -> T)
factor emit(T -> W) with net = residual(dim=8, layers=1, dropout=0.3)
nonterminal S() nonterminal X(T) start S
rule begin: S    -> init(t) X(t)
rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
rule last:  X(t) -> emit(t, o)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule step:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> o = w[n-1]
}"""


def program_for(method: str) -> Program:
    if method == "adam":
        return fgg.compile(fgg.loads(TEXT))
    return fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4}))


def batches(program: Program, method: str) -> list[Items]:
    items = in_memory(program, SENTENCES)
    return items if method in ("cvb", "hastings") else bucketed(items, 6)


@pytest.mark.parametrize("method", METHODS)
def test_going_on_from_a_state_is_the_same_bit_for_bit(method: str) -> None:
    program = program_for(method)
    data = batches(program, method)
    model = program.model(seed=1)
    whole = METHODS[method](model)
    for _ in range(2):
        whole.sweep(data)
    whole.begin()
    whole.step(data[0])  # in the middle of a sweep
    kept = {n: t.clone() for n, t in whole.state_dict().items()}
    assert all(isinstance(t, Tensor) for t in kept.values())
    parameters = copy.deepcopy(model.state_dict())
    for batch in data[1:]:
        whole.step(batch)
    reports = [whole.end(), whole.sweep(data), whole.sweep(data)]

    other = program.model(seed=9)
    again = METHODS[method](other)
    other.load_state_dict(parameters)
    again.load_state_dict(kept)
    for batch in data[1:]:
        again.step(batch)
    assert [again.end(), again.sweep(data), again.sweep(data)] == reports
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_a_state_of_another_method_or_model_is_refused() -> None:
    hmm = program_for("em")
    em = METHODS["em"](hmm.model())
    with pytest.raises(fgg.GrammarError, match="F477"):
        METHODS["vb"](hmm.model()).load_state_dict(em.state_dict())
    other = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 4}))
    with pytest.raises(fgg.GrammarError, match="F477"):
        METHODS["em"](other.model()).load_state_dict(em.state_dict())


class Together:
    """Two threads that add tensors up, as two processes would."""

    def __init__(self) -> None:
        self.barrier = Barrier(2)
        self.parts: list[Tensor | None] = [None, None]

    def reduce(self, rank: int) -> Callable[[Tensor], Tensor]:
        def total(tensor: Tensor) -> Tensor:
            self.parts[rank] = tensor.clone()
            self.barrier.wait(60)
            first, second = self.parts
            assert first is not None and second is not None
            both = first + second
            self.barrier.wait(60)
            return both

        return total


def run_two(method: str, program: Program, sweeps: int) -> tuple[list[Any], list[Model]]:
    together = Together()
    models = [program.model(seed=1, dtype=torch.float64) for _ in range(2)]
    reports: list[Any] = [None, None]
    items = in_memory(program, SENTENCES)
    failures: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            fitting = METHODS[method](models[rank], reduce=together.reduce(rank))
            share: list[Items | None] = [*items[rank::2]]
            if rank:
                share = [*share[:-1], None, share[-1]]  # this one has nothing for once
            else:
                share = [*share, None]
            outcomes = []
            for _ in range(sweeps):
                fitting.begin()
                for batch in share:
                    fitting.step(batch)
                outcomes.append(fitting.end())
            reports[rank] = outcomes
        except BaseException as error:
            failures.append(error)
            together.barrier.abort()

    threads = [Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures
    return reports, models


@pytest.mark.parametrize("method", ["em", "vb"])
def test_two_processes_find_what_one_finds(method: str) -> None:
    program = program_for(method)
    reports, models = run_two(method, program, 5)
    model = program.model(seed=1, dtype=torch.float64)
    one = METHODS[method](model)
    items = in_memory(program, SENTENCES)
    for report in reports[0]:
        alone = one.sweep(items)
        assert report.objective == pytest.approx(alone.objective, abs=1e-9)
        assert report.items == alone.items == len(SENTENCES)
    assert reports[0] == reports[1]
    for name, tensor in model.state_dict().items():
        for other in models:
            torch.testing.assert_close(other.state_dict()[name], tensor, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("method", ["online-em", "cvb", "adam"])
def test_two_processes_agree_with_each_other(method: str) -> None:
    program = program_for("em")
    reports, models = run_two(method, program, 4)
    assert reports[0] == reports[1]
    assert reports[0][-1].objective > reports[0][0].objective
    for name, tensor in models[0].state_dict().items():
        torch.testing.assert_close(models[1].state_dict()[name], tensor, atol=1e-12, rtol=1e-12)
    if method == "cvb":  # in each step both take their items out: the counts stay those of all
        assert reports[0][-1].items == len(SENTENCES)


def test_hastings_is_not_shared_out() -> None:
    with pytest.raises(fgg.GrammarError, match="F476"):
        METHODS["hastings"](program_for("em").model(), reduce=lambda x: x + 0)


# Adam


def test_the_step_of_adam_follows_the_gradient_of_the_likelihood() -> None:
    program = program_for("em")
    model = program.model(seed=0, dtype=torch.float64)

    def loss(*logits: Tensor) -> Tensor:
        weights = {n: x.softmax(-1) for n, x in zip(model.names, logits, strict=True)}
        return -program.log_z(weights, {"w": SENTENCES}).mean()

    start = [model.logits[n].detach().clone().requires_grad_() for n in model.names]
    assert torch.autograd.gradcheck(loss, start)
    wanted = torch.autograd.grad(loss(*start), start)
    seen: dict[str, Tensor] = {}
    adam = Adam(model, clip=0.0, rate=0.1)

    def note(*_: Any) -> None:
        seen.update({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})

    adam.optimizer.register_step_pre_hook(note)
    adam.sweep([Items({"w": SENTENCES})])
    for name, gradient in zip(model.names, wanted, strict=True):
        torch.testing.assert_close(seen[f"logits.{name}"], gradient)


def test_gradients_are_clipped() -> None:
    model = program_for("em").model(seed=0, dtype=torch.float64)
    adam = Adam(model, clip=1e-3)
    adam.sweep([Items({"w": SENTENCES})])
    norm = (
        sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5
    )
    assert norm <= 1.0001e-3 < adam.norm


def test_the_rate_falls_on_plateaus() -> None:
    adam = Adam(program_for("em").model(), rate=0.8, patience=1, factor=0.5)
    lowered = [adam.plateau(v) for v in (1.0, 0.5, 0.4, 2.0, 1.0, 1.0, 1.0, 1.0)]
    assert lowered == [False, False, True, False, False, True, False, True]
    assert adam.rate == pytest.approx(0.1)


def test_adam_learns_networks_and_potentials() -> None:
    learned = learn(program_for("adam"), SENTENCES, method="adam", epochs=25, rate=0.05)
    assert learned.history[-1].objective > learned.history[0].objective + 3
    assert not learned.model.training
    crf = fgg.compile(
        fgg.loads(
            """
            domain T = 2
            factor good(T)
            factor norm(T) = 1
            nonterminal S() start S
            rule one: S -> good(t)
            query seen(x: T[n]) { rule one: S -> t = x[0] }"""
        )
    )
    model = crf.model(seed=0)
    before = model.detached()["good"]
    learn(model, [[1]], method="adam", epochs=3, rate=0.1)
    assert model.detached()["good"][1] > before[1]


def test_dropout_is_off_after_a_sweep_and_does_not_touch_other_draws() -> None:
    program = program_for("adam")
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    learn(program, SENTENCES, method="adam", epochs=2)
    assert torch.equal(torch.rand(3), wanted)


def test_methods_are_driven_alike() -> None:
    for name, kind in METHODS.items():
        program = program_for(name)
        fitting: Method = kind(program.model(seed=0))
        assert fitting.name == name
        report = fitting.sweep(batches(program, name))
        assert report.items == len(SENTENCES)
        assert report.kind in ("log-likelihood", "collapsed bound", "log-joint")
