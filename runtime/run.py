"""A batch ready for its charts, and what is read off them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fgg.runtime.batching import Collated

if TYPE_CHECKING:
    from fgg.runtime.program import Program


@dataclass(frozen=True, eq=False)
class Run:
    """A batch ready for its charts."""

    program: Program
    weights: Mapping[str, Tensor]
    collated: Collated
    batch: Any
    tensors: Mapping[str, Tensor]
    sources: tuple[Tensor, ...]
    leaves: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]
    # The least and the greatest entry of leaves, as far as they are known.
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # The factors whose weights are products of pieces.
    joined: frozenset[str] = frozenset()
    # Whether derivatives in weights that are 0 are asked for.
    limits: bool = True
