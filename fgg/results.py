"""The classes of results, for annotations and `help`.

Functions of `fgg` return them; you never construct one yourself.
"""

from fgg.api.decompose import DecomposedGrammar
from fgg.runtime.identify.result import Identification
from fgg.runtime.learn.fitting import Learned
from fgg.runtime.posterior.rule_marginals import RuleMarginals
from fgg.runtime.reference.posterior import GroundPosterior
from fgg.runtime.reference.solution import Solution
from fgg.runtime.unmix.result import Unmixing
from fgg.runtime.verify.result import Verification

__all__ = [
    "DecomposedGrammar",
    "GroundPosterior",
    "Identification",
    "Learned",
    "RuleMarginals",
    "Solution",
    "Unmixing",
    "Verification",
]
