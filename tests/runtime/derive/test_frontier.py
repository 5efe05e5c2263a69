"""Minimum Bayes risk from marginals, over a whole batch at once, as on charts of whole factors."""

from __future__ import annotations

import pytest
import torch

from fgg import compile, load, loads
from fgg.runtime.derive.frontier import BatchSearch
from fgg.runtime.posterior.compiled_posterior import CompiledPosterior
from fgg.runtime.program.program import CompiledProgram

SMALL = {
    "pcfg": ({"nt": 3, "pt": 4, "r": 3, "words": 5}, "string"),
    "hmm_rank": ({"k": 3, "d": 5, "r": 2}, "string"),
    "lexpcfg_rank": ({"nt": 2, "pt": 3, "words": 5, "r": 3}, None),
}
SENTENCES = {"w": [[0, 2, 1, 4], [3, 3], [1, 0, 2, 2, 4, 1], [2, 1, 0]]}
EQUAL = """
size t = 2
size r = 2
domain T = t
factor pair(T -> T, T) rank r
factor leaf(T)
input w: T[n]
nonterminal S()
nonterminal X[i, j](T)
start S
rule root: S -> X[0,n](a)
rule pair: X[i,j](a) -> pair(a, b, c) X[i,k](b) X[k,j](c) for i < k < j
rule leaf: X[i,i+1](a) -> leaf(a) o = w[i]
"""


def compiled(name: str, space: str) -> CompiledProgram:
    sizes, query = SMALL[name]
    return compile(load(name, sizes=sizes), query, space=space).compiled


@pytest.mark.parametrize("name", SMALL)
def test_cells_in_rank_space_have_the_marginals_of_state_space(name: str) -> None:
    rank, state = compiled(name, "rank"), compiled(name, "state")
    weights = rank.weights(seed=3, dtype=torch.float64)
    cells = rank.posterior(weights, SENTENCES).cell_marginals
    assert cells
    for family, table in state.posterior(weights, SENTENCES).marginals.items():
        indices = len(rank.grammar.nonterminal[family].indices)
        if indices:
            want = table.flatten(1 + indices).sum(-1)
            extents = tuple(map(slice, want.shape))
            torch.testing.assert_close(cells[family][extents], want)
            # Beyond the states' table nothing is used.
            assert float(cells[family].sum()) == pytest.approx(float(want.sum()))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("states", [False, True])
def test_the_outline_gives_the_derivations_of_whole_factors(
    name: str, states: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled(name, "rank")
    weights = program.weights(seed=5, dtype=torch.float64)
    found = program.posterior(weights, SENTENCES).mbr(states=states)
    bare = program.posterior(weights, SENTENCES).mbr(states=states, values=False)
    monkeypatch.setattr(CompiledPosterior, "_is_positive", False)
    want = program.posterior(weights, SENTENCES).mbr(states=states)
    assert [d.spans() for d in found] == [d.spans() for d in want]
    assert [d.rules for d in bare] == [d.rules for d in want]
    for derivation, whole in zip(bare, want, strict=True):
        assert set(derivation.cell_values()) <= set(whole.cell_values())
    assert [d.log_weight for d in found] == pytest.approx([d.log_weight for d in want])


def test_a_batch_is_searched_as_its_items_are_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile(loads(EQUAL), space="rank").compiled
    # All trees of a sentence are equally probable: ties decide everything.
    weights = {name: torch.ones(program.shape(name)) for name in program.parameter_names}
    inputs = {"w": [[0] * 5, [1] * 7, [0], [1, 0]]}
    found = program.posterior(weights, inputs).mbr(values=False)
    monkeypatch.setattr(BatchSearch, "is_possible", lambda self: False)
    want = program.posterior(weights, inputs).mbr(values=False)
    assert [d.rules for d in found] == [d.rules for d in want]
    assert [len(d.rules) for d in found] == [10, 14, 2, 4]


def test_weights_of_zero_are_decoded_on_charts_of_whole_factors() -> None:
    program = compiled("pcfg", "rank")
    weights = program.weights(seed=2, dtype=torch.float64)
    weights["emit"][1:, 0] = 0.0
    (derivation,) = program.posterior(weights, {"w": [[0, 1, 0]]}).mbr()
    tags = [values for _, (i, j), values in derivation.spans()[1:] if j == i + 1]
    assert tags[0] == tags[2] == (3,)
    assert derivation.log_weight > -torch.inf


def test_cells_of_impossible_items_have_marginals_of_zero() -> None:
    program = compiled("pcfg", "rank")
    weights = program.weights(seed=2, dtype=torch.float64)
    weights["emit"][:, 3] = 0.0
    cells = program.posterior(weights, {"w": [[0, 3, 1], [0, 1, 2]]}).cell_marginals["X"]
    assert not bool(cells[0].any())
    assert float(cells[1].sum()) == pytest.approx(5.0)
