"""Learning: one program, many ways to fit its parameters.

Expected counts are the gradient of log Z in log-weights, so all methods need the same program.
"""

from __future__ import annotations

from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.counting import Counted, Counter
from fgg.runtime.learn.cvb import CVB
from fgg.runtime.learn.em import EM
from fgg.runtime.learn.fitting import METHODS, Learned, learn, log_likelihood, perplexity
from fgg.runtime.learn.hastings import Hastings
from fgg.runtime.learn.items import Items, Ready, bucketed, in_memory
from fgg.runtime.learn.method import Method
from fgg.runtime.learn.online import OnlineEM
from fgg.runtime.learn.progress import Progress
from fgg.runtime.learn.vb import VB

__all__ = [
    "CVB",
    "EM",
    "METHODS",
    "VB",
    "Adam",
    "Counted",
    "Counter",
    "Hastings",
    "Items",
    "Learned",
    "Method",
    "OnlineEM",
    "Progress",
    "Ready",
    "bucketed",
    "in_memory",
    "learn",
    "log_likelihood",
    "perplexity",
]
