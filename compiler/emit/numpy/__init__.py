"""Emission: plans as modules that need NumPy alone."""

from fgg.compiler.emit.numpy.module import emit, linked

__all__ = ["emit", "linked"]
