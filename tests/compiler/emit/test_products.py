"""Products as Python: whatever the axes and however the operands are written, the sum is right."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest
import torch

from fgg.compiler.emit.python import products
from fgg.compiler.emit.python.products import Value
from fgg.runtime.prelude import scaled

SIZES = {"b": 2, "i": 2, "j": 3}
NAMES = {name: getattr(scaled, name) for name in ("dot", "dot_", "times", "flat")}


def axes_of() -> list[tuple[str, ...]]:
    return [order for count in (1, 2, 3) for order in permutations("bij", count)]


@pytest.mark.parametrize("written", list(product(["x", "x * x1"], ["y", "y * y1"])), ids=str)
def test_a_product_of_expressions_is_the_sum_of_products(written: tuple[str, str]) -> None:
    """Two axes have one length, so that a wrong order of operations can go unnoticed by shapes."""
    generator = torch.Generator().manual_seed(0)
    for left, right in product(axes_of(), axes_of()):
        values: dict[str, Any] = {}
        for names, dims in ((("x", "x1"), left), (("y", "y1"), right)):
            for name in names:
                shape = [SIZES[d] for d in dims]
                values[name] = torch.rand(shape, generator=generator, dtype=torch.float64)
        together = dict.fromkeys((*left, *right))
        one = values["x"] * values["x1"] if "x1" in written[0] else values["x"]
        two = values["y"] * values["y1"] if "y1" in written[1] else values["y"]
        for count in range(len(together) + 1):
            for dims in permutations(together, count):
                made = products.product(Value(written[0], left), Value(written[1], right), dims)
                spec = f"{''.join(left)},{''.join(right)}->{''.join(dims)}"
                wanted = torch.einsum(spec, one, two)
                code = made.code
                result = eval(
                    code, {"torch": torch, **NAMES, **{n: x.clone() for n, x in values.items()}}
                )
                assert torch.allclose(result.expand(wanted.shape), wanted), (code, spec)
