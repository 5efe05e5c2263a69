"""Draw the rules of a grammar as factor graphs: SVG, PNG, PDF, TikZ or DOT."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

from fgg.cli.arguments import Parser, Usage
from fgg.cli.options_compiler import add_after, check_pass, rewritten
from fgg.cli.options_model import (
    add_declarations,
    add_file,
    add_selection,
    check_rules,
    load_grammar,
    query_of,
    select,
)
from fgg.cli.output import print_json, write_whole
from fgg.diagnostics import refuse
from fgg.draw import ENDINGS, Format, MissingExtra, TooLarge, draw_grammar, draw_rule, render
from fgg.grammar import Grammar

SUFFIXES = {"svg": ".svg", "png": ".png", "pdf": ".pdf", "tikz": ".tex", "dot": ".dot"}


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc draw`."""
    add_file(parser)
    add_selection(parser)
    add_declarations(parser)
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="where to write; `-` is standard output"
    )
    parser.choice(
        "--format", tuple(SUFFIXES), "the format (default: by the ending of PATH, or svg)"
    )
    parser.repeated("--rule", "NAME", "draw only this rule")
    add_after(
        parser, "draw the rules, joined with a query, as they are after this pass of the compiler"
    )
    parser.flag("--each", "draw one picture for each rule; PATH is a folder")
    parser.choice(
        "--layout",
        ("auto", "graphviz", "builtin"),
        "how to place nodes; auto is Graphviz if it is installed, else the built-in layout",
        default="auto",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the pictures."""
    form = _format(arguments)
    if arguments.after is not None:
        check_pass(arguments.after, arguments.space)
        if arguments.ground or arguments.length or arguments.input:
            raise Usage("`--after` draws families as they are: give no lengths and no inputs")
    grammar, _ = load_grammar(arguments, quiet=False)
    if arguments.after is None:
        grammar = select(grammar, arguments)
    else:
        grammar = rewritten(grammar, query_of(grammar, arguments), arguments)
    if arguments.rule:
        check_rules(grammar, arguments.rule)
        rules = tuple(rule for rule in grammar.rules if rule.name in arguments.rule)
        grammar = replace(grammar, rules=rules)
    try:
        files = (_each if arguments.each else _one)(grammar, form, arguments)
    except MissingExtra as error:
        refuse("F412", str(error))
    except TooLarge as error:
        refuse("F412", str(error), "draw some of the rules: `--rule NAME`")
    if arguments.json:
        print_json({"ok": True, "name": grammar.name, "format": form, "files": files})
    else:
        for file in files:
            print(f"wrote {file}", file=sys.stderr)
    return 0


def _format(arguments: argparse.Namespace) -> Format:
    if arguments.format:
        return cast(Format, arguments.format)
    suffix = Path(arguments.output or "").suffix
    if suffix and not arguments.each and suffix not in ENDINGS:
        raise Usage(
            f"`{arguments.output}`: the ending `{suffix}` is not a picture format",
            "endings are " + ", ".join(ENDINGS),
        )
    return ENDINGS.get(suffix, "svg")


def _one(grammar: Grammar, form: Format, arguments: argparse.Namespace) -> list[str]:
    if len(arguments.rule) == 1:
        picture = draw_rule(grammar, grammar.rules[0], engine=arguments.layout)
    else:
        picture = draw_grammar(grammar, engine=arguments.layout)
    data = render(picture, form)
    if arguments.output == "-":
        if arguments.json:
            raise Usage("`-o -` and `--json` both use standard output")
        sys.stdout.buffer.write(data)
        return []
    path = Path(arguments.output or f"{_safe(grammar.name)}{SUFFIXES[form]}")
    write_whole(path, data)
    return [str(path)]


def _each(grammar: Grammar, form: Format, arguments: argparse.Namespace) -> list[str]:
    folder = Path(arguments.output or _safe(grammar.name))
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        reason = "it is not a folder" if folder.exists() else (error.strerror or "").lower()
        refuse("F413", f"`{folder}` cannot be written to: {reason}")
    files = []
    for number, rule in enumerate(grammar.rules, 1):
        picture = draw_rule(grammar, rule, engine=arguments.layout)
        path = folder / f"{number:02d}_{_safe(rule.name)}{SUFFIXES[form]}"
        write_whole(path, render(picture, form))
        files.append(str(path))
    return files


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:80] or "grammar"
