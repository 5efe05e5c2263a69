"""Kernels as C++: loops over cells and states, and matrix products."""

from fgg.compiler.emit.cpp.module import FOLDER, linked, native

__all__ = ["FOLDER", "linked", "native"]
