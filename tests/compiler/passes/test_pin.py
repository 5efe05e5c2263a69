"""Pinning: blocks that observed values fix are no nodes of charts, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fgg
from fgg.api.compile import selected
from fgg.compiler.cost.cost import cost
from fgg.compiler.driver import Expected, after, plan_of
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.inputs.clamps import pinned_inputs
from fgg.plan import Gather
from fgg.runtime.program.inputs import collate
from tests.helpers.blocked import ARRIVAL, HSMM, PCFG
from tests.oracles.comparing import (
    compare,
    compare_marginals,
    random_item,
    random_weights,
    reference,
)

SMALL = {"m": 3, "k": 2, "d": 7}


def chain() -> Grammar:
    return fgg.load("hmm_blocks", sizes=SMALL)


GRAMMARS: dict[str, Callable[[], Grammar]] = {
    "chain": chain,
    "hsmm": lambda: fgg.loads(HSMM),
    "pcfg": lambda: fgg.loads(PCFG),
    "arrival": lambda: fgg.loads(ARRIVAL),
}


def pinned(grammar: Grammar, space: str = "dense") -> Grammar:
    return after(selected(grammar, None), "pin", Expected(), space)


def test_the_blocks_of_a_chain_are_gone() -> None:
    found = pinned(chain())
    assert found.nonterminal["X"].domains == ("K",)
    assert not any(e.label == "clusters" for rule in found.rules for e in rule.rhs.edges)
    rules = {rule.name: rule for rule in found.rules}
    clamps = {c.attachment.node: (c.path, str(c.indices[0])) for c in rules["step"].rhs.clamps}
    assert clamps == {
        "o": ((), "i"),
        "t_M": (("clusters",), "i"),
        "u_M": (("clusters",), "i + 1"),
    }
    assert [c.attachment.node for c in rules["last"].rhs.clamps] == ["o"]
    assert fgg.loads(print_grammar(found)) == found


def test_each_parameter_is_read_at_its_own_tokens() -> None:
    found = pinned(fgg.loads(HSMM))
    assert found.nonterminal["X_More"].domains == ("K", "More")
    plan = plan_of(selected(fgg.loads(HSMM), None), Expected(), "dense")
    gathers = [step for step in plan.preparations if isinstance(step, Gather)]
    (pairs,) = [step for step in gathers if step.source == "trans_T_T"]
    assert [(t.axis, t.group, t.shift) for t in pairs.tokens] == [(0, 0, (0,)), (2, 0, (1,))]
    assert len(plan.table[pairs.name].axes) == 1  # one axis of positions for both


def test_preterminals_are_pinned() -> None:
    found = pinned(fgg.loads(PCFG))
    assert found.nonterminal["X_P"].domains == ("K",)
    assert found.nonterminal["X_N"].domains == ("N",)


def test_one_block_is_no_table_of_copies() -> None:
    grammar = fgg.load("hmm_blocks", sizes={"m": 1, "k": 3, "d": 4})
    found = pinned(grammar)
    assert not pinned_inputs(found)
    assert not any(e.label == "clusters" for rule in found.rules for e in rule.rhs.edges)
    plan = plan_of(selected(grammar, None), Expected(), "dense")
    gathers = [step for step in plan.preparations if isinstance(step, Gather)]
    assert not any(step.source.startswith("trans") for step in gathers)
    assert fgg.verify(grammar, length=3, trials=1, items=24).proved
    program = fgg.compile(grammar)
    weights = program.weights(seed=1, dtype=torch.float64)
    found_z = program.log_z(weights, {"w": [[0, 3, -1, 2]]})  # one may be missing
    every = [program.log_z(weights, {"w": [[0, 3, w, 2]]}) for w in range(4)]
    torch.testing.assert_close(found_z, torch.stack(every).logsumexp(0))


def test_a_grammar_without_maps_is_returned_as_it_is() -> None:
    from fgg.compiler.passes.pin import pin

    grammar = selected(fgg.load("hmm"), None)
    assert pin(grammar) is grammar


def test_a_node_that_is_not_always_known_stays() -> None:
    assert pinned(fgg.loads(ARRIVAL)).nonterminal["X"].domains == ("M", "K")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n == "hsmm" else n for n in sorted(GRAMMARS)],
)
def test_pinned_programs_are_proved_equal(name: str) -> None:
    found = fgg.verify(GRAMMARS[name](), length=3, trials=1, items=24)
    assert found.proved
    rows = [row for row in found.rows if row.what in ("after pin", "plan")]
    assert len(rows) >= 2 and all(row.holds and row.items > 3 for row in rows)
    assert all("where no token of `w` is missing" in row.note for row in rows)


@pytest.mark.parametrize("name", sorted(GRAMMARS))
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_compiled_is_reference_for_mixed_lengths(name: str, missing: float) -> None:
    program = fgg.compile(GRAMMARS[name]())
    assert pinned_inputs(program.compiled.plan.grammar) == ("w",)
    rng = random.Random(name)
    weights = random_weights(program.grammar, rng)
    items = [
        random_item(program.grammar, {"n": n}, rng, missing=missing, impossible=0.02)
        for n in (1, 2, 3, 5, 4)
    ]
    answers = [reference(program.grammar, item, weights) for item in items]
    known = [(i, a) for i, a in zip(items, answers, strict=True) if a is not None]
    compare(program, [i for i, _ in known], [a for _, a in known], weights)
    compare_marginals(program, [i for i, _ in known if i.lengths["n"] <= 3], weights)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=2, max_size=6),
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_random_maps(blocks: list[int], strings: list[list[int]]) -> None:
    text = print_grammar(fgg.load("hmm_blocks", sizes={"m": 3, "k": 2, "d": len(blocks)}))
    values = ", ".join(map(str, blocks))
    grammar = fgg.loads(text.replace("map(cycle)", f"map({values})"))
    program = fgg.compile(grammar)
    weights = program.weights(seed=1, dtype=torch.float64)
    tokens = [[w % len(blocks) for w in string] for string in strings]
    found = program.log_z(weights, {"w": tokens})
    for own, string in zip(found, tokens, strict=True):
        flat = fgg.rewrite.ground(grammar, query="string", inputs={"w": string})
        assert float(own) == pytest.approx(
            float(fgg.reference.solve(flat, "log", weights=weights).value)
        )


@pytest.mark.parametrize("name", sorted(GRAMMARS))
def test_questions_have_the_answers_of_the_plain_plan(name: str) -> None:
    program = fgg.compile(GRAMMARS[name]())
    plain = program.compiled.summing
    assert not pinned_inputs(plain.plan.grammar)
    weights = program.weights(seed=3, dtype=torch.float64)
    other = program.weights(seed=4, dtype=torch.float64)
    tokens = torch.randint(5, (3, 5), generator=torch.Generator().manual_seed(1))
    batch = ({"w": tokens}, {"n": [5, 4, 3]})
    for method in ("viterbi", "mbr"):
        one = program.posterior(weights, *batch).decode(method)
        two = plain.posterior(weights, *batch).decode(method)
        assert [list(d.lines()) for d in one] == [list(d.lines()) for d in two]
    lists = [p.posterior(weights, *batch).k_best(3) for p in (program, plain)]
    # Derivations of one weight come in any order.
    weighed = [[[d.log_weight for d in own] for own in found] for found in lists]
    for one, two in zip(*weighed, strict=True):
        assert one == pytest.approx(two)
    assert torch.allclose(
        program.posterior(weights, *batch).entropy(), plain.posterior(weights, *batch).entropy()
    )
    assert torch.allclose(
        program.posterior(weights, *batch).kl(program.posterior(other, *batch)),
        plain.posterior(weights, *batch).kl(plain.posterior(other, *batch)),
    )
    marginals = program.posterior(weights, *batch).marginals["X"]
    assert torch.allclose(marginals, plain.posterior(weights, *batch).marginals["X"])
    kept = program.posterior(weights, {}, {"n": [2]}).moments({"w": [0]})
    for word in range(5):
        z = program.log_z(weights, {"w": [[word, -1]]}).exp()
        assert torch.allclose(torch.as_tensor(kept[0, word]).double(), z)


def test_samples_follow_the_posterior() -> None:
    program = fgg.compile(chain())
    weights = program.weights(seed=3, dtype=torch.float64)
    (drawn,) = program.posterior(weights, {"w": [[0, 4]]}).sample(400, seed=0)
    wanted = program.posterior(weights, {"w": [[0, 4]]}).marginals["X"][0, 1]
    counts = np.zeros(6)
    for derivation in drawn:
        block, place = derivation.cell_values()[1].split("*")
        counts[2 * int(block) + int(place)] += 1
    assert np.allclose(counts / 400, wanted.numpy(), atol=0.08)


def test_second_derivatives_are_right() -> None:
    program = fgg.compile(chain())
    weights = program.weights(seed=0, dtype=torch.float64)

    def value(emit: torch.Tensor) -> torch.Tensor:
        return program.log_z({**weights, "emit": emit}, {"w": [[1, 2, 6]]}).sum()

    emit = weights["emit"].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(value, (emit,))


def test_work_and_memory_grow_with_the_states_of_a_block_only() -> None:
    def found(m: int, k: int) -> tuple[int, int]:
        grammar = fgg.load("hmm_blocks", sizes={"m": m, "k": k, "d": 500})
        plan = plan_of(selected(grammar, None), Expected(), "state")
        own = cost(plan, {"n": 32}, batch=16)
        return own.multiply_adds, own.chart_bytes

    few, many = found(4, 16), found(64, 16)
    assert few == many
    assert 3.5 < found(4, 32)[0] / few[0] < 4.1


def test_a_large_model_takes_little_memory_beyond_its_gradients() -> None:
    from benchmarks.memory import peak_allocated

    grammar = fgg.load("hmm_blocks", sizes={"m": 64, "k": 64, "d": 1000})
    program = fgg.compile(grammar)
    weights = {
        "init": torch.full((4096,), 1 / 4096),
        "trans": torch.full((4096, 4096), 1 / 4096),
        "emit": torch.full((64, 1000), 1 / 15),
    }
    for tensor in weights.values():
        tensor.requires_grad_()
    words = torch.randint(1000, (16, 32), generator=torch.Generator().manual_seed(0))
    own = 4 * sum(tensor.numel() for tensor in weights.values())

    def call() -> object:
        log_z = program.log_z(weights, {"w": words})
        return torch.autograd.grad(log_z.sum(), list(weights.values()))

    peak = peak_allocated(call)
    assert peak - own < 60e6


def test_an_emitted_module_refuses_missing_tokens() -> None:
    from fgg.runtime.program.emitted import load_module

    program = fgg.compile(chain())
    module = load_module(program.compiled.source)
    weights = program.weights(seed=0)
    words = torch.tensor([[0, 3, 6]])
    assert torch.allclose(module.log_z(weights, {"w": words}), program.log_z(weights, {"w": words}))
    words[0, 1] = -1
    with pytest.raises(ValueError, match="tokens of 'w' are missing"):
        module.log_z(weights, {"w": words})
    assert torch.isfinite(program.log_z(weights, {"w": words})).all()


def test_a_wrong_pin_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    from fgg.compiler.driver import PIPELINES, Pass

    def late(grammar: Grammar) -> Grammar:
        """The block of a next state is taken for that of the state."""
        rules = []
        for rule in grammar.rules:
            clamps = tuple(
                replace(c, indices=rule.indices) if c.attachment.node == "u_M" else c
                for c in rule.rhs.clamps
            )
            rules.append(replace(rule, rhs=replace(rule.rhs, clamps=clamps)))
        return replace(grammar, rules=tuple(rules))

    passes = tuple(
        Pass("pin", lambda grammar, e, p=item: late(p.run(grammar, e)))  # type: ignore[misc]
        if item.name == "pin"
        else item
        for item in PIPELINES["dense"]
    )
    monkeypatch.setitem(PIPELINES, "dense", passes)
    found = fgg.verify(chain(), space="dense", length=3, trials=1, items=20, floats=False)
    assert not found.ok and found.counterexample is not None
    assert found.counterexample.what == "after pin"


def test_what_is_beyond_an_item_is_not_missing() -> None:
    """Rows that are padded with -1 are no reason for a plan with all states."""
    program = fgg.compile(chain())
    weights = program.weights(seed=1, dtype=torch.float64)
    padded = torch.tensor([[3, 1, 6, 2], [5, 4, -1, -1]])
    assert not collate(program.grammar, {"w": padded}, [4, 2]).missing
    assert collate(program.grammar, {"w": padded}, [4, 3]).missing
    found = program.log_z(weights, {"w": padded}, [4, 2])
    torch.testing.assert_close(found, program.log_z(weights, {"w": [[3, 1, 6, 2], [5, 4]]}))
