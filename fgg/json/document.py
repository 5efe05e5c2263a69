"""The JSON format of the `fggs` library: reading and writing grammars.

A flat form with nodes by name (`fgg.json.flat`) is read as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from fgg.check.grammar import check_grammar
from fgg.diagnostics import Diagnostic, Report
from fgg.grammar import Grammar
from fgg.grammar.spans import Span
from fgg.json.flat import is_flat, nested
from fgg.json.read import read_grammar
from fgg.json.write import grammar_json

__all__ = ["from_json", "read_json_text", "to_json"]

MAX_REPORTS = 20


def to_json(grammar: Grammar) -> dict[str, object]:
    """The grammar as a JSON object, ready for `json.dumps`.

    Unions, products and paths are removed first (`fgg.rewrite.plain`). Large weights with a
    structure are written as structured tensors, all others as nested lists; fractions become
    decimals, and a parameter is a terminal without a factor. Queries and sizes are left out: the
    format has neither. Raises GrammarError: F303 for a grammar with indices or inputs, F302 for
    more weights than can be written out, F404 for an array file that cannot be read.
    """
    return grammar_json(grammar)


def from_json(
    data: object, name: str = "grammar", *, domain_sizes: Mapping[str, int] | None = None
) -> tuple[Grammar | None, tuple[Diagnostic, ...]]:
    """The grammar that parsed JSON describes, and what there is to say about it.

    The grammar is None exactly when there is an error among the diagnostics. `domain_sizes` gives
    the number of values of node labels for which the document has no domain. Names stay as they
    are, but for those that the language cannot write.
    """
    if is_flat(data):
        assert isinstance(data, Mapping)
        data = nested(data)
    try:
        grammar, problems = read_grammar(data, name, domain_sizes or {})
        if grammar is None:
            return None, problems
        found = tuple(check_grammar(grammar))
    except RecursionError:
        return None, (Diagnostic(code="F405", message="the document is nested too deep"),)
    return (None if any(d.is_error for d in found) else grammar), found


def read_json_text(
    text: str, name: str = "grammar", *, domain_sizes: Mapping[str, int] | None = None
) -> tuple[Grammar | None, tuple[Diagnostic, ...]]:
    """The grammar that a JSON text describes, and what there is to say about it.

    As `from_json`; a text that is no JSON, or has a key twice in one object, is an error F405.
    """
    report = Report()

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen and len(report.diagnostics) < MAX_REPORTS:
                    report.add("F405", f"key `{key}` occurs twice in one object")
                seen.add(key)
        return found

    def constant(literal: str) -> float:
        if len(report.diagnostics) < MAX_REPORTS:
            report.add("F405", f"`{literal}` is not a number of JSON")
        return 0.0

    body = text.removeprefix("\ufeff")  # a byte order mark
    try:
        data = json.loads(body, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as error:
        start = error.pos + len(text) - len(body)
        message = f"this is not JSON: {_reason(error.msg)}"
        report.add("F405", message, Span(start, start + 1))
    except RecursionError:
        report.add("F405", "the document is nested too deep")
    except ValueError:
        report.add("F405", "a number has too many digits")
    if report.has_errors:
        return None, tuple(report.diagnostics)
    return from_json(data, name, domain_sizes=domain_sizes)


def _reason(message: str) -> str:
    """What is wrong with a text that is no JSON, as the parser says it."""
    return (message[:1].lower() + message[1:]).removesuffix(" at")
