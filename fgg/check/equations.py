"""A grammar as the sum-product equations it stands for [RS eq. 3-4]."""

from __future__ import annotations

from collections.abc import Sequence

from fgg.grammar import Attachment, Clamp, Edge, Grammar, Rule
from fgg.grammar.index import Expr


def equation(grammar: Grammar, rule: Rule) -> str:
    """What a rule adds to its nonterminal's value, as a line of mathematics."""
    sums = []
    variables = _free_indices(grammar, rule)
    if variables:
        sums.append("Σ_{" + ", ".join(variables) + "}")
    fixed = {c.attachment.node for c in rule.rhs.clamps if not c.attachment.path}
    inner = [node.name for node in rule.rhs.internals if node.name not in fixed]
    if inner:
        sums.append("Σ_{" + ", ".join(inner) + "}")
    positions = {
        c.attachment.node: _position(c)
        for c in rule.rhs.clamps
        if not c.attachment.path and c.attachment.node not in rule.rhs.externals
    }
    factors = [_edge(edge, positions) for edge in rule.rhs.edges]
    for clamp in rule.rhs.clamps:
        name = clamp.attachment.node
        touched = any(a.node == name for e in rule.rhs.edges for a in e.attachments)
        if clamp.attachment.path or name in rule.rhs.externals or not touched:
            written = ".".join((name, *clamp.attachment.path))
            factors.append(f"[{written} = {_position(clamp)}]")
    body = " · ".join(factors) or "1"
    head = Edge(
        label=rule.lhs,
        indices=rule.indices,
        attachments=tuple(Attachment(node=n) for n in rule.rhs.externals),
    )
    conditions = ", ".join(map(str, rule.conditions))
    text = f"{_edge(head, {})} += {' '.join([*sums, body])}"
    return f"{text}    for {conditions}" if conditions else text


def equations(grammar: Grammar) -> tuple[str, ...]:
    """The equations of all rules, in order."""
    return tuple(equation(grammar, rule) for rule in grammar.rules)


def _free_indices(grammar: Grammar, rule: Rule) -> list[str]:
    bound = {name for expr in rule.indices for name in expr.names()}
    exprs = [index for edge in rule.rhs.edges for index in edge.indices]
    exprs += [index for clamp in rule.rhs.clamps for index in clamp.indices]
    known = bound | set(grammar.size)
    known |= {n for item in grammar.observed for e in item.shape for n in e.names()}
    return list(dict.fromkeys(n for expr in exprs for n in expr.names() if n not in known))


def _edge(edge: Edge, positions: dict[str, str]) -> str:
    nodes = [
        positions.get(a.node, a.node) + "".join(f".{part}" for part in a.path)
        for a in edge.attachments
    ]
    arguments = f"({', '.join(nodes)})" if nodes else ""
    return f"{edge.label}{_indices(edge.indices)}{arguments}"


def _position(clamp: Clamp) -> str:
    path = "".join(f".{name}" for name in clamp.path)
    return f"{clamp.input}{_indices(clamp.indices)}{path}"


def _indices(indices: Sequence[Expr]) -> str:
    return f"[{', '.join(map(str, indices))}]" if indices else ""
