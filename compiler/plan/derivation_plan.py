"""Plans that derivations are read from: without messages, but with as few splits as can be."""

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

    Variables that the parts of a rule fix are not looped over (`narrow`): they are said in terms
    of the others. Raises CannotCompile.
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
    """A step that knows the variables of a rule that were replaced by values, too, in order."""
    known = {**step.variables, **{n: e.substitute(step.variables) for n, e in values.items()}}
    order = [name for name in rule_variables(rule) if name in known]
    return replace(step, variables={name: known[name] for name in order})
