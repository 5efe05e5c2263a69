"""Compile a grammar and a query to a Python module; or show what the compiler makes of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgg.cli import Usage
from fgg.cli.declaring import add_declarations, with_declarations
from fgg.cli.output import placed, print_diagnostics, print_json, write_whole
from fgg.cli.passes import add_after, check_pass, space_of
from fgg.cli.target import add_file, assignments, load_target, need_grammar, only_query
from fgg.diagnostics import Diagnostic, GrammarError, as_json, did_you_mean
from fgg.grammar import Grammar

FORMS = ("python", "grammar", "schedule", "plan", "cost", "cpp", "aoti")
WIDTHS = {"float32": 4, "float64": 8}
MAX_LENGTH = 1_000_000
MAX_BATCH = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc compile`."""
    add_file(parser)
    parser.add_argument("--query", metavar="NAME", help="join the model with this query")
    parser.add_argument(
        "--emit",
        choices=FORMS,
        default="python",
        help="a Python module (the default), the grammar after a pass, the order in which charts "
        "are filled, the plan, its cost, the passes in C++ as `--jit` compiles them, or a "
        "package compiled ahead of time (-o model.pt2)",
    )
    add_declarations(parser)
    add_after(parser, "with `--emit grammar` or `schedule`, after which pass (default: the last)")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="where to write (default: standard output)"
    )
    parser.add_argument(
        "--length",
        metavar="NAME=N",
        action="append",
        nargs="+",
        default=[],
        help="lengths to expect, and to count the cost for (default: 32)",
    )
    parser.add_argument("--batch", type=_batch, default=16, help="items to expect (default: 16)")
    parser.add_argument(
        "--missing",
        action="store_true",
        help="also for missing tokens that rules read twice or through maps (`tie` for `pin`)",
    )
    parser.add_argument(
        "--dtype", choices=tuple(WIDTHS), default="float32", help="numbers to count the bytes of"
    )


def _batch(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= MAX_BATCH:
        raise argparse.ArgumentTypeError(f"a number from 1 to {MAX_BATCH:,} is expected")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Write what is asked for."""
    _check_options(arguments)
    loaded = load_target(arguments)
    grammar = with_declarations(need_grammar(loaded, quiet=True), arguments)
    query = arguments.query
    if query is None and grammar.queries:
        query = only_query(grammar)
    text, report = "", dict[str, Any]()
    with placed(loaded.source):
        if arguments.emit == "aoti":
            _export(grammar, query, arguments)
        else:
            text, report = _emitted(grammar, query, arguments)
    if not arguments.json:
        print_diagnostics(loaded.diagnostics, loaded.source)
    if arguments.emit == "aoti":
        if not arguments.json:
            print(f"wrote {arguments.output}", file=sys.stderr)
    elif arguments.output is not None and arguments.output != "-":
        write_whole(Path(arguments.output), text.encode())
        if not arguments.json:
            print(f"wrote {arguments.output}", file=sys.stderr)
    elif not arguments.json:
        sys.stdout.write(text)
    if arguments.json:
        print_json(
            {
                "ok": True,
                "name": grammar.name,
                "query": query,
                "emit": arguments.emit,
                **report,
                "file": arguments.output,
                "diagnostics": [as_json(d, loaded.source) for d in loaded.diagnostics],
            }
        )
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise Usage for options that do not go together."""
    if arguments.after is not None:
        check_pass(arguments.after, arguments.space)
        if arguments.emit not in ("grammar", "schedule"):
            raise Usage(
                f"`--after {arguments.after}` does not go with `--emit {arguments.emit}`",
                "a plan is made after the last pass",
            )
    if arguments.emit == "aoti" and arguments.output in (None, "-"):
        raise Usage("`--emit aoti` writes a file", "say where: `-o model.pt2`")
    if arguments.output == "-" and arguments.json:
        raise Usage("`-o -` and `--json` both want standard output")


def _export(grammar: Grammar, query: str | None, arguments: argparse.Namespace) -> None:
    """Write a package compiled ahead of time; that takes a C++ compiler and a minute."""
    import torch

    from fgg.api.compile import compile
    from fgg.runtime.export.export import export_program

    if not sys.stderr.closed and sys.stderr.isatty():
        print("compiling with a C++ compiler: this takes a minute", file=sys.stderr)
    program = compile(grammar, query, space=arguments.space or "auto", fallback=False)
    program = program.compiled.summing if arguments.missing else program
    export_program(program, Path(arguments.output), dtype=getattr(torch, arguments.dtype))


def _emitted(
    grammar: Grammar, query: str | None, arguments: argparse.Namespace
) -> tuple[str, dict[str, Any]]:
    """What was asked for as text, and as the part of a JSON report."""
    from fgg.api.compile import compilable, selected
    from fgg.compiler.driver import Expected, after, pass_names, plan_of
    from fgg.grammar.domains import lengths

    source = selected(grammar, query)
    given = assignments(arguments.length, "--length")
    _check_lengths(source, given)
    # The cost model knows one length; with several, the greatest counts.
    expected = Expected(max(given.values(), default=32) or 1, arguments.batch)
    with compilable(grammar.name):
        space, reason = space_of(source, arguments, expected)
        chosen = {"space": space, "reason": reason}
        if reason and not arguments.json:
            print(reason, file=sys.stderr)
        if arguments.emit in ("grammar", "schedule"):
            found = after(source, arguments.after or pass_names(space)[-1], expected, space)
            return _grammar_text(found, arguments.emit, chosen)
        plan = plan_of(source, expected, space, pinned=not arguments.missing)
        plan = replace(plan, notes=(reason,) if reason else ())
    if arguments.emit == "plan":
        from fgg.compiler.plan.text import plan_json, plan_lines

        return "\n".join(plan_lines(plan)) + "\n", {**chosen, "plan": plan_json(plan)}
    if arguments.emit == "cost":
        from fgg.compiler.cost.cost import cost, cost_lines

        all_lengths = {name: given.get(name, 32) for name in lengths(source)}
        width = WIDTHS[arguments.dtype]
        report = cost(plan, all_lengths, batch=arguments.batch, width=width)
        return "\n".join(cost_lines(report)) + "\n", {**chosen, "cost": report.as_json()}
    if arguments.emit == "cpp":
        from fgg.compiler.emit.cpp import native

        text = native(plan).source
        return text, {**chosen, "cpp": text}
    from fgg.compiler.emit.python import emit

    text = emit(plan)
    return text, {**chosen, "python": text}


def _grammar_text(
    grammar: Grammar, form: str, chosen: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    if form == "grammar":
        from fgg.grammar.printer import print_grammar

        text = print_grammar(grammar)
    else:
        from fgg.compiler.plan.schedule import schedule, schedule_lines

        text = "\n".join(schedule_lines(grammar, schedule(grammar))) + "\n"
    return text, {**chosen, form: text.rstrip("\n")}


def _check_lengths(grammar: Grammar, given: Mapping[str, int]) -> None:
    """Raise GrammarError for lengths that the grammar does not have, or that are out of range."""
    from fgg.grammar.domains import lengths

    known = sorted(lengths(grammar))
    problems = []
    for name, value in given.items():
        if name not in known:
            names = ", ".join(f"`{n}`" for n in known)
            help = did_you_mean(name, known) or f"it has {names or 'none'}"
            message = f"`{grammar.name}` has no length `{name}`"
            problems.append(Diagnostic(code="F411", message=message, help=help))
        elif not 0 <= value <= MAX_LENGTH:
            message = f"length `{name}` must be a number from 0 to {MAX_LENGTH:,}"
            problems.append(Diagnostic(code="F411", message=message))
    if problems:
        raise GrammarError(problems)
