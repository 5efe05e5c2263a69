"""Facts about a grammar: errors, B-FGG status, equations, a description."""

from fgg.check.bfgg import b_status, is_bfgg
from fgg.check.describe import describe, equations
from fgg.check.grammar import check_grammar

__all__ = ["b_status", "check_grammar", "describe", "equations", "is_bfgg"]
