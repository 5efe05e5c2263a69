"""The result of a verification: its comparisons, omissions and counterexample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fgg.runtime.interpret.semirings.modular import LOW, PRIMES
from fgg.runtime.verify.compared_sides import Value

if TYPE_CHECKING:
    from fgg.draw.picture import Picture


@dataclass(frozen=True)
class ErrorBound:
    """The degree of Z in the free weights, the binary digits of its coefficients, the trials."""

    degree: int
    bits: float
    trials: int

    @property
    def chance(self) -> float:
        """The greatest probability of a wrong "equal"; 0 where it is below all numbers."""
        return float((self.degree / LOW + self.bits / 30 / PRIMES) ** self.trials)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One comparison with the source on the reference engine.

    `what` names the other side: the grammar after a pass, the plan, or the program. `quantity` is
    what was computed on both sides, and `numbers` with which kind of numbers. `holds` is None where
    the answer is undecided; `note` then says why. `error` is the greatest relative difference of
    real numbers. `bound` limits the chance that an exact answer is wrong.
    """

    what: str
    space: str
    quantity: str
    numbers: str
    holds: bool | None
    items: int
    trials: int
    error: float | None = None
    bound: ErrorBound | None = None
    note: str = ""

    def as_json(self) -> dict[str, object]:
        """The comparison as a JSON object."""
        fields: dict[str, object] = {
            "what": self.what,
            "space": self.space,
            "quantity": self.quantity,
            "numbers": self.numbers,
            "holds": self.holds,
            "items": self.items,
            "trials": self.trials,
        }
        if self.error is not None:
            fields["error"] = self.error if self.error < float("inf") else "inf"
        if self.bound is not None:
            fields["degree"] = self.bound.degree
            fields["bits"] = round(self.bound.bits, 1)
            fields["chance"] = self.bound.chance
        return {**fields, "note": self.note} if self.note else fields


PEAKED = "long, peaked inputs"
"""The quantity of comparisons that test laws which all numbers of a program obey."""
EXACT = "exact comparison"
"""The comparison that is left out where Z is not a polynomial."""


@dataclass(frozen=True)
class LeftOut:
    """A comparison that was not made, and why."""

    what: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """The smallest input at which a comparison fails.

    `wanted` is the value of the source, `found` that of the other side; `modulus` is the prime if
    they are residues. All weights are zero except those in `weights`. The two sides count
    `derivation` differently; `rules` are its rules that no shorter input uses. `confirmed` names
    the second evaluation that gave the source's value again.
    """

    what: str
    space: str
    quantity: str
    sizes: Mapping[str, int]
    lengths: Mapping[str, int]
    inputs: Mapping[str, object]
    wanted: Value | str
    found: Value | str
    modulus: int | None = None
    weights: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    derivation: str = ""
    rules: tuple[str, ...] = ()
    note: str = ""
    confirmed: str = ""

    def as_json(self) -> dict[str, object]:
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
        """The counterexample as lines of text."""
        name = f"{self.what}, {self.space}" if self.space else self.what
        lines = [f"counterexample ({name}): {self.quantity}"]
        numbers = {**self.sizes, **self.lengths}
        if numbers:
            lines.append("  " + ", ".join(f"{n} = {v}" for n, v in numbers.items()))
        lines += [f"  {name} = {_short(value)}" for name, value in self.inputs.items()]
        for factor, entries in self.weights.items():
            shown = ", ".join(f"{place} = {value}" for place, value in list(entries.items())[:8])
            more = ", …" if len(entries) > 8 else ""
            lines.append(f"  {factor}: {shown}{more}")
        if self.weights:
            lines.append("  all other weights are 0")
        modulus = f" (modulo {self.modulus})" if self.modulus else ""
        lines.append(f"  source: {self.wanted}{modulus}")
        lines.append(f"  found:  {'no value' if self.found is None else self.found}{modulus}")
        if self.derivation:
            lines.append(f"  a derivation: {self.derivation}")
        if self.rules:
            plural = "s" if len(self.rules) > 1 else ""
            lines.append(f"  rule{plural}: " + ", ".join(f"`{rule}`" for rule in self.rules))
        if self.note:
            lines.append(f"  {self.note}")
        return [*lines, f"  confirmed: {self.confirmed}"] if self.confirmed else lines


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The comparisons of a grammar with its compiled forms.

    It is true if the compiler is proved right. `sizes` are the sizes that were used, and `shrunk`
    those among them that were made small. `items` inputs were tried, and `alive` of them have
    derivations. `unchanged` names, by space, passes that had nothing to do and programs that equal
    others.
    """

    name: str
    sizes: Mapping[str, int]
    shrunk: Mapping[str, int]
    length: int
    seed: int
    items: int
    alive: int
    rows: tuple[Comparison, ...]
    left_out: tuple[LeftOut, ...] = ()
    unchanged: tuple[str, ...] = ()
    counterexample: Counterexample | None = None

    @property
    def proved(self) -> bool:
        """Whether all comparisons hold, and at least one of them is exact."""
        exact = any(row.bound is not None for row in self.rows)
        return exact and all(row.holds for row in self.rows)

    @property
    def refuted(self) -> bool:
        """Whether a comparison fails; then there is a counterexample."""
        return any(row.holds is False for row in self.rows)

    @property
    def verdict(self) -> str:
        """`proved`, `refuted` or `undecided`."""
        return "proved" if self.proved else "refuted" if self.refuted else "undecided"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is undecided; empty if it is not."""
        if self.verdict != "undecided":
            return ()
        open_rows = [
            f"{row.what}{f', {row.space}' if row.space else ''}, {row.quantity}: {row.note}"
            for row in self.rows
            if row.holds is None
        ]
        omitted = [f"{x.what}: {x.reason}" for x in self.left_out if x.what == EXACT]
        if not self.rows:
            omitted = ["nothing could be compared", *omitted]
        return (*open_rows, *omitted)

    @property
    def ok(self) -> bool:
        """The same as `proved`."""
        return self.proved

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return f"Verification({self.name!r}, {self.verdict}, {len(self.rows)} comparisons)"

    def draw(self) -> Picture:
        """The verdict and the comparisons as a picture."""
        from fgg.draw.table import BAD, GOOD, OPEN, table_picture

        colors = {True: GOOD, False: BAD, None: OPEN}
        titles, *rows = _cells(self.rows)
        verdict = {"proved": GOOD, "refuted": BAD}.get(self.verdict, OPEN)
        example = self.counterexample
        return table_picture(
            self.name,
            rows,
            titles=titles,
            colors=[colors[row.holds] for row in self.rows],
            badge=(self.verdict, verdict),
            notes=[*self.reasons, *([] if example is None else example.lines())],
        )

    def _repr_html_(self) -> str:
        """The verdict and the comparisons, for notebooks."""
        from fgg.draw.html import scrolled

        return scrolled(self.draw().svg())

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_json(self) -> dict[str, object]:
        """The verification as a JSON object."""
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
        """The verification as lines of text."""
        lines = [f"{self.name}: {self.verdict}"]
        if self.sizes:
            sizes = ", ".join(f"{n} = {v}" for n, v in self.sizes.items())
            smaller = " (made small; `--set` gives others)" if self.shrunk else ""
            lines.append(f"  sizes used: {sizes}{smaller}")
        items = "1 item" if self.items == 1 else f"{self.items} items"
        lines.append(
            f"  {items} of lengths up to {self.length}, {self.alive} with derivations; "
            f"seed {self.seed}"
        )
        lines += [f"  undecided: {reason}" for reason in self.reasons]
        if self.rows:
            lines += ["", *_table(self.rows)]
        if any(row.bound for row in self.rows):
            lines += ["", *PROOF]
        if self.unchanged:
            lines += ["", *(f"nothing new: space {text}" for text in self.unchanged)]
        if self.left_out:
            lines += ["", *(f"left out: {x.what}: {x.reason}" for x in self.left_out)]
        if self.counterexample is not None:
            lines += ["", *self.counterexample.lines()]
        return lines


PROOF = (
    "Z is compared exactly, at random points of fields GF(p), each p a random prime of 31 digits",
    "in base 2. `chance` is the greatest probability that polynomials which differ seem equal.",
    "Equal polynomials have equal derivatives, so expected counts are equal too.",
)


def _cells(rows: tuple[Comparison, ...]) -> list[tuple[str, ...]]:
    """The table of comparisons, titles first."""
    titles = ("compared", "space", "quantity", "numbers", "trials", "result")
    cells: list[tuple[str, ...]] = [titles]
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
    return cells


def _table(rows: tuple[Comparison, ...]) -> list[str]:
    """The table of comparisons as aligned lines."""
    cells = _cells(rows)
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return [
        "  " + "  ".join(f"{cell:{w}}" for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _plain(value: object) -> object:
    if isinstance(value, float) and abs(value) == float("inf"):
        return "inf" if value > 0 else "-inf"
    return value


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:200] + " …"
