"""Standard errors: against an information by enumeration, and against simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import fgg
from fgg.api.unmix import draw, moment_model_of, precision
from fgg.runtime.matching.fit import Matching, targets_of
from fgg.runtime.unmix.alignment import alignment_of
from fgg.runtime.unmix.moments import sampled
from tests.helpers.unmixing import load, random_weights

HMM = {
    "init": np.array([0.7, 0.3]),
    "trans": np.array([[0.8, 0.2], [0.3, 0.7]]),
    "emit": np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
}
"""An HMM whose states differ enough for triples to tell."""


def test_the_information_is_that_of_derivatives_over_all_sentences() -> None:
    """Scores are derivatives of log Z by automatic differentiation."""
    grammar, weights = random_weights("lcm", 3, k=2, d=2)
    program = fgg.compile(grammar)
    strings = torch.tensor(list(product(range(2), repeat=3)))
    free = torch.tensor([weights["class"][0], weights["emit"][0][0], weights["emit"][1][0]])

    def log_p(x: torch.Tensor) -> torch.Tensor:
        tables = {
            "class": torch.stack([x[0], 1 - x[0]]),
            "emit": torch.stack([torch.stack([x[1], 1 - x[1]]), torch.stack([x[2], 1 - x[2]])]),
        }
        return program.log_z(tables, {"w": strings})

    values = free.double().requires_grad_()
    logs = log_p(values)
    rows = [torch.autograd.grad(log, values, retain_graph=True)[0] for log in logs]
    scores = torch.stack(rows).numpy()
    expected = scores.T @ (logs.detach().exp().numpy()[:, None] * scores)
    at_truth = precision(grammar, weights, [3])
    np.testing.assert_allclose(at_truth.information, expected, rtol=1e-9)
    np.testing.assert_allclose(
        at_truth.errors(100)["class"], np.sqrt(np.linalg.inv(expected)[0, 0] / 100), rtol=1e-9
    )
    needed = at_truth.needed(0.05)["class"]
    assert 1.96 * at_truth.errors(needed)["class"].max() <= 0.05 + 1e-6
    assert 1.95 * at_truth.errors(needed - 1)["class"].max() > 0.05 * 0.99


def test_matching_whole_sentences_is_as_precise_as_the_greatest_likelihood() -> None:
    grammar = load("hmm", k=2, d=3)
    best = precision(grammar, HMM)
    whole = precision(grammar, HMM, moments="***")
    np.testing.assert_allclose(whole.covariance, best.covariance, rtol=1e-8)
    pairs = precision(grammar, HMM, moments="**")
    for name, error in best.errors(1).items():
        assert (pairs.errors(1)[name] >= error).all()
    longer = {n: precision(grammar, HMM, [4], moments=m) for n, m in (("all", None), ("3", "***"))}
    for name, error in longer["all"].errors(1).items():
        assert (longer["3"].errors(1)[name] >= error * (1 - 1e-9)).all()


def test_scores_of_sentences_have_the_information_of_all() -> None:
    grammar = load("hmm", k=2, d=3)
    table = precision(grammar, HMM, {3: 0.5, 2: 0.5}).errors(1)
    own = {n: draw(grammar, HMM, n, 100_000, seed=n) for n in (2, 3)}
    data = precision(grammar, HMM, sentences=own).errors(1)
    for name, error in table.items():
        np.testing.assert_allclose(data[name], error, rtol=0.2)


def test_errors_in_simulations_are_the_predicted_ones() -> None:
    """The root of the mean square over draws, within four of its own standard deviations."""
    grammar, weights = random_weights("lcm", 1, k=2, d=3)
    number, draws = 20_000, 40
    limits = precision(grammar, weights, [3])
    program = fgg.compile(grammar)
    model = moment_model_of(grammar, None, None, [3], "***")
    errors: dict[str, list[np.ndarray]] = {name: [] for name in weights}
    for seed in range(draws):
        data = sampled({3: draw(grammar, weights, 3, number, seed=seed)}, 3)
        matching = Matching(model, targets_of(data, model), {3: number})
        start = [matching.coordinates.vector(weights)]
        fit = matching.run(start, alignment_of(program), exact=False)
        for name, table in matching.tables(fit.vector).items():
            errors[name].append(table - weights[name])
    ratios = []
    for name, predicted in limits.errors(number).items():
        measured = np.sqrt(np.mean(np.square(errors[name]), axis=0))
        ratios.append((measured / predicted).ravel())
    ratio = np.concatenate(ratios)
    assert np.abs(ratio - 1).max() < 4 / np.sqrt(2 * draws)
    greatest = np.median([max(np.abs(errors[n][i]).max() for n in errors) for i in range(draws)])
    assert 0.6 < greatest / limits.greatest(number) < 1.6


def test_parameters_of_an_hmm_come_out_of_triples_within_the_predicted_error() -> None:
    grammar = load("hmm", k=2, d=3)
    triples = draw(grammar, HMM, 3, 100_000, seed=0)
    fit = fgg.unmix(grammar, {3: triples}, method="moments")
    aligned = fit.aligned(HMM)
    for name, error in precision(grammar, HMM, moments="***").errors(100_000).items():
        assert (np.abs(aligned[name] - HMM[name]) < 4 * error).all()


def test_what_has_no_standard_errors_is_refused() -> None:
    grammar = load("hmm", k=2, d=3)
    same = {**HMM, "emit": np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]])}
    with pytest.raises(fgg.GrammarError, match="F461"):
        precision(grammar, same)
    with pytest.raises(fgg.GrammarError, match="F415"):
        precision(grammar, HMM, {3: -1.0})
    with pytest.raises(fgg.GrammarError, match="F415"):
        precision(grammar, HMM).needed(0.0)
    with pytest.raises(fgg.GrammarError, match="F420"):
        precision(grammar, HMM, [11])
