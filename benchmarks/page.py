"""The page of results: tables, plots, goals, and where we lose, from records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.goals import verdicts
from benchmarks.measure import Goal
from benchmarks.pictures import memory_svg, ratios_svg
from benchmarks.report import shared, text_of
from benchmarks.tables import Table
from fgg.files import write_whole
from fgg.plan.backend import CPP

Record = Mapping[str, Any]
Tables = Callable[[str, Sequence[Record]], list[Table]]
Goals = Callable[[str], Iterable[Goal]]

INTRODUCTION = """# Performance

Written by `fggc bench --page docs/performance.md`; do not edit. Suites, peers and protocol are
described in `benchmarks/README.md`.

{about}

Each row gives our CPU time (median and quartiles), our wall-clock time, and for every peer *their
time / ours*, the median over rounds with quartiles: **above 1 we are faster**. The column *cpp* is
the time of our program as machine code (`backend="cpp"`), divided by its time as tensor operations
(`backend="torch"`), which the other columns use; goals are checked for both. Columns with *alone*
are lower limits: the time of work that no program can avoid, divided by ours. Before any timing,
all results were checked to agree.
"""
LOSSES = """## Where we lose

Every peer that was faster or used less memory, and every goal that was missed.
"""
NONE = "Nowhere, in this run."


def write_page(path: Path, data: Mapping[str, Any], tables: Tables, goals: Goals) -> None:
    """Write a page, and its plots to a folder of its name beside it."""
    folder = path.with_suffix("")
    text, pictures = page(data, tables, goals, folder.name)
    if pictures:
        folder.mkdir(exist_ok=True)
    for name, picture in pictures.items():
        write_whole(folder / name, picture.encode())
    write_whole(path, text.encode())


def page(
    data: Mapping[str, Any], tables: Tables, goals: Goals, folder: str
) -> tuple[str, dict[str, str]]:
    """The text of a page and the plots that it shows, by file name."""
    lines = [f"- {name}: {value}" for name, value in data["about"].items()]
    if effort := data.get("effort"):
        lines.append(f"- rounds: at most {effort['repeats']}, {effort['budget']:.0f} s a suite")
    about = "\n".join(lines)
    parts = [INTRODUCTION.format(about=about)]
    pictures: dict[str, str] = {}
    by_suite: dict[str, list[Record]] = {}
    for record in data["records"]:
        by_suite.setdefault(record["suite"], []).append(record)
    lost: list[str] = []
    for name, records in by_suite.items():
        first, *rest = tables(name, records)
        parts.append(f"## {first.title} (`{name}`)\n\n{first.body()}")
        for kind, draw in (("ratios", ratios_svg), ("memory", memory_svg)):
            picture = draw(first.title, records)
            if picture is not None:
                file = f"{name}-{kind}.svg"
                pictures[file] = picture
                parts.append(f"![{kind} of {name}]({folder}/{file})\n")
        parts += [table.text() for table in rest]
        lost += losses(name, records, goals(name))
    parts.append(LOSSES)
    parts.append("\n".join(lost or [NONE]) + "\n")
    return "\n".join(parts), pictures


def losses(name: str, records: Sequence[Record], goals: Iterable[Goal]) -> list[str]:
    """Where a suite shows others ahead of us, peer by peer, and the goals that it misses."""
    common = shared(r["point"] for r in records if "median" in r)
    ours = {r["at"]: r["allocated"] for r in records if "allocated" in r and r["role"] == "ours"}
    fast = {r["at"]: r["ratio"] for r in records if r["name"] == CPP and "ratio" in r}
    lean = {r["at"]: r["allocated"] for r in records if r["name"] == CPP and "allocated" in r}
    faster: dict[str, list[str]] = {}
    leaner: dict[str, list[str]] = {}
    for r in (r for r in records if r["role"] == "peer"):
        at = text_of(r["point"], common)
        if "median" in r and r["ratio"] < 1:
            text = f"{r['ratio']:.2f} of our time at {at}"
            if r["at"] in fast:
                text += f" (with cpp {r['ratio'] / fast[r['at']]:.2f})"
            faster.setdefault(r["name"], []).append(text)
        if "allocated" in r and r["allocated"] < ours.get(r["at"], 0):
            text = f"{r['allocated'] / ours[r['at']]:.2f} of our memory at {at}"
            if r["at"] in lean:
                text += f" (with cpp {r['allocated'] / lean[r['at']]:.2f})"
            leaner.setdefault(r["name"], []).append(text)
    found = [f"- `{name}`: {who} takes {'; '.join(at)}" for who, at in faster.items()]
    found += [f"- `{name}`: {who} takes {'; '.join(at)}" for who, at in leaner.items()]
    wanted = list(goals)
    other = {(v.at, v.goal): v for v in verdicts(wanted, records, CPP)}
    for v in verdicts(wanted, records):
        if not v.met:
            text = f"- `{name}`: goal missed at {v.at}: {v.goal}; it is {v.measured}"
            cpp = other.get((v.at, v.goal))
            if cpp is not None:
                text += f", with cpp {cpp.measured}: {'met' if cpp.met else 'missed too'}"
            found.append(text)
    return found
