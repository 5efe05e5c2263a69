"""Semirings, by name."""

from __future__ import annotations

from collections.abc import Callable

from fgg.runtime.interpret.semirings.base import Letters, Semiring


def _real() -> Semiring:
    from fgg.runtime.interpret.semirings.real import Real

    return Real()


def _log() -> Semiring:
    from fgg.runtime.interpret.semirings.log import Log

    return Log()


def _max() -> Semiring:
    from fgg.runtime.interpret.semirings.max_plus import MaxPlus

    return MaxPlus()


def _boolean() -> Semiring:
    from fgg.runtime.interpret.semirings.boolean import Boolean

    return Boolean()


def _counting() -> Semiring:
    from fgg.runtime.interpret.semirings.exact import Counting

    return Counting()


def _gf() -> Semiring:
    from fgg.runtime.interpret.semirings.modular import Modular

    return Modular()


def _exact() -> Semiring:
    from fgg.runtime.interpret.semirings.exact import Exact

    return Exact()


SEMIRINGS: dict[str, Callable[[], Semiring]] = {
    "real": _real,
    "log": _log,
    "max": _max,
    "boolean": _boolean,
    "counting": _counting,
    "gf": _gf,
    "exact": _exact,
}

__all__ = ["SEMIRINGS", "Letters", "Semiring"]
