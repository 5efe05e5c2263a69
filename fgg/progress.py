"""Progress of long work: engines report how far they are, and a listener may show it.

An engine wraps its loop, `for level in steps(levels, "level")`, or opens a `stage` and counts. It
does not know the listener. Without a listener, `steps` returns its argument unchanged. What a user
should know at once, because the next moment takes seconds, is a `note`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(eq=False)
class Stage:
    """A stage of work: the name of its units, how many are done, and how many there are.

    `total` is 0 if it is unknown.
    """

    what: str
    total: int = 0
    done: int = 0

    def update(self, done: int, total: int = 0) -> None:
        """Set how many steps are done, and how many there are."""
        self.done, self.total = done, total

    def __str__(self) -> str:
        if self.total:
            return f"{self.what} {self.done:,} of {self.total:,}"
        return f"{self.what} {self.done:,}" if self.done else self.what


class Listener:
    """Follows the open stages of work, outermost first."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def begin(self, begun: Stage) -> None:
        """Called when a stage begins."""
        self.stages.append(begun)

    def end(self, ended: Stage) -> None:
        """Called when a stage ends."""
        self.stages.remove(ended)
        if not self.stages:
            self.idle()

    def idle(self) -> None:
        """Called when the outermost stage has ended."""


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


_teller: ContextVar[Callable[[str], None] | None] = ContextVar("teller", default=None)


def note(text: str) -> None:
    """Tell the user something at once, if anybody is there to tell it."""
    tell = _teller.get()
    if tell is not None:
        tell(text)


@contextmanager
def notes_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Within this context, a function gets the notes."""
    token = _teller.set(tell)
    try:
        yield
    finally:
        _teller.reset(token)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Within this context, a listener follows the stages."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def stage(what: str, total: int = 0) -> Iterator[Stage]:
    """A stage of work that ends with the context."""
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
    """The items, with a stage around their iteration that counts them.

    Without a `total` it is the number of items, if they are a collection.
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
    """The levels `range(*bounds)`, with a stage that counts them."""
    return steps(range(*bounds), "level")
