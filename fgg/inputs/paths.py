"""Paths into the value of an input: to a part of it, and through maps.

`o = w[i].N` fixes a node to a part of the input's value, `m = w[i].clusters` to the block that the
map `clusters` has for it. A map leads on from an atomic domain, which has no parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgg.factors.maps import is_map, map_values
from fgg.grammar import Clamp, Grammar
from fgg.grammar.domains import Part, parts


def path_steps(grammar: Grammar, domain: str, path: Sequence[str]) -> tuple[Part | str, ...]:
    """What a path goes through: parts of domains, and maps by name. Raises KeyError."""
    found: list[Part | str] = []
    for name in path:
        known = parts(grammar, domain)
        factor = grammar.factor.get(name)
        if name in known:
            found.append(known[name])
            domain = known[name].domain
        elif not known and factor is not None and is_map(factor) and factor.domains[0] == domain:
            found.append(name)
            domain = factor.domains[1]
        else:
            raise KeyError(name)
    return tuple(found)


def path_end(grammar: Grammar, domain: str, path: Sequence[str]) -> str:
    """The domain that a path leads to. Raises KeyError."""
    for step in path_steps(grammar, domain, path):
        domain = grammar.factor[step].domains[1] if isinstance(step, str) else step.domain
    return domain


def path_value(grammar: Grammar, domain: str, path: Sequence[str], value: int) -> int | None:
    """The value that a path leads to, or None where the value lies in another part."""
    for step in path_steps(grammar, domain, path):
        found = map_values(grammar, step)[value] if isinstance(step, str) else step.select(value)
        if found is None:
            return None
        value = found
    return value


def clamp_domain(grammar: Grammar, clamp: Clamp) -> str:
    """The domain of what a clamp fixes its node to."""
    return path_end(grammar, grammar.input[clamp.input].domain, clamp.path)


def is_pinned(grammar: Grammar, clamp: Clamp) -> bool:
    """Whether a clamp goes through a map: it says what is known only where the token is."""
    steps = path_steps(grammar, grammar.input[clamp.input].domain, clamp.path)
    return any(isinstance(step, str) for step in steps)


def pinned_inputs(grammar: Grammar) -> tuple[str, ...]:
    """The inputs whose tokens rules follow through maps."""
    clamps = (c for rule in grammar.rules for c in rule.rhs.clamps if c.path)
    return tuple(dict.fromkeys(c.input for c in clamps if is_pinned(grammar, c)))
