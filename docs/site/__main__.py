"""Build the site: `make docs`, or `python -m docs.site [--out FOLDER]`. It needs no network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docs.site import notebook, places, tree


def main() -> int:
    """Gather all pages and let Sphinx write HTML; a warning is an error."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description="build the site")
    parser.add_argument("--out", default=str(places.BUILD / "html"), help="the folder for HTML")
    parser.add_argument("--draft", action="store_true", help="run no code, draw no pictures")
    arguments = parser.parse_args()
    from sphinx.cmd.build import build_main

    try:
        site = tree.tree(run=not arguments.draft)
    except notebook.CellFailed as error:
        print(error, file=sys.stderr)
        return 1
    source = places.BUILD / "source"
    tree.write(site, source)
    out = Path(arguments.out)
    options = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(places.DOCS)]
    status = build_main([*options, "-d", str(places.BUILD / "doctrees"), str(source), str(out)])
    if status == 0:
        print(f"the site is in {out}; open {out}/index.html")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
