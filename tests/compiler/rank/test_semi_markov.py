"""A semi-Markov model whose segments share low-rank pieces, in rank space and in state space."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import fgg
from fgg.runtime.program.program import CompiledProgram
from tests.helpers.places import EXAMPLES

SIZES = {"k": 5, "d": 3, "r": 2, "dmax": 3}


def by_segments(weights: dict[str, np.ndarray], words: list[int]) -> float:
    """The sum over all cuts of words into segments, of all states and values of the rank node."""
    leave, duration, emit, enter = (weights[n] for n in ("leave", "duration", "emit", "enter"))
    states = {0: weights["init"]}
    total = 0.0
    for start in range(len(words)):
        ranks = states[start] @ leave
        said = np.ones_like(ranks)
        for length in range(1, SIZES["dmax"] + 1):
            end = start + length
            if end > len(words):
                break
            said = said * emit[:, words[end - 1]]
            if end == len(words):  # the segment is at least that long
                total += float((ranks * said) @ duration[:, length - 1 :].sum(1))
            else:
                begun = (ranks * said * duration[:, length - 1]) @ enter
                states[end] = states.get(end, 0.0) + begun
    return total


@pytest.mark.parametrize("space", ["rank", "state"])
def test_a_string_has_the_weight_of_its_segmentations(space: str) -> None:
    grammar = fgg.load(EXAMPLES / "hsmm_rank.fgg", sizes=SIZES)
    program = fgg.compile(grammar, space=space)
    assert isinstance(program, CompiledProgram) and program.space == space
    weights = program.weights(seed=3, dtype=torch.float64)
    arrays = {name: weight.numpy() for name, weight in weights.items()}
    strings = [list(words) for n in (1, 2, 4) for words in product(range(3), repeat=n)]
    wanted = [by_segments(arrays, words) for words in strings]
    log_z = program.log_z(weights, {"w": strings})
    np.testing.assert_allclose(log_z.exp().numpy(), wanted, rtol=1e-12)
    assert sum(wanted[:3]) == pytest.approx(1) and sum(wanted[12:]) == pytest.approx(1)


def test_gradients_agree_between_spaces() -> None:
    grammar = fgg.load(EXAMPLES / "hsmm_rank.fgg", sizes=SIZES)
    gradients = []
    for space in ("rank", "state"):
        program = fgg.compile(grammar, space=space)
        weights = program.weights(seed=3, dtype=torch.float64)
        leaves = {name: weight.requires_grad_() for name, weight in weights.items()}
        torch.autograd.backward(program.log_z(leaves, {"w": [[0, 2, 1, 1, 0, 2], [1]]}).sum())
        gradients.append({name: leaf.grad for name, leaf in leaves.items()})
    for name in ("init", "leave", "duration", "emit", "enter"):
        torch.testing.assert_close(gradients[0][name], gradients[1][name])


def test_what_is_done_for_each_word_does_not_grow_with_states() -> None:
    program = fgg.compile(fgg.load(EXAMPLES / "hsmm_rank.fgg"), space="rank")
    assert isinstance(program, CompiledProgram)
    described = program.described
    inside = [cost.order for cost in described.contractions if "n" in cost.order]
    assert any("r^2" in order for order in inside)
    assert not any("k" in order for order in inside)
