"""The grammar library: the files `grammars/*.fgg`, by name without suffix."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable


def _folder() -> Traversable:
    return resources.files("fgg.grammars")


def library_names() -> tuple[str, ...]:
    """The names of the library's grammars, in alphabetical order."""
    return tuple(
        sorted(f.name.removesuffix(".fgg") for f in _folder().iterdir() if f.name.endswith(".fgg"))
    )


def library_text(name: str) -> str:
    """The text of a library grammar."""
    return _folder().joinpath(f"{name}.fgg").read_text("utf-8")


def library_path(name: str) -> str:
    """Where the file of a library grammar lies."""
    return str(_folder().joinpath(f"{name}.fgg"))


def library_title(name: str) -> str:
    """A library grammar in one line: the first line of its comment."""
    first = library_text(name).split("\n", 1)[0].lstrip("# ").strip()
    return first.removeprefix(f"{name}.fgg:").removeprefix(f"{name}:").strip()
