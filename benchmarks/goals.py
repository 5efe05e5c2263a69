"""Whether goals are met: by records of measurements alone, so that it can be told again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.growth import growths
from benchmarks.measure import OURS, Goal
from benchmarks.tables import megabytes, milliseconds
from fgg.plan.backend import CPP

Record = Mapping[str, Any]

NUMBERS = {
    "time": "median",
    "memory": "allocated",
    "compiling": "compiling",
    "call": "forward",
    "call with cpp": "fast",
}
"""Where the records of a kind have their number; records of overhead have several."""


@dataclass(frozen=True)
class Verdict:
    """A goal at a point: what was to be reached, what was measured, and how far it is beyond that.

    The margin is a ratio: it is met from 1 on.
    """

    at: str
    goal: str
    measured: str
    margin: float

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        return self.margin >= 1


def verdicts(goals: Iterable[Goal], records: Sequence[Record], of: str = OURS) -> list[Verdict]:
    """The verdicts of the goals of a suite for a program `of` ours, by the records of that suite.

    A goal beside a peer that was not measured has none.
    """
    return [verdict for goal in goals for verdict in _verdicts(goal, records, of)]


def _verdicts(goal: Goal, records: Sequence[Record], of: str) -> Iterator[Verdict]:
    key = NUMBERS[goal.of]
    found = [r for r in records if key in r and _within(goal, r["point"])]
    ours = {r["at"]: r for r in found if r["name"] == of}
    if goal.grows:
        measured = [(of, r["point"], r[key]) for r in ours.values()]
        for growth in growths(measured):
            if growth.varied == goal.grows and growth.points > 1 and goal.most is not None:
                at = ", ".join(f"{name} {value}" for name, value in growth.rest)
                shown = f"{goal.grows}^{growth.exponent:.2f}"
                yield Verdict(at, text_of(goal), shown, 1 + goal.most - growth.exponent)
    elif goal.least is not None:
        for record in (r for r in found if r["name"] == goal.peer and r["at"] in ours):
            own = ours[record["at"]]
            # Ratios are to what is ours by default, in the same round.
            ratio = record["ratio"] / own["ratio"] if "ratio" in record else record[key] / own[key]
            shown = f"{ratio:.2f}"
            if record.get("rounds", 1) > 1 and of == OURS:
                shown += f" ({record['ratio_low']:.2f} to {record['ratio_high']:.2f})"
            yield Verdict(record["at"], text_of(goal), shown, ratio / goal.least)
    elif goal.most is not None:
        for record in ours.values():
            shown = written(goal.of, record[key])
            yield Verdict(record["at"], text_of(goal), shown, goal.most / record[key])


def untried(goals: Iterable[Goal], records: Sequence[Record]) -> list[str]:
    """The goals that nothing was measured for."""
    return [
        text_of(goal)
        for goal in goals
        if not verdicts([goal], records) and not verdicts([goal], records, CPP)
    ]


def text_of(goal: Goal) -> str:
    """A goal in words, without the points that it is for."""
    if goal.least is not None:
        return f"{goal.of} of {goal.peer} at least {goal.least:.3g} times ours"
    assert goal.most is not None
    if goal.grows:
        return f"{goal.of} grows at most as {goal.grows}^{goal.most:.3g}"
    return f"{goal.of} at most {written(goal.of, goal.most)}"


def _within(goal: Goal, point: Mapping[str, int]) -> bool:
    return all(point.get(name) in wanted for name, wanted in goal.at.items())


def written(of: str, number: float) -> str:
    """A number with its unit."""
    return f"{megabytes(number)} MB" if of == "memory" else f"{milliseconds(number)} ms"
