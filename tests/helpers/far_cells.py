"""A Triton kernel that finds cells which lie far from the beginning of a chart."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fgg.runtime.prelude.gpu import cell2


@triton.jit(do_not_specialize=["level"])
def distances(X, level, out):  # type: ignore[no-untyped-def]
    """How many bytes the cells of two items are behind the first number of a chart."""
    b = tl.arange(0, 2)
    tl.store(out + b, cell2(X, 0, level, b).to(tl.int64) - X[0].to(tl.int64))


def found() -> list[int]:
    """The distances in a made-up chart with 2**30 numbers from one level to the next."""
    out = torch.zeros(2, dtype=torch.int64)
    chart = (torch.zeros(1), 0, 1, 2**30, 1, 0, 0, 0, 5)
    distances[(1,)](chart, 4, out)
    numbers: list[int] = out.tolist()
    return numbers
