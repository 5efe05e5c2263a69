"""The front end: text -> syntax tree -> Grammar, with everything that is wrong reported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fgg.check.grammar import check_grammar
from fgg.check.values import check_values
from fgg.compiler.resolve.resolve import resolve
from fgg.compiler.syntax.parse import parse
from fgg.compiler.syntax.value_spans import ValueSpans
from fgg.diagnostics import Diagnostic, Report, sort_diagnostics
from fgg.grammar import Grammar
from fgg.grammar.spans import Source


def load_text(
    text: str,
    name: str = "<text>",
    *,
    folder: str = ".",
    sizes: Mapping[str, int] | None = None,
) -> tuple[Grammar | None, tuple[Diagnostic, ...], Source]:
    """The grammar that a text describes, what there is to say about it, and the source.

    The grammar is None exactly when there is an error among the diagnostics. `folder` is where
    the paths in the text are resolved from; `sizes` override what the text says.
    """
    source = Source(name, text)
    report = Report()
    statements = parse(source, report)
    if not statements and report.has_errors:
        return None, sort_diagnostics(report.diagnostics), source
    attempted = set(_attempted(text)) if report.has_errors else set()
    grammar = resolve(
        statements, report, name=_stem(name), folder=folder, sizes=sizes, broken=attempted
    )
    check = check_values if report.has_errors else check_grammar
    report.diagnostics += check(grammar, ValueSpans(statements).locate)
    diagnostics = sort_diagnostics(report.diagnostics)
    return None if report.has_errors else grammar, diagnostics, source


_ATTEMPT = re.compile(
    r"\b(?:input\s+(?=factor|table))?"
    r"(?P<kind>size|domain|rank|factor|nonterminal|input|table|rule|start)\b"
    r"\s*(?P<name>[^\W\d]\w*|`[^`\n]+`)?"
    r"(?:\s*:\s*\w+\s*\[(?P<shape>[^\]\n]*))?"
)


def _attempted(text: str) -> Iterator[str]:
    """What a text with syntax errors seems to declare: names that are not to be called unknown.

    Rules are marked as `rule name`, a start symbol as `start symbol`.
    """
    for found in _ATTEMPT.finditer(text):
        name = (found["name"] or "").strip("`")
        if found["kind"] == "start":
            yield "start symbol"
        elif name:
            yield f"rule {name}" if found["kind"] == "rule" else name
        if found["kind"] == "input":
            yield from re.findall(r"[^\W\d]\w*", found["shape"] or "")


def _stem(name: str) -> str:
    return name.rsplit("/", 1)[-1].removesuffix(".fgg") or "grammar"
