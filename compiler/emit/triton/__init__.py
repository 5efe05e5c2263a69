"""Programs in Triton: the kernels of a plan, fused to few launches a level."""

from fgg.compiler.emit.triton.module import emit, linked

__all__ = ["emit", "linked"]
