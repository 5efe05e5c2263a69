"""Where things lie: folders of the project, and the place of each of its files in the site."""

from __future__ import annotations

import hashlib
import os.path
import posixpath
from functools import cache
from pathlib import Path

from docs.site.markdown import is_external

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BUILD = ROOT / "build" / "site"
SOURCES = ("fgg", "compiler", "runtime", "grammars", "docs")

RENAMED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "LICENSE": "project/licence.md",
    "examples/README.md": "project/examples.md",
    "examples/displays.ipynb": "project/displays.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
"""Files outside of `docs/` that are pages of the site."""

CODES = "fgg/diagnostics/explain/"


def place(path: str) -> str:
    """The place in the site of a file of the project.

    A source file that a page links to becomes a page, too.
    """
    if path in RENAMED:
        return RENAMED[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith(CODES):
        return f"reference/diagnostics/{path.removeprefix(CODES)}"
    if path.endswith((".svg", ".png")):
        return f"project/pictures/{posixpath.basename(path)}"
    return f"project/source/{path.replace('/', '-').replace('.', '-')}.md"


def target(link: str, page: str) -> str:
    """The file of the project that a link of a page (also such a file) leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link.split("#")[0]))


def moved(link: str, page: str) -> str:
    """A link of a page of the project as it has to be in the site."""
    if is_external(link) or link.startswith("#"):
        return link
    anchor = link[link.index("#") :] if "#" in link else ""
    here = posixpath.dirname(place(page)) or "."
    return posixpath.relpath(place(target(link, page)), here) + anchor


@cache
def digest() -> str:
    """A digest of all sources: what was computed with other ones is computed again."""
    whole = hashlib.sha256()
    for top in SOURCES:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".py", ".fgg", ".lark", ".hpp") and path.is_file():
                whole.update(os.path.relpath(path, ROOT).encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()
