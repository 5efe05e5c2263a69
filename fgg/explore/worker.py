"""A worker process: it reads requests from standard input and writes answers, a JSON text a line.

It has a limit of memory, reads no files but those below the explorer's folder, and ends with the
process that started it. Lines that it writes are `{"part": …}`, any number of them, and then
`{"done": …}` or `{"problem": …}`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import sys
import threading
import time
import warnings
from importlib import import_module
from typing import IO

from fgg.explore.asked import Answer, Asked, Home
from fgg.explore.lanes import HEAVY, VIEWS
from fgg.explore.problems import problem
from fgg.files import confined_to

PREPARED = ("torch", "fgg.api.compile", "fgg.runtime.program.program", "fgg.runtime.model.model")
"""What workers of heavy lanes import while they wait for their first request."""


def main() -> None:
    """Answer requests until standard input ends."""
    settings = json.loads(sys.argv[1])
    home = Home(**settings["home"])
    answers = _own_output()
    _end_with(os.getppid())
    if settings["lane"] in HEAVY:
        for name in PREPARED:
            import_module(name)
    limit_memory(home.memory)
    warnings.simplefilter("ignore")
    for line in sys.stdin.buffer:
        answer(json.loads(line), home, answers)


def _own_output() -> IO[str]:
    """Standard output for answers alone: whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _end_with(parent: int) -> None:
    """End this process once the one that started it has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit_memory(memory: int) -> None:
    """Let this process allocate `memory` bytes more than it has now."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        bound = pages * resource.getpagesize() + memory
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def answer(request: Answer, home: Home, answers: IO[str]) -> None:
    """Compute the view that a request names, and write the answer."""

    def write(line: Answer) -> None:
        answers.write(json.dumps(finite(line), allow_nan=False) + "\n")
        answers.flush()

    text = ""
    try:
        with confined_to(home.place):
            asked = Asked.of(home, request["asked"])
            text = asked.text
            view = import_module(f"fgg.explore.views.{VIEWS[str(request['view'])].module}")
            write({"done": view.view(asked, lambda part: write({"part": part}))})
    except BrokenPipeError:
        os._exit(0)
    except Exception as error:
        write({"problem": problem(error, text, home.memory)})


def finite(value: object) -> object:
    """A value as JSON can have it: infinities and NaN become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


if __name__ == "__main__":
    main()
