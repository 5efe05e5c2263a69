"""What the examples share: their options, and results as a table, JSON and a plot."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from examples.kept_runs import KeptRuns
from fgg.draw.plot import Plot, to_svg

RESULTS = Path(__file__).parent / "results"
RUNS = Path(__file__).parent.parent / "build" / "runs"


@dataclass
class Report:
    """A table with what it is of, and all that was measured."""

    name: str
    title: str
    command: str
    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    plot: Plot | None = None
    seconds: float = 0.0

    def add(self, *cells: object) -> None:
        """One more row."""
        self.rows.append([shown(cell) for cell in cells])

    def text(self) -> str:
        """The report as markdown."""
        numeric = ["---"] + ["--:"] * (len(self.columns) - 1)
        lines = [f"# {self.title}", "", f"`{self.command}`", ""]
        lines += [_row(self.columns), "|" + "|".join(numeric) + "|", *map(_row, self.rows), ""]
        lines += [f"- {note}" for note in self.notes]
        lines.append(f"- {self.seconds:.0f} s of CPU time, one thread, torch {torch.__version__}")
        return "\n".join(lines) + "\n"

    def save(self, folder: Path) -> None:
        """Write table, numbers and plot."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.md").write_text(self.text(), encoding="utf-8")
        data = {k: v for k, v in asdict(self).items() if k != "plot"}
        data["machine"] = platform.machine()
        text = json.dumps(data, indent=1, ensure_ascii=False)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")
        if self.plot is not None:
            (folder / f"{self.name}.svg").write_text(to_svg(self.plot), encoding="utf-8")


def shown(cell: object) -> str:
    """A cell of a table as text."""
    if isinstance(cell, float):
        return f"{cell:.3f}" if abs(cell) < 10 else f"{cell:.1f}"
    return str(cell)


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f}"


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """The mean of several runs, and how far they lie apart."""
    mean = sum(values) / len(values)
    deviation = (sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)) ** 0.5
    return f"{mean:{form}} ± {deviation:{form}}" if len(values) > 1 else f"{mean:{form}}"


def mean(values: Sequence[float]) -> float:
    """The mean of numbers; 0 of none."""
    return sum(values) / max(len(values), 1)


def claim(text: str, holds: bool) -> str:
    """A claim of a paper and its verdict."""
    return f'"{text}": {"supported" if holds else "refuted"}'


def command(module: str, arguments: Sequence[str] | None) -> str:
    """The command that makes a report: all options but those of where things are kept."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("--out", "--runs"):
        if name in given:
            at = given.index(name)
            del given[at : at + 2]
    return " ".join([f"python -m {module}", *given])


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that all examples have."""
    found = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    found.add_argument("--small", action="store_true", help="a few items, to see that it works")
    found.add_argument("--out", type=Path, help=f"a folder for the results ({RESULTS.name}/)")
    found.add_argument(
        "--runs", type=Path, help=f"a folder for runs that are done (build/{RUNS.name}/)"
    )
    return found


def kept_runs(options: argparse.Namespace, name: str) -> KeptRuns:
    """The runs of an experiment that are done already; those of a small one are not kept."""
    folder = options.runs or (None if options.small else RUNS / name)
    return KeptRuns(folder)


def finish(report: Report, options: argparse.Namespace) -> Report:
    """Print a report and keep it: in its folder, or nowhere if the run was a small one.

    Its seconds are those of this process, or those that kept runs took, if these are more.
    """
    report.seconds = max(report.seconds, time.process_time())
    print(report.text())
    folder = options.out or (None if options.small else RESULTS)
    if folder is not None:
        report.save(folder)
    return report


def say(*words: object) -> None:
    """Tell how it goes, beside the results."""
    print(*words, file=sys.stderr, flush=True)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
