"""Run the language server, which an editor starts and speaks to over standard input and output."""

from __future__ import annotations

import argparse

from fgg.cli.arguments import Parser
from fgg.diagnostics import refuse


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc lsp`."""
    parser.flag("--stdio", "the default; some editors say it")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the editor hangs up."""
    try:
        from fgg.lsp.server import make_server
    except ModuleNotFoundError as error:
        refuse("F415", f"`fggc lsp` needs `{error.name}`", "`pip install 'fgg[lsp]'` brings it")
    make_server().start_io()
    return 0
