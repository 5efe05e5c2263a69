"""Learning: many ways to fit the parameters of one program.

Expected counts are the gradient of log Z in log-weights, so all methods need the same program.
"""

from __future__ import annotations

from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.em import EM, OnlineEM
from fgg.runtime.learn.expected_counts import ExpectedCounter, ExpectedCounts
from fgg.runtime.learn.fitting import METHODS, Learned, learn, log_likelihood, perplexity
from fgg.runtime.learn.hastings import Hastings
from fgg.runtime.learn.item_batches import CheckedItems, Items, bucketed, in_memory
from fgg.runtime.learn.method import Method, SweepReport
from fgg.runtime.learn.variational_bayes import CVB, VB

__all__ = [
    "CVB",
    "EM",
    "METHODS",
    "VB",
    "Adam",
    "CheckedItems",
    "ExpectedCounter",
    "ExpectedCounts",
    "Hastings",
    "Items",
    "Learned",
    "Method",
    "OnlineEM",
    "SweepReport",
    "bucketed",
    "in_memory",
    "learn",
    "log_likelihood",
    "perplexity",
]
