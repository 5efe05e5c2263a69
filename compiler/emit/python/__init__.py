"""Emission: plans as Python modules."""

from fgg.compiler.emit.python.module import emit, linked

__all__ = ["emit", "linked"]
