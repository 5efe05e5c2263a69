"""Explain an error code such as F112, or a grammar by its equations; alone, list all codes."""

from __future__ import annotations

import argparse
import re
from importlib import resources

from fgg.check.describe import describe
from fgg.cli.arguments import Parser
from fgg.cli.options_model import add_file, add_selection, load_grammar, select
from fgg.cli.output import print_json
from fgg.diagnostics import did_you_mean, refuse
from fgg.diagnostics.codes import CODES

_CODE = re.compile(r"[Ff]\d+")


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc explain`."""
    add_file(parser, optional=True, or_else="an error code, ")
    add_selection(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the page of a code, the list of codes, or the description of a grammar."""
    subject: str | None = arguments.file
    if subject is None:
        _list_codes(arguments.json)
    elif _CODE.fullmatch(subject):
        _page(subject.upper(), arguments.json)
    else:
        grammar = select(load_grammar(arguments, quiet=False)[0], arguments)
        text = describe(grammar)
        if arguments.json:
            print_json({"ok": True, "name": grammar.name, "text": text})
        else:
            print(text)
    return 0


def page(code: str) -> str:
    """Return the explain page of a code."""
    return resources.files("fgg.diagnostics.explain").joinpath(f"{code}.md").read_text("utf-8")


def _page(code: str, wants_json: bool) -> None:
    if code not in CODES:
        refuse(
            "F414",
            f"there is no code `{code}`",
            did_you_mean(code, CODES) or "`fggc explain` lists all codes",
        )
    text = page(code).rstrip("\n")
    if wants_json:
        entry = CODES[code]
        print_json(
            {
                "ok": True,
                "code": code,
                "severity": entry.severity,
                "title": entry.title,
                "text": text,
            }
        )
    else:
        print(text)


def _list_codes(wants_json: bool) -> None:
    if wants_json:
        codes = {c: {"severity": e.severity, "title": e.title} for c, e in CODES.items()}
        print_json({"ok": True, "codes": codes})
        return
    for code, entry in sorted(CODES.items()):
        print(f"{code}  {entry.severity:7}  {entry.title}")
