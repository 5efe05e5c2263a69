"""A grammar in words: what its nodes, factors and rules say, and the equations they add up to."""

from __future__ import annotations

from fgg.check.bfgg import b_status
from fgg.check.equations import equations
from fgg.check.summary import query_signature
from fgg.grammar import (
    Domain,
    Enumerated,
    Factor,
    FromFile,
    Grammar,
    Product,
    Sized,
    Union,
)
from fgg.grammar.definitions import InputEvidence, InputPotential
from fgg.grammar.domains import domain_size
from fgg.grammar.values import Constant, Exp, Eye, Load, Map, Sparse, Table, Uniform
from fgg.rewrite.conjoin import conjoin


def story(grammar: Grammar) -> str:
    """The explanation of a grammar, as text."""
    lines = [f"`{grammar.name}` is a factor graph grammar.", ""]
    lines.append("Nodes take their values from")
    lines += [f"  {d.name}: {_domain(grammar, d)}" for d in grammar.domains]
    if grammar.factors or grammar.input_factors:
        lines += ["", "Factors weigh them:"]
        lines += [f"  {_factor(f)}" for f in grammar.factors]
        lines += [
            f"  {f.name}({', '.join(f.domains)}): log-potentials that are given at run time"
            for f in grammar.input_factors
        ]
    lines += ["", f"A derivation begins with {_start(grammar)} and applies rules until no"]
    lines.append("nonterminal is left. Each rule adds to the value of the nonterminal on its left:")
    lines += _equations(grammar)
    broken = [status for status in b_status(grammar) if not status.holds]
    lines.append("")
    if broken:
        lines.append("It is not a B-FGG, so not all of it can be moved to rank space:")
        lines += [f"  rule {status.rule}: {status.reason}" for status in broken]
    else:
        lines.append(
            "It is a B-FGG: each rule has one external node (the start symbol may have none), "
            "and no nonterminal touches it."
        )
    for query in grammar.queries:
        lines += ["", f"The query {query_signature(query)} asks for"]
        lines += _equations(conjoin(grammar, query))
    return "\n".join(lines)


def _equations(grammar: Grammar) -> list[str]:
    width = max((len(rule.name) for rule in grammar.rules), default=0)
    return [
        f"  {rule.name:{width}}  {line}"
        for rule, line in zip(grammar.rules, equations(grammar), strict=True)
    ]


def _start(grammar: Grammar) -> str:
    indices = ", ".join(map(str, grammar.start.indices))
    return f"{grammar.start.label}[{indices}]" if indices else grammar.start.label


def _domain(grammar: Grammar, domain: Domain) -> str:
    size = f"{domain_size(grammar, domain.name):,}"
    shape = domain.shape
    if isinstance(shape, Sized):
        kind = "ranks" if domain.rank else "values"
        return f"{size} {kind}"
    if isinstance(shape, Enumerated):
        shown = ", ".join(shape.values[:6]) + (", …" if len(shape.values) > 6 else "")
        return f"{size} values: {shown}"
    if isinstance(shape, FromFile):
        return f"{size} values, the lines of {shape.path}"
    if isinstance(shape, Union):
        return f"{size} values, each one of {' or '.join(shape.parts)}"
    assert isinstance(shape, Product)
    return f"{size} values, each a combination of {' and '.join(shape.parts)}"


def _factor(factor: Factor) -> str:
    name = f"{factor.name}({', '.join(factor.domains)})"
    if factor.given is None:
        text = "a potential"
    else:
        given, over = factor.domains[: factor.given], factor.domains[factor.given :]
        text = f"the probability of {' and '.join(over)}"
        text += f" given {' and '.join(given)}" if given else ""
    if factor.rank is not None:
        text += f", of rank {factor.rank}"
    if isinstance(factor.definition, InputEvidence | InputPotential):
        return f"{name}: what the input `{factor.definition.input}` says here"
    if factor.definition is not None:
        return f"{name}: {text}, which follows from another factor"
    if isinstance(factor.value, Map):
        return f"{name}: the {factor.domains[1]} of each {factor.domains[0]}, {_value(factor)}"
    blocks = factor.blocks
    if blocks is not None:
        text += f" within each block of `{blocks}`"
    return f"{name}: {text}, {_value(factor)}"


def _value(factor: Factor) -> str:
    value = factor.value
    if value is None:
        return "to be learned"
    if isinstance(value, Constant):
        return f"{float(value.number):g} everywhere"
    if isinstance(value, Uniform):
        return "uniform"
    if isinstance(value, Eye):
        return "1 where the two are equal, else 0"
    if isinstance(value, Load):
        return f"read from {value.path}"
    if isinstance(value, Map):
        return "1 for one value only" + (f", as {value.path} says" if value.path else "")
    assert isinstance(value, Table | Exp | Sparse)
    return "given"
