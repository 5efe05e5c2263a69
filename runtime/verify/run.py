"""All comparisons of one source, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from warnings import catch_warnings, simplefilter

import numpy as np

from fgg.diagnostics import GrammarError
from fgg.domains import size_values, with_sizes
from fgg.grammar import Grammar
from fgg.runtime.program import Program
from fgg.runtime.verify.bounds import Bound
from fgg.runtime.verify.exact import FAILURES, Difference, Exactly, Tick, said
from fgg.runtime.verify.floats import QUANTITIES, TOLERANCE, Answer, Floats, Gap, answer, gap
from fgg.runtime.verify.items import Item, is_answered, items_of
from fgg.runtime.verify.points import KINDS, Leaves, leaves
from fgg.runtime.verify.result import Counterexample, LeftOut, Row, Verification
from fgg.runtime.verify.shrink import counterexample
from fgg.runtime.verify.sides import GroundSide, Side

Sized = Callable[[Mapping[str, int]], Side]
Compared = tuple[str, str, Sized]
Maker = Callable[[Grammar], Program]
Progress = Callable[[int, int], None]
"""Called with how many pieces of work are done, and how many there are."""


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
    progress: Progress,
) -> Verification:
    """What holds of the sides and the programs of a source, at sizes `states`.

    Sizes that are `free` may be smaller in counterexamples. With `logs`, log Z of the sides is
    compared in float64 too.
    """
    pieces = trials * (1 + len(compared)) + len(KINDS) * (1 + len(compared) * logs)
    tick = _ticker(pieces + len(programs) * len(QUANTITIES), progress)
    with catch_warnings():
        simplefilter("ignore")  # values of 0 are meant
        work = _Run(source, states, free, compared, trials, length, number, seed, tick)
        work.exactly()
        if floats and logs and not work.exact.unbounded:
            work.all_logs()
        if floats:
            for space, maker in programs.items():
                work.program(space, maker)
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
    ) -> None:
        self.whole = source
        self.states = dict(states)
        self.smaller = smaller
        self.seed = seed
        self.tick = tick
        self.trials = trials
        self.source = GroundSide(with_sizes(source, states))
        self.sides = [(what, space, make, make(states)) for what, space, make in compared]
        grammar = self.source.grammar
        self.free: Leaves = leaves(grammar, *(side.grammar for *_, side in self.sides))
        rng = np.random.default_rng(seed)
        known = any(side.known(grammar) for *_, side in self.sides)
        items = items_of(grammar, length, number, rng, known=known)
        self.exact = Exactly(self.source, items, self.free, trials, rng)
        self.rows: list[Row] = []
        self.left_out: list[LeftOut] = []
        self.example: Counterexample | None = None
        self.answers: dict[str, list[Answer]] = {}
        self.points = {kind: self.free.real(kind, np.random.default_rng(seed)) for kind in KINDS}
        self.alive = 0

    # exactly

    def exactly(self) -> None:
        """Compare all sides, exactly if Z is a polynomial, else in float64."""
        unbounded = self.exact.unbounded
        if unbounded is not None:
            reason = f"derivations of `{unbounded}` have no bound, so Z is not a polynomial"
            self.left_out.append(LeftOut("exact comparison", reason))
            self.alive = sum(a.log_z > float("-inf") for a in self.reference("flat"))
            self.all_logs()
            return
        self.exact.prepare(self.tick)
        self.alive = self.exact.alive
        for what, space, make, side in self.sides:
            found = self.exact.compare(side, self.tick)
            self.rows.append(self.row(what, space, found, side))
            if isinstance(found, Difference) and self.example is None:
                self.example = self.shrunk(found, what, space, make)

    def row(self, what: str, space: str, found: Bound | Difference, side: Side) -> Row:
        """The row of an exact comparison."""
        holds = isinstance(found, Bound)
        known = side.known(self.source.grammar)
        names = " and ".join(f"`{name}`" for name in known)
        note = f"where no token of {names} is missing" if names else ""
        return Row(
            what=what,
            space=space,
            quantity="Z",
            numbers="GF(p)",
            holds=holds,
            items=sum(is_answered(known, item) for item in self.exact.items),
            trials=self.trials,
            bound=found if isinstance(found, Bound) else None,
            note=note if isinstance(found, Bound) else found.failure,
        )

    def shrunk(self, found: Difference, what: str, space: str, make: Sized) -> Counterexample:
        """The smallest counterexample that is found for a difference."""
        total = sum(found.item.lengths.values())
        shorter = [
            item
            for item, *values in zip(self.exact.items, *self.exact.values, strict=True)
            if sum(item.lengths.values()) < total and any(values)
        ]

        def made(changed: Mapping[str, int]) -> tuple[Grammar, Side]:
            wanted = {**self.states, **changed}
            return with_sizes(self.whole, wanted), make(wanted)

        return counterexample(
            found,
            made,
            self.smaller,
            what=what,
            space=space,
            seed=self.seed,
            shorter=shorter,
        )

    # in float64

    def reference(self, kind: str) -> list[Answer]:
        """What the reference engine says of every item, at a point of real weights."""
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
        gaps: list[Gap] = []
        failure = ""
        for kind in KINDS:
            self.tick()
            weigh = self.points[kind].weights
            known = side.known(self.source.grammar)
            items = [item for item in self.exact.items if is_answered(known, item)]
            wanted = self.wanted(kind, items)
            try:
                values = side.values(items, weigh, "log")
            except FAILURES as error:
                failure = said(error)
                break
            for number, (want, value) in enumerate(zip(wanted, values, strict=True)):
                gaps.append(gap("log Z", "log Z", number, want.log_z, float(value)))
        self.floating(what, space, "log Z", gaps, TOLERANCE, failure, bool(failure))

    def program(self, space: str, maker: Maker) -> None:
        """Compare a program with the reference in all that it can be asked."""
        try:
            program = maker(self.source.grammar)
        except GrammarError as error:
            self.left_out.append(LeftOut(f"program, space {space}", said(error)))
            return
        for quantity in QUANTITIES:
            self.tick()
            self.asked(program, space, quantity)

    def asked(self, program: Program, space: str, quantity: str) -> None:
        """Compare one quantity of a program."""
        gaps: list[Gap] = []
        failure, tolerance, note = "", TOLERANCE, ""
        for kind in KINDS:
            point = self.points[kind]
            try:
                for items in self.batches(program):
                    answers = self.wanted(kind, items)
                    asked = Floats(program, items, answers, point, self.free)
                    tolerance = asked.tolerance
                    gaps += asked.gaps(quantity)
                    note = asked.note
            except FAILURES as error:
                failure = said(error)
                break
        what = "program" if program.native is None else "machine code"
        self.floating(what, space, quantity, gaps, tolerance, failure or note, bool(failure))
        if not self.rows[-1].holds and self.example is None:
            self.example = self.alone(program, space, quantity, tolerance)

    def batches(self, program: Program) -> list[Sequence[Item]]:
        """All items, and before them those for which no other plan is needed."""
        items = self.exact.items
        known = [item for item in items if is_answered(program.plan.known, item)]
        return [items] if len(known) in (0, len(items)) else [known, items]

    def wanted(self, kind: str, items: Sequence[Item]) -> list[Answer]:
        """What the reference engine says of some items."""
        found = dict(zip(map(id, self.exact.items), self.reference(kind), strict=True))
        return [found[id(item)] for item in items]

    def floating(
        self,
        what: str,
        space: str,
        quantity: str,
        gaps: Sequence[Gap],
        tolerance: float,
        note: str,
        failed: bool,
    ) -> None:
        """Add the row of a comparison in float64."""
        worst = max((g.error for g in gaps), default=0.0)
        self.rows.append(
            Row(
                what=what,
                space=space,
                quantity=quantity,
                numbers="float64",
                holds=not failed and worst <= tolerance,
                items=len(self.exact.items),
                trials=len(KINDS),
                error=worst,
                note=note,
            )
        )

    def alone(
        self, program: Program, space: str, quantity: str, tolerance: float
    ) -> Counterexample:
        """The first item at which a program's numbers differ, alone or with all others."""
        for items, kind, worst in self.failing(program, quantity, tolerance):
            single = len(items) == 1
            item: Item = items[0] if single or worst.number is None else items[worst.number]
            return Counterexample(
                what="program",
                space=space,
                quantity=f"{quantity}: {worst.where}",
                sizes=size_values(self.source.grammar),
                lengths=item.lengths,
                inputs=item.described(self.source.grammar),
                wanted=worst.wanted,
                found=worst.found,
                note=f"with {kind} weights by seed {self.seed}"
                + ("" if single else "; only in a batch with other items"),
            )
        raise AssertionError("a row that does not hold has a gap")

    def failing(
        self, program: Program, quantity: str, tolerance: float
    ) -> Iterator[tuple[Sequence[Item], str, Gap]]:
        """Single items, and then all, whose numbers differ or cannot be had."""
        items = self.exact.items
        for batch in (*([item] for item in items), *self.batches(program)):
            for kind in KINDS:
                answers = self.wanted(kind, batch)
                asked = Floats(program, batch, answers, self.points[kind], self.free)
                try:
                    gaps = list(asked.gaps(quantity))
                except FAILURES as error:
                    nan = float("nan")
                    gaps = [Gap(quantity, said(error), None, nan, nan, float("inf"))]
                worst = max(gaps, key=lambda g: g.error, default=None)
                if worst is not None and worst.error > tolerance:
                    yield batch, kind, worst


def _ticker(total: int, progress: Progress) -> Tick:
    """A function that reports one more piece of work each time it is called."""
    done = iter(range(1, total + 1))
    return lambda: progress(next(done, total), total)
