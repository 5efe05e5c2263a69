"""The gallery: a page for each grammar of the library."""

from __future__ import annotations

from docs.site.markdown import fenced
from fgg.library import library_names, library_text, library_title


def files(*, run: bool) -> dict[str, str | bytes]:
    """A page for each grammar, and one that shows them all, by their places in the site."""
    each = {f"gallery/{name}.md": page(name) for name in library_names()}
    return {"gallery/index.md": overview(), **each}


def overview() -> str:
    """All grammars."""
    lines = ["# Gallery", ""]
    lines += [f"- [{name}]({name}.md): {library_title(name)}" for name in library_names()]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *library_names(), "```", ""])


def page(name: str) -> str:
    """A grammar."""
    return f"# {name}\n\n{fenced(library_text(name), 'fgg')}\n"
