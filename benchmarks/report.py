"""Records as tables: the same for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.goals import Verdict, untried, verdicts
from benchmarks.growth import Growth, growths
from benchmarks.measure import Goal
from benchmarks.tables import Table, megabytes, milliseconds
from fgg.plan.backend import CPP

Record = Mapping[str, Any]

TOKENS = 4
"""The column of tokens per second, which suites without batches do not have."""


def shared(points: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sizes that are the same at all points."""
    every = list(points)
    first = every[0] if every else {}
    return {k: v for k, v in first.items() if all(p.get(k) == v for p in every)}


def text_of(sizes: Mapping[str, int], without: Mapping[str, int] | None = None) -> str:
    """Sizes as text, without those that are said elsewhere."""
    return ", ".join(f"{k} {v}" for k, v in sizes.items() if k not in (without or {})) or "all"


def names_of(records: Iterable[Record], *roles: str) -> list[str]:
    """The names of computations of some roles, in the order of the records."""
    return list(dict.fromkeys(r["name"] for r in records if r["role"] in roles))


def times(title: str, records: Sequence[Record]) -> Table:
    """Our time at each point, and the ratios of all others to it."""
    timed = [r for r in records if "median" in r]
    common = shared(r["point"] for r in timed)
    others = [*names_of(timed, "own"), *names_of(timed, "peer"), *names_of(timed, "limit")]
    columns = ["", "ours, ms", "quartiles", "wall, ms", "tokens/s", *others]
    table = Table(title=title, columns=columns)
    points = {r["at"]: r["point"] for r in timed}
    for number, (at, point) in enumerate(points.items(), 1):
        here = {r["name"]: r for r in timed if r["at"] == at}
        (ours,) = (r for r in here.values() if r["role"] == "ours")
        tokens = point.get("n", 0) * point.get("batch", 0)
        row = [
            f"{number}. {text_of(point, common)}",
            milliseconds(ours["median"]),
            f"{milliseconds(ours['low'])} to {milliseconds(ours['high'])}",
            milliseconds(ours["wall"]),
            f"{tokens / ours['median']:,.0f}" if tokens else "",
        ]
        table.rows.append(row + [ratio(here[name]) if name in here else "" for name in others])
    if not any(row[TOKENS] for row in table.rows):
        table.columns = [*columns[:TOKENS], *columns[TOKENS + 1 :]]
        table.rows = [[*row[:TOKENS], *row[TOKENS + 1 :]] for row in table.rows]
    if common:
        table.notes.append(f"everywhere: {text_of(common)}")
    fits = growths((r["name"], r["point"], r["median"]) for r in timed if r["role"] != "limit")
    for name in ("fgg", *names_of(timed, "peer")):
        texts = [fit_text(fit, common) for fit in fits if fit.name == name]
        if texts:
            table.notes.append(f"time of {name} grows as {', '.join(texts)}")
    differences = [r["difference"] for r in records if "difference" in r]
    if differences:
        table.notes.append(f"what is computed differs by at most {max(differences):.0e}")
    rounds = {r["rounds"] for r in timed}
    if rounds:
        table.notes.append(f"rounds: {min(rounds)} to {max(rounds)}")
    table.notes += skipped(records, common)
    return table


def fit_text(fit: Growth, common: Mapping[str, int]) -> str:
    """A growth in words: the exponent, what stayed the same, how many points."""
    stayed = {k: v for k, v in fit.rest if k not in common}
    rest = f"{text_of(stayed)}; " if stayed else ""
    return f"{fit.varied}^{fit.exponent:.2f} ({rest}{fit.points} points)"


def ratio(record: Record) -> str:
    """A ratio with its quartiles, if there is more than one round."""
    spread = f" ({record['ratio_low']:.2f} to {record['ratio_high']:.2f})"
    return f"{record['ratio']:.2f}{spread if record['rounds'] > 1 else ''}"


def skipped(records: Iterable[Record], common: Mapping[str, int]) -> list[str]:
    """Who was not measured, where, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for r in records:
        if "skipped" in r:
            at = text_of(r["point"], common) if r["point"] else r["at"]
            found.setdefault((r["name"], r["skipped"]), []).append(at)
    return [f"not measured: {n} at {'; '.join(at)}: {why}" for (n, why), at in found.items()]


def memory(records: Sequence[Record]) -> Table | None:
    """The bytes of tensors, and the growth of the process; None if there are none."""
    found = [r for r in records if "allocated" in r]
    if not found:
        return None
    names = list(dict.fromkeys(r["name"] for r in found))
    common = shared(r["point"] for r in found)
    columns = ["MB of tensors (growth of the process)", *names]
    table = Table(title="Peak memory", columns=columns)
    for at, point in {r["at"]: r["point"] for r in found}.items():
        here = {r["name"]: r for r in found if r["at"] == at}
        cells = [
            f"{megabytes(here[n]['allocated'])} ({megabytes(here[n]['resident'])})"
            if n in here
            else ""
            for n in names
        ]
        table.rows.append([text_of(point, common), *cells])
    if common:
        table.notes.append(f"everywhere: {text_of(common)}")
    for fit in growths((r["name"], r["point"], r["allocated"]) for r in found):
        table.notes.append(f"memory of {fit.name} grows as {fit_text(fit, common)}")
    return table


def overheads(records: Sequence[Record], title: str) -> Table:
    """Compile times, and calls on one item of a few tokens."""
    columns = ["", "compile, ms", "log Z, ms", "log Z and gradients, ms"]
    fast = {r["at"]: r for r in records if "building" in r}
    if fast:
        columns += ["cpp: build, ms", "log Z, ms", "log Z and gradients, ms"]
    table = Table(title=title, columns=columns)
    for r in records:
        if "compiling" in r:
            cells = [milliseconds(r[key]) for key in ("compiling", "forward", "both")]
            if r["at"] in fast:
                other = fast[r["at"]]
                cells += [milliseconds(other[key]) for key in ("building", "fast", "both")]
            elif fast:
                cells += [""] * 3
            table.rows.append([r["at"], *cells])
    table.notes += skipped(records, {})
    return table


def met_at(found: Sequence[Verdict]) -> str:
    """At how many points a goal is met, in bold if not at all of them."""
    text = f"{sum(v.met for v in found)} of {len(found)}" if found else ""
    return text if all(v.met for v in found) else f"**{text}**"


def goals(wanted: Sequence[Goal], records: Sequence[Record]) -> Table | None:
    """A row for each goal: at how many points it is met, and where it is farthest from that."""
    if not wanted:
        return None
    found = verdicts(wanted, records)
    fast = verdicts(wanted, records, CPP)
    columns = ["goal", "met at", "farthest", "there"]
    table = Table(title="Goals", columns=[*columns, "with cpp", "farthest"] if fast else columns)
    for goal in dict.fromkeys(v.goal for v in (*found, *fast)):
        own = [v for v in found if v.goal == goal]
        row = [goal, met_at(own), "", ""]
        if own:
            worst = min(own, key=lambda v: v.margin)
            row[2:] = worst.measured, worst.at
        if fast:
            others = [v for v in fast if v.goal == goal]
            least = min(others, key=lambda v: v.margin).measured if others else ""
            row += [met_at(others), least]
        table.rows.append(row)
    table.notes += [f"not measured: {text}" for text in untried(wanted, records)]
    return table
