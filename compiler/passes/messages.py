"""Messages: a product of some edges of a rule becomes a nonterminal with a rule of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgg.compiler.plan.rule_operands import rule_operands
from fgg.compiler.rank.cut import RuleCut
from fgg.grammar import Attachment, Clamp, Edge, Fragment, Grammar, Nonterminal, Origin, Rule
from fgg.grammar.index import Condition, Expr
from fgg.grammar.names import fresh


@dataclass(frozen=True)
class MessageBody:
    """Some edges and clamps of a rule, and the nodes that the rest of the rule needs of them.

    `summed` are index variables on which nothing else depends. `conditions` are those in which they
    occur, and `left` what these imply for other variables.
    """

    edges: tuple[Edge, ...]
    free: tuple[str, ...]
    clamps: tuple[Clamp, ...] = ()
    summed: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    left: tuple[Condition, ...] = ()


def new_rule(
    taken: set[str],
    rule: Rule,
    message: Nonterminal,
    indices: tuple[Expr, ...],
    product: MessageBody,
    externals: tuple[str, ...],
) -> Rule:
    """The one rule of a message, `product` being in the names of its indices."""
    name = fresh(message.name, taken)
    taken.add(name)
    touched = {a.node for e in product.edges for a in e.attachments}
    touched |= {c.attachment.node for c in product.clamps}
    return Rule(
        name=name,
        lhs=message.name,
        indices=indices,
        conditions=product.conditions,
        rhs=Fragment.make(
            tuple(node for node in rule.rhs.nodes if node.name in touched),
            product.edges,
            product.clamps,
            externals,
        ),
        origin=Origin(rule=rule.origin_or_self.rule),
        span=rule.span,
    )


def with_product(rule: Rule, product: MessageBody, edge: Edge) -> Rule:
    """The rule with one edge in place of a product, at the place of its first edge."""
    gone = set(map(id, product.edges))
    numbers = [i for i, old in enumerate(rule.rhs.edges) if id(old) in gone]
    first = numbers[0] if numbers else len(rule.rhs.edges)
    edges = list(rule.rhs.edges)
    edges.insert(first, edge)
    edges = [e for e in edges if id(e) not in gone]
    observed = set(map(id, product.clamps))
    clamps = tuple(c for c in rule.rhs.clamps if id(c) not in observed)
    touched = {a.node for e in edges for a in e.attachments}
    touched |= {c.attachment.node for c in clamps}
    touched |= set(rule.rhs.externals)
    # A node that nothing touches is summed: it stays unless it went into the product.
    inside = {a.node for e in product.edges for a in e.attachments}
    inside |= {c.attachment.node for c in product.clamps}
    nodes = tuple(n for n in rule.rhs.nodes if n.name in touched or n.name not in inside)
    rhs = Fragment.make(nodes, tuple(edges), clamps, rule.rhs.externals)
    return replace(rule, rhs=rhs)


def share(grammar: Grammar, *, length: int = 32, batch: int = 16) -> Grammar:
    """The grammar with a message for each product of nonterminals that several rules share."""
    groups: dict[object, list[tuple[Rule, MessageBody, tuple[str, ...]]]] = {}
    for rule in grammar.rules:
        candidate = _shareable(grammar, rule)
        if candidate is not None and _is_multiplied(grammar, rule, candidate[1], length, batch):
            key, product, order = candidate
            groups.setdefault(key, []).append((rule, product, order))
    taken = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
    rule_names = {rule.name for rule in grammar.rules}
    changed: dict[str, Rule] = {}
    new: list[Nonterminal] = []
    rules: list[Rule] = []
    for members in groups.values():
        if len(members) < 2:
            continue
        first, product, order = members[0]
        indices = tuple(str(i) for i in first.indices)
        nodes = first.rhs.by_name
        name = fresh("_".join(e.label for e in product.edges), taken)
        taken.add(name)
        family = Nonterminal(
            name=name,
            domains=tuple(nodes[node].domain for node in order),
            indices=indices,
            span=first.span,
        )
        new.append(family)
        rules.append(new_rule(rule_names, first, family, first.indices, product, order))
        for rule, body, externals in members:
            edge = Edge(
                label=name,
                attachments=tuple(Attachment(node=node) for node in externals),
                indices=rule.indices,
            )
            folded = with_product(rule, body, edge)
            changed[rule.name] = replace(folded, conditions=body.left)
    if not new:
        return grammar
    return replace(
        grammar,
        nonterminals=(*grammar.nonterminals, *new),
        rules=(*(changed.get(rule.name, rule) for rule in grammar.rules), *rules),
    )


def _is_multiplied(
    grammar: Grammar, rule: Rule, product: MessageBody, length: int, batch: int
) -> bool:
    """Whether the cheapest order of contraction multiplies these edges with each other first."""
    parts = rule_operands(grammar, rule)
    wanted = frozenset(i for i, s in enumerate(parts.sources) if s in product.edges)
    trees = [parts.tree(length, batch)]
    while trees:
        tree = trees.pop()
        if tree.parts == wanted:
            return True
        trees += tree.children
    return False


def _parted(cut: RuleCut, product: MessageBody) -> MessageBody | None:
    """The product with its own conditions, `left` being those of the rest of the rule.

    Split variables of the product, and what is summed under conditions along with them, are summed
    in it and nowhere else; what speaks of the head's indices alone holds on both sides. None where
    the rest depends on a variable of the product.
    """
    rhs = cut.rule.rhs
    rest = [i for e in rhs.edges if e not in product.edges for i in e.indices]
    rest += [i for clamp in rhs.clamps for i in clamp.indices]
    spoken = [(c, cut.names(c.terms) - cut.head) for c in cut.rule.conditions]
    inner = cut.names(i for e in product.edges for i in e.indices) - cut.head
    more = inner
    while more:
        more = {n for _, names in spoken if names & inner for n in names} - inner
        inner |= more
    if inner & cut.names(rest):
        return None
    conditions = tuple(c for c, names in spoken if names <= inner)
    left = tuple(c for c, names in spoken if not names & inner)
    return replace(product, conditions=conditions, left=left)


def _shareable(grammar: Grammar, rule: Rule) -> tuple[object, MessageBody, tuple[str, ...]] | None:
    """The product of a rule's nonterminals, if something else is left of the rule."""
    cut = RuleCut(grammar, rule)
    names = [str(index) for index in rule.indices]
    if not names or len(cut.head) != len(names) or cut.head != set(names):
        return None
    charts = tuple(e for e in rule.rhs.edges if e.label in grammar.nonterminal)
    rest = [e for e in rule.rhs.edges if e.label not in grammar.nonterminal]
    if len(charts) < 2 or not (rest or rule.rhs.clamps):
        return None
    product = _parted(cut, MessageBody(charts, ()))
    if product is None:
        return None
    renamed: dict[str, int | Expr] = {name: Expr.of(f"#{i}") for i, name in enumerate(names)}
    indices = [index for edge in charts for index in edge.indices]
    for expr in (*indices, *(term for c in product.conditions for term in c.terms)):
        for name in expr.names():
            if name not in cut.known:
                renamed.setdefault(name, Expr.of(f"#{len(renamed)}"))
    inner = {a.node for e in charts for a in e.attachments}
    needed = {a.node for e in rest for a in e.attachments} | set(rule.rhs.externals)
    needed |= {c.attachment.node for c in rule.rhs.clamps}
    ordered = sorted(
        charts, key=lambda e: (e.label, tuple(str(i.substitute(renamed)) for i in e.indices))
    )
    numbers: dict[str, int] = {}
    for edge in ordered:
        for attachment in edge.attachments:
            numbers.setdefault(attachment.node, len(numbers))
    order = tuple(sorted(inner & needed, key=numbers.__getitem__))
    key = (
        tuple(
            (
                e.label,
                tuple(i.substitute(renamed) for i in e.indices),
                tuple(numbers[a.node] for a in e.attachments),
            )
            for e in ordered
        ),
        frozenset(c.substitute(renamed) for c in product.conditions),
        len(names),
        tuple(numbers[node] for node in order),
    )
    return key, replace(product, free=order), order
