"""Emission: plans as Python modules."""

from fgg.compiler.emit.module import emit

__all__ = ["emit"]
