"""A grammar as a JSON object of the `fggs` format.

What the format has no word for is kept under keys that other readers ignore, so that our own reader
gives it back: `name` of a rule; `given`, `rank` and `with` of a terminal; `rank` of a
domain; `map` of a factor that is a function.
"""

from __future__ import annotations

from dataclasses import replace

from fgg.diagnostics import refuse
from fgg.factors.maps import is_map, map_values
from fgg.grammar import Domain, Factor, Grammar, Rule, Sized, Union
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Condition
from fgg.grammar.options import written_attributes
from fgg.json.attributes import attributes_json
from fgg.json.write_weights import MAX_WRITTEN_OUT, selection_json, weights_json
from fgg.rewrite.plain import plain_with_parts

Json = dict[str, object]


def grammar_json(grammar: Grammar) -> Json:
    """The JSON object of a grammar without indices. Raises GrammarError."""
    if grammar.is_indexed:
        message = f"grammar `{grammar.name}` has indices or inputs, which the format lacks"
        refuse("F303", message, "give lengths to ground it first")
    simple, selections = plain_with_parts(replace(grammar, queries=()))
    factors: Json = {}
    for factor in simple.factors:
        if factor.value is None:
            continue
        if factor.name in selections and _is_large(simple, factor):
            weights = selection_json(grammar, *selections[factor.name])
        else:
            weights = weights_json(simple, factor)
        entry: Json = {"function": "finite", "weights": weights}
        if is_map(factor):
            entry["map"] = list(map_values(simple, factor.name))
        factors[factor.name] = entry
    rules = [rule for rule in simple.rules if all(_holds(simple, c) for c in rule.conditions)]
    return {
        "grammar": {
            "terminals": {f.name: _terminal(simple, f) for f in simple.factors},
            "nonterminals": {x.name: {"type": list(x.domains)} for x in simple.nonterminals},
            "start": simple.start.label,
            "rules": [_rule(rule) for rule in rules],
        },
        "interpretation": {
            "domains": {domain.name: _domain(simple, domain) for domain in simple.domains},
            "factors": factors,
        },
    }


def _is_large(grammar: Grammar, factor: Factor) -> bool:
    whole, part = (domain_size(grammar, name) for name in factor.domains)
    return whole * part > MAX_WRITTEN_OUT


def _holds(grammar: Grammar, condition: Condition) -> bool:
    """Whether a condition, which can speak of sizes only, is true."""
    known = size_values(grammar)
    return all((expr.evaluate(known) or 0) >= 0 for expr in condition.inequalities())


def _terminal(grammar: Grammar, factor: Factor) -> Json:
    found: Json = {"type": list(factor.domains)}
    if factor.given is not None:
        found["given"] = factor.given
    if factor.rank is not None:
        found["rank"] = factor.rank.evaluate(size_values(grammar))
    attributes = written_attributes(factor)
    if attributes:
        found["with"] = attributes_json(attributes)
    return found


def _domain(grammar: Grammar, domain: Domain) -> Json:
    shape = domain.shape
    if isinstance(shape, Sized):
        found: Json = {"class": "range", "size": domain_size(grammar, domain.name)}
        return {**found, "rank": True} if domain.rank else found
    assert not isinstance(shape, Union) and hasattr(shape, "values")
    return {"class": "finite", "values": list(shape.values)}


def _rule(rule: Rule) -> Json:
    numbers = {node.name: number for number, node in enumerate(rule.rhs.nodes)}
    return {
        "name": rule.name,
        "lhs": rule.lhs,
        "rhs": {
            "nodes": [{"label": node.domain, "id": node.name} for node in rule.rhs.nodes],
            "edges": [
                {"label": edge.label, "attachments": [numbers[a.node] for a in edge.attachments]}
                for edge in rule.rhs.edges
            ],
            "externals": [numbers[name] for name in rule.rhs.externals],
        },
    }
