"""The options that draw, and writing pictures to files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage
from fgg.cli.output import check_writable, write_whole
from fgg.diagnostics import refuse

if TYPE_CHECKING:
    from fgg.draw.picture import Picture
    from fgg.runtime.derive.derivation import Derivation

KINDS = ("auto", "dependencies", "pairs", "constituents", "tags", "segments", "rules")
MAX_FILES = 100


def add_picture(parser: Parser, what: str) -> None:
    """Add `-o PATH`."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help=f"draw {what}; the ending says how: .svg, .png, .pdf, .tex",
    )


def add_derivation_picture(parser: Parser, what: str) -> None:
    """Add `-o PATH` and `--as KIND`, the kind of picture of a derivation."""
    add_picture(parser, what)
    parser.add_argument(
        "--as",
        dest="kind",
        choices=KINDS,
        default="auto",
        help="what to draw; auto goes by the shape of the indices",
    )


def check_picture(path: str | None) -> None:
    """Raise Usage or GrammarError if a picture cannot be written, before any work is done."""
    from fgg.draw import ENDINGS

    if path is None:
        return
    known = [ending for ending, format in ENDINGS.items() if format != "dot"]
    if Path(path).suffix not in known:
        ending = Path(path).suffix
        message = f"`{path}`: the ending `{ending}` is not a picture format"
        raise Usage(
            message if ending else f"`{path}` has no ending", f"endings are {', '.join(known)}"
        )
    check_writable(path)


def write_picture(path: str | Path, draw: Callable[[], Picture], help: str = "") -> None:
    """Draw a picture and write it. Raises GrammarError (F412, F413)."""
    from fgg.draw import MissingExtra, TooLarge, format_of, render

    try:
        data = render(draw(), format_of(path))
    except (MissingExtra, TooLarge) as error:
        refuse("F412", str(error), help)
    write_whole(Path(path), data)
    print(f"wrote {path}", file=sys.stderr)


def draw_derivations(derivations: Sequence[Derivation], arguments: argparse.Namespace) -> None:
    """Draw derivations to `-o PATH`, if it is given; several go to `PATH-1`, `PATH-2`, …."""
    if arguments.output is None:
        return
    path = Path(arguments.output)
    if len(derivations) > MAX_FILES:
        refuse("F412", f"there are {len(derivations):,} derivations to draw; at most {MAX_FILES}")
    for number, derivation in enumerate(derivations, 1):
        name = path if len(derivations) == 1 else path.with_stem(f"{path.stem}-{number}")
        write_picture(name, partial(derivation.draw, arguments.kind))
