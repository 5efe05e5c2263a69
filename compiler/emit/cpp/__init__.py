"""Plans as C++: the same steps as the emitted Python, in loops instead of tensor operations."""

from fgg.compiler.emit.cpp.module import native

__all__ = ["native"]
