"""Emitted programs as Python modules."""

from __future__ import annotations

import sys
from hashlib import sha256
from types import ModuleType

_modules: dict[str, ModuleType] = {}


def load_module(source: str) -> ModuleType:
    """The module of an emitted program; the same text gives the same module."""
    name = "fgg_program_" + sha256(source.encode()).hexdigest()[:16]
    if name not in _modules:
        module = ModuleType(name)
        sys.modules[name] = module
        # The text was written by our own emitter: user's names in it are identifiers or quoted.
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
        _modules[name] = module
    return _modules[name]
