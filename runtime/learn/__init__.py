"""Learning: many ways to fit the parameters of one program.

Expected counts are the gradient of log Z in log-weights, so all methods need the same program.
"""

from __future__ import annotations

from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.collapsed.collapsed_bound import BoundEstimate, collapsed_bound
from fgg.runtime.learn.collapsed.exact_cvb import ExactCVB
from fgg.runtime.learn.collapsed.gibbs import Gibbs
from fgg.runtime.learn.collapsed.hastings import Hastings
from fgg.runtime.learn.collapsed.variable_cvb import VariableCVB
from fgg.runtime.learn.em import EM, OnlineEM
from fgg.runtime.learn.expected_counts import ExpectedCounter, ExpectedCounts
from fgg.runtime.learn.fitting import METHODS, Learned, learn, log_likelihood, perplexity
from fgg.runtime.learn.item_batches import CheckedItems, Items, bucketed, in_memory
from fgg.runtime.learn.method import CountingMethod, Method, SweepReport
from fgg.runtime.learn.predictive import PredictiveCheck, predictive_checks
from fgg.runtime.learn.variational_bayes import CVB, VB

__all__ = [
    "CVB",
    "EM",
    "METHODS",
    "VB",
    "Adam",
    "BoundEstimate",
    "CheckedItems",
    "CountingMethod",
    "ExactCVB",
    "ExpectedCounter",
    "ExpectedCounts",
    "Gibbs",
    "Hastings",
    "Items",
    "Learned",
    "Method",
    "OnlineEM",
    "PredictiveCheck",
    "SweepReport",
    "VariableCVB",
    "bucketed",
    "collapsed_bound",
    "in_memory",
    "learn",
    "log_likelihood",
    "perplexity",
    "predictive_checks",
]
