"""`fggc bench`, or `python -m benchmarks`: measure suites, print tables, draw, write the page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu, overhead, report
from benchmarks.machine import about
from benchmarks.measure import Goal, Suite
from benchmarks.page import write_page
from benchmarks.pictures import ratios_svg
from benchmarks.report import Record
from benchmarks.running import Effort, Progress, measured, overheads
from benchmarks.tables import Table
from fgg.files import write_whole

COMPARED = (
    "hmm",
    "pcfg",
    "dependency",
    "rank_hmm",
    "rank_pcfg",
    "td_pcfg",
    "lhmm",
    "blocked_hmm",
    "solve",
    "identify",
    "train",
    "certificate",
)
SUITES = (*COMPARED, "overhead", gpu.NAME)


def suite_of(name: str) -> Suite:
    """A suite by its name."""
    found: Suite = import_module(f"benchmarks.{name}").SUITE
    return found


def tables_of(name: str, records: Sequence[Record]) -> list[Table]:
    """The tables of a suite: times, memory, goals."""
    made: list[Table | None]
    if name == gpu.NAME:
        return gpu.tables(records)
    if name == "overhead":
        made = [report.overheads(records, overhead.TITLE)]
    else:
        made = [report.times(suite_of(name).title, records), report.memory(records)]
    made.append(report.goals(goals_of(name), records))
    return [table for table in made if table is not None]


def add_arguments(found: argparse.ArgumentParser) -> None:
    """Add the options of `fggc bench`."""
    default = Effort()
    found.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    found.add_argument(
        "--against", nargs="+", metavar="PEER", default=[], help="compare with these only"
    )
    found.add_argument(
        "--repeats",
        type=int,
        default=default.repeats,
        help="at most so many rounds of calls (default: %(default)s)",
    )
    found.add_argument(
        "--budget",
        type=float,
        default=default.budget,
        metavar="SECONDS",
        help="time for a suite, and as much again for its memory; slow programs are called in "
        "fewer rounds (default: %(default)s)",
    )
    found.add_argument("--all", action="store_true", help="measure slow points, too")
    found.add_argument(
        "--device",
        default="cpu",
        help="where to measure: cpu, or cuda for the times of the suite `gpu` on a GPU",
    )
    found.add_argument("--no-memory", action="store_true", help="measure time only")
    found.add_argument("--json", type=Path, metavar="OUT", help="write all numbers to a file")
    found.add_argument("--plot", type=Path, metavar="OUT", help="draw the ratios (.svg)")
    found.add_argument("--page", type=Path, metavar="OUT", help="write a page with plots (.md)")
    found.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="IN",
        help="measure nothing; read the numbers that --json wrote",
    )


def run(options: argparse.Namespace) -> None:
    """Measure the suites that are asked for, and print them as they come."""
    if options.source:
        data = json.loads(options.source.read_text("utf-8"))
        kept = [r for r in data["records"] if not options.suites or r["suite"] in options.suites]
        data["records"] = kept
        for name in dict.fromkeys(r["suite"] for r in kept):
            show(tables_of(name, [r for r in kept if r["suite"] == name]))
    else:
        data = measure(options)
    if options.plot:
        draw(options.plot, data["records"])
    if options.json:
        write_whole(options.json, json.dumps(data, indent=1).encode() + b"\n")
    if options.page:
        write_page(options.page, data, tables_of, goals_of)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All numbers, and what they were measured on."""
    on_gpu = options.device != "cpu"
    wanted = options.suites or ((gpu.NAME,) if on_gpu else SUITES)
    torch.set_num_threads(1)
    effort = Effort(
        repeats=options.repeats,
        budget=options.budget,
        every=options.all,
        memory=not options.no_memory,
        against=options.against,
    )
    machine = about(options.device)
    clock = "wall-clock time" if on_gpu else "CPU time"
    print(", ".join(f"{name} {value}" for name, value in machine.items()) + f"; {clock}\n")
    progress = Progress(len(wanted), effort.budget)
    records: list[Record] = []
    for name in wanted:
        if name == "overhead":
            found = list(overheads(effort, progress))
        elif name == gpu.NAME:
            found = [dict(record) for record in gpu.counts()]
            if on_gpu:
                times = gpu.measurements(torch.device(options.device), effort.repeats)
                found += [dict(record) for record in times]
        else:
            found = list(measured(suite_of(name), effort, progress))
        show(tables_of(name, found))
        records += found
        progress.done += 1
    return {"about": machine, "effort": vars(effort), "records": records}


def goals_of(name: str) -> Sequence[Goal]:
    """The goals of a suite; those of counts are tests."""
    if name == gpu.NAME:
        return ()
    return overhead.GOALS if name == "overhead" else suite_of(name).goals


def draw(path: Path, records: Sequence[Record]) -> None:
    """Draw the ratios of each suite, each to a file of its own if there are several."""
    names = [name for name in dict.fromkeys(r["suite"] for r in records) if name in COMPARED]
    for name in names:
        picture = ratios_svg(suite_of(name).title, [r for r in records if r["suite"] == name])
        if picture:
            several = len(names) > 1
            target = path.with_name(f"{path.stem}-{name}{path.suffix}") if several else path
            write_whole(target, picture.encode())


def show(tables: Sequence[Table]) -> None:
    """Print tables."""
    for table in tables:
        print(table.text(), flush=True)


def main() -> None:
    """Measure as the command line says."""
    own = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add_arguments(own)
    options = own.parse_args()
    if unknown := [name for name in options.suites if name not in SUITES]:
        own.error(f"unknown suite {unknown[0]}; there are {', '.join(SUITES)}")
    run(options)


if __name__ == "__main__":
    main()
