"""The LALR automaton: Lark makes its table from the grammar, this runs it.

Lark's own loop makes an object for every token and a tree for every rule. This one knows tokens
by their numbers and calls the builder at each reduction, so that nothing is made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from lark import Lark

Action = Callable[[list[Any], int, int], Any]
"""Makes a node of its children, given the first and the last token that it consists of."""

Step = int | tuple[int, str, str]
"""Shift to a state; or reduce: the number of children, the symbol, and the action's name."""

HIDDEN = frozenset(("ROW", "VALUES"))  # the lexer's shorthands, of which users know nothing


@dataclass(frozen=True)
class Table:
    """What to do in each state for each token, where to go for each symbol, where to begin."""

    steps: tuple[Mapping[str, Step], ...]
    goto: tuple[Mapping[str, int], ...]
    start: int


@cache
def surface() -> Lark:
    """The grammar of the surface syntax."""
    grammar = resources.files("fgg.compiler.syntax").joinpath("surface.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=False)


@cache
def table() -> Table:
    """The table of the surface syntax."""
    conf = surface().parse_interactive("").parser_state.parse_conf
    steps: list[dict[str, Step]] = [{} for _ in conf.states]
    for state, choices in conf.states.items():
        for symbol, (_, target) in choices.items():
            steps[state][symbol] = target if isinstance(target, int) else _reduction(target)
    steps[conf.end_state]["$END"] = conf.end_state  # nothing comes after it
    for row in steps:
        for symbol in row:
            _shorten(row, symbol, steps)
    goto = [{k: v for k, v in row.items() if isinstance(v, int)} for row in steps]
    return Table(tuple(steps), tuple(goto), conf.start_state)


def _shorten(row: dict[str, Step], symbol: str, steps: list[dict[str, Step]]) -> None:
    """Go past states in which nothing can happen but that a value is passed on."""
    while isinstance(target := row[symbol], int):
        choices = set(steps[target].values())
        only = choices.pop() if len(choices) == 1 else None
        if not isinstance(only, tuple) or only[0] != 1 or only[2]:
            break
        row[symbol] = row[only[1]]


def _reduction(rule: Any) -> tuple[int, str, str]:
    passed_on = rule.options.expand1 and rule.alias is None and len(rule.expansion) == 1
    action = "" if passed_on else str(rule.alias or rule.origin.name)
    return len(rule.expansion), str(rule.origin.name), action


class Automaton:
    """A parse under way. The value of a terminal is its token's number."""

    def __init__(self, actions: object) -> None:
        found = table()
        self.steps = found.steps
        self.goto = found.goto
        self.states = [found.start]
        self.values: list[Any] = []
        self.firsts: list[int] = []  # the first token of each value
        self.last = -1  # the last token that was shifted
        names = {step[2] for row in found.steps for step in row.values() if isinstance(step, tuple)}
        self.actions: dict[str, Action] = {
            name: getattr(actions, f"_{name}") for name in names if name
        }

    def feed(self, kind: str, position: int) -> bool:
        """Go on with a token; False if it is unexpected."""
        steps, goto, actions = self.steps, self.goto, self.actions
        states, values, firsts = self.states, self.values, self.firsts
        while True:
            step = steps[states[-1]].get(kind)
            if step is None:
                return False
            if isinstance(step, int):
                states.append(step)
                values.append(position)
                firsts.append(position)
                self.last = position
                return True
            size, origin, name = step
            if size == 1:
                if name:
                    values[-1] = actions[name]([values[-1]], firsts[-1], self.last)
                states[-1] = goto[states[-2]][origin]
            elif size:
                children = values[-size:]
                size -= 1
                del states[-size:], values[-size:], firsts[-size:]
                values[-1] = actions[name](children, firsts[-1], self.last)
                states[-1] = goto[states[-2]][origin]
            else:
                values.append(actions[name]([], position, self.last))
                firsts.append(position)
                states.append(goto[states[-1]][origin])

    def accepts(self) -> set[str]:
        """The types of the tokens that could come next."""
        kinds = self.steps[self.states[-1]]
        return {k for k in kinds if k.isupper() and k not in HIDDEN and self._accepts(k)}

    def _accepts(self, kind: str) -> bool:
        states = list(self.states)
        while True:
            step = self.steps[states[-1]].get(kind)
            if step is None:
                return False
            if isinstance(step, int):
                return True
            size, origin, _ = step
            if size:
                del states[-size:]
            states.append(self.goto[states[-1]][origin])

    @property
    def height(self) -> int:
        """The number of values that are waiting."""
        return len(self.values)

    def drop(self, height: int) -> None:
        """Forget all values but the first ones."""
        del self.states[height + 1 :], self.values[height:], self.firsts[height:]
