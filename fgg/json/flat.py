"""A flat JSON form of grammars, with nodes by name: what people write by hand.

    {"domains": {"T": 2, "W": ["a", "b"]}, "nonterminals": {"S": [], "X": ["T"]}, "start": "S",
     "factors": {"f": {"type": ["T", "W"], "weights": [[…]]}},
     "rules": [{"lhs": "X", "ext": ["t"], "nodes": {"t": "T"},
                "edges": [{"label": "f", "nodes": ["t", "w"]}]}]}

It is turned into the nested form of the `fggs` library and read as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_flat(data: object) -> bool:
    """Whether a document has the flat form."""
    return (
        isinstance(data, Mapping)
        and "grammar" not in data
        and isinstance(data.get("factors"), Mapping)
        and "rules" in data
    )


def nested(data: Mapping[str, Any]) -> dict[str, Any]:
    """The document in the nested form; what is malformed stays so, for the reader to report."""
    factors = data["factors"]
    grammar: dict[str, Any] = {
        "terminals": {name: _typed(factor) for name, factor in factors.items()},
        "nonterminals": {
            name: {"type": domains} for name, domains in _items(data.get("nonterminals"))
        },
        "rules": [_rule(rule) for rule in data["rules"]]
        if isinstance(data["rules"], list)
        else data["rules"],
    }
    if "start" in data:
        grammar["start"] = data["start"]
    weights = {
        name: {"function": "finite", "weights": factor["weights"]}
        for name, factor in factors.items()
        if isinstance(factor, Mapping) and "weights" in factor
    }
    domains = {name: _domain(domain) for name, domain in _items(data.get("domains"))}
    return {"grammar": grammar, "interpretation": {"domains": domains, "factors": weights}}


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _typed(factor: Any) -> Any:
    return {"type": factor["type"]} if isinstance(factor, Mapping) and "type" in factor else {}


def _domain(domain: Any) -> Any:
    if isinstance(domain, list):
        return {"class": "finite", "values": domain}
    return {"class": "range", "size": domain}


def _rule(rule: Any) -> Any:
    if not isinstance(rule, Mapping) or not isinstance(rule.get("nodes"), Mapping):
        return rule
    numbers = {name: i for i, name in enumerate(rule["nodes"])}

    def places(names: Any) -> Any:
        return [numbers.get(n, n) if isinstance(n, str) else n for n in names]

    edges = rule.get("edges", [])
    found: dict[str, Any] = {
        "rhs": {
            "nodes": [{"label": label, "id": name} for name, label in rule["nodes"].items()],
            "edges": [
                {"label": e.get("label"), "attachments": places(e.get("nodes", []))}
                if isinstance(e, Mapping) and isinstance(e.get("nodes", []), list)
                else e
                for e in edges
            ]
            if isinstance(edges, list)
            else edges,
            "externals": places(rule.get("ext", []))
            if isinstance(rule.get("ext", []), list)
            else rule["ext"],
        }
    }
    for key in ("lhs", "name"):
        if key in rule:
            found[key] = rule[key]
    return found
