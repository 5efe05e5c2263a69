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
    from fgg.compiler.passes.merge import merge
    from fgg.compiling import compile
    from fgg.compose import rename, union
    from fgg.conjoining import conjoin, conjunction
    from fgg.decomposing import decompose, materialise
    from fgg.diagnostics import Diagnostic, GrammarError
    from fgg.factorising import factorise
    from fgg.grammar import Grammar
    from fgg.grounding import ground
    from fgg.identifying import identify
    from fgg.json_io import from_json, to_json
    from fgg.library import library_names
    from fgg.lowering import plain
    from fgg.models import load_model
    from fgg.printer import print_grammar
    from fgg.runtime.learn import learn
    from fgg.runtime.posterior import gradients, posterior
    from fgg.runtime.sample import sample
    from fgg.runtime.solve import solve
    from fgg.runtime.viterbi import k_best, viterbi
    from fgg.sum_product import equations
    from fgg.unmixing import unmix
    from fgg.useful import trim
    from fgg.verifying import verify

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
    "Builder": "fgg.compiler.builder",
    "Diagnostic": "fgg.diagnostics",
    "Grammar": "fgg.grammar",
    "GrammarError": "fgg.diagnostics",
    "b_status": "fgg.bfgg",
    "check_grammar": "fgg.check",
    "compile": "fgg.compiling",
    "conjoin": "fgg.conjoining",
    "conjunction": "fgg.conjoining",
    "decompose": "fgg.decomposing",
    "equations": "fgg.sum_product",
    "factorise": "fgg.factorising",
    "fix": "fgg.compiler.builder",
    "from_json": "fgg.json_io",
    "gradients": "fgg.runtime.posterior",
    "ground": "fgg.grounding",
    "identify": "fgg.identifying",
    "is_bfgg": "fgg.bfgg",
    "k_best": "fgg.runtime.viterbi",
    "learn": "fgg.runtime.learn",
    "library_names": "fgg.library",
    "load": "fgg.compiler.loading",
    "load_model": "fgg.models",
    "loads": "fgg.compiler.loading",
    "materialise": "fgg.decomposing",
    "merge": "fgg.compiler.passes.merge",
    "plain": "fgg.lowering",
    "posterior": "fgg.runtime.posterior",
    "print_grammar": "fgg.printer",
    "rename": "fgg.compose",
    "sample": "fgg.runtime.sample",
    "solve": "fgg.runtime.solve",
    "symbols": "fgg.compiler.builder",
    "to_json": "fgg.json_io",
    "trim": "fgg.useful",
    "union": "fgg.compose",
    "unmix": "fgg.unmixing",
    "verify": "fgg.verifying",
    "viterbi": "fgg.runtime.viterbi",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fgg' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
