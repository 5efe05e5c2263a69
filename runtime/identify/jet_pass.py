"""A plan carried out on soft words: Z of every functional as a jet, and its derivatives.

The forward pass is the inside algorithm in a ring of jets. In a commutative ring the derivative of
Z by a constant is a jet too, and one reverse pass has it for all constants: its coefficient at a
target is the derivative of the moment that the target stands for.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fgg.runtime.identify.algebra import JetAlgebra
from fgg.runtime.identify.fields import Field
from fgg.runtime.identify.functionals import Words, batch_of
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.soft_plan import SoftPlan
from fgg.runtime.interpret.walk import Tape, slopes_of


def z_of(
    soft: SoftPlan, field: Field, ring: Ring, parameters: Mapping[str, Tensor], words: Words
) -> Tensor:
    """Z of every functional, `[functional, jet]`; `words` are `[…, functional, jet, value]`."""
    algebra = JetAlgebra(field, ring, batch_of(words))
    return soft.inside(algebra, parameters, soft.tables(words)).z[0]


def jacobian_of(
    soft: SoftPlan, field: Field, ring: Ring, parameters: Mapping[str, Tensor], words: Words
) -> dict[str, Tensor]:
    """The derivative of Z by each parameter at the targets, `[functional, target, *shape]`."""
    return z_and_jacobian_of(soft, field, ring, parameters, words)[1]


def z_and_jacobian_of(
    soft: SoftPlan, field: Field, ring: Ring, parameters: Mapping[str, Tensor], words: Words
) -> tuple[Tensor, dict[str, Tensor]]:
    """Z of every functional, `[functional, jet]`, and its derivatives at the targets."""
    algebra = JetAlgebra(field, ring, batch_of(words))
    tape: Tape[Tensor] = Tape(soft.given.plain_outside)
    charts = soft.inside(algebra, parameters, soft.tables(words), tape)
    slopes = slopes_of(charts, soft.outside, tape=tape)
    charts.prepared.reverse(slopes)
    lead = [algebra.sizes[d] for d in algebra.slope]
    jacobian = {
        name: algebra.settled(slopes[name])
        if name in slopes
        else torch.zeros(*lead, *array.shape, dtype=torch.float64)
        for name, array in parameters.items()
    }
    return charts.z[0], jacobian
