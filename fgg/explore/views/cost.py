"""What a grammar costs in each space, and where `auto` would take another one.

A curve is what programs would cost if one number were another: a length, the size of the batch, or
a size of the grammar. For another size the grammar is compiled again, as a program would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fgg.api.compile import compilable
from fgg.compiler.cost.choose import SpaceChoice, choose
from fgg.compiler.cost.cost import KINDS, Cost, cost
from fgg.compiler.driver import SPACES, Expected
from fgg.diagnostics import GrammarError
from fgg.explore.asked import Answer, Asked, Json, Send
from fgg.explore.views.check import adjustable_sizes
from fgg.grammar import Grammar
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.domains import with_sizes
from fgg.plan.backend import WIDTHS
from fgg.plan.spaces import cheapest

BATCH = "batch"
POINTS = 13
FEW_POINTS = 7
"""How many points a curve has that is looked at for turns alone."""
MAX_LENGTH = 4096
MAX_BATCH = 10**6
FAR = 16
"""Curves go up to so many times the present number."""


@dataclass(frozen=True)
class Setting:
    """Where costs are counted: lengths, the number of items, the bytes of a number."""

    lengths: Mapping[str, int]
    batch: int
    width: int

    @staticmethod
    def of(asked: Asked) -> Setting:
        """The setting that a request gives. Raises GrammarError (F415)."""
        expected = Expected()
        given = asked.numbers("lengths", 1, MAX_LENGTH)
        lengths = {
            name: given.get(name, expected.length) for name in sorted(length_names(asked.source))
        }
        width = WIDTHS[asked.word("dtype", ("float32", "float64"), "float32")]
        return Setting(lengths, asked.number("batch", expected.batch, 1, MAX_BATCH), width)

    def with_number(self, name: str, number: int) -> Setting:
        """The setting with another length, or with another batch."""
        if name == BATCH:
            return replace(self, batch=number)
        return replace(self, lengths={**self.lengths, name: number})


@dataclass(frozen=True)
class Costs:
    """What the program of a grammar costs in each space that it can be compiled in."""

    choice: SpaceChoice
    setting: Setting

    @staticmethod
    def of(source: Grammar, setting: Setting) -> Costs:
        """The costs of a grammar joined with its query. Raises GrammarError (F425)."""
        with compilable(source.name):
            return Costs(choose(source, Expected()), setting)

    def spaces(self) -> Iterator[tuple[str, Cost]]:
        """Each space with its cost."""
        at = self.setting
        plans = {space: known.plan for space, known in self.choice.costs.items()}
        plans = plans or {self.choice.space: self.choice.plan}
        for space in sorted(plans, key=SPACES.index):
            yield space, cost(plans[space], at.lengths, batch=at.batch, width=at.width)

    @property
    def chosen(self) -> str:
        """The space that a program takes for a batch like this one."""
        works = self.choice.works(self.setting.lengths)
        return cheapest(works, self.setting.batch) if works else self.choice.space

    def work(self, space: str, counted: Cost) -> int:
        """The multiply-adds of a space; in dense space, factors are made from their pieces."""
        return counted.multiply_adds + (self.choice.products if space == "dense" else 0)

    def point(self, at: int) -> Answer:
        """A point of the curves."""
        figures = {
            space: {
                "multiply_adds": self.work(space, counted),
                "bytes": counted.peak_bytes + counted.parameter_bytes,
            }
            for space, counted in self.spaces()
        }
        return {"at": at, "spaces": figures, "chosen": self.chosen}


def view(asked: Asked, send: Send) -> Answer:
    """The costs here as a part `here`, the points of the curves as parts `point`.

    A part `turns` for each number says where another space is chosen if that number is another.
    """
    setting = Setting.of(asked)
    costs = Costs.of(asked.source, setting)
    numbers = variables(asked, setting)
    name = asked.word("vary", tuple(numbers), next(iter(numbers)))
    send(
        {
            "here": {
                "spaces": [_space(costs, space, counted) for space, counted in costs.spaces()],
                "refused": dict(costs.choice.refused),
                "chosen": costs.chosen,
                "setting": {
                    "lengths": dict(setting.lengths),
                    "batch": setting.batch,
                    "dtype": f"float{8 * setting.width}",
                },
                "variables": numbers,
                "vary": name,
            }
        }
    )
    for other in (name, *(x for x in numbers if x != name and costs.choice.costs)):
        curve = _Curve(asked.source, costs, other)
        points = []
        most = MAX_LENGTH if other in setting.lengths else 10**9
        for number in grid(numbers[other], most, POINTS if other == name else FEW_POINTS):
            point = curve.point(number)
            if point is not None:
                points.append(point)
                if other == name:
                    send({"point": point})
        send({"turns": {"name": other, "turns": list(curve.turns(points))}})
    return {}


def variables(asked: Asked, setting: Setting) -> dict[str, int]:
    """The numbers that a curve can go along, with their values: lengths first, the batch last."""
    sizes = {str(size["name"]): int(str(size["value"])) for size in adjustable_sizes(asked.source)}
    return {**setting.lengths, **sizes, BATCH: setting.batch}


def grid(number: int, most: int, points: int) -> list[int]:
    """Numbers around one, evenly spaced on a logarithmic scale, the number itself among them."""
    high = min(max(FAR * number, 64), most)
    spaced = (round(high ** (i / (points - 1))) for i in range(points))
    return sorted({number, *(x for x in spaced if x > 1)})


class _Curve:
    def __init__(self, source: Grammar, costs: Costs, name: str) -> None:
        self.source, self.costs, self.name = source, costs, name
        self.is_size = name != BATCH and name not in costs.setting.lengths

    def point(self, number: int) -> Answer | None:
        """The costs if the number were this one; None if the grammar does not allow it."""
        if not self.is_size:
            at = self.costs.setting.with_number(self.name, number)
            return replace(self.costs, setting=at).point(number)
        try:
            source = with_sizes(self.source, {self.name: number})
            return Costs.of(source, self.costs.setting).point(number)
        except GrammarError:
            return None

    def turns(self, points: Sequence[Answer]) -> Iterator[Json]:
        """Where another space is chosen, exactly: the first number for which it is."""
        for before, after in pairwise(points):
            low, high = before, after
            while low["chosen"] != high["chosen"] and _gap(low, high) > 1:
                middle = self.point(int(str(low["at"])) + _gap(low, high) // 2)
                if middle is None:
                    break
                low, high = (middle, high) if middle["chosen"] == low["chosen"] else (low, middle)
            if low["chosen"] != high["chosen"]:
                yield {"at": high["at"], "before": low["chosen"], "after": high["chosen"]}


def _gap(low: Answer, high: Answer) -> int:
    return int(str(high["at"])) - int(str(low["at"]))


def _space(costs: Costs, space: str, counted: Cost) -> Json:
    whole = max(counted.multiply_adds, 1)
    return {
        "name": space,
        "order": f"O({counted.text(counted.order)})",
        "multiply_adds": costs.work(space, counted),
        "made": costs.choice.products if space == "dense" else 0,
        "bytes": {
            "parameters": counted.parameter_bytes,
            "charts": counted.chart_bytes,
            "adjoints": counted.adjoint_bytes,
            "tables": 2 * counted.table_bytes,
            "intermediate": counted.intermediate_bytes,
        },
        "peak": counted.peak_bytes + counted.parameter_bytes,
        "items": [
            {
                "when": KINDS[item.kind],
                "name": item.name,
                "order": counted.text(item.order),
                "multiply_adds": item.multiply_adds,
                "share": item.multiply_adds / whole,
            }
            for item in sorted(counted.items, key=lambda item: -item.multiply_adds)
        ],
    }
