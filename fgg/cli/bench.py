"""Measure compiled programs beside peers, as `benchmarks/` of the source does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType

from fgg.cli import Usage
from fgg.diagnostics import did_you_mean

ROOT = Path(__file__).resolve().parents[2]


def _suites() -> ModuleType:
    """The benchmarks of the checkout that this package is run from."""
    if not (ROOT / "benchmarks" / "__main__.py").exists():
        raise Usage(
            "the benchmarks are not here: they are no part of the installed package",
            "run `fggc bench` from a checkout of the source",
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    import benchmarks.__main__ as found

    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc bench`."""
    _suites().add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print tables."""
    found = _suites()
    for name in arguments.suites:
        if name not in found.SUITES:
            known = ", ".join(found.SUITES)
            raise Usage(
                f"there is no suite `{name}`",
                did_you_mean(name, found.SUITES) or f"suites are {known}",
            )
    if arguments.repeats < 1:
        raise Usage("`--repeats` is a number from 1 up")
    if not arguments.budget > 0:
        raise Usage("`--budget` is a number of seconds above 0")
    if arguments.source is not None and not arguments.source.is_file():
        raise Usage(f"there is no file `{arguments.source}`")
    for path in (arguments.json, arguments.plot, arguments.page):
        if path is not None and not path.resolve().parent.is_dir():
            raise Usage(f"there is no folder `{path.parent}`")
    if arguments.plot is not None and arguments.plot.suffix != ".svg":
        raise Usage("`--plot` writes .svg")
    if arguments.page is not None and arguments.page.suffix != ".md":
        raise Usage("`--page` writes .md")
    found.run(arguments)
    return 0
