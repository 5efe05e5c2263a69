"""Open a local page that shows how a grammar becomes a program: passes, cost, charts, proofs."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, Usage, whole_number
from fgg.cli.options_model import add_sizes
from fgg.cli.output import check_writable, print_json, write_whole
from fgg.diagnostics import refuse
from fgg.files import reason_of

if TYPE_CHECKING:
    from fgg.explore.lanes import Lanes


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc explore`."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a grammar file, FGG JSON, a trained model (a file or the folder of its run), or the "
        "name of a library grammar (default: pcfg)",
    )
    add_sizes(parser)
    parser.value(
        "--port",
        "N",
        "the port to listen on, on 127.0.0.1 only (default: any that is free)",
        type=whole_number(0, 65535),
        default=0,
    )
    parser.value(
        "--export", "PATH", "write the page as one file that needs no server, and open nothing"
    )
    parser.flag("--no-browser", "print the address and open no browser")
    parser.value("--memory", "GB", "the memory that a computation may use", type=float, default=4.0)
    parser.value(
        "--time", "SECONDS", "the time that a computation may take (default: 20 to 600)", type=float
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until it is interrupted, or export it."""
    if not 0.1 <= arguments.memory <= 4096:
        raise Usage("`--memory` is from 0.1 to 4096, in GB")
    if arguments.time is not None and not 0 < arguments.time <= 86_400:
        raise Usage("`--time` is a number of seconds, up to 86,400")
    from fgg.cli.arguments import assignments
    from fgg.explore.lanes import Lanes
    from fgg.explore.start import opened

    home, start = opened(arguments.file, int(arguments.memory * 2**30))
    start["sizes"] = assignments(arguments.set, "--set")
    check_writable(arguments.export)
    with Lanes(home, arguments.time) as lanes:
        if arguments.export is not None:
            return _export(start, lanes, arguments)
        return _serve(start, lanes, arguments)


def _export(start: dict[str, object], lanes: Lanes, arguments: argparse.Namespace) -> int:
    from fgg.explore.export import exported
    from fgg.explore.snapshot import snapshot

    write_whole(Path(arguments.export), exported(snapshot(start, lanes)).encode())
    if arguments.json:
        print_json({"ok": True, "file": arguments.export})
    else:
        print(f"wrote {arguments.export}", file=sys.stderr)
    return 0


def _serve(start: dict[str, object], lanes: Lanes, arguments: argparse.Namespace) -> int:
    from fgg.explore.server import Application, Server

    try:
        server = Server(Application(start, lanes), arguments.port)
    except OSError as error:
        refuse("F415", f"port {arguments.port} cannot be used: {reason_of(error)}")
    address = server.guard.address
    if arguments.json:
        print_json({"ok": True, "address": address})
    else:
        print(f"exploring at {address}\nend with Ctrl-C", file=sys.stderr)
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    if not arguments.no_browser:
        webbrowser.open(address)
    with server:
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print(file=sys.stderr)
    return 0
