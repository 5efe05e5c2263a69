"""Sweeps of `fggc identify`: tables over ranges of sizes and lengths."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli import Usage
from fgg.cli.commands.identify_options import read_direction, read_length
from fgg.cli.declaring import with_declarations
from fgg.cli.output import check_writable, placed, print_json, write_whole
from fgg.cli.target import load_target, need_grammar
from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.progress import stage

if TYPE_CHECKING:
    from fgg.api.sweep_table import Entry
    from fgg.compiler.resolve.load import Loaded

SUFFIXES = (".txt", ".csv", ".json", ".tex", ".svg")


def loaded_grammar(arguments: argparse.Namespace, file: str) -> tuple[Grammar, Loaded]:
    """A file of the command line, and the grammar with what options declare."""
    arguments.file = file
    loaded = load_target(arguments)
    return with_declarations(need_grammar(loaded, quiet=arguments.json), arguments), loaded


def run_sweep(arguments: argparse.Namespace, words: Sequence[str], moments: Sequence[str]) -> int:
    """Compute a sweep, print and write its table; the exit code."""
    if arguments.positions or arguments.plot:
        raise Usage("`--positions` and `--plot` are not for sweeps")
    for path in arguments.output:
        if not path.endswith(SUFFIXES):
            raise Usage(f"`{path}`: tables are written as {', '.join(SUFFIXES)}")
        check_writable(path)
    length = read_length(arguments.length)
    if isinstance(length, dict):
        raise Usage("a sweep has one length", "`--length 4`, or a range, `L=2..9`")
    from fgg.api.sweep import FIGURE, read_ranges, sweep

    ranges = read_ranges(words)
    loaded = [loaded_grammar(arguments, file) for file in arguments.files]
    grammars, sources = [own for own, _ in loaded], [own.source for _, own in loaded]
    with placed(sources[0] if len(sources) == 1 else None), stage("entry") as computed:
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
            progress=computed.update,
        )
    from fgg.api.sweep_table import as_json as table_json
    from fgg.api.sweep_table import as_text

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
