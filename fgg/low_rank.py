"""Low rank: factors merged, decomposed into pieces around rank nodes, and multiplied out again.

`merge` joins the factors of a rule that share nodes into one; `decompose` finds pieces whose
product comes near the weights of a factor [RS §2.2]; `materialise` multiplies pieces out.
"""

from fgg.api.decompose import decompose, materialise
from fgg.compiler.passes.merge import merge

__all__ = ["decompose", "materialise", "merge"]
