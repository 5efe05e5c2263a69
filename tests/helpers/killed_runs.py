"""Training runs that are killed at random moments, and resumed: a process to be started by tests.

`python -m tests.helpers.killed_runs FOLDER SEED RUNS KILLS CASE…` trains each case once without a
kill, and then RUNS times with up to KILLS kills each. Attempts are forks of one process, so that a
kill costs a fraction of a second. A fork dies in one of these ways, none of which reads a clock:

- `call`: before the N-th call of a function, Python's or C's;
- `step`: the same, but calls count only after the run has begun or resumed;
- `file`: before the N-th time that it opens, renames, makes or removes a file of the run;
- `write`: in the middle of a write, as soon as a file has more than N bytes.

It prints, as JSON, where each run was when it was killed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import torch

from fgg.api.train import start
from fgg.runtime.train import RunSettings
from fgg.runtime.train.run_folder import METRICS, MODEL, POINTER
from fgg.runtime.train.run_settings import SETTINGS
from tests.helpers.places import ROOT

WAYS = ("call", "step", "file", "write")
FILE_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")
WORDS = ["the dog runs", "a dog sees the cat", "the cat sleeps", "a cat runs", "dog runs the cat"]
CASES = ("em", "online-em", "vb", "cvb", "hastings", "gibbs", "adam", "adam-net")
NET = "with net = residual(dim=3, layers=1, dropout=0.3)"


def settings_of(case: str, corpus: Path) -> RunSettings:
    """The settings of a small run: two epochs of some batches."""
    method = case.removesuffix("-net")
    text = (ROOT / "grammars" / "hmm.fgg").read_text()
    if case == "adam-net":
        text = text.replace("factor emit(T -> W)", f"factor emit(T -> W) {NET}")
        assert NET in text
    counted = method in ("vb", "cvb", "hastings", "gibbs")
    return RunSettings(
        grammar=text,
        query="string",
        method=method,
        epochs=2,
        dtype="float32" if method == "adam" else "float64",
        backend="torch",
        budget=0 if method in ("cvb", "hastings") else 12,
        options={"prior": 0.1} if counted else {},
        data=(str(corpus),),
        changes={"sizes": {"k": 2}},
    )


def in_fork(work: Callable[[], None]) -> int:
    """The number of the signal that ended a fork of this process; 0 if it ended well."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "an attempt has failed"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


class Counter:
    """Counts events of a kind, and kills the process at number `last`."""

    def __init__(self, folder: Path, last: int = 0) -> None:
        self.folder, self.last, self.number = str(folder), last, 0

    def note(self) -> None:
        self.number += 1
        if self.number == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_call(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.note()

    def on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and self.folder in str(arguments[0]):
            self.note()

    def train(self, asked: RunSettings, every: float, way: str) -> None:
        """Begin or resume a run and train to its end, unless killed on the way."""
        if way == "call":
            sys.setprofile(self.on_call)
        elif way == "file":
            sys.addaudithook(self.on_event)
        elif way == "write":
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.last, resource.RLIM_INFINITY))
        trainer = start(Path(self.folder), asked, resume=True, every=every)
        if way == "step":
            sys.setprofile(self.on_call)
        trainer.run()
        sys.setprofile(None)


def events_of(folder: Path, asked: RunSettings) -> dict[str, int]:
    """The number of events of a run without a kill; the bytes of its greatest file for `write`."""
    read, write = os.pipe()

    def work() -> None:
        calls, steps, files = (Counter(folder) for _ in range(3))
        sys.addaudithook(files.on_event)
        sys.setprofile(calls.on_call)
        trainer = start(folder, asked, resume=True, every=0.0)
        sys.setprofile(steps.on_call)
        trainer.run()
        sys.setprofile(None)
        numbers = {"call": calls.number + steps.number, "step": steps.number, "file": files.number}
        os.write(write, json.dumps(numbers).encode())

    assert in_fork(work) == 0
    numbers: dict[str, int] = json.loads(os.read(read, 1000))
    os.close(read)
    os.close(write)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return {**numbers, "write": max(sizes)}


def where(folder: Path) -> str:
    """How far a run was."""
    if not (folder / SETTINGS).exists():
        return "before the run began"
    at = json.loads((folder / POINTER).read_text())
    if not at["number"]:
        return "before the second checkpoint"
    return "inside an epoch" if at["begun"] else "between epochs"


def final(folder: Path) -> dict[str, object]:
    """All that a run ends with, without times."""
    checkpoint = json.loads((folder / POINTER).read_text())
    place = folder / f"checkpoint-{checkpoint['number']}"
    epochs = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    for epoch in epochs:
        del epoch["seconds"], epoch["tokens_per_second"]
    kept = ("position", "begun", "best", "waited", "finished", "tokens", "wider")
    return {
        "model": (folder / MODEL).read_bytes(),
        "checkpoint": {name: checkpoint[name] for name in kept},
        "digests": checkpoint["digests"],
        "states": {path.name: path.read_bytes() for path in sorted(place.iterdir())},
        "epochs": epochs,
        "files": sorted(p.name for p in folder.iterdir() if p.name != place.name),
    }


def kill_and_resume(
    folder: Path, asked: RunSettings, most: dict[str, int], draw: Random, kills: int
) -> list[str]:
    """Train in a folder with up to so many kills; returns where the run was at each."""
    places = []
    for number in range(kills):
        way = draw.choice(WAYS)
        last = draw.randint(1, most[way] if way == "write" else most[way] * 2 // 3)
        every = 0.0 if draw.random() < 0.7 else 60.0

        def attempt(way: str = way, last: int = last, every: float = every) -> None:
            Counter(folder, last).train(asked, every, way)

        if not in_fork(attempt):
            break
        places.append(f"{way} {number}: {where(folder)}")
    assert in_fork(lambda: Counter(folder).train(asked, 60.0, "")) == 0
    return places


def killed(folder: Path, case: str, draw: Random, runs: int, kills: int) -> list[str]:
    """Where the runs of a case were when they were killed; each has ended as it should have."""
    folder.mkdir()
    corpus = folder / "words.txt"
    corpus.write_text("\n".join(WORDS * 2) + "\n")
    asked = settings_of(case, corpus)
    most = events_of(folder / "whole", asked)
    wanted = final(folder / "whole")
    places: list[str] = []
    for number in range(runs):
        run = folder / f"run-{number}"
        places += kill_and_resume(run, asked, most, draw, kills)
        ended = final(run)
        different = [name for name in wanted if wanted[name] != ended[name]]
        assert not different, f"{run}: {different} differ after {places}"
    return places


def main() -> None:
    """What the module's docstring says."""
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])  # imports much, once for all forks
    seed, runs, kills = map(int, sys.argv[2:5])
    places = {
        case: killed(Path(sys.argv[1]) / case, case, Random(f"{case} {seed}"), runs, kills)
        for case in sys.argv[5:]
    }
    print(json.dumps(places))


if __name__ == "__main__":
    main()
