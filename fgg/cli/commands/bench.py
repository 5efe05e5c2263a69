"""Measure compiled programs and compare them with other libraries, as `benchmarks/` does."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

from fgg.cli.arguments import Parser, Usage
from fgg.cli.output import check_writable
from fgg.diagnostics import did_you_mean
from fgg.files import read_limited, unreadable

ROOT = Path(__file__).resolve().parents[3]


def _suites() -> ModuleType:
    """Return the benchmarks of the checkout that this package is run from. Raises Usage."""
    # Beside an installed package there may be a folder `benchmarks` of somebody else.
    if not all((ROOT / name).exists() for name in ("pyproject.toml", "benchmarks/__main__.py")):
        raise Usage(
            "the benchmarks are not here: they are not part of the installed package",
            "run `fggc bench` from a checkout of the source",
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    import benchmarks.__main__ as suites

    return suites


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc bench`."""
    _suites().add_arguments(parser)


def _check_peers(benchmarks: ModuleType, arguments: argparse.Namespace) -> None:
    """Raise Usage if no suite has one of the peers."""
    suites = [
        name for name in arguments.suites or benchmarks.COMPARED if name in benchmarks.COMPARED
    ]
    known = dict.fromkeys(name for suite in suites for name in benchmarks.suite_of(suite).makers)
    for name in arguments.against:
        if name not in known:
            shown = ", ".join(f"`{peer}`" for peer in known)
            hint = did_you_mean(name, known) or f"there are {shown}"
            raise Usage(f"there is no peer `{name}`", hint)


def _check_device(arguments: argparse.Namespace) -> None:
    """Raise Usage or GrammarError (F437) if nothing can be measured on the device."""
    from fgg.runtime.devices import usable_device

    usable_device(arguments.device)
    others = [f"`{name}`" for name in arguments.suites if name != "gpu"]
    if arguments.device != "cpu" and others:
        raise Usage(
            f"{', '.join(others)} cannot be measured on `{arguments.device}`",
            "only the suite `gpu` can: its peers compute on the CPU",
        )


def _check_numbers(path: Path) -> None:
    """Raise Usage if `--json` has not written the file."""
    try:
        data = json.loads(read_limited(path))
        if all("suite" in record for record in data["records"]) and "about" in data:
            return
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, KeyError, TypeError):
        pass
    raise Usage(f"`{path}` has no numbers", "`fggc bench --json` writes such files")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print tables."""
    benchmarks = _suites()
    for name in arguments.suites:
        if name not in benchmarks.SUITES:
            known = ", ".join(benchmarks.SUITES)
            raise Usage(
                f"there is no suite `{name}`",
                did_you_mean(name, benchmarks.SUITES) or f"suites are {known}",
            )
    if arguments.repeats < 1:
        raise Usage("`--repeats` must be at least 1")
    if not arguments.budget > 0:
        raise Usage("`--budget` must be more than 0 seconds")
    _check_device(arguments)
    _check_peers(benchmarks, arguments)
    if arguments.source is not None:
        _check_numbers(arguments.source)
    for path in (arguments.json, arguments.plot, arguments.page):
        check_writable(path)
    if arguments.plot is not None and arguments.plot.suffix != ".svg":
        raise Usage("`--plot` writes .svg")
    if arguments.page is not None and arguments.page.suffix != ".md":
        raise Usage("`--page` writes .md")
    benchmarks.run(arguments)
    return 0
