"""How precise estimates are: Fisher information, and standard errors by the delta method.

For the maximum of the likelihood of n sentences the covariance of parameters tends to I⁻¹ / n. I is
the information of a sentence, E[s sᵀ], and s its score, the gradient of its log-probability. No
estimator without bias does better. Where moments are whole sentences, moment matching with weights
by the covariance has the same limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch

from fgg.diagnostics import refuse
from fgg.runtime.identify.parameters import ParameterPoint
from fgg.runtime.matching.coordinates import Coordinates
from fgg.runtime.matching.fit import weighting
from fgg.runtime.matching.model_moments import MomentModel, all_strings
from fgg.runtime.unmix.mixing import Floats
from fgg.runtime.unmix.moments import Ints, SampledMoments

MAX_STRINGS = 2**16
"""Up to this many sentences of a length the information is a sum over all of them."""
ITEMS = 4096
CERTAIN = 1.959963984540054
"""A normal variable is within this many standard deviations with probability 95 %."""
SINGULAR = 1e-12
BORDER = 1e-6
"""Weights this near to zero have no normal distribution around them."""


@dataclass(frozen=True, eq=False)
class Precision:
    """The covariance of the parameters for one sentence; for n sentences divide by n.

    `covariance` is by free coordinates, `derivatives` those of each factor's entries `[entry,
    coordinate]`. `basis` says how the information was computed, `border` which factors have
    weights of zero: their errors mean little.
    """

    information: Floats
    covariance: Floats
    derivatives: Mapping[str, Floats]
    shapes: Mapping[str, tuple[int, ...]]
    basis: str
    border: tuple[str, ...]

    def errors(self, sentences: float) -> dict[str, Floats]:
        """The standard error of every weight, from this number of sentences."""
        return {
            name: np.sqrt(
                np.maximum(np.einsum("ei,ij,ej->e", rows, self.covariance, rows), 0.0) / sentences
            ).reshape(self.shapes[name])
            for name, rows in self.derivatives.items()
        }

    def needed(self, within: float) -> dict[str, int]:
        """The sentences after which each weight of a factor is within ±`within` for 95 %."""
        if not within > 0:
            refuse("F415", f"a distance of {within} cannot be reached; it must be positive")
        return {
            name: max(1, ceil((CERTAIN * float(error.max(initial=0.0)) / within) ** 2))
            for name, error in self.errors(1).items()
        }

    def greatest(self, sentences: float, *, draws: int = 2_000, seed: int = 0) -> float:
        """The median of the greatest error of all weights, as normal variables have it."""
        rng = np.random.default_rng(seed)
        values, vectors = np.linalg.eigh(self.covariance)
        root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = rng.standard_normal((draws, len(values))) @ root.T
        greatest: Floats = np.zeros(draws)
        for rows in self.derivatives.values():
            greatest = np.maximum(greatest, np.abs(normal @ rows.T).max(axis=1, initial=0.0))
        return float(np.median(greatest) / np.sqrt(sentences))


def precision(
    model: MomentModel, weights: Mapping[str, Floats], shares: Mapping[int, float]
) -> Precision:
    """The precision of the maximum of the likelihood, from all sentences of some lengths.

    `shares` are those of the lengths. Raises GrammarError: F420 for too many sentences, F461 if
    the information is singular.
    """
    coordinates = Coordinates(model.parameters)
    place = coordinates.point(weights)
    total = np.zeros((model.parameters.count, model.parameters.count))
    for length, share in shares.items():
        if model.words**length > MAX_STRINGS:
            message = f"there are {model.words}^{length} sentences of {length} words"
            refuse("F420", message, "the information of sentences of data needs no table of them")
        strings = all_strings(model.words, length)
        total += share * _information(model, place, length, strings, None)
    return _precision(weights, coordinates, place, total, "all sentences")


def matched_precision(
    model: MomentModel, weights: Mapping[str, Floats], shares: Mapping[int, float]
) -> Precision:
    """The precision of moment matching with weights by the covariance: (Gᵀ Ω⁻¹ G)⁻¹.

    Raises GrammarError (F461) where the covariance is too large to be inverted.
    """
    coordinates = Coordinates(model.parameters)
    place = coordinates.point(weights)
    total = np.zeros((model.parameters.count, model.parameters.count))
    model.check_size("that are matched")
    for length, share in shares.items():
        weight = weighting(model, place, length)
        if not weight.full:
            message = f"moments of {length} words are weighted by their variances alone"
            help = "refine the estimate: errors are then those of the greatest likelihood"
            refuse("F461", message, help)
        rows = weight(model.at(place, length)[1])
        total += share * rows.T @ rows
    return _precision(weights, coordinates, place, total, "the covariance of moments")


def observed_precision(
    model: MomentModel, weights: Mapping[str, Floats], data: SampledMoments
) -> Precision:
    """The precision of the maximum of the likelihood, from products of the scores of sentences."""
    coordinates = Coordinates(model.parameters)
    place = coordinates.point(weights)
    total = np.zeros((model.parameters.count, model.parameters.count))
    number = sum(int(data.distinct[n][1].sum()) for n in model.by_length)
    for length in model.by_length:
        rows, times = data.distinct[length]
        total += _information(model, place, length, rows, times / number)
    return _precision(weights, coordinates, place, total, "scores of sentences")


def _information(
    model: MomentModel,
    place: ParameterPoint,
    length: int,
    strings: Ints,
    shares: Floats | None,
) -> Floats:
    """Σ share s sᵀ over sentences; without shares each has its own probability."""
    count = model.parameters.count
    total = np.zeros((count, count))
    for first in range(0, len(strings), ITEMS):
        values, rows = model.strings(place, length, strings[first : first + ITEMS])
        possible = values > 0
        scores = rows[possible] / values[possible, None]
        weight = values[possible] if shares is None else shares[first : first + ITEMS][possible]
        total += scores.T @ (weight[:, None] * scores)
    return total


def _precision(
    names: Iterable[str],
    coordinates: Coordinates,
    place: ParameterPoint,
    information: Floats,
    basis: str,
) -> Precision:
    diagonal = np.diag(information)
    scale = np.sqrt(np.maximum(diagonal, SINGULAR * max(float(diagonal.max()), 1e-300)))
    scaled = information / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(scaled)
    if values[0] <= SINGULAR * values[-1]:
        message = "the information is singular: the parameters have no standard errors here"
        help = "sentences of these lengths do not determine them at this point"
        refuse("F461", message, help)
    inverse = (vectors / values) @ vectors.T / np.outer(scale, scale)
    derivatives, shapes, border = {}, {}, []
    for name in names:
        array = place.arrays[name]
        size = array.numel()
        units = torch.eye(size, dtype=torch.float64).reshape(size, *array.shape)
        derivatives[name] = coordinates.rows(place, {name: units})
        shapes[name] = tuple(array.shape)
        if float(array.min()) < BORDER:
            border.append(name)
    return Precision(information, inverse, derivatives, shapes, basis, tuple(border))
