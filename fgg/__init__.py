"""Factor graph grammars: a compiler and an exact inference engine.

    import fgg

    grammar = fgg.load("hmm", sizes={"k": 2, "d": 3})
    model = fgg.compile(grammar).model(seed=0)
    post = model.posterior(w=[[0, 2, 1]])
    post.log_z, post.marginals, post.best()

The names below are the main ones. Everything else public lies in the modules `fgg.build`,
`fgg.rewrite`, `fgg.check`, `fgg.low_rank`, `fgg.reference`, `fgg.json`, `fgg.data`, `fgg.draw`,
`fgg.library` and `fgg.results`. All of them load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgg import build, check, data, draw, json, library, low_rank, reference, results, rewrite
    from fgg.api.compile import compile
    from fgg.api.identify import identify
    from fgg.api.load import load, loads
    from fgg.api.saved import load_model
    from fgg.api.train import train
    from fgg.api.unmix import unmix
    from fgg.api.verify import verify
    from fgg.diagnostics import Diagnostic, GrammarError, GrammarWarning
    from fgg.grammar import Grammar
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.learn import learn
    from fgg.runtime.model.model import Model
    from fgg.runtime.posterior.posterior import Posterior
    from fgg.runtime.program.program import Program

__version__ = "0.1.0"

__all__ = [
    "Derivation",
    "Diagnostic",
    "Grammar",
    "GrammarError",
    "GrammarWarning",
    "Model",
    "Posterior",
    "Program",
    "build",
    "check",
    "compile",
    "data",
    "draw",
    "identify",
    "json",
    "learn",
    "library",
    "load",
    "load_model",
    "loads",
    "low_rank",
    "reference",
    "results",
    "rewrite",
    "train",
    "unmix",
    "verify",
]

_HOMES = {
    "Derivation": "fgg.runtime.derive.derivation",
    "Diagnostic": "fgg.diagnostics",
    "Grammar": "fgg.grammar",
    "GrammarError": "fgg.diagnostics",
    "GrammarWarning": "fgg.diagnostics",
    "Model": "fgg.runtime.model.model",
    "Posterior": "fgg.runtime.posterior.posterior",
    "Program": "fgg.runtime.program.program",
    "compile": "fgg.api.compile",
    "identify": "fgg.api.identify",
    "learn": "fgg.runtime.learn",
    "load": "fgg.api.load",
    "load_model": "fgg.api.saved",
    "loads": "fgg.api.load",
    "train": "fgg.api.train",
    "unmix": "fgg.api.unmix",
    "verify": "fgg.api.verify",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"fgg.{name}")
    raise AttributeError(f"module 'fgg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
