"""Find out whether moments of strings determine a model's parameters."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.cli.arguments import Parser, Usage, assignments, whole_number
from fgg.cli.options_model import (
    add_declarations,
    add_query,
    add_sizes,
    load_grammar,
    read_params,
)
from fgg.cli.output import (
    check_picture,
    check_writable,
    placed,
    print_diagnostics,
    print_json,
    print_report,
    write_whole,
)
from fgg.diagnostics import as_json, refuse
from fgg.grammar import Grammar
from fgg.progress import stage

if TYPE_CHECKING:
    from fgg.api.identify import Number, Position
    from fgg.api.sweep_table import Entry
    from fgg.compiler.resolve.load import Loaded
    from fgg.runtime.identify.result import Identification

TABLE_SUFFIXES = (".txt", ".csv", ".json", ".tex", ".svg")
_WEIGHT = re.compile(r"[+-]?[0-9./]{1,40}([eE][+-]?[0-9]{1,3})?")


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc identify`."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a grammar file, FGG JSON, `-`, or the name of a library grammar; several for a sweep",
    )
    add_sizes(parser)
    add_query(parser)
    add_declarations(parser)
    parser.repeated_values(
        "--length",
        "L",
        "the length of strings: `--length 4`, or `--length n=4 m=3`; `--length 2 3`: both jointly",
    )
    moments = (
        "the observation function: 12, **, 123, 123e1, ***, ***e1 or all (default: **); several "
        "for a sweep"
    )
    parser.repeated_values("--moments", "PHI", moments)
    parser.value("--positions", "I,J", "observe these positions instead: `1,3`, or `x:1,y:2`")
    parser.value(
        "--direction",
        "ETA",
        "the direction of slices: `e2`, or a weight for each value, `0.5,0.25,1/4`",
    )
    parser.seed("the seed of the prime and the point")
    parser.flag("--no-float", "compute the exact rank only, nothing in float64")
    parser.value("--plot", "PATH", "draw the singular values (.svg)")
    sweep = "make a table over ranges of sizes and lengths: `--sweep d=2..8 k=2..d L=2..9`"
    parser.repeated_values(
        "--free", "FACTOR", "factors with values that are parameters; their zeros stay zero"
    )
    parser.value("--params", "FILE", "ask about these weights alone (.safetensors)")
    parser.value(
        "--solutions",
        "N",
        "solve the moment equations of a random point from N starts, and count the solutions",
        type=whole_number(1, 10_000),
    )
    parser.value("--certificate", "PATH", "write a proof of the verdict that can be checked alone")
    parser.repeated_values("--sweep", "RANGE", sweep)
    parser.value(
        "--results",
        "PATH",
        "keep the entries of a sweep in this file (.jsonl), and compute only missing ones",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        action="append",
        default=[],
        help="draw moves that change no moment (.svg); or the table of a sweep: .txt, .csv, .json, "
        ".tex or .svg",
    )
    parser.value(
        "--jobs",
        "N",
        "the number of processes of a sweep (default: one for each core)",
        type=whole_number(1, 1024),
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; return 0 if identifiable, 1 if not, 2 if the moments are not defined."""
    words = [word for group in arguments.sweep for word in group]
    moments = [
        name for group in arguments.moments for word in group for name in word.split(",") if name
    ]
    return _sweep(arguments, words, moments) if words else _single(arguments, moments)


def _single(arguments: argparse.Namespace, moments: Sequence[str]) -> int:
    if arguments.results:
        raise Usage("`--results` is for sweeps", "add `--sweep d=2..8 L=2..9`")
    for path in arguments.output:
        if Path(path).suffix != ".svg" or arguments.no_float:
            help = "`-o moves.svg` draws them, but not with `--no-float`; tables are for sweeps"
            raise Usage("moves along null directions are drawn as .svg", help)
        check_writable(path)
    if len(arguments.files) > 1 or len(moments) > 1:
        raise Usage("only sweeps take several grammars or moments", "add `--sweep d=2..8 L=2..9`")
    if arguments.positions and moments:
        raise Usage("`--positions` stand in place of `--moments`: give one of them")
    if arguments.plot and arguments.no_float:
        raise Usage("`--plot` draws the singular values of float64", "leave out `--no-float`")
    check_picture(arguments.plot)
    if arguments.certificate:
        check_writable(arguments.certificate)
    if arguments.direction and not any("e1" in name for name in moments):
        raise Usage(
            "`--direction` is for slices, but these moments have none",
            "`--moments 123e1` and `--moments ***e1` have slices",
        )
    length = _length(arguments.length)
    if length is None:
        raise Usage("how long are the strings?", "`--length 4`")
    from fgg.api.identify import identify, too_short

    grammar, loaded = _load(arguments, arguments.files[0])
    with placed(loaded.source):
        result = identify(
            grammar,
            arguments.query,
            length=length,
            moments=moments[0] if moments else "**",
            positions=_positions(arguments.positions),
            direction=_direction(arguments.direction),
            free=[name for group in arguments.free for name in group],
            weights=_weights(arguments.params),
            seed=arguments.seed,
            second=not arguments.no_float,
        )
    notes = list(loaded.diagnostics)
    if result.verdict == "undefined":
        notes.append(too_short(result))
    solutions = None
    if arguments.solutions and result.question is not None and result.rank is not None:
        from fgg.runtime.identify.solutions import solutions_of

        solutions = solutions_of(result.question, result.rank, arguments.solutions)
    if arguments.plot:
        _plot(Path(arguments.plot), result)
    for path in arguments.output:
        _draw(Path(path), result)
    if arguments.certificate:
        _certify(Path(arguments.certificate), result)
    if arguments.json:
        ok = result.verdict != "undefined"
        data = {**result.as_json(), "ok": ok}
        if arguments.solutions:
            data["solutions"] = None if solutions is None else solutions.as_json()
        print_json({**data, "diagnostics": [as_json(d, None) for d in notes]})
    elif result.verdict == "undefined":
        print_diagnostics([notes[-1]], None)
    else:
        print("\n".join([*result.lines(), *(solutions.lines() if solutions else ())]))
    return {"yes": 0, "no": 1}.get(result.verdict, 2)


def _weights(path: str | None) -> dict[str, Any] | None:
    """The weights that the question is about, as arrays; None if it is about almost all."""
    import numpy as np

    return {n: np.asarray(w) for n, w in read_params(path).items()} if path else None


def _plot(path: Path, result: Identification) -> None:
    from fgg.draw.charts import singular_svg

    if result.second is None:
        message = "there are no singular values to draw: the Jacobian is too large for float64"
        refuse("F412", message)
    title = f"{result.grammar}, {result.observed}"
    second = result.second
    text = singular_svg(title, second.singular_values, result.rank, second.tolerance)
    write_whole(path, text.encode())
    print(f"wrote {path}", file=sys.stderr)


def _draw(path: Path, result: Identification) -> None:
    """Draw the finite moves along null directions."""
    from fgg.draw.charts import moves_svg

    moves = [(i, move) for i, move in enumerate(result.moves, 1) if move is not None]
    if not moves:
        if result.verdict == "yes":
            refuse("F412", "there is no move to draw: the moments determine the parameters")
        refuse("F412", "there is no move to draw: none was found, or the model is too large")
    title = f"{result.grammar}: {len(moves)} moves that leave the moments {result.observed} alone"
    if len(moves) == 1:
        title = f"{result.grammar}: a move that leaves the moments {result.observed} alone"
    notes = [f"direction {i}: moments differ by {move.difference:.0e} at most" for i, move in moves]
    text = moves_svg(title, notes, [(move.before, move.after) for _, move in moves])
    write_whole(path, text.encode())
    print(f"wrote {path}", file=sys.stderr)


def _certify(path: Path, result: Identification) -> None:
    from fgg.api.certificate import certificate_of

    write_whole(path, (json.dumps(certificate_of(result)) + "\n").encode())
    print(f"wrote {path}", file=sys.stderr)


def _load(arguments: argparse.Namespace, file: str) -> tuple[Grammar, Loaded]:
    """Load a file; return its grammar with merges and ranks, and the file as it was loaded."""
    arguments.file = file
    return load_grammar(arguments)


def _sweep(arguments: argparse.Namespace, words: Sequence[str], moments: Sequence[str]) -> int:
    """Compute a sweep, print and write its table, and return the exit code."""
    if arguments.free or arguments.params:
        raise Usage("`--free` and `--params` are not for sweeps")
    if arguments.positions or arguments.plot or arguments.certificate or arguments.solutions:
        options = "`--positions`, `--plot`, `--certificate` and `--solutions`"
        raise Usage(f"{options} are not for sweeps")
    for path in arguments.output:
        if not path.endswith(TABLE_SUFFIXES):
            raise Usage(f"`{path}`: tables are written as {', '.join(TABLE_SUFFIXES)}")
        check_writable(path)
    length = _length(arguments.length)
    if isinstance(length, dict | list):
        raise Usage("a sweep has one length", "`--length 4`, or a range, `L=2..9`")
    from fgg.api.sweep import FIGURE, read_ranges, sweep

    ranges = read_ranges(words)
    targets = [_load(arguments, file) for file in arguments.files]
    grammars, sources = [grammar for grammar, _ in targets], [file.source for _, file in targets]
    with placed(sources[0] if len(sources) == 1 else None), stage("entry") as computed:
        entries = sweep(
            grammars,
            ranges,
            moments=tuple(dict.fromkeys(moments)) or FIGURE,
            query=arguments.query,
            direction=_direction(arguments.direction),
            length=length,
            seed=arguments.seed,
            jobs=arguments.jobs or os.cpu_count() or 1,
            results=Path(arguments.results) if arguments.results else None,
            progress=computed.update,
        )
    from fgg.api.sweep_table import as_json as table_json
    from fgg.api.sweep_table import as_text

    for path in arguments.output:
        write_whole(Path(path), _table(path, entries).encode())
        print(f"wrote {path}", file=sys.stderr)
    if arguments.json:
        print_report(table_json(entries))
    else:
        sys.stdout.write(as_text(entries))
    return 0


def _table(path: str, entries: Sequence[Entry]) -> str:
    """Return the table of a sweep in the format of a file's ending."""
    from fgg.api.sweep_table import as_csv, as_latex, as_text, json_text
    from fgg.draw import TooLarge
    from fgg.draw.charts import sweep_svg

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
        refuse("F412", str(error))


def _length(groups: Sequence[Sequence[str]]) -> int | dict[str, int] | list[int] | None:
    """Return the length that `--length 4`, `--length n=4` or `--length 2 3` gives. Raises Usage."""
    words = [word for group in groups for word in group]
    if not words:
        return None
    if any("=" in word for word in words):
        return assignments(groups, "--length")
    try:
        lengths = [int(word) for word in words]
    except ValueError:
        raise Usage(f"`--length {' '.join(words)[:60]}`: whole numbers are expected") from None
    return lengths if len(lengths) > 1 else lengths[0]


def _positions(text: str | None) -> list[Position] | None:
    """Return the positions that `--positions 1,3` or `x:1,y:2` gives. Raises Usage."""
    if text is None:
        return None
    positions: list[Position] = []
    for part in text.split(","):
        name, colon, number = part.strip().rpartition(":")
        if not re.fullmatch("[0-9]{1,9}", number) or (colon and not name):
            raise Usage(f"`--positions {text[:60]}`: positions are like `1,3` or `x:1,y:2`")
        positions.append((name, int(number)) if colon else int(number))
    return positions


def _direction(text: str | None) -> list[Number] | int | None:
    """Return the direction that `--direction e2` or `0.5,1/2` gives. Raises Usage."""
    if text is None:
        return None
    if re.fullmatch("e[0-9]{1,9}", text):
        return int(text[1:])
    parts = [part.strip() for part in text.split(",")]
    try:
        # Fraction would write a long exponent out, digit by digit.
        if not all(_WEIGHT.fullmatch(part) for part in parts):
            raise ValueError
        return [Fraction(part) for part in parts]
    except (ValueError, ZeroDivisionError):
        raise Usage(
            f"`--direction {text[:60]}`: a direction is like `e2` or `0.5,0.25,1/4`"
        ) from None
