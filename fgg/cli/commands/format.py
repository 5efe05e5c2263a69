"""Lay grammar files out in the house style: comments, line breaks and meaning stay."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fgg.cli.arguments import Parser, Usage
from fgg.cli.options_model import add_json
from fgg.cli.output import print_json
from fgg.compiler.editing.formatter import format_text
from fgg.compiler.resolve.files import read_text
from fgg.files import write_whole
from fgg.library import library_names


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc format`."""
    parser.add_argument("files", nargs="+", metavar="file", help="a file, or - for standard input")
    parser.flag("--check", "change nothing; fail if a file would change")
    add_json(parser)


def _text_of(name: str) -> str:
    """The text of a file. Raises Usage for a name of the library, and GrammarError."""
    if name == "-":
        return sys.stdin.read()
    if name in library_names() and not Path(name).exists():
        raise Usage(
            f"`{name}` is a grammar of the library, and no file of yours",
            f"`fggc show {name} --emit fgg > {name}.fgg` makes a file of it",
        )
    return read_text(Path(name))


def run(arguments: argparse.Namespace) -> int:
    """Format files in place; standard input goes to standard output."""
    texts = [(name, _text_of(name)) for name in arguments.files]
    formatted = [(name, text, format_text(text, name)) for name, text in texts]
    changed = [name for name, old, new in formatted if old != new]
    for name, old, new in formatted:
        if name == "-" and not arguments.check:
            sys.stdout.write(new)
        elif old != new and not arguments.check:
            write_whole(Path(name), new.encode())
    if arguments.json:
        print_json({"ok": not (changed and arguments.check), "changed": changed})
    elif "-" not in arguments.files or arguments.check:
        for name in changed:
            print(f"{'would change' if arguments.check else 'changed'} {name}")
    return 1 if changed and arguments.check else 0
