"""Emission: plans as Python modules."""

from fgg.compiler.emit.python.module import emit

__all__ = ["emit"]
