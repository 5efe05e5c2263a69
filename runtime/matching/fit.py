"""Weighted moment matching: parameters whose moments are nearest to those of data.

The generalised method of moments in two steps [Hansen 1982]: first moments are weighted by their
own variances, then by the inverse of their covariance at the parameters of the first step. Where
the moments are the probabilities of whole sentences that is the least chi-squared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.stats import chi2

from fgg.progress import steps as progress
from fgg.runtime.identify.observations import KeptTokens
from fgg.runtime.identify.parameters import ParameterPoint
from fgg.runtime.matching.coordinates import Coordinates
from fgg.runtime.matching.least_squares import Fit, least_squares
from fgg.runtime.matching.model_moments import MomentModel, all_strings, counted
from fgg.runtime.unmix.alignment import Alignment
from fgg.runtime.unmix.mixing import Floats
from fgg.runtime.unmix.moments import Ints, SampledMoments

STEPS = 400
AGREE = 4
"""As many starts at the same least level end the search."""
FEW_STEPS = 40
PROMISING = 4
"""As many starts go on after `FEW_STEPS` steps as this."""
TOLERANCE = 1e-10
EXACT_TOLERANCE = 1e-15
LEAST_VARIANCE = 1e-8
MAX_STRINGS = 2**16
"""The covariance of moments comes from a table of all sentences up to this number of them."""
MAX_COVARIANCE = 3_000
"""More moments of one length than this are weighted by their variances alone."""
SAME = 1e-2
"""Two fits of one level that differ more than this are different solutions."""


@dataclass(frozen=True, eq=False)
class Weighting:
    """A factor `[row, moment]` of the weights of one length's moments; a vector if diagonal."""

    factor: Floats | sparse.csr_matrix
    rank: int
    full: bool

    def __call__(self, values: Floats) -> Floats:
        """Weighted moments, or weighted rows of their derivatives."""
        if isinstance(self.factor, np.ndarray) and self.factor.ndim == 1:
            return np.asarray(values * (self.factor if values.ndim == 1 else self.factor[:, None]))
        return np.asarray(self.factor @ values)


@dataclass(frozen=True, eq=False)
class Matched:
    """A fit of moments.

    `level` is half the weighted sum of squares for each sentence, `gradient` its greatest
    derivative by a log-weight, `residual` the greatest error of a moment. `starts` were tried and
    `reached` ended there; `solutions` of them are different. `statistic` is the test of
    over-identification with `freedom` degrees, where there are data and full weights.
    """

    vector: Floats
    level: float
    gradient: float
    residual: float
    starts: int
    reached: int
    solutions: int
    weighting: str
    statistic: float | None
    freedom: int

    @property
    def probability(self) -> float | None:
        """How probable a statistic as great is, if the model is true."""
        if self.statistic is None or self.freedom <= 0:
            return None
        return float(chi2.sf(self.statistic, self.freedom))


class Matching:
    """Moments of data or of known weights, to be matched by a model."""

    def __init__(
        self,
        model: MomentModel,
        targets: Mapping[int, Floats],
        numbers: Mapping[int, int] | None,
    ) -> None:
        self.model = model
        self.coordinates = Coordinates(model.parameters)
        self.targets = targets
        self.numbers = numbers
        whole = sum(numbers.values()) if numbers else len(targets)
        self.shares = {n: (numbers[n] if numbers else 1) / whole for n in targets}

    def residuals(
        self, vector: Floats, weights: Mapping[int, Weighting]
    ) -> tuple[Floats, Floats] | None:
        """Weighted errors of all moments, and their derivatives by log-weights."""
        place = self.coordinates.point(self.coordinates.tables(vector))
        errors, slopes = [], []
        for length, weight in weights.items():
            values, rows = self.model.at(place, length)
            scale = self.shares[length] ** 0.5
            errors.append(scale * weight(values - self.targets[length]))
            slopes.append(scale * weight(self.coordinates.by_log_weights(place, rows)))
        error, slope = np.concatenate(errors), np.concatenate(slopes)
        return (error, slope) if np.isfinite(error).all() and np.isfinite(slope).all() else None

    def first_weights(self) -> dict[int, Weighting]:
        """Weights by the variances that the moments themselves show, smoothed."""
        weights = {}
        for length, target in self.targets.items():
            sizes = self.model.by_length[length].sizes
            even = np.concatenate([np.full(size, 1 / size) for size in sizes])
            number = self.numbers[length] if self.numbers else 10**6
            count = np.concatenate([np.full(size, size) for size in sizes])
            smoothed = (number * target + count * even) / (number + count)
            weights[length] = Weighting(smoothed**-0.5, len(target) - len(sizes), False)
        return weights

    def second_weights(self, vector: Floats) -> dict[int, Weighting]:
        """Weights by the inverse of the covariance of the moments at some parameters."""
        place = self.coordinates.point(self.coordinates.tables(vector))
        return {length: weighting(self.model, place, length) for length in self.targets}

    def run(
        self,
        starts: Sequence[Floats],
        alignment: Alignment,
        *,
        exact: bool,
    ) -> Matched:
        """The best of the fits from several starts."""
        first = self.first_weights()
        fits = self._searched(starts, first, EXACT_TOLERANCE if exact else TOLERANCE)
        best = min(f.level for f in fits)
        good = sorted((f for f in fits if self._as_good(f.level, best)), key=lambda f: f.level)
        fit, weights, kind = good[0], first, "variances"
        if not exact:
            weights = self.second_weights(fit.vector)
            second = least_squares(
                lambda v: self.residuals(v, weights), fit.vector, steps=STEPS, tolerance=TOLERANCE
            )
            fit = second or fit
            kind = "covariance" if all(w.full for w in weights.values()) else "variances"
        return self._matched(fit, good, weights, kind, len(fits), alignment)

    def _searched(
        self, starts: Sequence[Floats], weights: Mapping[int, Weighting], tolerance: float
    ) -> list[Fit]:
        """Fits from all starts: a few steps each, then the promising ones to their ends.

        Some that end at the same level, the least so far, end the search.
        """

        def fitted(start: Floats, steps: int) -> Fit | None:
            return least_squares(
                lambda v: self.residuals(v, weights), start, steps=steps, tolerance=tolerance
            )

        fits: list[Fit] = []
        for start in progress(starts, "start"):
            if (fit := fitted(start, FEW_STEPS)) is not None:
                fits.append(fit)
            ended = [f.level for f in fits if f.steps < FEW_STEPS]
            if sum(self._as_good(level, min(f.level for f in fits)) for level in ended) >= AGREE:
                return fits
        fits.sort(key=lambda f: f.level)
        for place, fit in enumerate(fits[:PROMISING]):
            if fit.steps >= FEW_STEPS:
                fits[place] = fitted(fit.vector, STEPS) or fit
        assert fits, "a random start has moments"
        return fits

    def _as_good(self, level: float, best: float) -> bool:
        """Whether a level is the best one, up to where the method stops."""
        return level <= best * (1 + 1e-6) + 1e-14

    def _matched(
        self,
        fit: Fit,
        good: Sequence[Fit],
        weights: Mapping[int, Weighting],
        kind: str,
        tried: int,
        alignment: Alignment,
    ) -> Matched:
        tables = [self.tables(f.vector) for f in good]
        different: list[dict[str, Floats]] = [tables[0]]
        for other in tables[1:]:
            distances = [
                alignment.distance(alignment.aligned(other, one), one) for one in different
            ]
            if min(distances) > SAME:
                different.append(other)
        place = self.coordinates.point(self.coordinates.tables(fit.vector))
        residual = max(
            float(np.abs(self.model.at(place, n)[0] - target).max())
            for n, target in self.targets.items()
        )
        number = sum(self.numbers.values()) if self.numbers else None
        statistic = None if number is None or kind != "covariance" else 2 * number * fit.level
        freedom = sum(w.rank for w in weights.values()) - self.model.parameters.count
        return Matched(
            fit.vector,
            fit.level,
            fit.gradient,
            residual,
            tried,
            len(good),
            len(different),
            kind,
            statistic,
            freedom,
        )

    def tables(self, vector: Floats) -> dict[str, Floats]:
        """The tables of a vector of log-weights."""
        return {n: np.asarray(t) for n, t in self.coordinates.tables(vector).items()}

    def random_starts(self, number: int, seed: int) -> list[Floats]:
        """Random tables as log-weights; rows are neither flat nor near to one value."""
        rng = np.random.default_rng([seed, 4])
        return [
            np.concatenate(
                [
                    np.log(rng.gamma(2.0, size=leaf.rows * leaf.columns) + 1e-3)
                    for leaf in self.model.parameters.leaves
                ]
            )
            for _ in range(number)
        ]


def weighting(model: MomentModel, place: ParameterPoint, length: int) -> Weighting:
    """Weights by the inverse of the covariance of a length's moments at a point."""
    each, words = model.by_length[length], model.words
    values, _ = model.at(place, length)
    variance = np.maximum(values, LEAST_VARIANCE / len(values))
    if each.whole:
        return Weighting(variance**-0.5, len(values) - 1, True)
    if words**length > MAX_STRINGS or len(values) > MAX_COVARIANCE:
        return Weighting(variance**-0.5, len(values) - len(each.kept), False)
    strings = all_strings(words, length)
    probabilities, _ = model.strings(place, length, strings)
    return _whitening(incidence(strings, each.kept, words), np.maximum(probabilities, 0.0))


def incidence(strings: Ints, kept: Sequence[KeptTokens], words: int) -> sparse.csr_matrix:
    """Which moments `[sentence, moment]` each sentence counts for."""
    blocks = []
    for part in kept:
        shape = (words,) * len(part.tokens)
        codes = np.ravel_multi_index(tuple(strings[:, t] for t in part.tokens), shape)
        ones = np.ones(len(strings))
        blocks.append(
            sparse.csr_matrix(
                (ones, (np.arange(len(strings)), codes)),
                shape=(len(strings), words ** len(part.tokens)),
            )
        )
    return sparse.hstack(blocks).tocsr()


def _whitening(counts: sparse.csr_matrix, probabilities: Floats) -> Weighting:
    """A factor of the pseudoinverse of the covariance of moments of a table of sentences."""
    mean = np.asarray(counts.T @ probabilities)
    second = (counts.T @ counts.multiply(probabilities[:, None]).tocsr()).toarray()
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    kept = values > 1e-10 * values[-1]
    return Weighting(vectors[:, kept].T / np.sqrt(values[kept])[:, None], int(kept.sum()), True)


def targets_of(data: SampledMoments, model: MomentModel) -> dict[int, Floats]:
    """The means of the model's moments over sentences."""
    return {
        length: counted(data.distinct[length], each.kept, model.words)
        for length, each in model.by_length.items()
    }
