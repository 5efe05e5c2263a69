"""The LALR automaton of the surface syntax. Lark makes its table; this module runs it.

Lark's parser makes an object for every token and a tree for every rule. This one knows tokens by
their numbers and calls the builder at each reduction, which is much faster on large files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from lark import Lark
from lark.grammar import Rule

Parts = list[Any]
"""The children of a node: nodes, lists of nodes, and numbers of tokens, as the grammar has them."""

Action = Callable[[Parts, int, int], object]
"""Makes a node from its children and the numbers of its first and its last token."""

Step = int | tuple[int, str, str]
"""Shift to a state; or reduce: the number of children, the symbol, and the action's name."""

HIDDEN = frozenset(("ROW", "VALUES"))  # made by the lexer; messages do not mention them


@dataclass(frozen=True)
class ParseTable:
    """The LALR table: steps by state and token, states by state and symbol, the first state."""

    steps: tuple[Mapping[str, Step], ...]
    goto: tuple[Mapping[str, int], ...]
    start: int


@cache
def surface() -> Lark:
    """Return the grammar of the surface syntax."""
    grammar = resources.files("fgg.compiler.syntax").joinpath("surface.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=False)


@cache
def parse_table() -> ParseTable:
    """Return the LALR table of the surface syntax."""
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
    return ParseTable(tuple(steps), tuple(goto), conf.start_state)


def _shorten(row: dict[str, Step], symbol: str, steps: list[dict[str, Step]]) -> None:
    """Skip states whose only step passes a value on."""
    while isinstance(target := row[symbol], int):
        choices = set(steps[target].values())
        only = choices.pop() if len(choices) == 1 else None
        if not isinstance(only, tuple) or only[0] != 1 or only[2]:
            break
        row[symbol] = row[only[1]]


def _reduction(rule: Rule) -> tuple[int, str, str]:
    passed_on = rule.options.expand1 and rule.alias is None and len(rule.expansion) == 1
    action = "" if passed_on else str(rule.alias or rule.origin.name)
    return len(rule.expansion), str(rule.origin.name), action


class _Actions(dict[str, Action]):
    """The methods of a builder by the names that the table has for them, each looked up once."""

    def __init__(self, builder: object) -> None:
        self.builder = builder

    def __missing__(self, name: str) -> Action:
        action: Action = getattr(self.builder, f"_{name}")
        self[name] = action
        return action


class Automaton:
    """The state of a parse. The value of a terminal is the number of its token."""

    def __init__(self, actions: object) -> None:
        table = parse_table()
        self.steps = table.steps
        self.goto = table.goto
        self.states = [table.start]
        self.values: list[object] = []
        self.firsts: list[int] = []  # the first token of each value
        self.last = -1  # the last token that was shifted
        self.actions = _Actions(actions)

    def feed(self, kind: str, position: int) -> bool:
        """Take the next token; return False if it is unexpected."""
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
        """Return the types of the tokens that could come next."""
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
        """The number of values on the stack."""
        return len(self.values)

    def drop(self, height: int) -> None:
        """Remove values from the stack, down to a height."""
        del self.states[height + 1 :], self.values[height:], self.firsts[height:]
