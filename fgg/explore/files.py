"""The files of the page, by name; scripts are loaded in the order in which they stand here."""

from __future__ import annotations

from importlib import resources

SCRIPTS = (
    "dom.js",
    "server.js",
    "highlight.js",
    "editor.js",
    "plot.js",
    "passes.js",
    "cost.js",
    "program.js",
    "heat.js",
    "inference.js",
    "proof.js",
    "identify.js",
    "share.js",
    "main.js",
)
STYLES = ("style.css", "views.css")
FILES = ("index.html", "icon.svg", *STYLES, *SCRIPTS)


def page_file(name: str) -> str:
    """The text of a file of the page."""
    assert name in FILES
    return resources.files("fgg.explore.page").joinpath(name).read_text("utf-8")
