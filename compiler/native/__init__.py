"""Plans as C++: the same steps as the emitted Python, in loops instead of tensor operations."""

from fgg.compiler.native.module import native

__all__ = ["native"]
