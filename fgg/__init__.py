"""Factor graph grammars: a compiler and an exact inference engine.

The names below are the public ones; nothing else is promised. They are imported when they are
first used, so that `import fgg` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgg.api.compile import compile
    from fgg.api.decompose import decompose, materialise
    from fgg.api.identify import identify
    from fgg.api.saved import load_model
    from fgg.api.unmix import unmix
    from fgg.api.verify import verify
    from fgg.check.bfgg import b_status, is_bfgg
    from fgg.check.describe import equations
    from fgg.check.grammar import check_grammar
    from fgg.compiler.passes.merge import merge
    from fgg.compiler.resolve.builder import Builder, fix, symbols
    from fgg.compiler.resolve.load import load, loads
    from fgg.diagnostics import Diagnostic, GrammarError
    from fgg.grammar import Grammar
    from fgg.grammar.printer import print_grammar
    from fgg.json import from_json, to_json
    from fgg.library import library_names
    from fgg.rewrite.conjoin import conjoin, conjunction
    from fgg.rewrite.factorise import factorise
    from fgg.rewrite.ground import ground
    from fgg.rewrite.plain import plain
    from fgg.rewrite.rename import rename
    from fgg.rewrite.trim import trim
    from fgg.rewrite.union import union
    from fgg.runtime.derive.decode_ground import k_best, sample, viterbi
    from fgg.runtime.learn import learn
    from fgg.runtime.reference.posterior import gradients, posterior
    from fgg.runtime.reference.solve import solve

__version__ = "0.1.0"

__all__ = [
    "Builder",
    "Diagnostic",
    "Grammar",
    "GrammarError",
    "b_status",
    "check_grammar",
    "compile",
    "conjoin",
    "conjunction",
    "decompose",
    "equations",
    "factorise",
    "fix",
    "from_json",
    "gradients",
    "ground",
    "identify",
    "is_bfgg",
    "k_best",
    "learn",
    "library_names",
    "load",
    "load_model",
    "loads",
    "materialise",
    "merge",
    "plain",
    "posterior",
    "print_grammar",
    "rename",
    "sample",
    "solve",
    "symbols",
    "to_json",
    "trim",
    "union",
    "unmix",
    "verify",
    "viterbi",
]

_HOMES = {
    "Builder": "fgg.compiler.resolve.builder",
    "Diagnostic": "fgg.diagnostics",
    "Grammar": "fgg.grammar",
    "GrammarError": "fgg.diagnostics",
    "b_status": "fgg.check.bfgg",
    "check_grammar": "fgg.check.grammar",
    "compile": "fgg.api.compile",
    "conjoin": "fgg.rewrite.conjoin",
    "conjunction": "fgg.rewrite.conjoin",
    "decompose": "fgg.api.decompose",
    "equations": "fgg.check.describe",
    "factorise": "fgg.rewrite.factorise",
    "fix": "fgg.compiler.resolve.builder",
    "from_json": "fgg.json",
    "gradients": "fgg.runtime.reference.posterior",
    "ground": "fgg.rewrite.ground",
    "identify": "fgg.api.identify",
    "is_bfgg": "fgg.check.bfgg",
    "k_best": "fgg.runtime.derive.decode_ground",
    "learn": "fgg.runtime.learn",
    "library_names": "fgg.library",
    "load": "fgg.compiler.resolve.load",
    "load_model": "fgg.api.saved",
    "loads": "fgg.compiler.resolve.load",
    "materialise": "fgg.api.decompose",
    "merge": "fgg.compiler.passes.merge",
    "plain": "fgg.rewrite.plain",
    "posterior": "fgg.runtime.reference.posterior",
    "print_grammar": "fgg.grammar.printer",
    "rename": "fgg.rewrite.rename",
    "sample": "fgg.runtime.derive.decode_ground",
    "solve": "fgg.runtime.reference.solve",
    "symbols": "fgg.compiler.resolve.builder",
    "to_json": "fgg.json",
    "trim": "fgg.rewrite.trim",
    "union": "fgg.rewrite.union",
    "unmix": "fgg.api.unmix",
    "verify": "fgg.api.verify",
    "viterbi": "fgg.runtime.derive.decode_ground",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fgg' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
