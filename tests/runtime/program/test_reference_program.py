"""Programs on the reference engine (F434) answer as compiled programs do."""

from __future__ import annotations

import pickle
import random
from math import log

import numpy as np
import pytest
import torch
from torch import Tensor

from fgg.api.compile import Compilation, compile
from fgg.compiler import loads
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.runtime.program.program import Program
from fgg.runtime.program.reference_program import ReferenceProgram
from tests.compiler.test_compiled import COMPILED, source
from tests.generators.indexed import write_grammar
from tests.oracles.comparing import (
    Item,
    collated,
    compare,
    compare_marginals,
    lengths_of,
    random_item,
    random_weights,
    reference,
)


def fallback(grammar: Grammar) -> ReferenceProgram:
    """The program that a grammar would have if it could not be compiled."""
    decomposed = cpd(grammar)
    return ReferenceProgram(
        grammar=grammar,
        decomposed=None if decomposed is grammar else decomposed,
        compiler=Compilation(model=grammar, query=None),
    )


def answers(program: Program, weights: dict[str, Tensor], items: list[Item]) -> dict[str, Tensor]:
    """log Z, its gradient in weights and log-potentials, expected counts and marginals."""
    leaves = {n: w.clone().requires_grad_() for n, w in weights.items()}
    inputs, lengths = collated(items, torch.float64)
    log_z = program.log_z(leaves, inputs, lengths or None)
    found = {"log Z": log_z.detach()}
    scale = torch.arange(1, len(items) + 1, dtype=log_z.dtype)
    if log_z.requires_grad:
        torch.autograd.backward(torch.where(torch.isfinite(log_z), log_z, 0.0).mul(scale).sum())
    floats = {n: x for n, x in inputs.items() if x.is_floating_point()}
    for name, leaf in (leaves | floats).items():
        grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        # Compiled programs pass no gradient on through cells that are zero.
        found[f"gradient of {name}"] = torch.where(leaf.detach() == 0, 0.0, grad)
    still = {n: x.detach() for n, x in inputs.items()}
    counts = program.posterior(weights, still, lengths or None).counts
    found |= {f"counts of {name}": x for name, x in counts.items()}
    marginals = program.posterior(weights, still, lengths or None).marginals
    return found | {f"marginals of {name}": x for name, x in marginals.items()}


def assert_same(one: Program, two: Program, items: list[Item], rng: random.Random) -> None:
    drawn = random_weights(two.weighted, rng, zero=0.05)
    own = {n: w for n, w in drawn.items() if two.pieces(n) == (n,)}
    assert set(two.parameter_names) <= set(one.parameter_names)
    found, wanted = (
        answers(program, program.weights(own, dtype=torch.float64), items) for program in (one, two)
    )
    assert set(wanted) <= set(found)
    tolerance = 1e-9 if two.compiled.plan.parameters or two.grammar.input_factors else 1e-6
    for what, want in wanted.items():
        got = found[what]
        if what.startswith("marginals"):  # charts may be larger than what can be reached
            got, want = got.sum(), want.sum()
        size = 1.0 if what == "log Z" else max(1.0, float(want.abs().max()))
        np.testing.assert_allclose(
            got.numpy(), want.to(got).numpy(), rtol=tolerance, atol=tolerance * size, err_msg=what
        )


@pytest.mark.parametrize(("name", "query"), COMPILED)
def test_library_grammars_have_the_numbers_of_compiled_programs(
    name: str, query: str | None
) -> None:
    grammar = source(name, query)
    rng = random.Random(3)
    items = [
        random_item(grammar, {n: length for n in lengths_of(grammar)}, rng) for length in (3, 1, 2)
    ]
    try:
        assert_same(fallback(grammar), compile(grammar, fallback=False), items, rng)
    except GrammarError as error:  # log-potentials of other lengths
        assert {d.code for d in error.diagnostics} == {"F411"}


def test_random_grammars_have_the_numbers_of_compiled_programs() -> None:
    tried = 0
    for seed in range(40):
        made = write_grammar(random.Random(seed).choice)
        assert made is not None
        grammar, rng = made[0], random.Random(seed)
        try:
            program = compile(grammar, fallback=False)
        except GrammarError:
            continue
        items = []
        for _ in range(3):
            item = random_item(grammar, {n: rng.randint(0, 4) for n in lengths_of(grammar)}, rng)
            if reference(grammar, item, random_weights(grammar, rng)) is not None:
                items.append(item)
        if items:
            tried += 1
            assert_same(fallback(grammar), program, items, rng)
    assert tried > 20


LOOPS = {
    "potentials": """
        domain T = 2
        domain W = 3
        factor emit(T -> W)
        factor loop(T, T)
        input w: W[n]
        input factor phi[i](T, T) for 0 <= i < n
        nonterminal S()
        nonterminal X[i](T) for 0 <= i <= n
        start S
        rule begin: S -> X[0](t)
        rule step: X[i](t) -> emit(t, w[i]) phi[i](t, u) X[i+1](u) for i < n
        rule loop: X[i](t) -> loop(t, u) X[i](u)
        rule end: X[n](t) ->
    """,
    "trees": """
        domain T = 2
        factor leaf(T)
        factor pair(T, T, T)
        factor turn(T, T)
        input factor score[i,j]() for 0 <= i < j <= n
        nonterminal S()
        nonterminal X[i,j](T) for 0 <= i < j <= n
        start S
        rule S -> X[0,n](t) score[0,n] for n >= 1
        rule word: X[i,i+1](t) -> leaf(t) score[i,i+1]
        rule two: X[i,j](t) -> pair(t, u, v) X[i,k](u) X[k,j](v) score[i,j] for i < k < j
        rule turn: X[i,j](t) -> turn(t, u) X[i,j](u)
    """,
    "tables": """
        domain T = 2
        factor leaf(T)
        factor edge(T, T)
        input table above[n]
        input factor bias[i](T) for 0 <= i < n
        nonterminal S()
        nonterminal X[i](T) for 0 <= i < n
        start S
        rule S -> X[0](t) for n >= 1
        rule up: X[i](t) -> edge(t, u) bias[i](t) X[above[i]](u)
        rule end: X[i](t) -> leaf(t)
    """,
}


@pytest.fixture(params=sorted(LOOPS))
def looping(request: pytest.FixtureRequest) -> ReferenceProgram:
    with pytest.warns(UserWarning, match="F434"):
        program = compile(loads(LOOPS[request.param]))
    assert isinstance(program, ReferenceProgram)
    return program


@pytest.mark.parametrize("seed", range(4))
def test_recursive_grammars_have_the_reference_numbers(
    looping: ReferenceProgram, seed: int
) -> None:
    grammar, rng = looping.grammar, random.Random(seed)
    weights = {n: 0.3 * w for n, w in random_weights(grammar, rng).items()}
    items = [random_item(grammar, {"n": n}, rng, spread=0.3) for n in (2, 3, 1)]
    wanted = [reference(grammar, item, weights) for item in items]
    known = [(i, a) for i, a in zip(items, wanted, strict=True) if a is not None]
    compare(looping, [i for i, _ in known], [a for _, a in known], weights)
    compare(looping, [known[0][0]], [known[0][1]], weights)
    compare_marginals(looping, [i for i, _ in known], weights)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_finite_differences(looping: ReferenceProgram, seed: int) -> None:
    grammar, rng = looping.grammar, random.Random(seed)
    own = random_weights(grammar, rng).items()
    weights = {n: torch.tensor(0.3 * w, requires_grad=True) for n, w in own}
    inputs, lengths = collated([random_item(grammar, {"n": 2}, rng, spread=0.3)], torch.float64)
    log_z = looping.log_z(weights, inputs, lengths)
    torch.autograd.backward(log_z.sum())
    assert torch.isfinite(log_z).all()
    leaves = {**weights, **{n: x for n, x in inputs.items() if x.is_floating_point()}}
    for name, leaf in leaves.items():
        grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        for place in np.ndindex(*leaf.shape):
            if not torch.isfinite(leaf[place]):
                continue
            ends = []
            for step in (1e-5, -1e-5):
                moved = leaf.detach().clone()
                moved[place] += step
                given = {n: moved if n == name else w.detach() for n, w in weights.items()}
                other = {n: moved if n == name else x.detach() for n, x in inputs.items()}
                ends.append(float(looping.log_z(given, other, lengths)[0]))
            slope = (ends[0] - ends[1]) / 2e-5
            assert float(grad[place]) == pytest.approx(slope, rel=1e-6, abs=1e-8), name


def test_log_potentials_keep_their_precision_and_their_type(looping: ReferenceProgram) -> None:
    grammar, rng = looping.grammar, random.Random(1)
    weights = {n: torch.tensor(0.3 * w) for n, w in random_weights(grammar, rng).items()}
    inputs, lengths = collated([random_item(grammar, {"n": 2}, rng)], torch.float64)
    inputs = {n: x.detach() for n, x in inputs.items()}
    moved = {n: x + 1e-10 if x.is_floating_point() else x for n, x in inputs.items()}
    gap = looping.log_z(weights, moved, lengths) - looping.log_z(weights, inputs, lengths)
    uses = sum(
        float(counts.sum())
        for name, counts in looping.posterior(weights, inputs, lengths).counts.items()
        if name in grammar.input_factor
    )
    assert float(gap) == pytest.approx(1e-10 * uses, rel=1e-3)
    single = {n: w.float() for n, w in weights.items()}
    assert looping.log_z(single, inputs, lengths).dtype == torch.float32


@pytest.mark.parametrize("size", [800.0, 1000.0, -1000.0])
def test_log_potentials_of_any_size_pass_through_recursions(size: float) -> None:
    with pytest.warns(UserWarning, match="F434"):
        program = compile(loads(LOOPS["potentials"]))
    weights = {
        "emit": torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], dtype=torch.float64),
        "loop": torch.tensor([[0.5, 0.0], [0.0, 0.5]], dtype=torch.float64),
    }
    phi = torch.tensor(
        [[[[size, -size], [0.0, 1.0]], [[-size, 0.5], [size, -1e9]]]], requires_grad=True
    )
    log_z = program.log_z(weights, {"w": [[0, 1]], "phi": phi.double()})
    emit = weights["emit"].log()
    exact = emit[:, None, None, 0] + phi[0, 0, :, :, None].double()
    exact = exact + emit[None, :, None, 1] + phi[0, 1, None].double() + 3 * log(2)
    wanted = torch.logsumexp(exact.reshape(-1), 0)
    assert float(log_z.detach()) == pytest.approx(float(wanted.detach()), abs=1e-9)
    (slope,) = torch.autograd.grad(log_z.sum(), phi)
    (other,) = torch.autograd.grad(wanted, phi)
    torch.testing.assert_close(slope, other)


def test_weights_of_zero_have_their_gradient() -> None:
    grammar = loads("""
        domain T = 2
        factor f(T)
        factor h(T)
        factor loop() = 0.5
        input w: T[n]
        nonterminal S()
        nonterminal X[i]()
        start S
        rule one: S -> X[0]
        rule other: S -> h(w[0])
        rule X[i] -> f(w[i])
        rule again: X[i] -> loop X[i]
    """)
    with pytest.warns(UserWarning, match="F434"):
        program = compile(grammar)
    f = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
    h = torch.tensor([0.5, 0.5], dtype=torch.float64, requires_grad=True)
    loop = torch.tensor(0.5, dtype=torch.float64)
    log_z = program.log_z({"f": f, "h": h, "loop": loop}, {"w": [[0], [1]]})
    torch.autograd.backward(log_z[0])
    torch.testing.assert_close(f.grad, torch.tensor([4.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(h.grad, torch.tensor([2.0, 0.0], dtype=torch.float64))


def test_an_item_without_derivations_has_gradient_zero_and_disturbs_no_other() -> None:
    with pytest.warns(UserWarning, match="F434"):
        program = compile(loads(LOOPS["potentials"]))
    weights = {n: 0.3 * w for n, w in program.weights(seed=1, dtype=torch.float64).items()}
    phi = torch.zeros(2, 1, 2, 2, dtype=torch.float64, requires_grad=True)
    log_z = program.log_z(weights, {"w": [[-2], [1]], "phi": phi})
    assert torch.isneginf(log_z).tolist() == [True, False]
    torch.autograd.backward(torch.where(torch.isfinite(log_z), log_z, 0.0).sum())
    assert phi.grad is not None and not phi.grad[0].any() and float(phi.grad[1].sum()) > 0.9
    marginals = program.posterior(weights, {"w": [[-2], [1]], "phi": phi.detach()}).marginals
    assert marginals["X"].shape == (2, 2, 2)
    assert not marginals["X"][0].any() and float(marginals["S"][1]) == pytest.approx(1.0)


def test_bad_weights_are_reported_as_those_of_compiled_programs_are() -> None:
    with pytest.warns(UserWarning, match="F434"):
        program = compile(loads(LOOPS["trees"]))
    weights = program.weights(seed=0)
    score = {"score": torch.zeros(1, 1, 2)}
    for wrong, message in (
        ({n: w for n, w in weights.items() if n != "turn"}, "F416.*`turn`"),
        ({**weights, "turn": weights["turn"][0]}, "F417.*shape"),
        ({**weights, "turn": -weights["turn"]}, "F417.*negative"),
        ({**weights, "nothing": weights["turn"]}, "F417.*`nothing`"),
    ):
        with pytest.raises(GrammarError, match=message):
            program.log_z(wrong, score, {"n": [1]})


def test_factors_of_declared_rank_are_learned_as_pieces() -> None:
    grammar = loads("""
        domain T = 3
        factor stop(T)
        factor step(T -> T) rank 2
        nonterminal S()
        nonterminal X(T)
        start S
        rule S -> X(t)
        rule step: X(t) -> step(t, u) X(u)
        rule stop: X(t) -> stop(t)
    """)
    with pytest.warns(UserWarning, match="F434"):
        program = compile(grammar)
    assert program.parameter_names == ("stop", "step_0", "step_1")
    weights = {n: 0.2 * w for n, w in program.weights(seed=1, dtype=torch.float64).items()}
    leaves = {n: w.requires_grad_() for n, w in weights.items()}
    log_z = program.log_z(leaves)
    whole = leaves["step_0"] @ leaves["step_1"]
    system = torch.eye(3, dtype=torch.float64) - whole
    wanted = torch.linalg.solve(system, leaves["stop"]).sum().log()
    torch.testing.assert_close(log_z, wanted[None])
    for one, two in zip(
        torch.autograd.grad(log_z.sum(), list(leaves.values())),
        torch.autograd.grad(wanted, list(leaves.values())),
        strict=True,
    ):
        torch.testing.assert_close(one, two)
    again = pickle.loads(pickle.dumps(program))
    assert again.parameter_names == program.parameter_names
    model = program.model(seed=0)
    assert set(model.learnable) == {"stop", "step_0", "step_1"}
