"""Small proofs, and what they hold of each stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fgg.compiler.driver import PIPELINES
from fgg.grammar import (
    Edge,
    Grammar,
    Rule,
)
from fgg.runtime.verify.result import Verification

QUICK: dict[str, Any] = {"trials": 1, "length": 3, "items": 12, "peaked": False}


def rows(found: Verification) -> dict[tuple[str, str, str], bool | None]:
    return {(row.space, row.what, row.quantity): row.holds for row in found.rows}


def with_edges(grammar: Grammar, change: Callable[[Rule, Edge], Edge | None]) -> Grammar:
    changed = []
    for rule in grammar.rules:
        edges = (change(rule, edge) for edge in rule.rhs.edges)
        kept = tuple(edge for edge in edges if edge is not None)
        changed.append(replace(rule, rhs=replace(rule.rhs, edges=kept)))
    return replace(grammar, rules=tuple(changed))


PLAIN = next(iter(PIPELINES))
"""The space in which factors are taken as they are."""
