"""Pin: a chart needs no axis for a node whose value the input determines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fgg.compiler.passes.inline import matching
from fgg.factors.maps import is_map
from fgg.grammar import Clamp, Edge, Fragment, Grammar, Node, Nonterminal, Rule
from fgg.grammar.domains import domain_size, lengths, size_values
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, implies
from fgg.grammar.names import fresh
from fgg.grammar.ranges import condition_rows, length_rows, row
from fgg.grammar.values import Map
from fgg.inputs.clamps import Pin, clamp_domain, is_pinned


def pin(grammar: Grammar, *, whole: bool = False) -> Grammar:
    """The grammar without the nodes that maps of observed values fix.

    Where a node is clamped and a map touches it, `o = w[i]` and `clusters(o, m)`, the value of m is
    known: the edge becomes the clamp `m = w[i].clusters`. If in all rules of a family, or at all of
    its uses, an external node is known so, at one place in terms of the family's indices,

        X[i](m, k) -> …  m = w[i].clusters,

    it leaves the family: each rule sums over it as over an internal node, which its clamp fixes,
    and each use `X[j](u, v)` becomes `X[j](v)` with the clamp `u = w[j].clusters`. A cell of X then
    holds what it did at the one block where it was not zero, or where it was used.

    Requires a grammar without queries whose nodes are atomic. Guarantees the same value Z for
    inputs without missing tokens (of those that maps follow): a missing token's block is not known,
    and it and the token are summed together. Families note what they lost (`provenance.pins_of`).
    With `whole`, rules keep all their nodes, so that derivations can be read from them. A grammar
    without such nodes is returned as it is.
    """
    rules = tuple(local(grammar, rule) for rule in grammar.rules)
    if rules == grammar.rules:
        return grammar
    pinner = _Pinner(replace(grammar, rules=rules))
    pinned = pinner.run()
    rules = tuple(separated(pinned, rule, whole=whole) for rule in pinned.rules)
    return replace(pinned, rules=rules)


class _Pinner:
    """Takes known nodes out of families, one after the other."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        # The places of each family's nodes among those that it had, and what is known of these.
        self.left = {n.name: list(range(len(n.domains))) for n in grammar.nonterminals}
        self.known: dict[str, dict[int, Pin]] = {}

    def run(self) -> Grammar:
        while self.step():
            pass
        nonterminals = tuple(map(self.noted, self.grammar.nonterminals))
        return replace(self.grammar, nonterminals=nonterminals)

    def noted(self, family: Nonterminal) -> Nonterminal:
        """The family with a note of the clamps of the nodes that it has lost."""
        known = self.known.get(family.name)
        if known is None or family.source is None:
            return family
        places = range(len(known) + len(self.left[family.name]))
        pins = tuple(known.get(place) for place in places)
        return replace(family, source=replace(family.source, pins=pins))

    def step(self) -> bool:
        """Take one node out of a family; return False if no node is known."""
        for family in self.grammar.nonterminals:
            if family.name == self.grammar.start.label:
                continue
            for place in range(len(family.domains)):
                heads = [(r, r.indices, r.rhs.externals[place]) for r in self.rules(family.name)]
                uses = [
                    (r, e.indices, e.attachments[place].node) for r, e in self.uses(family.name)
                ]
                for occurrences in (heads, uses):
                    pin = self.common(family.indices, occurrences)
                    if pin is not None:
                        self.remove(family.name, place, pin)
                        return True
        return False

    def rules(self, name: str) -> tuple[Rule, ...]:
        return self.grammar.rules_of.get(name, ())

    def uses(self, name: str) -> Iterator[tuple[Rule, Edge]]:
        for rule in self.grammar.rules:
            for edge in rule.rhs.edges:
                if edge.label == name:
                    yield rule, edge

    def common(
        self, names: Sequence[str], occurrences: Sequence[tuple[Rule, tuple[Expr, ...], str]]
    ) -> Pin | None:
        """The pin of a node that is known wherever it occurs, in terms of the family's indices."""
        clamps = [self.clamps(rule, node) for rule, _, node in occurrences]
        if not clamps or not all(clamps):
            return None
        for (_, indices, _), here in zip(occurrences, clamps, strict=True):
            for clamp in here:
                pin = self.inverse(names, indices, clamp)
                if pin is not None and all(
                    self.holds(pin, names, rule, at, other)
                    for (rule, at, _), other in zip(occurrences, clamps, strict=True)
                ):
                    return pin
        return None

    def clamps(self, rule: Rule, node: str) -> list[Clamp]:
        """The clamps of a node that go through a map."""
        return [
            c
            for c in rule.rhs.clamps
            if c.attachment.node == node and c.path and is_pinned(self.grammar, c)
        ]

    def inverse(self, names: Sequence[str], indices: Sequence[Expr], clamp: Clamp) -> Pin | None:
        """A clamp's position in terms of a family's indices, from one place where it occurs."""
        fixed = {*lengths(self.grammar), *self.grammar.size}
        free = {n for index in (*indices, *clamp.indices) for n in index.names()} - fixed
        marks = [Expr.of(f"@{i}") for i in range(len(names))]
        matched = matching(indices, marks, free)
        if matched is None:
            return None
        back: dict[str, int | Expr] = {f"@{i}": Expr.of(name) for i, name in enumerate(names)}
        position = tuple(index.substitute(matched[0]) for index in clamp.indices)
        if any(list(index.lookups()) for index in position):
            return None
        if any(n not in back and n not in fixed for index in position for n in index.names()):
            return None
        return Pin(clamp.input, clamp.path, tuple(index.substitute(back) for index in position))

    def holds(
        self,
        pin: Pin,
        names: Sequence[str],
        rule: Rule,
        at: Sequence[Expr],
        clamps: Sequence[Clamp],
    ) -> bool:
        """Whether one of a node's clamps is where the pin says, wherever the rule holds."""
        wanted = pin.clamp("", names, at)
        rows: list[Row] | None = None
        for clamp in clamps:
            if (clamp.input, clamp.path) != (pin.input, pin.path):
                continue
            gaps = [a - b for a, b in zip(wanted.indices, clamp.indices, strict=True)]
            gaps = [gap for gap in gaps if gap.constant != 0]
            if any(gap.constant is not None or list(gap.lookups()) for gap in gaps):
                continue
            if gaps and rows is None:
                sizes = size_values(self.grammar)
                rows = condition_rows(rule.conditions, sizes) + length_rows(self.grammar)
            known = rows or []
            if all(
                implies(known, row(e, size_values(self.grammar))) for g in gaps for e in (g, -g)
            ):
                return True
        return False

    def remove(self, name: str, place: int, pin: Pin) -> None:
        """The grammar with a family that has one node less."""
        family = self.grammar.nonterminal[name]
        self.known.setdefault(name, {})[self.left[name].pop(place)] = pin

        rules = []
        for rule in self.grammar.rules:
            rhs, clamps = rule.rhs, list(rule.rhs.clamps)
            externals, edges = rhs.externals, []
            if rule.lhs == name:
                clamps.append(pin.clamp(externals[place], family.indices, rule.indices))
                externals = externals[:place] + externals[place + 1 :]
            for edge in rhs.edges:
                if edge.label == name:
                    node = edge.attachments[place].node
                    clamps.append(pin.clamp(node, family.indices, edge.indices))
                    rest = edge.attachments[:place] + edge.attachments[place + 1 :]
                    edge = replace(edge, attachments=rest)
                edges.append(edge)
            distinct = tuple(dict.fromkeys(clamps))
            rhs = Fragment.make(rhs.nodes, tuple(edges), distinct, externals)
            rules.append(rule if rhs == rule.rhs else replace(rule, rhs=rhs))
        domains = family.domains[:place] + family.domains[place + 1 :]
        smaller = replace(family, domains=domains)
        self.grammar = replace(
            self.grammar,
            nonterminals=tuple(smaller if x is family else x for x in self.grammar.nonterminals),
            rules=tuple(rules),
        )


def local(grammar: Grammar, rule: Rule) -> Rule:
    """The rule with a clamp in place of each map of a clamped node.

    A map to a single block is 1 everywhere, and goes without one: tables of copies over positions
    would be made for nothing.
    """
    fragment = rule.rhs
    clamps = list(fragment.clamps)
    edges: list[Edge] = []
    for edge in fragment.edges:
        if _says_nothing(grammar, edge):
            continue
        clamp = _clamp(grammar, fragment, edge)
        if clamp is None:
            edges.append(edge)
        else:
            clamps.append(clamp)
    if len(edges) == len(fragment.edges):
        return rule
    distinct = tuple(dict.fromkeys(clamps))
    return replace(
        rule, rhs=Fragment.make(fragment.nodes, tuple(edges), distinct, fragment.externals)
    )


def _says_nothing(grammar: Grammar, edge: Edge) -> bool:
    """Whether an edge is a map to a domain of one value."""
    factor = grammar.factor.get(edge.label)
    if factor is None or not is_map(factor) or any(a.path for a in edge.attachments):
        return False  # a path may lead nowhere, and the edge then says that
    return domain_size(grammar, factor.domains[1]) == 1


def _clamp(grammar: Grammar, fragment: Fragment, edge: Edge) -> Clamp | None:
    """The clamp of a map's second node, if its first node is clamped."""
    factor = grammar.factor.get(edge.label)
    if factor is None or not is_map(factor):
        return None
    if isinstance(factor.value, Map) and factor.value.pattern == "part":
        return None  # to where the node is anyway: there is nothing to be gained
    source, target = edge.attachments
    if source.path or target.path or source.node == target.node:
        return None
    for clamp in fragment.clamps:
        if clamp.attachment.node == source.node and not clamp.attachment.path:
            if clamp_domain(grammar, clamp) == factor.domains[0]:
                path = (*clamp.path, factor.name)
                return replace(clamp, attachment=target, path=path, span=edge.span)
    return None


def separated(grammar: Grammar, rule: Rule, *, whole: bool = False) -> Rule:
    """The rule with a node of its own for each parameter that touches a node fixed by a map.

    What is fixed to one value is equal to its copies, so each parameter is read at its own tokens,
    as a table over positions, and none meets another in a sum over blocks. Nodes that say nothing
    are left out, unless the rule is to stay `whole`: then all nodes that it had are there.
    """
    for node in rule.rhs.nodes:
        rule = _separated(grammar, rule, node)
    return rule if whole else _without_idle(grammar, rule)


def _without_idle(grammar: Grammar, rule: Rule) -> Rule:
    """The rule without nodes that only a map fixes, where another clamp needs the same token.

    The sum over such a node is 1 wherever the token is possible, which the other clamp says.
    """
    fragment = rule.rhs
    touched = {a.node for edge in fragment.edges for a in edge.attachments}
    clamps = list(fragment.clamps)
    for clamp in fragment.clamps:
        node = clamp.attachment.node
        alone = node not in touched and node not in fragment.externals
        if not alone or not clamp.path or not is_pinned(grammar, clamp):
            continue
        same = [
            c
            for c in clamps
            if (c.input, c.indices) == (clamp.input, clamp.indices)
            and c.path == clamp.path[: len(c.path)]
            and c.attachment.node != node
        ]
        if same and sum(c.attachment.node == node for c in clamps) == 1:
            clamps.remove(clamp)
    gone = {c.attachment.node for c in fragment.clamps} - {c.attachment.node for c in clamps}
    if not gone:
        return rule
    nodes = tuple(n for n in fragment.nodes if n.name not in gone)
    return replace(
        rule, rhs=Fragment.make(nodes, fragment.edges, tuple(clamps), fragment.externals)
    )


def _separated(grammar: Grammar, rule: Rule, node: Node) -> Rule:
    fragment = rule.rhs
    fixing = [c for c in fragment.clamps if c.attachment.node == node.name]
    first = next((c for c in fixing if c.path and is_pinned(grammar, c)), None)
    touching = [e for e in fragment.edges if any(a.node == node.name for a in e.attachments)]
    read = [
        edge
        for edge in touching
        if edge.label in grammar.factor and sum(a.node == node.name for a in edge.attachments) == 1
    ]
    if first is None or not read:
        return rule
    if len(fixing) == 1 and len(read) == len(touching) and node.name not in fragment.externals:
        read = read[1:]  # one of them keeps the node
    taken = {n.name for n in fragment.nodes}
    copies: list[Node] = []
    clamps = list(fragment.clamps)
    edges: list[Edge] = []
    for edge in fragment.edges:
        if edge in read:
            copy = replace(node, name=fresh(node.name, taken))
            taken.add(copy.name)
            copies.append(copy)
            clamps.append(replace(first, attachment=replace(first.attachment, node=copy.name)))
            attachments = tuple(
                replace(a, node=copy.name) if a.node == node.name else a for a in edge.attachments
            )
            edge = replace(edge, attachments=attachments)
        edges.append(edge)
    nodes = (*fragment.nodes, *copies)
    rhs = Fragment.make(nodes, tuple(edges), tuple(clamps), fragment.externals)
    return replace(rule, rhs=rhs)
