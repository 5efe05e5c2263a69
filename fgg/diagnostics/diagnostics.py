"""Errors and warnings as values, and the one place that turns them into text."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NoReturn

from fgg.diagnostics.codes import CODES
from fgg.grammar.spans import Source, Span


@dataclass(frozen=True)
class Label:
    """A second place that a message points to, with a remark about it."""

    span: Span
    text: str


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One thing to say about a user's input: code, message, place, further places, help."""

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    labels: tuple[Label, ...] = ()
    help: str = ""

    def __post_init__(self) -> None:
        assert self.code in CODES, f"{self.code} is not in fgg.diagnostics.codes"

    @property
    def severity(self) -> str:
        """`error` or `warning`."""
        return CODES[self.code].severity

    @property
    def is_error(self) -> bool:
        """Whether this is an error, not a warning."""
        return self.severity == "error"


class GrammarError(Exception):
    """A grammar or its data has errors; `diagnostics` holds all of them."""

    def __init__(self, diagnostics: Iterable[Diagnostic], source: Source | None = None) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        super().__init__(render_all(self.diagnostics, source))


class GrammarWarning(UserWarning):
    """A warning about a grammar or a computation, with its `code` and its `diagnostic`."""

    def __init__(self, diagnostic: Diagnostic, source: Source | None = None) -> None:
        self.diagnostic = diagnostic
        self.code = diagnostic.code
        super().__init__(render(diagnostic, source))


def warn(diagnostic: Diagnostic, source: Source | None = None, *, stacklevel: int = 2) -> None:
    """Warn of a diagnostic as Python does; `stacklevel` is as in `warnings.warn`."""
    warnings.warn(GrammarWarning(diagnostic, source), stacklevel=stacklevel)


class InternalError(Exception):
    """A bug of fgg, not a mistake of the user's."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, torch or C++ says that memory is lacking."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


_NO_MEMORY = re.compile("(allocate|out of) memory|std::bad_alloc", re.IGNORECASE)


def refuse(
    code: str,
    message: str,
    help: str = "",
    *,
    span: Span | None = None,
    label: str = "",
    labels: Sequence[Label] = (),
) -> NoReturn:
    """Raise a GrammarError with one diagnostic.

    The exception that is being handled, if any, is not shown: the diagnostic says it all.
    """
    diagnostic = Diagnostic(
        code=code, message=message, span=span, label=label, labels=tuple(labels), help=help
    )
    raise GrammarError([diagnostic]) from None


@dataclass
class Report:
    """Collects the diagnostics of a stage, so that all of them come at once."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def add(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        label: str = "",
        *,
        labels: Sequence[Label] = (),
        help: str = "",
    ) -> None:
        """Record a diagnostic."""
        self.diagnostics.append(
            Diagnostic(
                code=code,
                message=message,
                span=span,
                label=label,
                labels=tuple(labels),
                help=help,
            )
        )

    @property
    def has_errors(self) -> bool:
        """Whether any diagnostic so far is an error."""
        return any(d.is_error for d in self.diagnostics)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A help text that proposes the nearest known name, or an empty one."""
    near = difflib.get_close_matches(name, list(islice(known, 100_000)), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Diagnostics in the order of their places, each once."""
    unique = dict.fromkeys(diagnostics)
    return tuple(
        sorted(unique, key=lambda d: (d.span is None, d.span.start if d.span else 0, d.code))
    )


def render_all(diagnostics: Iterable[Diagnostic], source: Source | None) -> str:
    """All diagnostics as text, separated by empty lines."""
    return "\n\n".join(render(d, source) for d in diagnostics)


def render(diagnostic: Diagnostic, source: Source | None) -> str:
    """One diagnostic as text: header, place, source lines with carets, help."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    if source is not None and diagnostic.span is not None:
        lines += _excerpt(diagnostic, diagnostic.span, source)
    elif source is not None:
        lines.append(f"  --> {source.name}")
    if diagnostic.help:
        first, *rest = diagnostic.help.split("\n")
        lines.append(f"   = help: {first}")
        lines += [f"           {line}" for line in rest]
    return "\n".join(map(_printable, lines))


def _printable(line: str) -> str:
    """A line without characters that a terminal would act upon."""
    if line.isprintable():
        return line
    return "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def _excerpt(diagnostic: Diagnostic, span: Span, source: Source) -> list[str]:
    first = source.at(span)
    line, column = first.position(span.start)
    marks = [(span, "^", diagnostic.label)]
    marks += [(label.span, "-", label.text) for label in diagnostic.labels]
    width = max(len(str(source.at(s).position(s.start)[0])) for s, _, _ in marks)
    lines = [f"{'':{width}}--> {first.name}:{line}:{column}", f"{'':{width}} |"]
    shown = first
    for mark_span, mark, text in marks:
        if source.at(mark_span) != shown:
            shown = source.at(mark_span)
            line, column = shown.position(mark_span.start)
            lines.append(f"{'':{width}}::: {shown.name}:{line}:{column}")
        lines += _marked_line(mark_span, mark, text, source, width)
    return lines


MAX_LINE = 120


def _marked_line(span: Span, mark: str, text: str, source: Source, width: int) -> list[str]:
    source = source.at(span)
    number, column = source.position(span.start)
    content = source.line(number)
    length = max(1, min(span.end - span.start, len(content) - column + 1))
    # A very long line is shown around the place only.
    start = max(0, column - 1 - MAX_LINE // 2) if len(content) > MAX_LINE else 0
    shown = content[start : start + MAX_LINE]
    length = min(length, MAX_LINE)
    offset = column - 1 - start
    shown = _printable(shown)
    pad = "".join("\t" if c == "\t" else " " for c in shown[:offset])
    pad += " " * (offset - len(pad))
    return [
        f"{number:>{width}} | {shown}".rstrip(),
        f"{'':{width}} | {pad}{mark * length} {text}".rstrip(),
    ]


def as_json(diagnostic: Diagnostic, source: Source | None) -> dict[str, object]:
    """A diagnostic as a JSON object."""

    def place(span: Span | None) -> dict[str, object] | None:
        if span is None or source is None:
            return None
        file = source.at(span)
        line, column = file.position(span.start)
        end_line, end_column = file.position(span.end)
        return {
            "file": file.name,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
        }

    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "place": place(diagnostic.span),
        "label": diagnostic.label,
        "labels": [{"place": place(item.span), "text": item.text} for item in diagnostic.labels],
        "help": diagnostic.help,
    }
