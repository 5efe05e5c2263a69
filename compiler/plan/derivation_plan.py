"""Plans that derivations are read from: they have no messages, and as few splits as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fgg.compiler.passes.narrow import fixed, narrow
from fgg.compiler.plan.lower import plan, rule_variables
from fgg.grammar import Grammar, Rule
from fgg.grammar.index import Expr
from fgg.plan import Plan, Step


def plan_of_trees(grammar: Grammar, *, length: int = 32, batch: int = 16) -> Plan:
    """The plan of a grammar whose nodes are atomic; its steps have all variables of the rules.

    A variable that the others determine (`narrow`) is not looped over; the step says what it is in
    terms of them. Raises CannotCompile.
    """
    narrowed = narrow(grammar)
    result = plan(narrowed, length=length, batch=batch)
    if narrowed is grammar:
        return result
    rules = {rule.name: rule for rule in grammar.rules}
    values = {name: fixed(grammar, rule) for name, rule in rules.items()}
    stages = tuple(
        replace(
            stage,
            steps=tuple(
                with_variables(step, rules[step.rule.name], values[step.rule.name])
                for step in stage.steps
            ),
        )
        for stage in result.stages
    )
    return replace(result, stages=stages)


def with_variables(step: Step, rule: Rule, values: Mapping[str, Expr]) -> Step:
    """The step with all variables of a rule in order, also those that `narrow` replaced."""
    known = {**step.variables, **{n: e.substitute(step.variables) for n, e in values.items()}}
    order = [name for name in rule_variables(rule) if name in known]
    return replace(step, variables={name: known[name] for name in order})
