"""How far chains of a sampler agree: R-hat and the effective sample size.

Both are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021): draws are replaced by
normal scores of their ranks, so heavy tails do no harm, and each chain is split in two, so a chain
that still moves disagrees with itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log10, nan

import torch
from torch import Tensor

from fgg.diagnostics import refuse

LEAST_DRAWS = 4
"""The fewest draws of a chain that can be split, with a variance in each half."""

Chains = Sequence[Sequence[float]] | Tensor
"""A number as it was after each sweep of each chain, `[chains, draws]`."""


def r_hat(chains: Chains) -> float:
    """The rank-normalised split R-hat: the greater of that of the draws and of their spread.

    It is near 1 if chains agree. Above 1.01 they have not converged by the usual rule. It is NaN if
    all draws are equal, and infinite if each chain stays at a number of its own.
    """
    halves = _halves(chains)
    folded = (halves - halves.median()).abs()
    return max(_ratio(_normal_scores(halves)), _ratio(_normal_scores(folded)))


def effective_size(chains: Chains) -> float:
    """The bulk effective sample size: so many independent draws tell as much about the centre.

    NaN if all draws are equal.
    """
    scores = _normal_scores(_halves(chains))
    number, draws = scores.shape
    if bool((scores == scores[0, 0]).all()):
        return nan
    covariance = _autocovariance(scores).mean(0)  # [lags]
    within = float(scores.var(-1).mean())
    variance = float(covariance[0]) + float(scores.mean(-1).var())
    correlation = 1 - (within - covariance) / variance
    correlation[0] = 1.0
    time = _autocorrelation_time(correlation.tolist())
    return number * draws / max(time, 1 / log10(number * draws))


def _halves(chains: Chains) -> Tensor:
    """The first and the second half of each chain, `[2 chains, draws / 2]`."""
    draws = torch.as_tensor(chains, dtype=torch.float64)
    if draws.ndim != 2 or draws.shape[1] < LEAST_DRAWS or not bool(torch.isfinite(draws).all()):
        message = f"chains are lists of equal length with at least {LEAST_DRAWS} finite numbers"
        refuse("F476", message)
    half = draws.shape[1] // 2
    return torch.cat([draws[:, :half], draws[:, -half:]])


def _normal_scores(halves: Tensor) -> Tensor:
    """Draws as normal scores of their ranks, equal draws with the mean of their ranks."""
    flat = halves.flatten()
    _, inverse, counts = torch.unique(flat, return_inverse=True, return_counts=True)
    last = counts.cumsum(0)
    ranks = (last - (counts - 1) / 2.0)[inverse]
    scores: Tensor = torch.special.ndtri((ranks - 0.375) / (len(flat) + 0.25))
    return scores.view_as(halves)


def _ratio(scores: Tensor) -> float:
    """sqrt(((n - 1) / n W + B / n) / W), W the variance within chains and B / n between them."""
    draws = scores.shape[1]
    within, between = float(scores.var(-1).mean()), float(scores.mean(-1).var())
    if within == 0.0:
        return nan if between == 0.0 else inf
    return float(((draws - 1) / draws + between / within) ** 0.5)


def _autocovariance(scores: Tensor) -> Tensor:
    """The autocovariance of each chain by lag, `[chains, lags]`."""
    draws = scores.shape[1]
    centred = scores - scores.mean(-1, keepdim=True)
    frequency: Tensor = torch.fft.rfft(centred, n=2 * draws)
    sums: Tensor = torch.fft.irfft(frequency.abs() ** 2, n=2 * draws)
    return sums[:, :draws] / draws


def _autocorrelation_time(correlation: Sequence[float]) -> float:
    """1 + 2 Σ of the autocorrelations, by Geyer's initial monotone sequence.

    Sums of two neighbours are positive and decrease; what is not, is noise.
    """
    pairs: list[float] = []
    odd = len(correlation) - len(correlation) % 2
    for lag in range(0, odd, 2):
        pair = correlation[lag] + correlation[lag + 1]
        if pair <= 0:
            # The even lag of the first pair that is left out still tells something.
            return 2 * sum(pairs) - 1 + max(correlation[lag], 0.0)
        pairs.append(min([pair, *pairs[-1:]]))
    return 2 * sum(pairs) - 1
