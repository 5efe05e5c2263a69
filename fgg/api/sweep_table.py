"""Tables of a sweep, as Figure 2 of [ID]: models by observation functions, from which L on."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

MANY = 3
"""More sizes than this that differ from the others are listed apart."""

Sizes = tuple[tuple[str, int], ...]


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

    def as_json(self) -> dict[str, object]:
        """The entry as a JSON object."""
        return {**asdict(self), "sizes": dict(self.sizes), "deficiency": self.deficiency}

    @staticmethod
    def from_json(data: object) -> Entry:
        """The entry of a JSON object. Raises ValueError for anything else."""
        match data:
            case {
                "grammar": str(grammar),
                "sizes": dict(sizes),
                "length": int(length),
                "observed": str(observed),
                "parameters": int(parameters),
                "moments": int(moments),
                "rank": int() | None as rank,
                "verdict": str(verdict),
                "error": int() | float() as error,
                "query": str() | None as query,
            }:
                values = {name: int(size) for name, size in sizes.items()}
                rest = (verdict, error, query)
                return Entry(grammar, values, length, observed, parameters, moments, rank, *rest)
        raise ValueError("this is not an entry of a sweep")


@dataclass(frozen=True)
class TableCell:
    """From which length on one observation function identifies one grammar, by its sizes."""

    by_sizes: Mapping[Sizes, str]

    def by_label(self) -> list[tuple[str, list[Sizes]]]:
        """The labels with their sizes, the most frequent first; of two, that of larger sizes."""
        groups: dict[str, list[Sizes]] = {}
        for sizes, label in self.by_sizes.items():
            groups.setdefault(label, []).append(sizes)
        return sorted(reversed(groups.items()), key=lambda item: -len(item[1]))

    def text(self) -> str:
        """The cell in a table: the verdict for most sizes, with a star if not for all."""
        (label, sizes), *others = self.by_label()
        if not others:
            return label
        return f"{label} *" if len(self.by_sizes) - len(sizes) <= MANY else "by sizes"

    def notes(self) -> list[str]:
        """The exceptions that the text leaves out, one on each line."""
        (_, sizes), *others = self.by_label()
        if len(self.by_sizes) - len(sizes) <= MANY:
            return [f"{label} at {'; '.join(map(written, some))}" for label, some in others]
        lines: dict[str, list[str]] = {}
        for (*front, (name, value)), label in self.by_sizes.items():
            start = f"{written(front)}: " if front else ""
            lines.setdefault(start, []).append(f"{name} = {value} {label}")
        return [start + "; ".join(ends) for start, ends in lines.items()]


@dataclass(frozen=True)
class SweepTable:
    """A table with a row for each grammar and a column for each observation function."""

    grammars: tuple[str, ...]
    observed: tuple[str, ...]
    cells: Mapping[tuple[str, str], TableCell]

    def notes(self) -> list[str]:
        """The exceptions that the cells leave out, one on each line."""
        cells = self.cells.items()
        return [f"{grammar}, {name}: {x}" for (grammar, name), c in cells for x in c.notes()]

    def row(self, grammar: str) -> list[str]:
        """The texts of a grammar's cells."""
        cells = [self.cells.get((grammar, name)) for name in self.observed]
        return ["-" if cell is None else cell.text() for cell in cells]


def sweep_table(entries: Sequence[Entry]) -> SweepTable:
    """The table of a sweep's entries."""
    grammars = tuple(dict.fromkeys(entry.grammar for entry in entries))
    observed = tuple(dict.fromkeys(entry.observed for entry in entries))
    groups: dict[tuple[str, str], dict[Sizes, list[Entry]]] = {
        (grammar, name): {} for grammar in grammars for name in observed
    }
    for entry in entries:
        by_sizes = groups[entry.grammar, entry.observed]
        by_sizes.setdefault(tuple(entry.sizes.items()), []).append(entry)
    cells = {
        key: TableCell({sizes: _label(some) for sizes, some in by_sizes.items()})
        for key, by_sizes in groups.items()
        if by_sizes
    }
    return SweepTable(grammars, observed, cells)


def _label(entries: Sequence[Entry]) -> str:
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


def written(sizes: Iterable[tuple[str, int]]) -> str:
    """Sizes as text."""
    return ", ".join(f"{name} = {value}" for name, value in sizes)


def as_text(entries: Sequence[Entry]) -> str:
    """The table as text."""
    table = sweep_table(entries)
    rows = [("", *table.observed)]
    rows += [(grammar, *table.row(grammar)) for grammar in table.grammars]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    notes = table.notes()
    bound = [sentence] if (sentence := bound_of_no(entries)) else []
    return "\n".join([*lines, *([""] if notes or bound else []), *notes, *bound]) + "\n"


def error_of_all(entries: Sequence[Entry]) -> float:
    """How probable it is, at most, that some entry is wrong: the sum of their errors."""
    return min(1.0, sum(entry.error for entry in entries))


def bound_of_no(entries: Sequence[Entry]) -> str:
    """A sentence about the error of all entries that are not identifiable; empty without any."""
    count = sum(entry.verdict == "no" for entry in entries)
    if not count:
        return ""
    which = "1 entry is" if count == 1 else f"{count:,} entries are"
    error = f"{error_of_all(entries):.1g}"
    return (
        f"{which} not identifiable; all these verdicts are right, but for a probability of {error}"
    )


def as_latex(entries: Sequence[Entry]) -> str:
    """The table as a LaTeX tabular; its notes are comments after it."""
    table = sweep_table(entries)
    lines = [rf"\begin{{tabular}}{{l{'l' * len(table.observed)}}}", r"\hline"]
    heads = [rf"$\phi_{{{_tex_name(name)}}}$" for name in table.observed]
    lines.append("model & " + " & ".join(heads) + r" \\ \hline")
    for grammar in table.grammars:
        lines.append(" & ".join(map(_tex, [grammar, *table.row(grammar)])) + r" \\")
    lines += [r"\hline", r"\end{tabular}", *(f"% {note}" for note in table.notes())]
    if sentence := bound_of_no(entries):
        lines.append(f"% {sentence}")
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
    """All entries, one on each line."""
    sizes = list(dict.fromkeys(name for entry in entries for name in entry.sizes))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    counts = ["parameters", "moments", "rank", "deficiency", "verdict", "error"]
    writer.writerow(["grammar", "observed", *sizes, "L", *counts])
    for entry in entries:
        values = entry.as_json()  # None is written as nothing
        chosen = [entry.sizes.get(name) for name in sizes]
        row = [entry.grammar, entry.observed, *chosen, entry.length]
        writer.writerow([*row, *(values[name] for name in counts)])
    return file.getvalue()


def as_json(entries: Sequence[Entry]) -> dict[str, object]:
    """The table and all entries as a JSON object."""
    table = sweep_table(entries)
    return {
        "table": {
            grammar: dict(zip(table.observed, table.row(grammar), strict=True))
            for grammar in table.grammars
        },
        "notes": table.notes(),
        "error": error_of_all(entries),
        "entries": [entry.as_json() for entry in entries],
    }


def json_text(entries: Sequence[Entry]) -> str:
    """The table and all entries as JSON."""
    return json.dumps(as_json(entries), ensure_ascii=False, indent=2) + "\n"
