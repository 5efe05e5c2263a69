"""Hidden values have no names: estimates are compared up to permutations of them [ID eq. 7].

A domain's values can be permuted if none of them is observed or named by a rule. Whether that is so
is not argued but tried: the probabilities of sentences stay as they are, or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import factorial, prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fgg.grammar.domains import domain_size
from fgg.runtime.unmix.mixing import Floats, stationary_roots
from fgg.runtime.unmix.topology import only_input

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

Order = NDArray[np.intp]
MAX_ORDERS = 5_040
"""Up to this number all permutations are compared; of more, one is improved by exchanges."""


@dataclass(frozen=True)
class Alignment:
    """The domains whose values can be permuted, and which axes of factors they are."""

    axes: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]

    def aligned(
        self, estimate: Mapping[str, Floats], truth: Mapping[str, Floats]
    ) -> dict[str, Floats]:
        """The estimate with its hidden values in the order in which it is nearest to the truth."""
        if not self.sizes:
            return dict(estimate)
        if prod(factorial(n) for n in self.sizes.values()) <= MAX_ORDERS:
            orders = min(self._all(), key=lambda o: self.cost(self.permuted(estimate, o), truth))
        else:
            orders = self._improved(estimate, truth)
        return self.permuted(estimate, orders)

    def permuted(
        self, weights: Mapping[str, Floats], orders: Mapping[str, Order]
    ) -> dict[str, Floats]:
        """Weights with the values of each domain in an order."""
        result = {}
        for name, value in weights.items():
            for axis, domain in enumerate(self.axes.get(name, ())):
                if domain in orders:
                    value = np.take(value, orders[domain], axis=axis)
            result[name] = value
        return result

    def cost(self, estimate: Mapping[str, Floats], truth: Mapping[str, Floats]) -> float:
        """The sum of all differences."""
        return sum(float(np.abs(estimate[n] - truth[n]).sum()) for n in truth if n in estimate)

    def distance(self, estimate: Mapping[str, Floats], truth: Mapping[str, Floats]) -> float:
        """The greatest difference."""
        return max(float(np.abs(estimate[n] - truth[n]).max()) for n in truth if n in estimate)

    def _all(self) -> Iterator[dict[str, Order]]:
        choices = (permutations(range(n)) for n in self.sizes.values())
        for orders in product(*choices):
            yield {d: np.array(o) for d, o in zip(self.sizes, orders, strict=True)}

    def _improved(
        self, estimate: Mapping[str, Floats], truth: Mapping[str, Floats]
    ) -> dict[str, Order]:
        """Orders by the traits of single values, improved by exchanges as long as these help."""
        orders = {
            d: permutation(self._traits(d, estimate, truth), self._traits(d, truth, truth))
            for d in self.sizes
        }
        least, better = self.cost(self.permuted(estimate, orders), truth), True
        while better:
            better = False
            for domain, size in self.sizes.items():
                for a, b in combinations(range(size), 2):
                    trial = {**orders, domain: orders[domain].copy()}
                    trial[domain][[a, b]] = trial[domain][[b, a]]
                    now = self.cost(self.permuted(estimate, trial), truth)
                    if now < least:
                        orders, least, better = trial, now, True
        return orders

    def _traits(
        self, domain: str, weights: Mapping[str, Floats], names: Mapping[str, Floats]
    ) -> Floats:
        """What tells values of a domain apart in any order of hidden values, `[value, trait]`."""
        traits = []
        for name in names:
            for axis, own in enumerate(self.axes.get(name, ())):
                if own != domain or name not in weights:
                    continue
                others = [d for i, d in enumerate(self.axes[name]) if i != axis]
                value = np.moveaxis(weights[name], axis, 0)
                for place, other in enumerate(others, 1):
                    if other in self.sizes:
                        value = np.sort(value, axis=place)
                traits.append(value.reshape(len(value), -1))
        return np.concatenate(traits, axis=1)


def permutation(estimate: Floats, truth: Floats) -> Order:
    """For each row of the truth the row of the estimate that is assigned to it."""
    cost = np.abs(truth[:, None, :] - estimate[None, :, :]).sum(axis=2)
    order: Order = linear_sum_assignment(cost)[1]
    return order


def alignment_of(program: Program) -> Alignment:
    """The domains of a program whose values can be permuted."""
    observed = {item.domain for item in program.grammar.inputs}
    axes = {f.name: f.domains for f in program.parameters if f.value is None}
    weights = {
        name: np.asarray(value, dtype=float)
        for name, value in program.weights(seed=0, dtype=torch.float64).items()
        if name in axes
    }
    sizes: dict[str, int] = {}
    for name, domains in axes.items():
        for domain, size in zip(domains, weights[name].shape, strict=True):
            if domain not in observed and size > 1:
                sizes[domain] = size
    return Alignment(
        axes, {d: n for d, n in sizes.items() if _may_move(program, axes, weights, d, n)}
    )


def _may_move(
    program: Program,
    axes: Mapping[str, tuple[str, ...]],
    weights: Mapping[str, Floats],
    domain: str,
    size: int,
) -> bool:
    """Whether a random order of a domain's values leaves some probabilities as they are."""
    rng = np.random.default_rng(size)
    order = np.roll(rng.permutation(size), 1)
    while (order == np.arange(size)).any():
        order = rng.permutation(size)
    moved = Alignment(axes, {domain: size}).permuted(weights, {domain: order})
    name, _ = only_input(program.grammar)
    words = domain_size(program.grammar, program.grammar.inputs[0].domain)
    batch = torch.from_numpy(rng.integers(words, size=(4, 3)))
    values = []
    for each in (weights, moved):
        tied = stationary_roots(program.grammar)
        free = {
            n: torch.from_numpy(np.ascontiguousarray(w)) for n, w in each.items() if n not in tied
        }
        whole = program.weights(free, dtype=torch.float64)
        values.append(program.log_z(whole, {name: batch}).numpy())
    return bool(np.allclose(values[0], values[1], rtol=1e-9, atol=1e-9))
