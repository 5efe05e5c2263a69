"""Progress on standard error, once a command has taken some time.

A thread waits for a while. On a terminal it then draws a bar for each stage of the work; elsewhere
it prints a line now and then. Since it is a thread of its own, it also reports while one long
operation runs. It does not read the clock: it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, TextIO

from fgg.progress import Listener, heard_by, notes_to

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 10.0
"""Seconds before the first report."""
LONGEST = 80.0
"""The most seconds between two lines; each pause is twice the one before it."""
REFRESH = 0.2
"""Seconds between two updates of the bars."""

Wait = Callable[[float], bool]
"""Waits for so many seconds; returns True as soon as the work has ended."""


@contextmanager
def shown_progress(
    stream: TextIO | None, *, quiet: bool, wait: Wait | None = None
) -> Iterator[None]:
    """Report work in this context on a stream if it takes long.

    With `quiet`, nothing is reported unless the stream is a terminal.
    """
    if stream is None or stream.closed or (quiet and not stream.isatty()):
        yield
        return
    ended = Event()
    shown = ProgressDisplay(stream, wait or ended.wait)
    thread = Thread(target=shown.run, daemon=True)
    thread.start()
    try:
        with heard_by(shown), notes_to(shown.note):
            yield
    finally:
        ended.set()
        thread.join()
        shown.idle()


class ProgressDisplay(Listener):
    """Shows stages on a stream."""

    def __init__(self, stream: TextIO, wait: Wait) -> None:
        super().__init__()
        self.stream = stream
        self.wait = wait
        self.lock = Lock()
        self.bars: _Bars | None = None

    def run(self) -> None:
        """Wait, and report until the work has ended."""
        if self.wait(PATIENCE):
            return
        if self.stream.isatty():
            self.draw()
        else:
            self.print_lines()

    def print_lines(self) -> None:
        """Print a line after pauses that grow."""
        pause = seconds = PATIENCE
        while True:
            self.print_line(seconds)
            if self.wait(pause):
                return
            seconds += pause
            pause = min(2 * pause, LONGEST)

    def print_line(self, seconds: float) -> None:
        """Print the stages in hand."""
        text = ", ".join(map(str, tuple(self.stages)))
        line = f"still working after {seconds:.0f} s" + (f": {text}" if text else "")
        print(line, file=self.stream, flush=True)

    def draw(self) -> None:
        """Draw bars while there are stages; if there is none yet, print a line first."""
        if not self.stages:
            self.print_line(PATIENCE)
        while True:
            with self.lock:
                # Between stages a command may print; nothing is drawn into its text.
                if self.stages:
                    self.bars = self.bars or _Bars(self.stream)
                    self.bars.update(self)
            if self.wait(REFRESH):
                return

    def note(self, text: str) -> None:
        """Print a note at once; bars are drawn anew below it."""
        self.idle()
        print(text, file=self.stream, flush=True)

    def idle(self) -> None:
        """Remove the bars, so that the command may print."""
        with self.lock:
            if self.bars is not None:
                self.bars.bar.stop()
                self.bars = None


class _Bars:
    """A bar for each stage in hand."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.bar: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.tasks: list[TaskID] = []
        self.bar.start()

    def update(self, listener: Listener) -> None:
        """Draw the stages as they are now."""
        stages = tuple(listener.stages)
        while len(self.tasks) > len(stages):
            self.bar.remove_task(self.tasks.pop())
        for place, stage in enumerate(stages):
            if place == len(self.tasks):
                self.tasks.append(self.bar.add_task(stage.what, total=None))
            self.bar.update(
                self.tasks[place],
                description=stage.what,
                completed=stage.done,
                total=stage.total or None,
            )
