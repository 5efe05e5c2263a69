"""Programs in dense, state and rank space: the same answers from the same parameters."""

from __future__ import annotations

import pickle
from copy import deepcopy
from functools import cache

import pytest
import torch
from torch import Tensor

import fgg
from fgg.diagnostics import GrammarError
from fgg.plan.spaces import turns
from fgg.runtime.program.program import CompiledProgram, Program

SIZES = {
    "pcfg": {"nt": 5, "pt": 6, "words": 7, "r": 3},
    "hmm_rank": {"k": 6, "d": 5, "r": 2},
}
SPACES = ("dense", "state", "rank", "auto")
WORDS = {"w": [[3, 1, 4, 1, 0], [2, 1, 3], [4, 4]]}


@cache
def program(name: str, space: str) -> Program:
    return fgg.compile(fgg.load(name, sizes=SIZES[name]), space=space)


def weights_of(name: str, space: str = "rank", seed: int = 1) -> dict[str, Tensor]:
    return program(name, space).weights(seed=seed, dtype=torch.float64)


@pytest.mark.parametrize("name", SIZES)
def test_parameters_are_pieces_in_every_space(name: str) -> None:
    first = weights_of(name)
    for space in SPACES:
        found = weights_of(name, space)
        assert list(found) == list(first) == list(program(name, space).parameter_names)
        assert all(torch.equal(found[n], first[n]) for n in first)


@pytest.mark.parametrize("name", SIZES)
def test_answers_are_the_same_in_every_space(name: str) -> None:
    weights = weights_of(name)
    dense = program(name, "dense")
    want = dense.log_z(weights, WORDS)
    counts = dense.posterior(weights, WORDS).counts
    cells = dense.posterior(weights, WORDS).marginals
    entropy = dense.posterior(weights, WORDS).entropy()
    for space in SPACES[1:]:
        found = program(name, space)
        torch.testing.assert_close(found.log_z(weights, WORDS), want, rtol=1e-12, atol=0)
        own = found.posterior(weights, WORDS).counts
        assert own.keys() == counts.keys()
        for factor in own:
            torch.testing.assert_close(own[factor], counts[factor], rtol=1e-9, atol=1e-12)
        for family, values in found.posterior(weights, WORDS).marginals.items():
            torch.testing.assert_close(values, cells[family], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(
            found.posterior(weights, WORDS).entropy(), entropy, rtol=1e-9, atol=0
        )


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("states", [True, False])
def test_mbr_needs_no_whole_factors(name: str, states: bool) -> None:
    for seed in range(4):
        weights = weights_of(name, seed=seed)
        want = program(name, "dense").posterior(weights, WORDS).mbr(states=states)
        for space in ("state", "rank"):
            found = program(name, space).posterior(weights, WORDS).mbr(states=states)
            assert [d.brackets() for d in found] == [d.brackets() for d in want]
            assert [d.cell_values() for d in found] == [d.cell_values() for d in want]
            for one, two in zip(found, want, strict=True):
                assert one.log_weight == pytest.approx(two.log_weight, rel=1e-9)
                assert one.spans() == two.spans()


def test_mbr_of_large_models() -> None:
    sizes = {"nt": 700, "pt": 900, "words": 10, "r": 4}  # whole, `binary` has 1.8e9 entries
    model = fgg.compile(fgg.load("pcfg", sizes=sizes), space="rank").model(seed=0)
    (tree,) = model.posterior(w=[[1, 2, 3]]).mbr()
    assert tree.brackets().count("(word)") == 3
    chosen = fgg.compile(fgg.load("pcfg", sizes=sizes))
    assert chosen.compiled.space == "rank"
    with pytest.raises(GrammarError) as error:
        chosen.model(seed=0).posterior(w=[[1, 2, 3]]).best()
    assert [d.code for d in error.value.diagnostics] == ["F420"]


def test_there_is_no_best_derivation_in_rank_space() -> None:
    weights, found = weights_of("pcfg"), program("pcfg", "rank")
    for ask in (
        lambda: found.posterior(weights, WORDS).best(),
        lambda: found.posterior(weights, WORDS).k_best(2),
        lambda: found.posterior(weights, WORDS).max_marginals(),
        lambda: found.posterior(weights, WORDS).charts("max"),
    ):
        with pytest.raises(GrammarError) as error:
            ask()
        (problem,) = error.value.diagnostics
        assert problem.code == "F426" and "mbr" in problem.help
    # Where the space was chosen and not asked for, other spaces answer.
    chosen = program("pcfg", "auto")
    assert chosen.compiled.space == "rank"
    want = program("pcfg", "dense").posterior(weights, WORDS).best()
    assert chosen.posterior(weights, WORDS).best() == want
    assert program("pcfg", "state").posterior(weights, WORDS).best() == want


def test_whole_factors_can_be_given_in_dense_space_only() -> None:
    pieces = weights_of("hmm_rank")
    whole = torch.einsum("aq,qb,qo->abo", *(pieces[f"step_{i}"] for i in range(3)))
    given = {"init": pieces["init"], "step": whole}
    dense = program("hmm_rank", "dense")
    want = dense.log_z(pieces, WORDS)
    torch.testing.assert_close(dense.log_z(given, WORDS), want)
    bound = dense.weights(given, dtype=torch.float64)
    assert list(bound) == ["init", "step"] and bound["step"] is whole
    model = dense.model(dtype=torch.float64, weights=given)
    torch.testing.assert_close(model(**WORDS), want)
    with pytest.raises(GrammarError) as error:
        program("hmm_rank", "rank").log_z(given, WORDS)
    (problem,) = error.value.diagnostics
    assert problem.code == "F417" and "`step_0`, `step_1`, `step_2`" in problem.help


def test_models_move_between_spaces() -> None:
    models = {s: program("pcfg", s).model(seed=3, dtype=torch.float64) for s in SPACES}
    state = models["rank"].state_dict()
    for model in models.values():
        model.load_state_dict(state)
        torch.testing.assert_close(model(**WORDS), models["dense"](**WORDS))


def test_programs_in_rank_space_are_copied_and_pickled() -> None:
    weights, found = weights_of("pcfg"), program("pcfg", "rank")
    for other in (deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other.compiled.space == "rank"
        assert torch.equal(other.log_z(weights, WORDS), found.log_z(weights, WORDS))
        assert torch.equal(
            other.posterior(weights, WORDS).marginals["X"],
            found.posterior(weights, WORDS).marginals["X"],
        )


def test_products_of_parameters_are_those_of_the_paper() -> None:
    """H = V Uᵀ, I = W Uᵀ, J = V Eᵀ, K = W Eᵀ, L = (U s)ᵀ [RS §4.2]."""
    text = fgg.compile(fgg.load("pcfg"), space="rank").compiled.source
    for line in (
        "H = binary_1_R_binary_N @ binary_0",
        "K = binary_2_R_binary_N @ binary_0",
        "J = times(emit_w, binary_1_R_binary_P.mT)",
        "L = times(emit_w, binary_2_R_binary_P.mT)",
        "root_binary_0 = root @ binary_0",
    ):
        assert f"    {line}\n" in text
    inside = text[text.index("def inside") : text.index("def outside")]
    code = "\n".join(line for line in inside.splitlines() if not line.lstrip().startswith("#"))
    assert "emit[" not in code and " binary_0" not in code  # no states in the loops


def test_short_sentences() -> None:
    """Two words are one binary rule; one word has no derivation."""
    pieces = weights_of("pcfg")
    log_z = program("pcfg", "rank").log_z(pieces, {"w": [[3, 1], [2]]})
    whole = torch.einsum("aq,qb,qc->abc", *(pieces[f"binary_{i}"] for i in range(3)))
    nt = SIZES["pcfg"]["nt"]
    emit = pieces["emit"]
    want = torch.einsum(
        "a,abc,b,c->", pieces["root"], whole[:, nt:, nt:], emit[:, 3], emit[:, 1]
    ).log()
    torch.testing.assert_close(log_z[0], want)
    assert log_z[1] == -float("inf")


def test_float32_holds_with_peaked_parameters_at_80_words() -> None:
    sizes = {"nt": 20, "pt": 30, "words": 40, "r": 16}
    found = fgg.compile(fgg.load("pcfg", sizes=sizes), space="rank")
    chance = torch.Generator().manual_seed(0)
    weights = {
        name: (8.0 * torch.randn(found.shape(name), generator=chance)).softmax(-1)
        for name in found.parameter_names
    }
    words = {"w": torch.randint(40, (2, 80), generator=chance)}
    wide = {name: w.double() for name, w in weights.items()}
    error = (found.log_z(weights, words).double() - found.log_z(wide, words)).abs().max()
    assert error < 1e-4


def test_gradients_can_be_asked_for_twice() -> None:
    """An adjoint lives in the empty half of its chart the first time, then on its own."""
    found = program("pcfg", "rank")
    assert any(chart.half for chart in found.compiled.plan.charts)
    leaves = {n: w.requires_grad_() for n, w in weights_of("pcfg").items()}
    log_z = found.log_z(leaves, WORDS)
    finite = log_z[torch.isfinite(log_z)].sum()
    first = torch.autograd.grad(finite, list(leaves.values()), retain_graph=True)
    second = torch.autograd.grad(finite, list(leaves.values()))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_spaces_that_are_none() -> None:
    with pytest.raises(GrammarError, match="no space"):
        fgg.compile(fgg.load("hmm"), space="ranks")
    with pytest.raises(GrammarError, match="cannot be compiled in rank space"):
        fgg.compile(fgg.load("hmm"), space="rank")
    assert fgg.compile(fgg.load("hmm")).compiled.space == "state"


def test_auto_follows_the_size_of_each_batch() -> None:
    sizes = {"k": 64, "d": 20, "r": 16}
    program = fgg.compile(fgg.load("hmm_rank", sizes=sizes), length=4, batch=16)
    assert isinstance(program, CompiledProgram)
    assert program.space == "rank"
    model = program.model(seed=0, dtype=torch.float64)
    ((_, first), (turn, second)) = turns(program.compiler.space_works({"n": 4}))
    assert (first, second) == ("state", "rank") and 1 < turn < 16
    generator = torch.Generator().manual_seed(0)
    for items, space in ((turn - 1, "state"), (turn, "rank"), (turn - 1, "state")):
        words = torch.randint(20, (items, 4), generator=generator)
        collated = program.collate({"w": words}, None)
        assert program.in_cheapest_space(collated).space == space
        results = []
        for one in (program, fgg.compile(program.compiler.model, space="state")):
            log_z = one.log_z(model.weights(), {"w": words})
            model.zero_grad()
            torch.autograd.backward(log_z.sum())
            grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
            results.append([log_z.detach(), *grads])
        torch.testing.assert_close(results[0], results[1])


def test_a_space_that_is_asked_for_is_kept() -> None:
    sizes = {"k": 64, "d": 20, "r": 16}
    for space in ("rank", "state", "dense"):
        program = fgg.compile(fgg.load("hmm_rank", sizes=sizes), space=space).compiled
        collated = program.collate({"w": [[1, 2]]}, None)
        assert program.in_cheapest_space(collated) is program


def test_other_spaces_are_compiled_when_a_batch_needs_them() -> None:
    program = fgg.compile(fgg.load("hmm_rank", sizes={"k": 64, "d": 20, "r": 16})).compiled
    model = program.model()
    model(w=torch.zeros(64, 8, dtype=torch.long))
    assert not program.in_spaces
    model(w=[[1, 2]])
    assert list(program.in_spaces) == ["state"]
