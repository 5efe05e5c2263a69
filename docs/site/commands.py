"""The reference of the command line, made from the parsers of the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from docs.site.markdown import escaped, fenced
from fgg.cli import COMMANDS, GROUPS, module_of
from fgg.cli.arguments import Parser
from fgg.cli.help import EXAMPLES, Formatter

CODES = """
| exit code | meaning |
|--:|---|
| 0 | done |
| 1 | the answer is no: the grammar has errors, or a verification is refuted or undecided |
| 2 | the command line or a file is wrong |
| 3 | a bug in fggc |
"""


def pages() -> dict[str, str]:
    """A page for each command, and one that lists them, by their places in the site."""
    each = {f"reference/commands/{name}.md": page(name) for name in COMMANDS}
    return {"reference/commands/index.md": overview(), **each}


def overview() -> str:
    """All commands, by what they are for."""
    lines = [
        "# Command line",
        "",
        "Every command reads `fggc COMMAND FILE [options]`. `FILE` is a grammar (`.fgg`), FGG",
        "JSON, `-` for standard input, the bare name of a grammar of the",
        "[library](../../gallery/index.md), or a trained model. With `--json` a command prints one",
        "JSON object and nothing else.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"## {group.capitalize()}", "", "| command | does |", "|---|---|"]
        lines += [f"| [`fggc {name}`]({name}.md) | {text} |" for name, text in commands.items()]
    lines += ["", "## Exit codes", CODES, "```{toctree}", ":hidden:", ""]
    return "\n".join([*lines, *COMMANDS, "```", ""])


def parser_of(name: str) -> Parser:
    """The parser of a command, with all its options."""
    module = module_of(name)
    parser = Parser(name, module.__doc__)
    module.add_arguments(parser)
    return parser


def page(name: str) -> str:
    """What a command does, an example, and its options by section."""
    parser = parser_of(name)
    lines = [
        f"# fggc {name}",
        "",
        prose(parser.description or ""),
        "",
        fenced(EXAMPLES[name], "sh"),
        "",
        fenced(usage(parser), "text"),
        "",
        f"```{{program}} fggc {name}\n```",
    ]
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if "--help" not in names(action)]
        if actions:
            lines += ["", f"## {(group.title or '').capitalize()}", ""]
            lines += [line for action in actions for line in described(action, parser)]
    return "\n".join([*lines, ""])


def usage(parser: Parser) -> str:
    """How the command is called, without `[-h]`."""
    formatter = argparse.HelpFormatter(parser.prog, width=88)
    actions = [action for action in parser._actions if "--help" not in names(action)]
    formatter.add_usage(None, actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help()


def names(action: argparse.Action) -> list[str]:
    """How an option is written, or a positional argument called."""
    return list(action.option_strings) or [str(action.metavar or action.dest)]


def described(action: argparse.Action, parser: Parser) -> Iterator[str]:
    """The description of an option, which can be linked to and searched for."""
    values = arguments(action) if action.option_strings else ""
    written = ", ".join(f"{name} {values}".strip() for name in names(action))
    yield f":::{{option}} {written}"
    yield prose(help_text(action, parser))
    if action.choices and action.metavar is not None:
        yield "\nOne of " + ", ".join(f"`{choice}`" for choice in action.choices) + "."
    yield ":::"


def arguments(action: argparse.Action) -> str:
    """What follows an option."""
    name = action.metavar
    if name is None:
        if action.nargs == 0:
            return ""
        name = "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    repeated = action.nargs in ("+", "*")
    return f"{name} …" if repeated else str(name)


def help_text(action: argparse.Action, parser: Parser) -> str:
    """The help of an option as a sentence, with its default."""
    formatter = Formatter(parser.prog)
    text = formatter._expand_help(action) if action.help else ""
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def prose(text: str) -> str:
    """Plain text with code in backticks as Markdown."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        piece if piece.startswith("`") and piece.endswith("`") else escaped(piece)
        for piece in pieces
    )
