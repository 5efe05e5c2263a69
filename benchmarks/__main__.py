"""`fggc bench`, or `python -m benchmarks`: measure suites, print tables, draw ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks import overhead, train
from benchmarks.growth import growths
from benchmarks.measure import OURS, Point, Skipped, Suite, check_equal, interleaved, made
from benchmarks.memory import memory
from benchmarks.pictures import ratios_svg
from benchmarks.tables import Table, megabytes, milliseconds
from fgg.files import write_whole

COMPARED = ("hmm", "pcfg", "dependency", "rank_hmm", "rank_pcfg", "td_pcfg", "blocked_hmm")
SUITES = (*COMPARED, "train", "overhead")

Records = list[dict[str, Any]]


def compare(suite: Suite, repeats: int, records: Records, against: Sequence[str] = ()) -> Table:
    """Times of a suite at its points; results are compared before anything is timed.

    `against` names the peers that are wanted; without it, all are.
    """
    if against:
        makers = {n: m for n, m in suite.makers.items() if n == OURS or n in against}
        suite = replace(suite, makers=makers)
    columns = ["", "ms", "quartiles", "wall, ms", "time / ours", "quartiles"]
    measured: list[tuple[str, Point, float]] = []
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
            row = [f"{label}: {t.name}", milliseconds(t.median), spread, milliseconds(t.wall)]
            table.rows.append(row + (["", ""] if t.name == OURS else ratio))
            records.append({"suite": suite.name, "at": label, **point, **asdict(t)})
            measured.append((t.name, point, t.median))
        table.notes += [f"{label}: {note}" for note in notes]
        table.notes.append(f"{label}: values and gradients differ by at most {worst:.0e}")
        print(".", end="", file=sys.stderr, flush=True)
    for growth in growths(measured):
        if growth.name == OURS and growth.points > 1:
            text = f"our time grows as {growth.varied}^{growth.exponent:.2f}"
            table.notes.append(f"{text} ({growth.points} points)")
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


def commit() -> str:
    """The commit that is measured, if that can be told."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """What is measured, and on what."""
    return {
        "commit": commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="fggc bench", description=__doc__)
    add_arguments(found)
    return found


def add_arguments(found: argparse.ArgumentParser) -> None:
    """Add the options of `fggc bench`."""
    found.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    found.add_argument("--against", nargs="+", metavar="PEER", default=[], help="these peers only")
    found.add_argument("--repeats", type=int, default=5, help="rounds of calls (5)")
    found.add_argument("--no-memory", action="store_true", help="times only")
    found.add_argument("--json", type=Path, metavar="OUT", help="write all numbers to a file")
    found.add_argument("--plot", type=Path, metavar="OUT", help="draw the ratios (.svg)")


def run(options: argparse.Namespace) -> None:
    """Measure the suites that are asked for, and print them as they come."""
    wanted = options.suites or SUITES
    torch.set_num_threads(1)
    records: Records = []
    about = machine()
    print(", ".join(f"{name} {value}" for name, value in about.items()) + "; CPU time\n")
    for name in wanted:
        if name == "overhead":
            show(overheads(5 * options.repeats, records))
            continue
        if name == "train":
            show(train.training(options.repeats, records))
            continue
        suite: Suite = import_module(f"benchmarks.{name}").SUITE
        show(compare(suite, options.repeats, records, options.against))
        if not options.no_memory:
            show(remember(suite, records))
        if options.plot:
            picture = ratios_svg(suite.title, [r for r in records if r["suite"] == name])
            if picture:
                path = options.plot
                several = len(wanted) > 1
                target = path.with_name(f"{path.stem}-{name}{path.suffix}") if several else path
                write_whole(target, picture.encode())
    if options.json:
        data = {"about": about, "records": records}
        write_whole(options.json, json.dumps(data, indent=1).encode() + b"\n")


def main() -> None:
    """Measure as the command line says."""
    own = parser()
    options = own.parse_args()
    if unknown := [name for name in options.suites if name not in SUITES]:
        own.error(f"unknown suite {unknown[0]}; there are {', '.join(SUITES)}")
    run(options)


if __name__ == "__main__":
    main()
