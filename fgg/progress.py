"""Progress of long work: engines say how far they are, and whoever listens may show it.

An engine wraps its loop, `for level in steps(levels, "level")`, or opens a `stage` and counts. It
does not know who listens. Without a listener, `steps` returns its argument as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(eq=False)
class Stage:
    """Work in hand: the name of one piece of it, how many are done, how many there are.

    `total` is 0 where nobody knows.
    """

    what: str
    total: int = 0
    done: int = 0

    def update(self, done: int, total: int = 0) -> None:
        """Set how many pieces are done, of how many."""
        self.done, self.total = done, total

    def __str__(self) -> str:
        if self.total:
            return f"{self.what} {self.done:,} of {self.total:,}"
        return f"{self.what} {self.done:,}" if self.done else self.what


class Listener:
    """Sees the stages of the work in hand, each inside the one before it."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def begin(self, begun: Stage) -> None:
        """A stage begins."""
        self.stages.append(begun)

    def end(self, ended: Stage) -> None:
        """A stage ends."""
        self.stages.remove(ended)
        if not self.stages:
            self.idle()

    def idle(self) -> None:
        """Called when the outermost stage has ended."""


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """In this context, stages are seen by a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def stage(what: str, total: int = 0) -> Iterator[Stage]:
    """A stage of work, which ends with the context."""
    begun = Stage(what, total)
    listener = _listener.get()
    if listener is None:
        yield begun
        return
    listener.begin(begun)
    try:
        yield begun
    finally:
        listener.end(begun)


def steps(items: Iterable[T], what: str, total: int = 0) -> Iterable[T]:
    """The items, with a stage around their use that counts them.

    The total is their number, where they have one.
    """
    if _listener.get() is None:
        return items
    return _counted(items, what, total or (len(items) if isinstance(items, Collection) else 0))


def _counted(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    with stage(what, total) as begun:
        for item in items:
            yield item
            begun.done += 1


def levels(*bounds: int) -> Iterable[int]:
    """The numbers of a range of levels, as `range` has them."""
    return steps(range(*bounds), "level")
