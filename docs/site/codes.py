"""The reference of error codes: the pages that `fggc explain` prints, with what is reported."""

from __future__ import annotations

from docs.site.markdown import Fence, escaped, fenced, parts
from fgg.cli.commands.explain import page as explanation
from fgg.compiler import load_text
from fgg.diagnostics import render_all
from fgg.diagnostics.codes import CODES

GROUPS = {
    "F0": "Syntax",
    "F1": "Names, arities, domains, indices, values",
    "F2": "Properties of a whole grammar",
    "F3": "Compiling and writing out",
    "F4": "Files, data and running",
}


def pages() -> dict[str, str]:
    """A page for each code, and one that lists them, by their places in the site."""
    each = {f"reference/diagnostics/{code}.md": page(code) for code in sorted(CODES)}
    return {"reference/diagnostics/index.md": overview(), **each}


def overview() -> str:
    """All codes, by kind."""
    lines = [
        "# Errors and warnings",
        "",
        "Every error has a code, which never changes its meaning. A message shows the place, the",
        "cause and, where there is one, a hint. `fggc explain F103` prints the page of a code.",
    ]
    for start, group in GROUPS.items():
        lines += ["", f"## {group}", "", "| code | | reported for |", "|---|---|---|"]
        for code, entry in sorted(CODES.items()):
            if code.startswith(start):
                lines.append(f"| [{code}]({code}.md) | {entry.severity} | {escaped(entry.title)} |")
    lines += ["", "```{toctree}", ":hidden:", "", *sorted(CODES), "```", ""]
    return "\n".join(lines)


def page(code: str) -> str:
    """The page of a code; after a wrong grammar stands what `fggc check` says of it."""
    pieces = []
    for part in parts(explanation(code)):
        if isinstance(part, str):
            pieces.append(part)
            continue
        if part.kind == "fgg":  # wrong text may have characters that the language does not know
            pieces += [fenced(part.text, "{code-block} fgg", ":force:\n"), report(part)]
        else:
            pieces.append(part.markdown())
    return "".join(pieces)


def report(fence: Fence) -> str:
    """What `fggc check` reports for a grammar; nothing if it is right."""
    _, diagnostics, source = load_text(fence.text, "example.fgg")
    if not diagnostics:
        return ""
    told = fenced(render_all(diagnostics, source).rstrip("\n"), "text")
    return f"\n\n`fggc check example.fgg` says\n\n{told}"
