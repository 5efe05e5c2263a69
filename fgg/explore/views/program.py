"""The emitted programs beside the rules that they carry out; each line knows its rules.

A part `rules` comes first, then a part `program` for each language, or `refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fgg.api.compile import compilable
from fgg.check.describe import equation
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit import cpp, numpy, python, triton
from fgg.compiler.emit.python.module import About
from fgg.compiler.emit.readable import Linked
from fgg.diagnostics import GrammarError, refuse
from fgg.explore.asked import Answer, Asked, Json, Send
from fgg.explore.problems import Offsets, listed
from fgg.explore.spaces import chosen_space
from fgg.grammar import Grammar, Rule
from fgg.plan import Plan

MAX_LINES = 20_000
"""Longer programs are refused."""


def _about(asked: Asked, space: str) -> About:
    name = asked.name.removesuffix(".fgg")
    return About(command=f"fggc compile {name} --space {space}")


LANGUAGES: Mapping[str, Callable[[Plan, About], Linked]] = {
    "python": lambda plan, about: python.linked(plan, about=about),
    "cpp": lambda plan, about: cpp.linked(plan)[1],
    "triton": lambda plan, about: triton.linked(plan, about=about),
    "numpy": lambda plan, about: numpy.linked(plan),
}


def view(asked: Asked, send: Send) -> Answer:
    """The programs in all languages. Raises GrammarError (F425) where there is no plan."""
    source, expected = asked.source, Expected()
    space, reason = chosen_space(source, asked.space, expected)
    with compilable(source.name):
        plan = plan_of(source, expected, space)
    rules = {step.rule.name: step.rule for step in plan.steps}
    offsets = Offsets(asked.text)
    send({"rules": [_rule(plan.grammar, rule, offsets) for rule in rules.values()]})
    numbers = {name: number for number, name in enumerate(rules)}
    for language, linked in LANGUAGES.items():
        try:
            send({"program": _program(language, linked(plan, _about(asked, space)), numbers)})
        except GrammarError as error:
            problems = listed(error.diagnostics, asked.text)
            send({"refused": {"language": language, "diagnostics": problems}})
    return {"space": space, "reason": reason}


def _rule(grammar: Grammar, rule: Rule, offsets: Offsets) -> Json:
    """A rule of the plan, and the place of the user's rule that it comes from."""
    place = None
    if rule.source is not None and rule.span is not None:
        if rule.span.end <= len(offsets.text):
            place = [offsets.units(rule.span.start), offsets.units(rule.span.end)]
    return {
        "name": rule.name,
        "equation": equation(grammar, rule),
        "source": None if rule.source is None else rule.source.rule,
        "place": place,
    }


def _program(language: str, linked: Linked, numbers: Mapping[str, int]) -> Answer:
    """A program, and for each of its lines the numbers of its rules."""
    if len(linked.rules) > MAX_LINES:
        refuse("F420", f"the program has {len(linked.rules):,} lines; {MAX_LINES:,} can be shown")
    lines = [[numbers[name] for name in rules if name in numbers] for rules in linked.rules]
    return {"language": language, "text": linked.text, "lines": lines}
