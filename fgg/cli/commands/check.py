"""Report all errors and warnings of a grammar."""

from __future__ import annotations

import argparse
from dataclasses import replace

from fgg.check.bfgg import b_status
from fgg.check.describe import summary_lines
from fgg.check.repeated_readings import check_readings
from fgg.cli.arguments import Parser
from fgg.cli.options_model import add_file, load_target
from fgg.cli.output import exit_code, print_diagnostics, print_json
from fgg.diagnostics import as_json
from fgg.grammar import Grammar
from fgg.grammar.spans import Source


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc check`."""
    add_file(parser)
    parser.flag("--strict", "treat warnings as errors")


def run(arguments: argparse.Namespace) -> int:
    """Check a grammar; return 0 if it has no errors."""
    loaded = load_target(arguments)
    if loaded.grammar is not None:
        # These warnings are about missing tokens only, so loading a grammar does not give them.
        diagnostics = (*loaded.diagnostics, *check_readings(loaded.grammar))
        loaded = replace(loaded, diagnostics=diagnostics)
    code = exit_code(loaded.diagnostics)
    if arguments.strict and loaded.diagnostics:
        code = code or 1
    if arguments.json:
        items = [as_json(d, loaded.source) for d in loaded.diagnostics]
        statuses = _statuses_json(loaded.grammar, loaded.source) if loaded.grammar else []
        print_json(
            {
                "ok": code == 0,
                "name": loaded.grammar.name if loaded.grammar else None,
                "diagnostics": items,
                "bfgg": loaded.grammar is not None and all(s["holds"] for s in statuses),
                "rules": statuses,
            }
        )
        return code
    print_diagnostics(loaded.diagnostics, loaded.source)
    errors = sum(d.is_error for d in loaded.diagnostics)
    warnings = len(loaded.diagnostics) - errors
    counts = [
        f"{n} {word}{'s' * (n != 1)}" for n, word in ((errors, "error"), (warnings, "warning"))
    ]
    if loaded.grammar is None:
        print(f"{loaded.source.name}: {counts[0]}" + (f", {counts[1]}" if warnings else ""))
        return code
    print(f"{loaded.grammar.name}: {'ok' if not warnings else counts[1]}")
    for line in summary_lines(loaded.grammar):
        print(f"  {line}")
    return code


def _statuses_json(grammar: Grammar, source: Source) -> list[dict[str, object]]:
    """Return for each rule whether it is in the B-fragment, and if not, why."""
    return [
        {
            "rule": status.rule,
            "holds": status.holds,
            "reason": status.reason,
            "node": status.node,
            "edge": status.edge,
            "line": source.at(status.span).position(status.span.start)[0]
            if status.span and source.text
            else None,
        }
        for status in b_status(grammar)
    ]
