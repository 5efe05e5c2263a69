"""All comparisons of one source: exact ones, and in float64 those of its programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan
from warnings import catch_warnings, simplefilter

import numpy as np

from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.domains import size_values, with_sizes
from fgg.plan.backend import CPP
from fgg.runtime.program.program import Program
from fgg.runtime.verify.compared_sides import GroundSide, Side
from fgg.runtime.verify.confirm import SecondEvaluation
from fgg.runtime.verify.exact import FAILURES, Difference, ExactCheck, Tick, said
from fgg.runtime.verify.floats import QUANTITIES, TOLERANCE, Answer, FloatCheck, Gap, answer, gap
from fgg.runtime.verify.items import Item, is_answered, items_of
from fgg.runtime.verify.points import KINDS, FreeWeights, free_weights
from fgg.runtime.verify.result import (
    EXACT,
    PEAKED,
    Comparison,
    Counterexample,
    ErrorBound,
    LeftOut,
    Verification,
)
from fgg.runtime.verify.shrink import counterexample
from fgg.runtime.verify.stress import (
    TOLERANCES,
    Setting,
    Settings,
    Stress,
    Violation,
    best_of,
    log_z_of,
    settings_of,
    twice,
)

Sized = Callable[[Mapping[str, int]], Side]
Compared = tuple[str, str, Sized]
Maker = Callable[[Grammar], Program]
FAINT = 0.1
"""The factor by which weights are scaled down where recursions would diverge."""
MAX_BROKEN = 6
"""The most broken laws that are investigated."""
UNCONFIRMED = "the numbers differ, but a second evaluation of the source disagrees with the first"
CONFIRMED = "a second evaluation of the source, with 320 binary digits"
Progress = Callable[[int, int], None]
"""Called with how many pieces of work are done, and how many there are."""
Report = Callable[[Comparison], None]
"""Called with each comparison as soon as it is made."""


def run(
    source: Grammar,
    *,
    name: str,
    states: Mapping[str, int],
    free: Sequence[str],
    shrunk: Mapping[str, int],
    compared: Sequence[Compared],
    programs: Mapping[str, Maker],
    left_out: Sequence[LeftOut],
    unchanged: Sequence[str],
    trials: int,
    length: int,
    number: int,
    seed: int,
    floats: bool,
    logs: bool,
    peaked: bool,
    progress: Progress,
    report: Report,
) -> Verification:
    """The verification of the sides and the programs of a source, at sizes `states`.

    Sizes that are `free` may be smaller in counterexamples. With `logs`, log Z of the sides is
    compared in float64 too; with `peaked`, programs also get long and peaked inputs.
    """
    pieces = trials * (1 + len(compared))
    if floats:
        pieces += len(KINDS) * (1 + len(compared) * logs)
        pieces += len(programs) * (len(QUANTITIES) + peaked)
    tick = _ticker(pieces, progress)
    with catch_warnings():
        simplefilter("ignore")  # values of 0 are meant
        work = _Run(source, states, free, compared, trials, length, number, seed, tick, report)
        work.exactly()
        if floats and logs and not work.exact.unbounded:
            work.all_logs()
        if floats:
            for space, maker in programs.items():
                work.program(space, maker, peaked)
        elif programs:
            work.left_out.append(LeftOut("programs", "float64 was not asked for"))
    return Verification(
        name=name,
        sizes=size_values(work.source.grammar),
        shrunk=shrunk,
        length=length,
        seed=seed,
        items=len(work.exact.items),
        alive=work.alive,
        rows=tuple(work.rows),
        left_out=(*left_out, *work.left_out),
        unchanged=tuple(unchanged),
        counterexample=work.example,
    )


class _Run:
    def __init__(
        self,
        source: Grammar,
        states: Mapping[str, int],
        smaller: Sequence[str],
        compared: Sequence[Compared],
        trials: int,
        length: int,
        number: int,
        seed: int,
        tick: Tick,
        report: Report,
    ) -> None:
        self.whole = source
        self.report = report
        self.states = dict(states)
        self.smaller = smaller
        self.seed = seed
        self.tick = tick
        self.trials = trials
        self.source = GroundSide(with_sizes(source, states))
        self.sides = [(what, space, make, make(states)) for what, space, make in compared]
        grammar = self.source.grammar
        self.free: FreeWeights = free_weights(grammar, *(side.grammar for *_, side in self.sides))
        rng = np.random.default_rng(seed)
        known = any(side.known(grammar) for *_, side in self.sides)
        items = items_of(grammar, length, number, rng, known=known)
        self.exact = ExactCheck(self.source, items, self.free, trials, rng)
        self.rows: list[Comparison] = []
        self.left_out: list[LeftOut] = []
        self.example: Counterexample | None = None
        self.answers: dict[str, list[Answer]] = {}
        self.points = {kind: self.free.real(kind, np.random.default_rng(seed)) for kind in KINDS}
        self.alive = 0
        self.peaks: StressInputs | None = None

    def add(self, row: Comparison) -> None:
        """Keep a comparison, and report it."""
        self.rows.append(row)
        self.report(row)

    # exactly

    def exactly(self) -> None:
        """Compare all sides, exactly if Z is a polynomial, else in float64."""
        unbounded = self.exact.unbounded
        if unbounded is not None:
            reason = f"derivations of `{unbounded}` have no bound, so Z is not a polynomial"
            self.left_out.append(LeftOut(EXACT, reason))
            # Most recursions diverge at weights of about one.
            self.points = {k: self.free.times(p, FAINT) for k, p in self.points.items()}
            self.alive = sum(a.log_z > float("-inf") for a in self.reference("flat"))
            self.all_logs()
            return
        self.exact.prepare(self.tick)
        self.alive = self.exact.alive
        for what, space, make, side in self.sides:
            outcome = self.exact.compare(side, self.tick)
            row = self.row(what, space, outcome, side)
            if isinstance(outcome, Difference) and self.example is None:
                self.example = self.shrunk(outcome, what, space, make)
                if self.example is None:
                    row = replace(row, holds=None, note=UNCONFIRMED)
            self.add(row)

    def row(
        self, what: str, space: str, outcome: ErrorBound | Difference, side: Side
    ) -> Comparison:
        """The result of an exact comparison."""
        holds = isinstance(outcome, ErrorBound)
        known = side.known(self.source.grammar)
        names = " and ".join(f"`{name}`" for name in known)
        note = f"where no token of {names} is missing" if names else ""
        return Comparison(
            what=what,
            space=space,
            quantity="Z",
            numbers="GF(p)",
            holds=holds,
            items=sum(is_answered(known, item) for item in self.exact.items),
            trials=self.trials,
            bound=outcome if isinstance(outcome, ErrorBound) else None,
            note=note if isinstance(outcome, ErrorBound) else outcome.failure,
        )

    def shrunk(
        self, difference: Difference, what: str, space: str, make: Sized
    ) -> Counterexample | None:
        """A small counterexample for a difference; None if it is not confirmed."""
        total = sum(difference.item.lengths.values())
        shorter = [
            item
            for item, *values in zip(self.exact.items, *self.exact.values, strict=True)
            if sum(item.lengths.values()) < total and any(values)
        ]

        def made(changed: Mapping[str, int]) -> tuple[Grammar, Side]:
            wanted = {**self.states, **changed}
            return with_sizes(self.whole, wanted), make(wanted)

        return counterexample(
            difference,
            made,
            self.smaller,
            what=what,
            space=space,
            seed=self.seed,
            shorter=shorter,
        )

    # in float64

    def reference(self, kind: str) -> list[Answer]:
        """The reference engine's numbers for every item, at a point of real weights."""
        if kind not in self.answers:
            self.tick()
            point = self.points[kind]
            self.answers[kind] = [answer(self.source, i, point) for i in self.exact.items]
        return self.answers[kind]

    def all_logs(self) -> None:
        """Compare log Z of all sides in float64."""
        for what, space, _, side in self.sides:
            self.logs(what, space, side)

    def logs(self, what: str, space: str, side: Side) -> None:
        """Compare log Z of a side."""
        gaps: list[tuple[Gap, Item, str]] = []
        row = self.floating(what, space, "log Z", [], TOLERANCE)
        for kind in KINDS:
            self.tick()
            weigh = self.points[kind].weights
            known = side.known(self.source.grammar)
            items = [item for item in self.exact.items if is_answered(known, item)]
            wanted = self.wanted(kind, items)
            try:
                values = side.values(items, weigh, "log")
            except FAILURES as error:
                self.add(replace(row, holds=None, note=said(error)))
                return
            for number, (item, want, value) in enumerate(zip(items, wanted, values, strict=True)):
                assert value is not None
                difference = gap("log Z", "log Z", number, want.log_z, float(value))
                gaps.append((difference, item, kind))
        row = self.floating(
            what, space, "log Z", [difference for difference, *_ in gaps], TOLERANCE
        )
        if not row.holds:
            row = self.decided(row, side, [g for g in gaps if not g[0].error <= TOLERANCE])
        self.add(row)

    def decided(
        self, row: Comparison, side: Side, gaps: Sequence[tuple[Gap, Item, str]]
    ) -> Comparison:
        """A comparison whose numbers differ: it fails if a second evaluation of both sides agrees.

        Where a recursion is critical or diverges, rounding decides what its value is.
        """
        for difference, item, kind in gaps:
            point = self.points[kind]
            again = SecondEvaluation(self.source, self.free, point).log_z(item)
            other = (
                SecondEvaluation(side, self.free, point).log_z(item)
                if isinstance(side, GroundSide)
                else difference.found
            )
            if again is None or other is None:
                continue
            if gap("log Z", "log Z", 0, again, other).error > TOLERANCE:
                if self.example is None:
                    self.example = Counterexample(
                        what=row.what,
                        space=row.space,
                        quantity="log Z",
                        sizes=size_values(self.source.grammar),
                        lengths=item.lengths,
                        inputs=item.described(self.source.grammar),
                        wanted=again,
                        found=other,
                        note=f"with {kind} weights by seed {self.seed}",
                        confirmed=CONFIRMED,
                    )
                return row
        note = "a recursion is critical or diverges at these weights: rounding decides its value"
        return replace(row, holds=None, note=note)

    def program(self, space: str, maker: Maker, peaked: bool) -> None:
        """Compare all quantities of a program with the reference."""
        try:
            program = maker(self.source.grammar)
        except GrammarError as error:
            self.left_out.append(LeftOut(f"program, space {space}", said(error)))
            return
        for quantity in QUANTITIES:
            self.tick()
            self.asked(program, space, quantity)
        if peaked:
            self.tick()
            self.stressed(program, space, maker)

    def stressed(self, program: Program, space: str, maker: Maker) -> None:
        """Run a program on long and peaked inputs, and compare where its numbers break a law."""
        if self.peaks is None:
            self.peaks = StressInputs(self.source.grammar, self.free, self.exact.items, self.seed)
        settings = self.peaks.settings(program)
        row = Comparison(
            what=_what(program),
            space=space,
            quantity=PEAKED,
            numbers="float32, float64",
            holds=True,
            items=sum(len(s.items) for s in settings.short) + len(settings.long[0].items),
            trials=1,
            error=0.0,
        )
        try:
            stress = Stress(program, self.peaks.best(program), self.peaks.twice(maker))
            broken = list(stress.violations(settings))
        except FAILURES as error:
            self.add(replace(row, holds=None, note=said(error)))
            return
        if stress.refused:
            row = replace(row, note=f"{stress.refused} refused")
        for violation in broken[:MAX_BROKEN]:
            try:
                example = self.disproved(program, space, violation)
            except FAILURES as error:
                row = replace(row, holds=None, note=f"broken law ({violation.law}): {said(error)}")
                continue
            if example is not None:
                self.example = self.example or example
                row = replace(row, holds=False, error=violation.error, note=violation.law)
                break
        self.add(row)

    def disproved(
        self, program: Program, space: str, violation: Violation
    ) -> Counterexample | None:
        """The wrong number behind a broken law; None if only the law is wrong."""
        setting = violation.setting
        tolerance = TOLERANCES[setting.dtype]
        singles = [(item,) for item in setting.items]
        for items in (*singles, tuple(setting.items)):
            if log_z_of(program, replace(setting, items=items), setting.dtype) is None:
                continue
            answers = [answer(self.source, item, setting.point) for item in items]
            asked = FloatCheck(program, items, answers, setting.point, self.free, setting.dtype)
            for quantity in ("log Z", "expected counts", "marginals"):
                gaps = [g for g in asked.gaps(quantity) if not g.error <= tolerance]
                for worst in sorted(gaps, key=lambda g: -g.error)[:1]:
                    example = self.refuting(asked, worst, space, tolerance)
                    if example is not None:
                        return replace(
                            example, note=f"with {setting.name} a law is broken: {violation.law}"
                        )
        return None

    def asked(self, program: Program, space: str, quantity: str) -> None:
        """Compare one quantity of a program."""
        gaps: list[Gap] = []
        failure, tolerance, note = "", TOLERANCE, ""
        for kind in KINDS:
            point = self.points[kind]
            try:
                for items in self.batches(program):
                    answers = self.wanted(kind, items)
                    asked = FloatCheck(program, items, answers, point, self.free)
                    tolerance = asked.tolerance
                    gaps += asked.gaps(quantity)
                    note = asked.note
            except FAILURES as error:
                failure = said(error)
                break
        row = self.floating(_what(program), space, quantity, gaps, tolerance)
        row = replace(row, note=failure or note, holds=row.holds and not failure)
        if not row.holds:
            example = self.alone(program, space, quantity, tolerance)
            self.example = self.example or example
            row = row if example is not None else replace(row, holds=None, note=UNCONFIRMED)
        self.add(row)

    def batches(self, program: Program) -> list[Sequence[Item]]:
        """The batches to compare: all items, and before them those that need no other plan."""
        items = self.exact.items
        known = [item for item in items if is_answered(program.compiled.plan.known, item)]
        return [items] if len(known) in (0, len(items)) else [known, items]

    def wanted(self, kind: str, items: Sequence[Item]) -> list[Answer]:
        """The reference engine's numbers for some items."""
        answers = dict(zip(map(id, self.exact.items), self.reference(kind), strict=True))
        return [answers[id(item)] for item in items]

    def floating(
        self, what: str, space: str, quantity: str, gaps: Sequence[Gap], tolerance: float
    ) -> Comparison:
        """The result of a comparison in float64."""
        worst = max((g.error for g in gaps), default=0.0)
        return Comparison(
            what=what,
            space=space,
            quantity=quantity,
            numbers="float64",
            holds=worst <= tolerance,
            items=len(self.exact.items),
            trials=len(KINDS),
            error=worst,
        )

    def alone(
        self, program: Program, space: str, quantity: str, tolerance: float
    ) -> Counterexample | None:
        """The first item at which a program's numbers differ, alone or in a batch with all others.

        None if a second evaluation has other numbers than the reference.
        """
        for asked, kind, worst in self.failing(program, quantity, tolerance):
            single = len(asked.items) == 1
            example = self.refuting(asked, worst, space, tolerance)
            if example is not None:
                note = f"with {kind} weights by seed {self.seed}"
                note += "" if single else "; only in a batch with other items"
                return replace(example, note=note)
        return None

    def refuting(
        self, asked: FloatCheck, worst: Gap, space: str, tolerance: float
    ) -> Counterexample | None:
        """The counterexample of a gap, if a second evaluation confirms the reference's number."""
        confirmed = CONFIRMED
        if isnan(worst.wanted):
            confirmed = "it fails again"
        else:
            again = asked.second(worst, self.source)
            if again is None or not _near(again, worst.wanted, tolerance):
                return None
        item = asked.items[worst.number or 0]
        return Counterexample(
            what="program",
            space=space,
            quantity=f"{worst.quantity}: {worst.where}",
            sizes=size_values(self.source.grammar),
            lengths=item.lengths,
            inputs=item.described(self.source.grammar),
            wanted=worst.wanted,
            found=worst.found,
            confirmed=confirmed,
        )

    def failing(
        self, program: Program, quantity: str, tolerance: float
    ) -> Iterator[tuple[FloatCheck, str, Gap]]:
        """The batches whose numbers differ or cannot be computed: single items first, then all."""
        items = self.exact.items
        for batch in (*([item] for item in items), *self.batches(program)):
            for kind in KINDS:
                answers = self.wanted(kind, batch)
                asked = FloatCheck(program, batch, answers, self.points[kind], self.free)
                try:
                    gaps = list(asked.gaps(quantity))
                except FAILURES as error:
                    nan = float("nan")
                    gaps = [Gap(quantity, said(error), None, nan, nan, float("inf"))]
                worst = max(gaps, key=lambda g: g.error, default=None)
                if worst is not None and worst.error > tolerance:
                    yield asked, kind, worst


class StressInputs:
    """Long and peaked inputs for all programs of a grammar, with results that they share."""

    def __init__(
        self, grammar: Grammar, free: FreeWeights, items: Sequence[Item], seed: int
    ) -> None:
        self.grammar = grammar
        self.free = free
        self.items = items
        self.seed = seed
        self.known: Settings | None = None
        self.weighed: dict[tuple[int, int], list[float]] = {}
        self.doubled: list[Program | None] = []

    def settings(self, program: Program) -> Settings:
        """The settings; the plan of the first program decides how long inputs may be."""
        if self.known is None:
            rng = np.random.default_rng(self.seed)
            self.known = settings_of(
                self.grammar, program.compiled.plan, self.free, self.items, rng
            )
        return self.known

    def best(self, program: Program) -> Callable[[Setting], Sequence[float]]:
        """The log-weights of the best derivations, from a program that has states."""
        compiled = program.compiled
        with_states = compiled.states if compiled.space == "rank" else compiled

        def weighed(setting: Setting) -> Sequence[float]:
            key = (id(setting.items), id(setting.point))
            if key not in self.weighed:
                self.weighed[key] = best_of(with_states, setting)
            return self.weighed[key]

        return weighed

    def twice(self, maker: Maker) -> Program | None:
        """The program of two independent copies, made for the first program only."""
        if self.doubled:
            return None
        try:
            self.doubled.append(maker(twice(self.grammar)))
        except GrammarError:
            self.doubled.append(None)
        return self.doubled[0]


def _what(program: Program) -> str:
    return "machine code" if program.compiler.backend.asked == CPP else "program"


def _near(one: float, two: float, tolerance: float) -> bool:
    return one == two or abs(one - two) <= tolerance * max(1.0, abs(two))


def _ticker(total: int, progress: Progress) -> Tick:
    """A function that reports one more piece of work each time it is called."""
    done = iter(range(1, total + 1))
    return lambda: progress(next(done, total), total)
