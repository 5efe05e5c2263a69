"""Check a certificate of `fggc identify` by brute force, without the engine that wrote it."""

from __future__ import annotations

import argparse
from pathlib import Path

from fgg.cli.arguments import Parser
from fgg.cli.output import print_json


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc check-certificate`."""
    parser.add_argument("file", metavar="FILE", help="a file of `fggc identify --certificate`")
    parser.flag("--json", "print one JSON object, nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Print what a certificate proves; a file that proves nothing is an error."""
    from fgg.api.certificate import check_certificate

    sentence = check_certificate(Path(arguments.file))
    if arguments.json:
        print_json({"ok": True, "proved": sentence})
    else:
        print(sentence)
    return 0
