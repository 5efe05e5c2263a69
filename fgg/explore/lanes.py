"""Lanes: worker processes that compute one request at a time, within limits, until it is given up.

A request that is given up (its connection is closed) or that takes too long is ended by ending the
worker. The next one gets a new worker, which is started beforehand.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import fgg
from fgg.explore.asked import Answer, Home
from fgg.explore.problems import out_of_memory, out_of_time


class View(NamedTuple):
    """A view: its module in `fgg.explore.views`, the lane it is computed in, and its time."""

    module: str
    lane: str
    seconds: float


VIEWS = {
    "check": View("check", "editor", 20),
    "passes": View("passes", "compiler", 60),
    "cost": View("cost", "cost", 120),
    "roofline": View("roofline", "runtime", 120),
    "program": View("program", "compiler", 60),
    "inference": View("inference", "runtime", 120),
    "proof": View("proof", "runtime", 600),
    "identify": View("identify", "runtime", 120),
}
LANES = tuple(dict.fromkeys(view.lane for view in VIEWS.values()))
HEAVY = ("runtime",)
"""Lanes whose workers load torch."""

PAUSE = 0.1
"""Seconds between looks at whether a request has been given up."""
MAX_LINE = 256 * 2**20


START = """
import sys
sys.path.append(sys.argv[2])
from fgg.explore.worker import main
main()
"""
"""What a worker runs. It finds the package even where nothing is installed."""


class Worker:
    """A worker process of a lane."""

    def __init__(self, lane: str, home: Home) -> None:
        settings = json.dumps({"lane": lane, "home": home.as_json()})
        home_of_package = str(Path(fgg.__file__).resolve().parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, settings, home_of_package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.read = b""

    def ask(self, request: Answer) -> None:
        """Send a request. Raises OSError if the worker has ended."""
        self.requests.write(json.dumps(request).encode() + b"\n")
        self.requests.flush()

    def line(self, seconds: float) -> bytes | None:
        """The next line of an answer; `b""` if the worker has ended, None if there is none yet."""
        if b"\n" not in self.read:
            if not select.select([self.answers], [], [], max(seconds, 0.0))[0]:
                return None
            more = os.read(self.answers.fileno(), 2**20)
            self.read += more
            if not more or len(self.read) > MAX_LINE:
                return b""
            if b"\n" not in more:
                return None
        line, _, self.read = self.read.partition(b"\n")
        return line

    def end(self) -> None:
        """End the process, and those that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.requests, self.answers):
            with contextlib.suppress(OSError):
                pipe.close()


class Lane:
    """One worker at a time, and the requests that wait for it."""

    def __init__(self, name: str, home: Home, seconds: float | None = None) -> None:
        """With `seconds`, these are the limit of every request."""
        self.name = name
        self.home = home
        self.seconds = seconds
        self.turn = threading.Lock()
        self.worker: Worker | None = None
        self.closed = False

    def start(self) -> None:
        """Start a worker, so that the next request need not wait for it."""
        if self.worker is None and not self.closed:
            self.worker = Worker(self.name, self.home)

    def close(self) -> None:
        """End the worker for good."""
        self.closed = True
        self._drop()

    def _drop(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.end()

    def run(self, view: str, asked: Answer, given_up: Callable[[], bool]) -> Iterator[Answer]:
        """The lines of an answer, parts first. Nothing more comes once a request is given up."""
        while not self.turn.acquire(timeout=PAUSE):
            if given_up():
                return
        try:
            finished = False
            for line in self._lines(view, asked, given_up):
                finished = "part" not in line and "stopped" not in line
                yield line
        finally:
            if not finished:
                self._drop()
            self.start()
            self.turn.release()

    def _lines(self, view: str, asked: Answer, given_up: Callable[[], bool]) -> Iterator[Answer]:
        seconds = self.seconds or VIEWS[view].seconds
        self.start()
        if self.worker is None:
            return
        end = time.monotonic() + seconds
        try:
            self.worker.ask({"view": view, "asked": asked})
        except OSError:
            self._drop()
            self.start()
            self.worker.ask({"view": view, "asked": asked})
        while not given_up():
            left = end - time.monotonic()
            line = self.worker.line(min(PAUSE, left))
            if line:
                answer: Answer = json.loads(line)
                yield answer
                if "part" not in answer:
                    return
            elif line is not None:
                yield {"stopped": True, "problem": out_of_memory(self.home.memory)}
                return
            elif left <= 0:
                yield {"stopped": True, "problem": out_of_time(seconds)}
                return


class Lanes:
    """All lanes of a server."""

    def __init__(self, home: Home, seconds: float | None = None) -> None:
        self.lanes = {name: Lane(name, home, seconds) for name in LANES}

    def start(self) -> None:
        """Start the workers."""
        for lane in self.lanes.values():
            lane.start()

    def close(self) -> None:
        """End the workers."""
        for lane in self.lanes.values():
            lane.close()

    def run(
        self, view: str, asked: Answer, given_up: Callable[[], bool] = lambda: False
    ) -> Iterator[Answer]:
        """The lines of a view's answer."""
        return self.lanes[VIEWS[view].lane].run(view, asked, given_up)

    def __enter__(self) -> Lanes:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
