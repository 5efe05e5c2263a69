"""Clamps: nodes fixed to a position of an input, or to what a path leads to from there.

`o = w[i].N` fixes a node to a part of the input's value, `m = w[i].clusters` to the block that the
map `clusters` has for it. A map leads on from an atomic domain, which has no parts.

`emit(u, w[i])` touches a node that the text does not name. Such a node is called after its input,
`w`, or `w2`, `w3`, … where that name is taken.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from fgg.factors.maps import is_map, map_values
from fgg.grammar import Attachment, Clamp, Fragment, Grammar
from fgg.grammar.domains import DomainPart, parts
from fgg.grammar.index import Expr


def path_steps(grammar: Grammar, domain: str, path: Sequence[str]) -> tuple[DomainPart | str, ...]:
    """The steps of a path: parts of domains, and maps by name. Raises KeyError."""
    steps: list[DomainPart | str] = []
    for name in path:
        known = parts(grammar, domain)
        factor = grammar.factor.get(name)
        if name in known:
            steps.append(known[name])
            domain = known[name].domain
        elif not known and factor is not None and is_map(factor) and factor.domains[0] == domain:
            steps.append(name)
            domain = factor.domains[1]
        else:
            raise KeyError(name)
    return tuple(steps)


def path_end(grammar: Grammar, domain: str, path: Sequence[str]) -> str:
    """The domain that a path leads to. Raises KeyError."""
    for step in path_steps(grammar, domain, path):
        domain = grammar.factor[step].domains[1] if isinstance(step, str) else step.domain
    return domain


def path_value(grammar: Grammar, domain: str, path: Sequence[str], value: int) -> int | None:
    """The value that a path leads to, or None where the value lies in another part."""
    for step in path_steps(grammar, domain, path):
        inner = map_values(grammar, step)[value] if isinstance(step, str) else step.select(value)
        if inner is None:
            return None
        value = inner
    return value


def clamp_domain(grammar: Grammar, clamp: Clamp) -> str:
    """The domain of the value to which a clamp fixes its node."""
    return path_end(grammar, grammar.input[clamp.input].domain, clamp.path)


def is_pinned(grammar: Grammar, clamp: Clamp) -> bool:
    """Whether a clamp's path goes through a map: its node is known only if the token is."""
    steps = path_steps(grammar, grammar.input[clamp.input].domain, clamp.path)
    return any(isinstance(step, str) for step in steps)


def pinned_inputs(grammar: Grammar) -> tuple[str, ...]:
    """The inputs whose tokens rules follow through maps."""
    clamps = (c for rule in grammar.rules for c in rule.rhs.clamps if c.path)
    return tuple(dict.fromkeys(c.input for c in clamps if is_pinned(grammar, c)))


@dataclass(frozen=True)
class Pin:
    """The place that fixes the value of an external node: `w[i].clusters` of a family `X[i]`.

    `indices` are in the names of the family's indices, of lengths and of sizes.
    """

    input: str
    path: tuple[str, ...]
    indices: tuple[Expr, ...]

    def clamp(self, node: str, family: Sequence[str], at: Sequence[Expr]) -> Clamp:
        """The clamp of `node`, which belongs to the family's cell at the indices `at`."""
        values: Mapping[str, int | Expr] = dict(zip(family, at, strict=True))
        return Clamp(
            attachment=Attachment(node=node),
            input=self.input,
            indices=tuple(index.substitute(values) for index in self.indices),
            path=self.path,
        )


Pins = Mapping[str, tuple[Pin | None, ...]]
"""For each family that lost nodes: a pin for each of these, None for each node it kept."""


def position_name(input_name: str, taken: Container[str]) -> str:
    """The name of a node fixed to a position of an input, given the names in use."""
    name = input_name
    number = 2
    while name in taken:
        name = f"{input_name}{number}"
        number += 1
    return name


def positions(fragment: Fragment) -> dict[str, Clamp]:
    """The clamps, by node, that can be written in the place of the node, as `emit(u, w[i])`.

    These are clamps of internal nodes that edges touch as a whole, such that reading the text
    gives the nodes their names, and the clamps their order, back.
    """
    inline: dict[str, Clamp] = {}
    for clamp in fragment.clamps:
        if clamp.attachment.node in inline or not _is_plain(fragment, clamp):
            break
        inline[clamp.attachment.node] = clamp
    while inline and not _reads_back(fragment, inline):
        inline.popitem()
    return inline


def _is_plain(fragment: Fragment, clamp: Clamp) -> bool:
    node = clamp.attachment.node
    touching = [a for edge in fragment.edges for a in edge.attachments if a.node == node]
    touching += [c.attachment for c in fragment.clamps if c is not clamp]
    return (
        not clamp.attachment.path
        and not clamp.path
        and node not in fragment.externals
        and any(a.node == node for edge in fragment.edges for a in edge.attachments)
        and all(not a.path for a in touching if a.node == node)
        and sum(c.attachment.node == node for c in fragment.clamps) == 1
    )


def _reads_back(fragment: Fragment, chosen: dict[str, Clamp]) -> bool:
    """Whether reading names the chosen nodes and orders their clamps as they are."""
    touched = dict.fromkeys(
        a.node for edge in fragment.edges for a in edge.attachments if a.node in chosen
    )
    if list(touched) != list(chosen):
        return False
    if len({(c.input, c.indices) for c in chosen.values()}) != len(chosen):
        return False
    taken = {node.name for node in fragment.nodes if node.name not in chosen}
    for node, clamp in chosen.items():
        if position_name(clamp.input, taken) != node:
            return False
        taken.add(node)
    return True
