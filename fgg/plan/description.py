"""What a program costs and what it does, as tables and pictures show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ContractionCost:
    """The cost of one step or preparation: its name, its order `n*k^2`, its multiply-adds."""

    when: str
    name: str
    order: str
    multiply_adds: int


@dataclass(frozen=True, kw_only=True)
class PlanDescription:
    """The order of a whole plan, what its numbers are for, its contractions, and its listing."""

    order: str
    given: str
    contractions: tuple[ContractionCost, ...]
    memory: str
    listing: str
