"""`python -m benchmarks [suite …] [--json OUT]`: measure, and print tables."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks import overhead, train
from benchmarks.measure import OURS, Point, Skipped, Suite, check_equal, interleaved, made
from benchmarks.memory import memory
from benchmarks.tables import Table, megabytes, milliseconds

COMPARED = ("hmm", "pcfg", "dependency", "rank_hmm", "rank_pcfg", "td_pcfg")
SUITES = (*COMPARED, "train", "overhead")

Records = list[dict[str, Any]]


def compare(suite: Suite, repeats: int, records: Records) -> Table:
    """Times of a suite at its points; results are compared before anything is timed."""
    columns = ["", "ms", "quartiles", "time / ours", "quartiles"]
    table = Table(title=suite.title, columns=columns)
    for point in suite.points:
        calls, notes = made(suite, point)
        worst = check_equal({name: call() for name, call in calls.items()})
        calls |= {name: maker(point) for name, maker in suite.limits.items()}
        timings = interleaved(calls, repeats)
        label = text_of(point)
        for t in timings:
            ratio = [f"{t.ratio:.2f}", f"{t.ratio_low:.2f} to {t.ratio_high:.2f}"]
            spread = f"{milliseconds(t.low)} to {milliseconds(t.high)}"
            row = [f"{label}: {t.name}", milliseconds(t.median), spread]
            table.rows.append(row + (["", ""] if t.name == OURS else ratio))
            records.append({"suite": suite.name, **point, **asdict(t)})
        table.notes += [f"{label}: {note}" for note in notes]
        table.notes.append(f"{label}: values and gradients differ by at most {worst:.0e}")
        print(".", end="", file=sys.stderr, flush=True)
    table.notes += [f"goal, {name}: {goal}" for name, goal in suite.goals.items()]
    return table


def remember(suite: Suite, records: Records) -> Table:
    """Memory of our own program and the hand-written ones, as lengths double."""
    columns = ["", "MB of tensors", "growth", "MB more resident"]
    table = Table(title=f"{suite.title}: peak memory", columns=columns)
    for name in (n for n in suite.makers if n in (OURS, *suite.goals) or n.startswith("by hand")):
        before = 0
        for point in suite.memory:
            try:
                found = memory(suite.name, name, point)
            except Skipped as reason:
                table.notes.append(f"{text_of(point)}: {name}: {reason}")
                continue
            growth = f"{found.allocated / before:.2f}" if before else ""
            before = found.allocated
            row = [megabytes(found.allocated), growth, megabytes(found.resident)]
            table.rows.append([f"{text_of(point)}: {name}", *row])
            records.append({"suite": suite.name, "kind": "memory", **point, **asdict(found)})
            print(".", end="", file=sys.stderr, flush=True)
    return table


def overheads(repeats: int, records: Records) -> Table:
    """Compile times, and calls on one item of a few tokens."""
    columns = ["", "compile, ms", "log Z, ms", "log Z and gradients, ms"]
    title = f"Overhead: at most {overhead.SIZE} states, n = {overhead.LENGTH}, batch 1"
    table = Table(title=title, columns=columns)
    slow = []
    for name, query in overhead.programs():
        found = overhead.overhead(name, query, repeats)
        if found is None:
            table.notes.append(f"{name}: has no schedule")
            continue
        times = [milliseconds(x) for x in (found.compiling, found.forward, found.both)]
        table.rows.append([found.name, *times])
        if found.compiling > overhead.COMPILE_GOAL or found.forward > overhead.CALL_GOAL:
            slow.append(found.name)
        records.append({"suite": "overhead", **asdict(found)})
        print(".", end="", file=sys.stderr, flush=True)
    table.notes.append("goals: compile below 1000 ms, log Z below 5 ms")
    table.notes.append(f"missed by: {', '.join(slow) or 'none'}")
    return table


def show(table: Table) -> None:
    """Print a table; the dots before it went to the error stream."""
    print("", file=sys.stderr)
    print(table.text(), flush=True)


def text_of(point: Point) -> str:
    """A point as text."""
    return ", ".join(f"{name} {value}" for name, value in point.items())


def main() -> None:
    """Measure the suites that are asked for, and print them as they come."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=", ".join(SUITES))
    parser.add_argument("--repeats", type=int, default=7, help="rounds of calls (7)")
    parser.add_argument("--no-memory", action="store_true", help="times only")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all numbers to a file")
    options = parser.parse_args()
    wanted = options.suites or SUITES
    if unknown := [name for name in wanted if name not in SUITES]:
        parser.error(f"unknown suite {unknown[0]}; there are {', '.join(SUITES)}")
    torch.set_num_threads(1)
    records: Records = []
    print(f"torch {torch.__version__}, {platform.machine()}, one thread, CPU time\n")
    for name in wanted:
        if name == "overhead":
            show(overheads(5 * options.repeats, records))
            continue
        if name == "train":
            show(train.training(options.repeats, records))
            continue
        suite: Suite = import_module(f"benchmarks.{name}").SUITE
        show(compare(suite, options.repeats, records))
        if not options.no_memory:
            show(remember(suite, records))
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
