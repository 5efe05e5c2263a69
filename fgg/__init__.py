"""Factor graph grammars: a compiler and an exact inference engine.

The names below are the public ones; nothing else is promised. They are imported when they are
first used, so that `import fgg` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgg.bfgg import b_status, is_bfgg
    from fgg.check import check_grammar
    from fgg.compiler.builder import Builder, fix, symbols
    from fgg.compiler.loading import load, loads
    from fgg.compose import rename, union
    from fgg.conjoining import conjoin, conjunction
    from fgg.diagnostics import Diagnostic, GrammarError
    from fgg.grammar import Grammar
    from fgg.grounding import ground
    from fgg.json_io import from_json, to_json
    from fgg.library import library_names
    from fgg.lowering import plain
    from fgg.printer import print_grammar
    from fgg.sum_product import equations
    from fgg.useful import trim

__version__ = "0.1.0"

__all__ = [
    "Builder",
    "Diagnostic",
    "Grammar",
    "GrammarError",
    "b_status",
    "check_grammar",
    "conjoin",
    "conjunction",
    "equations",
    "fix",
    "from_json",
    "ground",
    "is_bfgg",
    "library_names",
    "load",
    "loads",
    "plain",
    "print_grammar",
    "rename",
    "symbols",
    "to_json",
    "trim",
    "union",
]

_HOMES = {
    "Builder": "fgg.compiler.builder",
    "Diagnostic": "fgg.diagnostics",
    "Grammar": "fgg.grammar",
    "GrammarError": "fgg.diagnostics",
    "b_status": "fgg.bfgg",
    "check_grammar": "fgg.check",
    "conjoin": "fgg.conjoining",
    "conjunction": "fgg.conjoining",
    "equations": "fgg.sum_product",
    "fix": "fgg.compiler.builder",
    "from_json": "fgg.json_io",
    "ground": "fgg.grounding",
    "is_bfgg": "fgg.bfgg",
    "library_names": "fgg.library",
    "load": "fgg.compiler.loading",
    "loads": "fgg.compiler.loading",
    "plain": "fgg.lowering",
    "print_grammar": "fgg.printer",
    "rename": "fgg.compose",
    "symbols": "fgg.compiler.builder",
    "to_json": "fgg.json_io",
    "trim": "fgg.useful",
    "union": "fgg.compose",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fgg' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
