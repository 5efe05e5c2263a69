"""Results as tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Table:
    """A heading, columns, rows of text, and notes below."""

    title: str
    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The heading and the table in Markdown."""
        return f"### {self.title}\n\n{self.body()}"

    def body(self) -> str:
        """The table in Markdown, its columns aligned, and its notes."""
        lines = [list(self.columns), *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]

        def row(line: Sequence[str]) -> str:
            cells = [
                f"{c:<{w}}" if not i else f"{c:>{w}}"
                for i, (c, w) in enumerate(zip(line, widths, strict=True))
            ]
            return f"| {' | '.join(cells)} |"

        rule = "|".join("-" * (w + 1) + ("-" if not i else ":") for i, w in enumerate(widths))
        found = [row(self.columns), f"|{rule}|", *map(row, self.rows)]
        return "\n".join([*found, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds, three digits."""
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def megabytes(count: float) -> str:
    """Bytes as millions of bytes."""
    return f"{count / 1e6:.2f}"
