"""R-hat and the effective sample size, against chains for which they are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fgg.diagnostics import GrammarError
from fgg.runtime.learn.convergence import effective_size, r_hat


def chains(rho: float, draws: int = 4000) -> Tensor:
    """Four chains that remember: x' = rho x + noise, with as many draws at the start left out."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn((4, 2 * draws), dtype=torch.float64, generator=generator)
    numbers = torch.zeros_like(noise)
    for t in range(1, 2 * draws):
        numbers[:, t] = rho * numbers[:, t - 1] + noise[:, t]
    return numbers[:, draws:]


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.4])
def test_the_effective_size_of_autoregressive_chains(rho: float) -> None:
    known = 4 * 4000 * (1 - rho) / (1 + rho)
    assert effective_size(chains(rho)) == pytest.approx(known, rel=0.15)


def test_r_hat_is_one_for_chains_that_agree_and_more_for_others() -> None:
    numbers = chains(0.5)
    assert r_hat(numbers) == pytest.approx(1.0, abs=0.01)
    apart = numbers.clone()
    apart[0] += 3.0  # one chain elsewhere
    assert r_hat(apart) > 1.2 and effective_size(apart) < 40
    wide = numbers.clone()
    wide[0] *= 4.0  # one chain at the same place, but wider
    assert r_hat(wide) > 1.05
    rising = numbers + torch.linspace(0, 5, 4000)  # all alike, and none at rest
    assert r_hat(rising) > 1.2


def test_ranks_make_both_independent_of_scale_and_tails() -> None:
    numbers = chains(0.5)
    assert r_hat(numbers.sinh()) == pytest.approx(r_hat(numbers), abs=0.005)
    assert effective_size((5 * numbers).exp()) == pytest.approx(effective_size(numbers))


def test_chains_that_do_not_move() -> None:
    assert math.isnan(r_hat([[1.0] * 8] * 3)) and math.isnan(effective_size([[1.0] * 8] * 3))
    assert r_hat([[1.0] * 8, [2.0] * 8]) == math.inf


@pytest.mark.parametrize("wrong", [[[1.0, 2.0, 3.0]], [[1.0, math.nan, 2.0, 3.0]], [1.0] * 8])
def test_what_are_no_chains_is_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(GrammarError) as error:
        r_hat(wrong)
    assert error.value.diagnostics[0].code == "F476"
