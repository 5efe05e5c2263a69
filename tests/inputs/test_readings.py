"""A missing token is one variable of a rule, however often the rule reads it, in every engine."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

import fgg
from fgg.compiler import loads
from fgg.grammar import Grammar, Rule
from fgg.grammar.semantics import brute_force
from fgg.inputs.readings import known_inputs
from tests.generators.missing import written_out

HEAD = """
domain A = 2
domain B = 3
domain C = A + B
domain L = A * B
domain M = 2
factor one(B -> M) = map(0, 1, 1)
factor two(B -> M) = map(0, 0, 1)
factor fa(A) = [1.5, 2]
factor fb(B) = [0.5, 1, 3]
factor fm(M) = [2, 5]
factor bb(B, B) = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
factor ab(A, B) = [[1, 2, 3], [4, 5, 6]]
factor fc(C) = [0.5, 1, 1.5, 2, 3]
factor fl(L) = [1, 2, 3, 4, 5, 6]
input w: B[n]
input c: C[n]
input l: L[n]
input table t[n]
nonterminal S()
start S
"""


# What rules read, the inputs, and the sum over what can be read of the missing tokens.
CASES: dict[str, tuple[str, dict[str, list[int]], float]] = {
    "in one edge": ("rule r: S -> bb(w[0], w[0])", {"w": [-1]}, 1 + 5 + 9),
    "in two edges": ("rule r: S -> fb(w[0]) ab(a, w[0])", {"w": [-1]}, 2.5 + 7 + 27),
    "by a node and an edge": ("rule r: S -> fb(v) v = w[0] fb(w[0])", {"w": [-1]}, 10.25),
    "by two nodes": ("rule r: S -> fb(u) fb(v) u = w[0] v = w[0]", {"w": [-1]}, 10.25),
    "a component and all of it": (
        "rule r: S -> fa(v) v = l[0].A fl(l[0])",
        {"l": [-1]},
        1.5 * 6 + 2 * 15,
    ),
    "a component twice": (
        "rule r: S -> fa(u) fa(v) u = l[0].A v = l[0].A",
        {"l": [-1]},
        1.5**2 + 2**2,
    ),
    "two components are two variables": (
        "rule r: S -> fa(u) fb(v) u = l[0].A v = l[0].B",
        {"l": [-1]},
        3.5 * 4.5,
    ),
    "a part and all of it": (
        "rule r: S -> fb(v) v = c[0].B fc(c[0])",
        {"c": [-1]},
        0.5 * 1.5 + 2 + 9,
    ),
    "no token lies in two parts": (
        "rule r: S -> fb(v) v = c[0].B fa(u) u = c[0].A",
        {"c": [-1]},
        0.0,
    ),
    "a map and all of it": (
        "rule r: S -> fm(v) v = w[0].one fb(w[0])",
        {"w": [-1]},
        2 * 0.5 + 5 * 1 + 5 * 3,
    ),
    "two maps": (
        "rule r: S -> fm(u) fm(v) u = w[0].one v = w[0].two",
        {"w": [-1]},
        2 * 2 + 5 * 2 + 5 * 5,
    ),
    "indices that are the same": ("rule r: S -> bb(w[i], w[k]) for i <= k", {"w": [-1]}, 15.0),
    "indices that may be the same": (
        "rule r: S -> bb(w[i], w[k]) for i <= k",
        {"w": [-1, 1]},
        15 + (2 + 5 + 8) + 5,
    ),
    "indices of which a table says that they are the same": (
        "rule r: S -> bb(w[i], w[t[i]]) for 0 <= i < n",
        {"w": [-1, -1], "t": [0, 0]},
        15 + 45,
    ),
    "externals that are the same": (
        "nonterminal X[i, k](B, B) rule r: S -> X[i, k](u, v) bb(u, v) for 0 <= i < n, 0 <= k < n "
        "rule x: X[i, k](u, v) -> u = w[i] v = w[k]",
        {"w": [-1, 0]},
        15 + (1 + 4 + 7) + (1 + 2 + 3) + 1,
    ),
    "an external by a map": (
        "nonterminal X[i](M) rule r: S -> X[0](v) fm(v) "
        "rule x: X[i](v) -> v = w[i].one fb(w[i]) for 0 <= i < n",
        {"w": [-1]},
        1 + 5 + 15,
    ),
    "a part of a node": (
        "rule r: S -> fc(u) u.B = w[0] fb(w[0])",
        {"w": [-1]},
        1.5 * 0.5 + 2 + 9,
    ),
    "three positions": (
        "rule r: S -> bb(w[i], w[j]) fb(w[k]) for 0 <= i <= j <= k < n",
        {"w": [-1]},
        0.5 + 5 + 27,
    ),
}


def case(name: str) -> tuple[Grammar, dict[str, list[int]], float]:
    text, given, wanted = CASES[name]
    grammar = loads(HEAD + text)
    number = len(next(iter(given.values())))
    inputs = {x.name: given.get(x.name, [0] * number) for x in grammar.observed}
    return grammar, inputs, wanted


@pytest.mark.parametrize("name", CASES)
def test_a_position_is_one_variable_of_the_rule_that_reads_it(name: str) -> None:
    grammar, inputs, wanted = case(name)
    assert brute_force(fgg.rewrite.ground(grammar, inputs=inputs), {}) == pytest.approx(wanted)
    assert brute_force(written_out(grammar, {}, inputs), {}) == pytest.approx(wanted)
    batch = {key: [value] for key, value in inputs.items()}
    program = fgg.compile(grammar)
    weights = program.weights(dtype=torch.float64)
    for engine in (program, program.compiled.summing, fgg.compile(grammar, space="dense")):
        assert engine.log_z(weights, batch).exp().item() == pytest.approx(wanted)
    assert float(program.posterior(weights, batch).charts("real").z) == pytest.approx(wanted)
    if wanted:
        total = sum(
            float(counts.sum()) for counts in program.posterior(weights, batch).counts.values()
        )
        assert total == pytest.approx(uses(grammar, inputs))


def uses(grammar: Grammar, inputs: dict[str, list[int]]) -> float:
    """The expected number of factors that a derivation uses."""
    flat = written_out(grammar, {}, inputs)
    weights = {
        name: torch.tensor(brute_weights(grammar, name), dtype=torch.float64, requires_grad=True)
        for name in grammar.factor
        if not isinstance(grammar.factor[name].value, fgg.grammar.values.Map)
    }
    log_z = torch.logsumexp(fgg.reference.solve(flat, "log", weights=weights).value.reshape(-1), 0)
    grads = torch.autograd.grad(log_z, list(weights.values()), allow_unused=True)
    pairs = zip(weights.values(), grads, strict=True)
    return sum(float((w * g).sum().detach()) for w, g in pairs if g is not None)


def brute_weights(grammar: Grammar, name: str) -> Any:
    value = grammar.factor[name].value
    assert isinstance(value, fgg.grammar.values.Table)
    return value.entries


def test_known_tokens_need_no_other_program() -> None:
    grammar, inputs, _ = case("indices that may be the same")
    program = fgg.compile(grammar)
    weights = program.weights(dtype=torch.float64)
    for tokens in product(range(3), repeat=2):
        batch = {**{key: [value] for key, value in inputs.items()}, "w": [list(tokens)]}
        flat = fgg.rewrite.ground(grammar, inputs={**inputs, "w": list(tokens)})
        assert program.log_z(weights, batch).exp().item() == pytest.approx(brute_force(flat, {}))
    assert "summing" not in program.__dict__


def test_machine_code_sums_a_missing_token_once() -> None:
    grammar, inputs, wanted = case("indices that may be the same")
    program = fgg.compile(grammar, backend="cpp")
    batch = {key: [value, value] for key, value in inputs.items()}
    weights = program.weights(dtype=torch.float64)
    for tensor in weights.values():
        tensor.requires_grad_()
    log_z = program.log_z(weights, batch)
    assert log_z.exp().tolist() == pytest.approx([wanted, wanted])
    torch.autograd.backward(log_z.sum())
    assert weights["bb"].grad is not None
    assert float((weights["bb"].grad * weights["bb"].detach()).sum()) == pytest.approx(2.0)


def test_kept_positions_sum_to_a_missing_token() -> None:
    grammar, inputs, wanted = case("a map and all of it")
    program = fgg.compile(grammar)
    weights = program.weights(dtype=torch.float64)
    batch = {key: [value] for key, value in inputs.items()}
    kept = torch.as_tensor(program.posterior(weights, batch).moments({"w": [0]}))
    assert kept.tolist() == [pytest.approx([1, 5, 15])]
    assert float(kept.sum()) == pytest.approx(wanted)


def variables_of(rule: Rule) -> dict[str, int]:
    assert rule.origin is not None
    return dict(rule.origin.values)


def test_derivations_have_the_values_of_all_nodes_that_read_a_token() -> None:
    grammar, inputs, _ = case("indices that may be the same")
    program = fgg.compile(grammar)
    weights = program.weights(dtype=torch.float64)
    batch = {key: [value] for key, value in inputs.items()}
    best, *_ = program.posterior(weights, batch).k_best(9)[0]
    (step,) = best.steps
    values = {name: step.values[name] for name in ("w", "w2")}
    assert (variables_of(step.rule), values) == ({"i": 0, "k": 0}, {"w": 2, "w2": 2})
    (drawn,) = program.posterior(weights, batch).sample(40, seed=1)
    for derivation in drawn:
        (step,) = derivation.steps
        variables = variables_of(step.rule)
        if variables["i"] == variables["k"]:
            assert step.values["w"] == step.values["w2"]


def test_rule_marginals_count_equal_indices_once() -> None:
    grammar, inputs, wanted = case("indices that may be the same")
    program = fgg.compile(grammar)
    weights = program.weights(dtype=torch.float64)
    batch = {key: [value] for key, value in inputs.items()}
    found = program.posterior(weights, batch).rule_marginals("r", ["w", "w2"])
    same = found.at(i=0, k=0)[0]
    assert torch.allclose(same, torch.diag(torch.tensor([1.0, 5, 9]).double()) / wanted)


def test_a_proof_covers_missing_tokens() -> None:
    grammar, _, _ = case("a map and all of it")
    found = fgg.verify(grammar, length=2, trials=1, items=12)
    assert found.proved
    rows = {row.what: row for row in found.rows}
    assert "missing" in rows["plan"].note and not rows["plan, missing tokens"].note
    assert rows["plan, missing tokens"].items > rows["plan"].items


def test_an_emitted_program_refuses_missing_tokens_that_it_would_count_twice() -> None:
    grammar, _, _ = case("in two edges")
    assert fgg.compile(grammar).compiled.module.PASSES.complete == ()
    grammar, _, _ = case("by a node and an edge")
    program = fgg.compile(grammar)
    assert program.compiled.module.PASSES.complete == ("w",)
    assert program.compiled.summing.compiled.module.PASSES.complete == ()


def test_a_position_that_is_read_once_needs_no_other_program() -> None:
    for name in ("pcfg", "hmm", "dyck", "rna", "lexpcfg_rank", "dmv"):
        grammar = fgg.load(name)
        for query in grammar.queries or (None,):
            source = grammar if query is None else fgg.rewrite.conjoin(grammar, query)
            assert known_inputs(source) == (), name


RANKED = """
size t = 3
size r = 2
domain T = t
domain W = 3
domain M = 2
factor block(W -> M) = map(0, 1, 1)
factor root(-> T)
factor binary(T -> T, T) rank r
factor emit(T -> W)
factor mark(T -> M)
input w: W[n]
nonterminal S()
nonterminal X[i, j](T) for 0 <= i < j <= n
start S
rule root: S -> root(a) X[0, n](a)
rule binary: X[i, j](a) -> binary(a, b, c) X[i, k](b) X[k, j](c) for i < k < j
rule word: X[i, i+1](a) -> emit(a, w[i]) mark(a, m) m = w[i].block
"""


@pytest.mark.parametrize(
    ("space", "backend"),
    [
        *((space, "torch") for space in ("auto", "rank", "state", "dense")),
        ("rank", "cpp"),
        *(pytest.param(n, "cpp", marks=pytest.mark.slow) for n in ("auto", "state", "dense")),
    ],
)
def test_spaces_agree_on_trees_that_read_words_and_their_blocks(space: str, backend: str) -> None:
    program = fgg.compile(loads(RANKED), space=space, backend=backend)
    weights = program.weights(seed=2, dtype=torch.float64)
    for leaf in weights.values():
        leaf.requires_grad_()
    tokens = torch.tensor([[0, -1, 2], [-1, -1, 1], [2, 0, 1]])
    found = program.log_z(weights, {"w": tokens})
    filled = [
        torch.tensor(list(product(*(range(3) if t < 0 else [t] for t in row))))
        for row in tokens.tolist()
    ]
    wanted = torch.stack([program.log_z(weights, {"w": rows}).logsumexp(0) for rows in filled])
    assert found.tolist() == pytest.approx(wanted.tolist())
    leaves = list(weights.values())
    pairs = zip(
        torch.autograd.grad(found.sum(), leaves),
        torch.autograd.grad(wanted.sum(), leaves),
        strict=True,
    )
    assert all(torch.allclose(one, two) for one, two in pairs)


def test_a_position_outside_the_input_stays_outside_when_readings_are_joined() -> None:
    """Inside the input q and m can only be 2: at m = 3 nothing is read, and nothing matches."""
    text = """
    domain W = 2
    input w: W[n]
    input y: W[m]
    factor both(W, W)
    factor one(W)
    nonterminal S()
    start S
    rule s: S -> both(w[q], w[m]) one(w[1]) for 2 <= q, q <= m, n == 3
    """
    program = fgg.compile(fgg.loads(text))
    weights = program.weights(seed=0, dtype=torch.float64)
    items = {"w": [[0, 1, -1], [0, 1, 1]], "y": [[0, 0], [0, 0, 0]]}
    both, one = weights["both"], weights["one"]
    wanted = [float((one[1] * both.diagonal().sum()).log()), -torch.inf]
    assert program.log_z(weights, items).tolist() == pytest.approx(wanted)
