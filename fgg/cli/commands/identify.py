"""Find out whether moments of strings determine a model's parameters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli import Usage
from fgg.cli.commands.identify_options import read_direction, read_length, read_positions
from fgg.cli.commands.identify_sweep import loaded_grammar, run_sweep
from fgg.cli.declaring import add_declarations
from fgg.cli.output import check_picture, placed, print_diagnostics, print_json, write_whole
from fgg.cli.target import seed_number
from fgg.diagnostics import as_json, refuse

if TYPE_CHECKING:
    from fgg.runtime.identify.result import Identification


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
    number = int(text) if text.isdecimal() and len(text) < 9 else 0
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError("a number from 1 to 1,024 is expected")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Print what is found; 0 if identifiable, 1 if not, 2 if the moments are not defined."""
    words = [word for group in arguments.sweep for word in group]
    moments = [
        name for group in arguments.moments for word in group for name in word.split(",") if name
    ]
    return run_sweep(arguments, words, moments) if words else _single(arguments, moments)


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
    check_picture(arguments.plot)
    if arguments.direction and not any("e1" in name for name in moments):
        raise Usage(
            "`--direction` is that of slices, and there are none",
            "`--moments 123e1` and `--moments ***e1` have them",
        )
    length = read_length(arguments.length)
    if length is None:
        raise Usage("how long are the strings?", "`--length 4`")
    from fgg.api.identify import identify, too_short

    grammar, loaded = loaded_grammar(arguments, arguments.files[0])
    with placed(loaded.source):
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
        refuse("F412", problem)
    title = f"{found.grammar}, {found.observed}"
    own = found.second
    text = singular_svg(title, own.singular_values, found.rank, own.tolerance)
    write_whole(path, text.encode())
    print(f"wrote {path}", file=sys.stderr)
