"""The reference engine: exact inference on any finite grammar, in any semiring.

    import fgg

    hmm = fgg.load("hmm", sizes={"k": 2, "d": 3})
    grammar = fgg.rewrite.ground(hmm, inputs={"w": [0, 1]})
    fgg.reference.solve(grammar, "log", seed=1).z

It is slow and never wrong; compiled programs are tested against it. A grammar with families is
ground first (`fgg.rewrite.ground`).
"""

from fgg.runtime.derive.decode_ground import k_best, sample, viterbi
from fgg.runtime.reference.posterior import gradients, posterior
from fgg.runtime.reference.solve import solve

__all__ = ["gradients", "k_best", "posterior", "sample", "solve", "viterbi"]
