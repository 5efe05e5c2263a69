"""Scores of induced tags: accuracy under a map to gold tags, and V-measure.

Tags are one sequence over all tokens of a corpus. Gold and induced tags are any hashable values.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Tags = Sequence[Hashable]


def contingency(gold: Tags, induced: Tags) -> NDArray[np.int64]:
    """How often induced and gold tags meet, `[induced tag, gold tag]`."""
    rows: dict[Hashable, int] = {}
    columns: dict[Hashable, int] = {}
    pairs = [
        (rows.setdefault(guess, len(rows)), columns.setdefault(tag, len(columns)))
        for tag, guess in zip(gold, induced, strict=True)
    ]
    table = np.zeros((len(rows), len(columns)), np.int64)
    if pairs:
        np.add.at(table, tuple(np.array(pairs).T), 1)
    return table


def many_to_one(gold: Tags, induced: Tags) -> float:
    """The accuracy if each induced tag maps to the gold tag that it meets most often."""
    table = contingency(gold, induced)
    return float(table.max(1).sum() / table.sum()) if table.size else 0.0


def one_to_one(gold: Tags, induced: Tags) -> float:
    """The accuracy under the best one-to-one map of induced to gold tags."""
    from scipy.optimize import linear_sum_assignment

    table = contingency(gold, induced)
    if not table.size:
        return 0.0
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


@dataclass(frozen=True)
class VMeasure:
    """Homogeneity 1 - H(gold | induced) / H(gold), completeness 1 - H(induced | gold) / H(induced).

    A. Rosenberg and J. Hirschberg 2007.
    """

    homogeneity: float
    completeness: float

    @property
    def v(self) -> float:
        """The harmonic mean of homogeneity and completeness."""
        total = self.homogeneity + self.completeness
        return 2 * self.homogeneity * self.completeness / total if total else 0.0


def v_measure(gold: Tags, induced: Tags) -> VMeasure:
    """The V-measure of induced tags; each share is 1 if its denominator is 0."""
    table = contingency(gold, induced)
    if not table.size:
        return VMeasure(1.0, 1.0)
    joint = table / table.sum()
    of_gold, of_induced, of_both = (
        _entropy(values) for values in (joint.sum(0), joint.sum(1), joint.ravel())
    )
    shared = of_gold + of_induced - of_both
    return VMeasure(
        shared / of_gold if of_gold else 1.0, shared / of_induced if of_induced else 1.0
    )


def _entropy(values: NDArray[np.float64]) -> float:
    positive = values[values > 0]
    return max(0.0, float(-(positive * np.log(positive)).sum()))
