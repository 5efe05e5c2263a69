"""What a verification found: a row for each comparison, what was left out, a counterexample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fgg.runtime.verify.bounds import Bound


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison with the source on the reference engine.

    `what` is compared (the grammar after a pass, the plan, the program), in which space, in which
    quantity and with which numbers. `holds` is None where that stays undecided, and `note` says
    why. `error` is the greatest relative difference of real numbers; `bound` says how sure an
    exact answer is.
    """

    what: str
    space: str
    quantity: str
    numbers: str
    holds: bool | None
    items: int
    trials: int
    error: float | None = None
    bound: Bound | None = None
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object."""
        found: dict[str, Any] = {
            "what": self.what,
            "space": self.space,
            "quantity": self.quantity,
            "numbers": self.numbers,
            "holds": self.holds,
            "items": self.items,
            "trials": self.trials,
        }
        if self.error is not None:
            found["error"] = self.error if self.error < float("inf") else "inf"
        if self.bound is not None:
            found["degree"] = self.bound.degree
            found["bits"] = round(self.bound.bits, 1)
            found["chance"] = self.bound.chance
        return {**found, "note": self.note} if self.note else found


PEAKED = "long, peaked inputs"
"""The quantity of rows about laws that all numbers of a program obey."""
EXACT = "exact comparison"
"""What is left out where Z is not a polynomial."""


@dataclass(frozen=True)
class LeftOut:
    """A comparison that was not made, and why."""

    what: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """The smallest input at which a comparison fails.

    `wanted` is what the source says, `found` what the other one does; `modulus` the prime if they
    are residues. All weights are zero but those in `weights`. `derivation` is one whose weight
    counts on one side only, or not as often; `rules` are those of it that no shorter input uses.
    `confirmed` says which second evaluation gave what the source says.
    """

    what: str
    space: str
    quantity: str
    sizes: Mapping[str, int]
    lengths: Mapping[str, int]
    inputs: Mapping[str, Any]
    wanted: Any
    found: Any
    modulus: int | None = None
    weights: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    derivation: str = ""
    rules: tuple[str, ...] = ()
    note: str = ""
    confirmed: str = ""

    def as_json(self) -> dict[str, Any]:
        """The counterexample as a JSON object."""
        return {
            "what": self.what,
            "space": self.space,
            "quantity": self.quantity,
            "sizes": dict(self.sizes),
            "lengths": dict(self.lengths),
            "inputs": dict(self.inputs),
            "wanted": _plain(self.wanted),
            "found": _plain(self.found),
            "modulus": self.modulus,
            "weights": {name: dict(entries) for name, entries in self.weights.items()},
            "derivation": self.derivation,
            "rules": list(self.rules),
            "note": self.note,
            "confirmed": self.confirmed,
        }

    def lines(self) -> list[str]:
        """The counterexample for people."""
        name = f"{self.what}, {self.space}" if self.space else self.what
        found = [f"counterexample ({name}): {self.quantity}"]
        numbers = {**self.sizes, **self.lengths}
        if numbers:
            found.append("  " + ", ".join(f"{n} = {v}" for n, v in numbers.items()))
        found += [f"  {name} = {_short(value)}" for name, value in self.inputs.items()]
        for factor, entries in self.weights.items():
            shown = ", ".join(f"{place} = {value}" for place, value in list(entries.items())[:8])
            more = ", …" if len(entries) > 8 else ""
            found.append(f"  {factor}: {shown}{more}")
        if self.weights:
            found.append("  all other weights are 0")
        modulus = f" (modulo {self.modulus})" if self.modulus else ""
        found.append(f"  source: {self.wanted}{modulus}")
        found.append(f"  found:  {'no value' if self.found is None else self.found}{modulus}")
        if self.derivation:
            found.append(f"  a derivation: {self.derivation}")
        if self.rules:
            plural = "s" if len(self.rules) > 1 else ""
            found.append(f"  rule{plural}: " + ", ".join(f"`{rule}`" for rule in self.rules))
        if self.note:
            found.append(f"  {self.note}")
        return [*found, f"  confirmed: {self.confirmed}"] if self.confirmed else found


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The comparisons of a grammar with what the compiler makes of it.

    `sizes` are those that were used, `items` how many inputs were tried and `alive` how many of
    them have derivations; `unchanged` names passes that had nothing to do, by space, and programs
    that are the same as others.
    """

    name: str
    sizes: Mapping[str, int]
    shrunk: Mapping[str, int]
    length: int
    seed: int
    items: int
    alive: int
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...] = ()
    unchanged: tuple[str, ...] = ()
    counterexample: Counterexample | None = None

    @property
    def proved(self) -> bool:
        """Whether all that was compared is equal, and something exactly."""
        exact = any(row.bound is not None for row in self.rows)
        return exact and all(row.holds for row in self.rows)

    @property
    def refuted(self) -> bool:
        """Whether something differs; then there is a counterexample."""
        return any(row.holds is False for row in self.rows)

    @property
    def verdict(self) -> str:
        """`proved`, `refuted` or `undecided`."""
        return "proved" if self.proved else "refuted" if self.refuted else "undecided"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is undecided, if it is."""
        if self.verdict != "undecided":
            return ()
        open_rows = [
            f"{row.what}{f', {row.space}' if row.space else ''}, {row.quantity}: {row.note}"
            for row in self.rows
            if row.holds is None
        ]
        found = [f"{x.what}: {x.reason}" for x in self.left_out if x.what == EXACT]
        if not self.rows:
            found = ["nothing could be compared", *found]
        return (*open_rows, *found)

    @property
    def ok(self) -> bool:
        """Whether it is proved."""
        return self.proved

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_json(self) -> dict[str, Any]:
        """All of it as a JSON object."""
        example = self.counterexample
        return {
            "ok": self.ok,
            "name": self.name,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "sizes": dict(self.sizes),
            "shrunk": dict(self.shrunk),
            "length": self.length,
            "seed": self.seed,
            "items": self.items,
            "with_derivations": self.alive,
            "rows": [row.as_json() for row in self.rows],
            "left_out": [{"what": x.what, "reason": x.reason} for x in self.left_out],
            "unchanged": list(self.unchanged),
            "counterexample": None if example is None else example.as_json(),
        }

    def lines(self) -> list[str]:
        """All of it for people."""
        found = [f"{self.name}: {self.verdict}"]
        if self.sizes:
            sizes = ", ".join(f"{n} = {v}" for n, v in self.sizes.items())
            smaller = " (made small; `--set` gives others)" if self.shrunk else ""
            found.append(f"  sizes used: {sizes}{smaller}")
        items = "1 item" if self.items == 1 else f"{self.items} items"
        found.append(
            f"  {items} of lengths up to {self.length}, {self.alive} with derivations; "
            f"seed {self.seed}"
        )
        found += [f"  undecided: {reason}" for reason in self.reasons]
        if self.rows:
            found += ["", *_table(self.rows)]
        if any(row.bound for row in self.rows):
            found += ["", *PROOF]
        if self.unchanged:
            found += ["", *(f"nothing new: space {text}" for text in self.unchanged)]
        if self.left_out:
            found += ["", *(f"left out: {x.what}: {x.reason}" for x in self.left_out)]
        if self.counterexample is not None:
            found += ["", *self.counterexample.lines()]
        return found


PROOF = (
    "Z is compared exactly, at random points of fields GF(p), each p a random prime of 31 digits",
    "in base 2. `chance` is the greatest probability that polynomials which differ seem equal.",
    "Equal polynomials have equal derivatives, so expected counts are equal too.",
)


def _table(rows: tuple[Row, ...]) -> list[str]:
    titles = ("compared", "space", "quantity", "numbers", "trials", "result")
    cells = [titles]
    for row in rows:
        if row.holds is None:
            result = "undecided"
        elif not row.holds:
            result = f"DIFFERENT {row.note}".rstrip()
            if row.error is not None and not row.note:
                result += f", by {row.error:.1e}"
        elif row.quantity == PEAKED:
            result = f"no law is broken{f' ({row.note})' if row.note else ''}"
        elif row.bound is not None:
            chance = f"{row.bound.chance:.0e}" if row.bound.chance else "0"
            result = f"equal, degree {row.bound.degree}, chance {chance}"
        else:
            result = f"equal to {row.error:.0e}"
            result += f" ({row.note})" if row.note else ""
        trials = f"{row.trials} x {row.items}"
        cells.append((row.what, row.space, row.quantity, row.numbers, trials, result))
    widths = [max(len(line[i]) for line in cells) for i in range(len(titles))]
    return [
        "  " + "  ".join(f"{cell:{w}}" for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and abs(value) == float("inf"):
        return "inf" if value > 0 else "-inf"
    return value


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:200] + " …"
