"""Tables of a sweep, as Figure 2 of [ID]: models by observation functions, from which L on."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MANY = 3
"""More sizes than this that differ from the others are listed apart."""


@dataclass(frozen=True)
class Entry:
    """The identification of a grammar for some sizes, a length and an observation function."""

    grammar: str
    sizes: Mapping[str, int]
    length: int
    observed: str
    parameters: int
    moments: int
    rank: int | None
    verdict: str
    error: float = 0.0
    query: str | None = None

    @property
    def deficiency(self) -> int | None:
        """The number of parameters that are not determined."""
        return None if self.rank is None else self.parameters - self.rank

    def as_json(self) -> dict[str, Any]:
        """The entry as a JSON object."""
        return {**asdict(self), "sizes": dict(self.sizes), "deficiency": self.deficiency}


@dataclass(frozen=True)
class Cell:
    """What a grammar says from some moments: for most sizes, and for which sizes otherwise."""

    label: str
    others: tuple[tuple[str, tuple[Mapping[str, int], ...]], ...] = ()
    by_sizes: tuple[tuple[Mapping[str, int], str], ...] = ()


@dataclass(frozen=True)
class Summary:
    """A table: a row for each grammar, a column for each observation function."""

    grammars: tuple[str, ...]
    observed: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """What the cells leave out, a line each."""
        lines = []
        for (grammar, observed), cell in self.cells.items():
            where = f"{grammar}, {observed}"
            if cell.others and len(cell.by_sizes) and self.differ(cell) <= MANY:
                for label, sizes in cell.others:
                    text = "; ".join(written(own) for own in sizes)
                    lines.append(f"{where}: {label} at {text}")
            elif cell.others:
                lines += _by_sizes(where, cell.by_sizes)
        return lines

    @staticmethod
    def differ(cell: Cell) -> int:
        """How many sizes differ from what most say."""
        return sum(len(sizes) for _, sizes in cell.others)

    def shown(self, grammar: str, observed: str) -> str:
        """The text of a cell."""
        cell = self.cells.get((grammar, observed))
        if cell is None:
            return "-"
        if not cell.others:
            return cell.label
        return f"{cell.label} *" if self.differ(cell) <= MANY else "by sizes"


def summary(entries: Sequence[Entry]) -> Summary:
    """The table of a sweep's entries."""
    grammars = tuple(dict.fromkeys(entry.grammar for entry in entries))
    observed = tuple(dict.fromkeys(entry.observed for entry in entries))
    groups: dict[tuple[str, str], dict[tuple[tuple[str, int], ...], list[Entry]]] = {}
    for entry in entries:
        own = groups.setdefault((entry.grammar, entry.observed), {})
        own.setdefault(tuple(entry.sizes.items()), []).append(entry)
    cells = {}
    for grammar in grammars:
        for name in observed:
            if (grammar, name) in groups:
                cells[(grammar, name)] = _cell(groups[(grammar, name)])
    return Summary(grammars, observed, cells)


def _cell(groups: Mapping[tuple[tuple[str, int], ...], Sequence[Entry]]) -> Cell:
    labels = {sizes: label(own) for sizes, own in groups.items()}
    counts: dict[str, list[dict[str, int]]] = {}
    for sizes, text in labels.items():
        counts.setdefault(text, []).append(dict(sizes))
    # Of labels that are as frequent, that of the larger sizes comes first.
    ordered = sorted(reversed(counts.items()), key=lambda item: -len(item[1]))
    others = tuple((text, tuple(sizes)) for text, sizes in ordered[1:])
    by_sizes = tuple((dict(sizes), text) for sizes, text in labels.items())
    return Cell(ordered[0][0], others, by_sizes)


def label(entries: Sequence[Entry]) -> str:
    """From which length on a grammar of some sizes is identifiable."""
    lengths = sorted({entry.length for entry in entries})
    good = sorted({entry.length for entry in entries if entry.verdict == "yes"})
    if len(lengths) == 1:
        return entries[0].verdict
    if not good:
        return "no"
    if good == [n for n in lengths if n >= good[0]]:
        return f"L ≥ {good[0]}"
    return "L = " + ", ".join(map(str, good))


def written(sizes: Mapping[str, int]) -> str:
    """Sizes as text."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def _by_sizes(where: str, found: Sequence[tuple[Mapping[str, int], str]]) -> list[str]:
    """A line for all sizes that agree but in the last one."""
    lines: dict[str, list[str]] = {}
    for sizes, text in found:
        *front, last = sizes.items()
        key = f"{where}: " + (f"{written(dict(front))}: " if front else "")
        lines.setdefault(key, []).append(f"{last[0]} = {last[1]} {text}")
    return [key + "; ".join(parts) for key, parts in lines.items()]


def as_text(entries: Sequence[Entry]) -> str:
    """The table as text."""
    table = summary(entries)
    rows = [("", *table.observed)]
    rows += [(g, *(table.shown(g, name) for name in table.observed)) for g in table.grammars]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    notes = table.notes()
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def as_latex(entries: Sequence[Entry]) -> str:
    """The table as a LaTeX tabular; its notes are comments after it."""
    table = summary(entries)
    lines = [rf"\begin{{tabular}}{{l{'l' * len(table.observed)}}}", r"\hline"]
    heads = [rf"$\phi_{{{_tex_name(name)}}}$" for name in table.observed]
    lines.append("model & " + " & ".join(heads) + r" \\ \hline")
    for grammar in table.grammars:
        cells = [_tex(table.shown(grammar, name)) for name in table.observed]
        lines.append(" & ".join([_tex(grammar), *cells]) + r" \\")
    lines += [r"\hline", r"\end{tabular}", *(f"% {note}" for note in table.notes())]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    for old in "&%#_{}":
        text = text.replace(old, "\\" + old)
    if text.startswith("L "):
        body, star, _ = text.partition(" *")
        return "$" + body.replace("≥", r"\ge") + ("^*" if star else "") + "$"
    return text.replace(" *", "$^*$")


def _tex_name(name: str) -> str:
    return name.replace("*", r"{*}").replace("e1", r"\eta").replace("all", r"\mathrm{all}")


def as_csv(entries: Sequence[Entry]) -> str:
    """All entries, a line each."""
    sizes = list(dict.fromkeys(name for entry in entries for name in entry.sizes))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = ["grammar", "observed", *sizes, "L", "parameters", "moments", "rank"]
    writer.writerow([*heads, "deficiency", "verdict"])
    for entry in entries:
        own = [entry.sizes.get(name, "") for name in sizes]
        rank = "" if entry.rank is None else entry.rank
        deficiency = "" if entry.deficiency is None else entry.deficiency
        front = [entry.grammar, entry.observed, *own, entry.length, entry.parameters]
        writer.writerow([*front, entry.moments, rank, deficiency, entry.verdict])
    return file.getvalue()


def as_json(entries: Sequence[Entry]) -> dict[str, Any]:
    """The table and all entries as a JSON object."""
    table = summary(entries)
    return {
        "table": {
            grammar: {name: table.shown(grammar, name) for name in table.observed}
            for grammar in table.grammars
        },
        "notes": table.notes(),
        "entries": [entry.as_json() for entry in entries],
    }


def json_text(entries: Sequence[Entry]) -> str:
    """The table and all entries as JSON."""
    return json.dumps(as_json(entries), ensure_ascii=False, indent=2) + "\n"
