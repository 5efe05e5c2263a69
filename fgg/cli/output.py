"""Printing diagnostics and JSON reports, exit codes, and writing files."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.cli.arguments import Usage
from fgg.cli.terminal import painted_diagnostic
from fgg.diagnostics import Diagnostic, GrammarError, as_json, refuse, render
from fgg.files import check_writable as check_writable
from fgg.files import write_whole as write_whole
from fgg.grammar.spans import Source

if TYPE_CHECKING:
    import numpy as np

Figures = dict[str, Any]
"""The report of a command, by name, in a form that JSON can express."""

MAX_SHOWN = 100
WRONG_GRAMMAR = ("F0", "F1", "F2", "F405", "F406", "F407", "F425", "F46")
"""How the codes begin that say that a grammar, not the command or a file, is wrong."""


def check_picture(path: str | None) -> None:
    """Raise Usage or GrammarError if a plot cannot be written, before any work is done."""
    if path is not None and Path(path).suffix != ".svg":
        raise Usage(f"`--plot {path}`: plots are written as .svg")
    check_writable(path)


def exit_code(diagnostics: Iterable[Diagnostic]) -> int:
    """Return 0 without errors, 1 if a grammar is wrong, 2 if only the command or a file is."""
    errors = [d for d in diagnostics if d.is_error]
    if not errors:
        return 0
    return 1 if any(d.code.startswith(WRONG_GRAMMAR) for d in errors) else 2


def print_diagnostics(diagnostics: Iterable[Diagnostic], source: Source | None) -> None:
    """Write diagnostics to standard error as text, at most `MAX_SHOWN` of them."""
    listed = list(diagnostics)
    for diagnostic in listed[:MAX_SHOWN]:
        text = painted_diagnostic(render(diagnostic, source), sys.stderr)
        print(text, end="\n\n", file=sys.stderr)
    if len(listed) > MAX_SHOWN:
        print(f"and {len(listed) - MAX_SHOWN:,} more\n", file=sys.stderr)


@contextmanager
def placed(source: Source | None) -> Iterator[None]:
    """Make errors in this context show their places in the source."""
    try:
        yield
    except GrammarError as error:
        raise GrammarError(error.diagnostics, error.source or source) from None


def print_json(value: object) -> None:
    """Write one JSON object to standard output."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    print()


def print_report(
    figures: Figures, notes: Iterable[Diagnostic] = (), source: Source | None = None
) -> None:
    """Write the JSON report of a command that succeeded."""
    listed = [as_json(note, source) for note in notes]
    print_json({"ok": True, **figures, "diagnostics": listed})


def write_weights(path: str, weights: Mapping[str, np.ndarray]) -> None:
    """Write weights by name as a safetensors file. Raises GrammarError."""
    import numpy as np
    from safetensors.numpy import save

    try:
        data = save({name: np.ascontiguousarray(array) for name, array in weights.items()})
    except Exception:
        refuse("F413", "the weights cannot be written as a safetensors file")
    write_whole(Path(path), data)


def report_failure(error: GrammarError, wants_json: bool) -> int:
    """Report the diagnostics of an error and return the exit code."""
    if wants_json:
        items = [as_json(d, error.source) for d in error.diagnostics]
        print_json({"ok": False, "diagnostics": items})
    else:
        print_diagnostics(error.diagnostics, error.source)
    return exit_code(error.diagnostics) or 2


def fail_usage(message: str, help: str, wants_json: bool) -> int:
    """Report a wrong command line and return the exit code."""
    problem = Diagnostic(code="F415", message=message, help=help)
    return report_failure(GrammarError([problem]), wants_json)


def fail_memory(wants_json: bool) -> int:
    """Report that a computation found no memory, and return the exit code."""
    message = "this needs more memory than there is"
    help = "use smaller sizes, smaller batches or shorter inputs"
    problem = Diagnostic(code="F420", message=message, help=help)
    return report_failure(GrammarError([problem]), wants_json)


def fail_internal(error: BaseException, wants_json: bool) -> int:
    """Report a bug in fggc with the place in its source, and return the exit code."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    message = f"{type(error).__name__}: {error} ({where})"
    if wants_json:
        print_json({"ok": False, "bug": message, "diagnostics": []})
    else:
        print(f"this is a bug in fggc, not in your input\n  {message}", file=sys.stderr)
        print("please report it together with the input", file=sys.stderr)
    return 3
