"""Find out whether moments of strings determine a model's parameters."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli import Usage
from fgg.cli.declaring import add_declarations, with_declarations
from fgg.cli.output import print_diagnostics, print_json, write_whole
from fgg.cli.target import assignments, load_target, need_grammar, seed_number
from fgg.diagnostics import Diagnostic, GrammarError, as_json
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.compiler.loading import Loaded
    from fgg.identifying import Number, Position
    from fgg.runtime.identify.result import Identification
    from fgg.spans import Source
    from fgg.sweep_table import Entry

SUFFIXES = (".txt", ".csv", ".json", ".tex", ".svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc identify`."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a grammar file, FGG JSON, `-`, or a library grammar's name; several for a sweep",
    )
    parser.add_argument(
        "--set",
        metavar="SIZE=N",
        action="append",
        nargs="+",
        default=[],
        help="override a size of the grammar",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--query", metavar="NAME", help="join the model with this query")
    add_declarations(parser)
    parser.add_argument(
        "--length",
        metavar="L",
        action="append",
        nargs="+",
        default=[],
        help="how long strings are: `--length 4`, or `--length n=4 m=3`",
    )
    parser.add_argument(
        "--moments",
        metavar="PHI",
        action="append",
        nargs="+",
        default=[],
        help="the observation function: 12, **, 123, 123e1, ***, ***e1 or all (default: **); "
        "several for a sweep",
    )
    parser.add_argument(
        "--positions", metavar="I,J", help="keep these positions instead: `1,3`, or `x:1,y:2`"
    )
    parser.add_argument(
        "--direction",
        metavar="ETA",
        help="the direction of slices: `e2`, or a weight for each value, `0.5,0.25,1/4`",
    )
    parser.add_argument("--seed", type=seed_number, default=0, help="of the prime and the point")
    parser.add_argument(
        "--no-float", action="store_true", help="the exact rank alone, without float64"
    )
    parser.add_argument("--plot", metavar="PATH", help="draw the singular values (.svg)")
    parser.add_argument(
        "--sweep",
        metavar="RANGE",
        action="append",
        nargs="+",
        default=[],
        help="every point of ranges of sizes and lengths: `d=2..8 k=2..d L=2..9`",
    )
    parser.add_argument(
        "--results",
        metavar="PATH",
        help="keep the entries of a sweep in this file (.jsonl), and go on from what it has",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        action="append",
        default=[],
        help="write the table of a sweep: .txt, .csv, .json, .tex or .svg",
    )
    parser.add_argument(
        "--jobs", type=_jobs, metavar="N", help="processes of a sweep (default: one a core)"
    )


def _jobs(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError("a number from 1 to 1,024 is expected")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Print what is found; 0 if identifiable, 1 if not, 2 if the moments are not defined."""
    words = [word for group in arguments.sweep for word in group]
    moments = [
        name for group in arguments.moments for word in group for name in word.split(",") if name
    ]
    return _sweep(arguments, words, moments) if words else _single(arguments, moments)


def _grammar(arguments: argparse.Namespace, file: str) -> tuple[Grammar, Loaded]:
    arguments.file = file
    loaded = load_target(arguments)
    return with_declarations(need_grammar(loaded, quiet=arguments.json), arguments), loaded


@contextmanager
def _placed(source: Source | None) -> Iterator[None]:
    """Errors in this context show their places in the source."""
    try:
        yield
    except GrammarError as error:
        raise GrammarError(error.diagnostics, error.source or source) from None


def _single(arguments: argparse.Namespace, moments: Sequence[str]) -> int:
    for option, given in (("--results", arguments.results), ("-o", arguments.output)):
        if given:
            raise Usage(f"`{option}` is for sweeps", "add `--sweep d=2..8 L=2..9`")
    if len(arguments.files) > 1 or len(moments) > 1:
        raise Usage("one grammar and one observation function", "several are for `--sweep`")
    if arguments.positions and moments:
        raise Usage("`--positions` are kept instead of `--moments`: give one of them")
    if arguments.plot and arguments.no_float:
        raise Usage("`--plot` draws the singular values of float64", "leave out `--no-float`")
    length = read_length(arguments.length)
    if length is None:
        raise Usage("how long are the strings?", "`--length 4`")
    from fgg.identifying import identify, too_short

    grammar, loaded = _grammar(arguments, arguments.files[0])
    with _placed(loaded.source):
        found = identify(
            grammar,
            arguments.query,
            length=length,
            moments=moments[0] if moments else "**",
            positions=read_positions(arguments.positions),
            direction=read_direction(arguments.direction),
            seed=arguments.seed,
            second=not arguments.no_float,
        )
    notes = list(loaded.diagnostics)
    if found.verdict == "undefined":
        notes.append(too_short(found))
    if arguments.plot:
        _plot(Path(arguments.plot), found)
    if arguments.json:
        ok = found.verdict != "undefined"
        print_json({**found.as_json(), "ok": ok, "diagnostics": [as_json(d, None) for d in notes]})
    elif found.verdict == "undefined":
        print_diagnostics([notes[-1]], None)
    else:
        print("\n".join(found.lines()))
    return {"yes": 0, "no": 1}.get(found.verdict, 2)


def _plot(path: Path, found: Identification) -> None:
    from fgg.draw.charts import singular_svg

    if found.second is None:
        problem = "there are no singular values to draw: the Jacobian is too large for float64"
        raise GrammarError([Diagnostic(code="F412", message=problem)])
    title = f"{found.grammar}, {found.observed}"
    own = found.second
    text = singular_svg(title, own.singular_values, found.rank, own.tolerance)
    write_whole(path, text.encode())
    print(f"wrote {path}", file=sys.stderr)


def _sweep(arguments: argparse.Namespace, words: Sequence[str], moments: Sequence[str]) -> int:
    if arguments.positions or arguments.plot:
        raise Usage("`--positions` and `--plot` are not for sweeps")
    for path in arguments.output:
        if not path.endswith(SUFFIXES):
            raise Usage(f"`{path}`: tables are written as {', '.join(SUFFIXES)}")
    length = read_length(arguments.length)
    if isinstance(length, dict):
        raise Usage("a sweep has one length", "`--length 4`, or a range, `L=2..9`")
    from fgg.sweep_ranges import read_ranges
    from fgg.sweeping import FIGURE, sweep

    ranges = read_ranges(words)
    loaded = [_grammar(arguments, file) for file in arguments.files]
    grammars, sources = [own for own, _ in loaded], [own.source for _, own in loaded]
    with _placed(sources[0] if len(sources) == 1 else None), _shown(arguments.json) as progress:
        entries = sweep(
            grammars,
            ranges,
            moments=tuple(dict.fromkeys(moments)) or FIGURE,
            query=arguments.query,
            direction=read_direction(arguments.direction),
            length=length,
            seed=arguments.seed,
            jobs=arguments.jobs or os.cpu_count() or 1,
            results=Path(arguments.results) if arguments.results else None,
            progress=progress,
        )
    from fgg.sweep_table import as_json as table_json
    from fgg.sweep_table import as_text

    for path in arguments.output:
        write_whole(Path(path), _table(path, entries).encode())
        print(f"wrote {path}", file=sys.stderr)
    if arguments.json:
        print_json({"ok": True, **table_json(entries), "diagnostics": []})
    else:
        sys.stdout.write(as_text(entries))
    return 0


def _table(path: str, entries: Sequence[Entry]) -> str:
    """The table of a sweep in the form that a file's name asks for."""
    from fgg.draw.charts import sweep_svg
    from fgg.draw.errors import TooLarge
    from fgg.sweep_table import as_csv, as_latex, as_text, json_text

    forms: dict[str, Callable[[Sequence[Entry]], str]] = {
        ".txt": as_text,
        ".csv": as_csv,
        ".json": json_text,
        ".tex": as_latex,
        ".svg": sweep_svg,
    }
    try:
        return forms[Path(path).suffix](entries)
    except TooLarge as error:
        raise GrammarError([Diagnostic(code="F412", message=str(error))]) from None


def read_length(groups: Sequence[Sequence[str]]) -> int | dict[str, int] | None:
    """The length that `--length 4` or `--length n=4` gives."""
    words = [word for group in groups for word in group]
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        try:
            return int(words[0])
        except ValueError:
            raise Usage(f"`--length {words[0][:60]}`: a whole number is expected") from None
    return assignments(groups, "--length")


def read_positions(text: str | None) -> list[Position] | None:
    """The positions that `--positions 1,3` or `x:1,y:2` gives."""
    if text is None:
        return None
    found: list[Position] = []
    for part in text.split(","):
        name, colon, number = part.strip().rpartition(":")
        if not number.isdigit() or len(number) > 9 or (colon and not name):
            raise Usage(f"`--positions {text[:60]}`: positions are like `1,3` or `x:1,y:2`")
        found.append((name, int(number)) if colon else int(number))
    return found


def read_direction(text: str | None) -> list[Number] | int | None:
    """The direction that `--direction e2` or `--direction 0.5,1/2` gives."""
    if text is None:
        return None
    if text[:1] == "e" and text[1:].isdigit() and len(text) < 10:
        return int(text[1:])
    try:
        return [Fraction(part.strip()) for part in text.split(",")]
    except (ValueError, ZeroDivisionError):
        raise Usage(f"`--direction {text[:60]}`: like `e2`, or `0.5,0.25,1/4`") from None


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, if somebody is there to see it."""
    if quiet or sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("identifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("identifying", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
