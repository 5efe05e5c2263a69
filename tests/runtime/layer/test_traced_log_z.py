"""log Z is a layer that torch compiles whole, and that its transformations go through."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacrev, vjp, vmap
from torch.library import opcheck

import fgg
from fgg import GrammarError
from fgg.runtime.layer.traced_log_z import Call, log_z_operator
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

CASES: dict[str, tuple[dict[str, int], dict[str, list[list[int]]]]] = {
    "hmm": ({"k": 3, "d": 5}, {"w": [[0, 1, 2, 4], [3, 4, -1], [1]]}),
    "pcfg": ({"nt": 3, "pt": 4, "r": 2, "words": 5}, {"w": [[0, 1, 2, 4], [3, 4, 0]]}),
    "crf": ({"k": 3}, {"y": [[0, 2, -1, 1], [1, 1]]}),
}


def program_of(name: str) -> Program:
    return fgg.compile(fgg.load(name, sizes=CASES[name][0]))


def batch_of(name: str, program: Program, seed: int = 0) -> dict[str, Any]:
    """The inputs of a case as tensors, with log-potentials if the program has some."""
    collated = program.compiled.collate({**CASES[name][1], **potentials(name, seed)})
    lengths = {length: torch.tensor(values) for length, values in collated.lengths.items()}
    return {**collated.inputs, "lengths": lengths}


def potentials(name: str, seed: int) -> dict[str, list[Tensor]]:
    if name != "crf":
        return {}
    draw = torch.Generator().manual_seed(seed)
    return {"score": [torch.randn(n, 3, generator=draw) for n in (4, 2)]}


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    found = torch.autograd.grad(loss, list(model.parameters()))
    return dict(zip(dict(model.named_parameters()), found, strict=True))


def same(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-9, atol=1e-9)


# torch.compile


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_model_is_one_graph_with_the_same_numbers(name: str) -> None:
    program = program_of(name)
    model = program.model(seed=1, dtype=torch.float64)
    batch = batch_of(name, program)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    weighted = torch.tensor([1.0, -2.0, 0.5][: len(next(iter(batch["lengths"].values())))])
    whole, plain = compiled(**batch), model(**batch)
    torch.testing.assert_close(whole, plain)
    same(gradients(model, whole @ weighted.double()), gradients(model, plain @ weighted.double()))


def test_a_model_from_a_file_is_compiled_whole_too() -> None:
    model: Model = pickle.loads(pickle.dumps(program_of("pcfg").model(seed=1)))
    torch.compiler.reset()
    words = torch.tensor([[0, 1, 2]])
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(w=words), model(w=words))


class Tagger(nn.Module):
    """A network that scores tags, with a chain on top."""

    def __init__(self, crf: Model, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 4)
        self.scores = nn.Linear(4, 3)
        self.crf = crf

    def forward(self, words: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        score = self.scores(torch.tanh(self.embedding(words)))
        gold: Tensor = self.crf(y=tags, score=score, lengths=lengths)
        whole: Tensor = self.crf(score=score, lengths=lengths)
        return whole - gold


def tagger(**options: Any) -> Tagger:
    torch.manual_seed(0)
    return Tagger(program_of("crf").model(seed=1, **options), 7)


def tagged(batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(length)
    words = torch.randint(7, (batch, length), generator=draw)
    lengths = torch.randint(1, length + 1, (batch,), generator=draw)
    lengths[0] = length
    return words, words % 3, lengths


def test_a_network_with_a_program_on_top_is_compiled_whole_and_learns() -> None:
    losses = []
    for compiled in (False, True):
        network = tagger()
        torch.compiler.reset()
        layer = torch.compile(network, fullgraph=True, backend="aot_eager") if compiled else network
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
        each = []
        for step in range(8):
            loss = layer(*tagged(4, 3 + step % 3)).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            each.append(float(loss.detach()))
        losses.append(each)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[0][6] < losses[0][0] / 2


def test_other_batches_and_lengths_need_no_other_graph() -> None:
    network = tagger()
    torch.compiler.reset()
    counted = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(network, fullgraph=True, backend=counted, dynamic=True)
    for batch, length in ((2, 3), (4, 5), (3, 9), (5, 7)):
        torch.testing.assert_close(
            compiled(*tagged(batch, length)), network(*tagged(batch, length))
        )
    assert counted.frame_count == 1


@pytest.mark.slow
def test_inductor_compiles_it_too() -> None:
    network = tagger()
    torch.compiler.reset()
    compiled = torch.compile(network, fullgraph=True)
    whole, plain = compiled(*tagged(4, 5)).mean(), network(*tagged(4, 5)).mean()
    torch.testing.assert_close(whole, plain)
    one, two = gradients(network, whole), gradients(network, plain)
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-5)


def test_words_are_refused_where_a_graph_is_made() -> None:
    program = program_of("hmm")
    with pytest.raises(GrammarError, match="F411"):
        Call.of(program, program.weights(seed=0), {"w": [["a", "b"]]}, None)


def test_the_operators_are_as_torch_wants_them() -> None:
    program = program_of("hmm")
    weights = {n: w.requires_grad_() for n, w in program.weights(seed=0).items()}
    inputs = {"w": torch.tensor([[0, 1, 2], [3, 4, -2]])}
    call = Call.of(program, weights, inputs, torch.tensor([3, 2]))
    opcheck(log_z_operator, (call.handle, call.names, call.tensors))
    wanted = [x.is_floating_point() for x in call.tensors]
    detached = [x.detach() for x in call.tensors]
    opcheck(
        torch.ops.fgg.slopes,
        (call.handle, call.names, wanted, torch.ones(2), detached),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_derivatives_are_taken_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    slopes = Call.leaves

    def note(self: Call, wanted: list[bool]) -> Call:
        asked.append(dict(zip(self.names.split("\n"), wanted, strict=True)))
        return slopes(self, wanted)

    monkeypatch.setattr(Call, "leaves", note)
    program = program_of("hmm")
    weights = program.weights(seed=0)
    weights["emit"].requires_grad_()
    torch.compiler.reset()

    def log_z(words: Tensor) -> Tensor:
        return program.log_z(weights, {"w": words})

    compiled = torch.compile(log_z, backend="aot_eager")
    torch.autograd.backward(compiled(torch.tensor([[0, 1]])).sum())
    assert {name for name, wanted in asked[-1].items() if wanted} == {"weights emit"}


def test_an_error_inside_a_graph_is_the_programs_own() -> None:
    model = program_of("hmm").model(seed=0)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with pytest.raises(GrammarError, match="F411"):
        compiled(w=torch.tensor([[0, 9]]))


# torch.func


@pytest.mark.parametrize("name", CASES)
def test_functional_derivatives_are_those_of_backward(name: str) -> None:
    program = program_of(name)
    model = program.model(seed=1, dtype=torch.float64)
    batch = batch_of(name, program)
    parameters: dict[str, Tensor] = dict(model.named_parameters())

    def total(parameters: dict[str, Tensor]) -> Tensor:
        log_z: Tensor = functional_call(model, parameters, kwargs=batch)
        return log_z.square().sum()

    plain = gradients(model, model(**batch).square().sum())
    same(grad(total)(parameters), plain)
    value, pull, *_ = vjp(total, parameters)
    torch.testing.assert_close(value, model(**batch).square().sum())
    same(pull(torch.ones((), dtype=torch.float64))[0], plain)


def test_jacobians_have_the_gradient_of_each_item() -> None:
    program = program_of("hmm")
    weights = program.weights(seed=0, dtype=torch.float64)
    batch = {"w": torch.tensor([[0, 1, 2], [3, 4, 1]])}
    jacobian = jacrev(lambda weights: program.log_z(weights, batch))(weights)
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    log_z = program.log_z(leaves, batch)
    for item in range(2):
        each = torch.autograd.grad(log_z[item], list(leaves.values()), retain_graph=True)
        for name, slope in zip(leaves, each, strict=True):
            torch.testing.assert_close(jacobian[name][item], slope)


def test_a_hessian_is_a_jacobian_of_a_jacobian() -> None:
    program = program_of("crf")
    weights = program.weights(seed=0, dtype=torch.float64)
    score = torch.randn(1, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def log_z(score: Tensor) -> Tensor:
        return program.log_z(weights, {"score": score})[0]

    second = jacrev(jacrev(log_z))(score)
    leaf = score.clone().requires_grad_()
    (slope,) = torch.autograd.grad(log_z(leaf), leaf, create_graph=True)
    rows = [torch.autograd.grad(x, leaf, retain_graph=True)[0] for x in slope.flatten()]
    torch.testing.assert_close(second, torch.stack(rows).reshape(1, 3, 3, 1, 3, 3))
    mixed = grad(
        lambda trans: grad(lambda s: program.log_z({"trans": trans}, {"score": s})[0])(score)[
            0, 0, 0
        ]
    )
    slope = mixed(weights["trans"])
    leaf = weights["trans"].clone().requires_grad_()
    given = score.clone().requires_grad_()
    first = torch.autograd.grad(
        program.log_z({"trans": leaf}, {"score": given})[0], given, create_graph=True
    )[0]
    torch.testing.assert_close(slope, torch.autograd.grad(first[0, 0, 0], leaf)[0])


def test_mapped_items_weights_and_gradients_are_those_of_a_loop() -> None:
    program = program_of("hmm")
    weights = program.weights(seed=0, dtype=torch.float64)
    words = torch.tensor([[0, 1, 2], [3, 4, 1], [2, 2, 2]])
    items = vmap(lambda w: program.log_z(weights, {"w": w[None]})[0])(words)
    torch.testing.assert_close(items, program.log_z(weights, {"w": words}))

    several = {n: torch.stack([w, w * 0.5, w * 2]) for n, w in weights.items()}
    each = vmap(lambda weights: program.log_z(weights, {"w": words}))(several)
    for place in range(3):
        one = {name: stacked[place] for name, stacked in several.items()}
        torch.testing.assert_close(each[place], program.log_z(one, {"w": words}))

    slopes = vmap(grad(lambda weights, w: program.log_z(weights, {"w": w[None]})[0]), (None, 0))
    wanted = jacrev(lambda weights: program.log_z(weights, {"w": words}))(weights)
    same(slopes(weights, words), wanted)


def test_what_transformations_cannot_do_is_refused() -> None:
    program = program_of("hmm")
    weights = program.weights(seed=0, dtype=torch.float64)

    def log_z(emit: Tensor) -> Tensor:
        return program.log_z({**weights, "emit": emit}, {"w": torch.tensor([[0, 1]])}).sum()

    with pytest.raises(GrammarError, match="F497"):
        hessian(log_z)(weights["emit"])
    with pytest.raises(GrammarError, match="F497"):
        jacrev(jacrev(jacrev(log_z)))(weights["emit"])
