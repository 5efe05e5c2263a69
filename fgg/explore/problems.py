"""What goes wrong in a computation, as the page shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fgg.diagnostics import Diagnostic, GrammarError, InternalError, is_out_of_memory
from fgg.draw import MissingExtra, TooLarge
from fgg.explore.asked import Answer

_PROPOSAL = re.compile(r"did you mean `([^`\n]+)`\?")


class Offsets:
    """Converts offsets of characters to those of UTF-16 units, in which browsers count."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ascii = text.isascii()

    def units(self, offset: int) -> int:
        """The offset in UTF-16 units."""
        offset = min(max(offset, 0), len(self.text))
        if self.ascii:
            return offset
        return len(self.text[:offset].encode("utf-16-le", "surrogatepass")) // 2


def shown(diagnostic: Diagnostic, offsets: Offsets) -> Answer:
    """A diagnostic with its place in the text; one of a used file stands at the beginning."""
    span, length = diagnostic.span, len(offsets.text)
    here = span is not None and span.start <= length
    start, end = (span.start, span.end) if span is not None and here else (0, 0)
    proposal = _PROPOSAL.search(diagnostic.help)
    message = diagnostic.message
    if span is not None and not here:
        message = f"in a used file: {message}"
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": message,
        "help": diagnostic.help,
        "placed": here,
        "start": offsets.units(start),
        "end": offsets.units(end),
        "line": offsets.text.count("\n", 0, start) + 1,
        "fix": proposal[1] if proposal and here else None,
        "labels": [
            {
                "start": offsets.units(label.span.start),
                "end": offsets.units(label.span.end),
                "text": label.text,
            }
            for label in diagnostic.labels
            if label.span.end <= length
        ],
    }


def listed(diagnostics: Sequence[Diagnostic], text: str) -> list[Answer]:
    """Diagnostics, as `shown` has each."""
    offsets = Offsets(text)
    return [shown(diagnostic, offsets) for diagnostic in diagnostics]


def problem(error: BaseException, text: str, memory: int) -> Answer:
    """An error that ended a computation. `memory` is the limit of the worker in bytes."""
    if isinstance(error, GrammarError):
        return {"kind": "refused", "diagnostics": listed(error.diagnostics, text)}
    if isinstance(error, TooLarge | MissingExtra):
        return refused("F412", str(error))
    if isinstance(error, RecursionError):
        return refused("F420", "this is nested too deeply to be computed")
    if is_out_of_memory(error):
        return out_of_memory(memory)
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    return {"kind": "bug", "message": f"{kind}{error}"[:2000]}


def refused(code: str, message: str, help: str = "") -> Answer:
    """A problem with one diagnostic that has no place."""
    diagnostic = Diagnostic(code=code, message=message, help=help)
    return {"kind": "refused", "diagnostics": listed([diagnostic], "")}


def out_of_memory(memory: int) -> Answer:
    """The problem that a computation has reached the limit of its memory."""
    from fgg.plan.sizes import in_units

    return refused(
        "F420",
        f"this needs more memory than the explorer allows, {in_units(memory)}",
        "use smaller sizes or shorter inputs, or start it with a greater `--memory`",
    )


def out_of_time(seconds: float) -> Answer:
    """The problem that a computation has reached the limit of its time."""
    return refused(
        "F438",
        f"this takes longer than the explorer allows, {seconds:g} s",
        "use smaller sizes or shorter inputs, or start it with a greater `--time`",
    )
