"""Fold: a product of one nonterminal and parameters in a rule becomes a *message*.

Where the cheapest order of contraction multiplies a nonterminal with parameters first, the product
depends on that nonterminal's cell alone. It becomes a nonterminal of its own, computed once a cell
and not at every use (the caching of Cohen et al. 2013; the messages of Yang et al. 2022, §4.2).
An index that only the product depends on is summed in it. So is a product of parameters and inputs,
where it depends on fewer indices than the rule. A product of several nonterminals that two rules
have in common becomes a message too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fgg.compiler.passes.merge_messages import join
from fgg.compiler.passes.messages import MessageBody, new_rule, share, with_product
from fgg.compiler.passes.narrow import narrowed
from fgg.compiler.plan.contraction import Tree, rank_of
from fgg.compiler.plan.eliminate import eliminated, mentioning, within, without, without_all
from fgg.compiler.plan.rule_operands import RuleOperands, rule_operands
from fgg.compiler.rank.cut import RuleCut, wiring
from fgg.grammar import Attachment, Clamp, Edge, Grammar, Nonterminal, Rule
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh


def fold(grammar: Grammar, *, length: int = 32, batch: int = 16, hoist: bool = False) -> Grammar:
    """The grammar with messages; its value is the same.

    With `hoist`, products of parameters between rank nodes are not taken apart for messages.
    """
    folder = _Folder(grammar, length, batch, hoist)
    folded = share(folder.run(), length=length, batch=batch)
    return join(folded, [family.name for family in folder.known.values()])


class _Folder:
    def __init__(self, grammar: Grammar, length: int, batch: int, hoist: bool) -> None:
        self.grammar = grammar
        self.length = length
        self.batch = batch
        self.hoist = hoist
        self.taken = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
        self.rule_names = {rule.name for rule in grammar.rules}
        self.known: dict[object, Nonterminal] = {}
        self.rules: list[Rule] = []

    def run(self) -> Grammar:
        changed = [self.fold_rule(rule) for rule in self.grammar.rules]
        if not self.known:
            return self.grammar
        return replace(
            self.grammar,
            nonterminals=(*self.grammar.nonterminals, *self.known.values()),
            rules=(*changed, *self.rules),
        )

    def fold_rule(self, rule: Rule) -> Rule:
        own = rule_operands(self.grammar, rule)
        if sum(part.kind == "chart" for part in own.parts) == 0 or len(own.parts) < 3:
            return rule
        # An order is found for the cells that the rule fills, which may be few of the head's.
        filled = rule_operands(self.grammar, narrowed(self.grammar, rule, head=True))
        parts = replace(filled, sources=own.sources)
        cut = RuleCut(self.grammar, rule)
        for product in _products(parts.tree(self.length, self.batch, hoist=self.hoist), parts, cut):
            rule = self.replace(rule, product, cut)
        return rule

    def replace(self, rule: Rule, product: MessageBody, cut: RuleCut) -> Rule:
        """The rule with a message in place of the product."""
        chart = _chart(self.grammar, product)
        if chart is None:
            free = sorted(_variables(cut, product) - set(product.summed))
            family = Nonterminal(name="", indices=tuple(free))
            use = tuple(map(Expr.of, free))
            values: dict[str, int | Expr] = {}
        else:
            family = self.grammar.nonterminal[chart.label]
            use = chart.indices
            values = dict[str, int | Expr](cut.at(chart))
        places = [i for i, index in enumerate(use) if index in map(Expr.of, product.summed)]
        placed = _in_names_of(self.grammar, product, chart, family, values)
        key, order = _canonical(placed, family, places)
        if key not in self.known:
            # Where not every cell is used, the range follows from the uses.
            inferred = not self.grammar.tables and rank_of([_free(i, cut) for i in use]) < len(use)
            self.known[key] = self.message(rule, placed, chart, family, places, order, inferred)
        edge = Edge(
            label=self.known[key].name,
            attachments=tuple(Attachment(node=node) for node in order),
            indices=tuple(index for i, index in enumerate(use) if i not in places),
            span=rule.span if chart is None else chart.span,
        )
        conditions = without_all(rule.conditions, product.conditions)
        conditions = tuple(dict.fromkeys((*conditions, *product.left)))
        return with_product(replace(rule, conditions=conditions), product, edge)

    def message(
        self,
        rule: Rule,
        product: MessageBody,
        chart: Edge | None,
        family: Nonterminal,
        places: list[int],
        order: tuple[str, ...],
        inferred: bool,
    ) -> Nonterminal:
        """Declare a message with its rule, for a product in the names of its indices."""
        labels = [e.label for e in product.edges if e.label not in self.grammar.nonterminal]
        words = [*([chart.label] if chart else []), *labels] or [c.input for c in product.clamps]
        name = fresh("_".join(words), self.taken)
        self.taken.add(name)
        nodes = rule.rhs.by_name
        conditions = eliminated(family.conditions, (family.indices[i] for i in places))
        if inferred:
            said = tuple(dict.fromkeys((*product.conditions, *conditions)))
            product, conditions = replace(product, conditions=said), ()
        indices = tuple(index for i, index in enumerate(family.indices) if i not in places)
        message = Nonterminal(
            name=name,
            domains=tuple(nodes[node].domain for node in order),
            indices=indices,
            conditions=conditions,
            span=rule.span,
        )
        at = tuple(map(Expr.of, indices))
        self.rules.append(new_rule(self.rule_names, rule, message, at, product, order))
        return message


def _free(index: Expr, cut: RuleCut) -> Expr:
    """An index without lengths and sizes, which are the same for all cells of an item."""
    return index.substitute(dict.fromkeys(cut.known, 0))


def _chart(grammar: Grammar, product: MessageBody) -> Edge | None:
    return next((e for e in product.edges if e.label in grammar.nonterminal), None)


def _variables(cut: RuleCut, product: MessageBody) -> set[str]:
    indices = [i for edge in product.edges for i in edge.indices]
    return cut.names(indices + [i for clamp in product.clamps for i in clamp.indices])


def _in_names_of(
    grammar: Grammar,
    product: MessageBody,
    chart: Edge | None,
    family: Nonterminal,
    values: dict[str, int | Expr],
) -> MessageBody:
    """A product in the names of a family's indices, its nonterminal edge at these."""
    edges = []
    for edge in product.edges:
        indices = tuple(i.substitute(values) for i in edge.indices)
        if edge is chart:
            indices = tuple(map(Expr.of, family.indices))
        edges.append(replace(edge, indices=indices))
    clamps = tuple(
        replace(c, indices=tuple(i.substitute(values) for i in c.indices)) for c in product.clamps
    )
    said = [c.substitute(values) for c in product.conditions]
    if chart is not None:
        summed = {n for x in product.summed for n in Expr.of(values[x]).names()}
        said += mentioning(family.conditions, summed)
    conditions = tuple(dict.fromkeys([*said, *within(grammar, edges)]))
    return replace(product, edges=tuple(edges), clamps=clamps, conditions=conditions)


def _canonical(
    product: MessageBody, family: Nonterminal, places: list[int]
) -> tuple[object, tuple[str, ...]]:
    """A key that is equal for equal messages, and the order of their external nodes."""
    charts = [e for e in product.edges if e.label == family.name]
    rest = [e for e in product.edges if e.label != family.name]
    fixed = [a.node for e in charts for a in e.attachments]
    wires, numbers = wiring(rest, product.clamps, fixed, {})
    order = tuple(sorted(product.free, key=numbers.__getitem__))
    used = tuple(numbers[node] for node in fixed)
    said = frozenset(product.conditions)
    key = (family.name, used, wires, tuple(numbers[node] for node in order), tuple(places), said)
    return key, order


def _products(tree: Tree, parts: RuleOperands, cut: RuleCut) -> Iterator[MessageBody]:
    """The largest products below the root of a tree that are worth a message."""
    for child in tree.children:
        product = _product(child, parts, cut)
        if product is not None:
            yield product
        else:
            yield from _products(child, parts, cut)


def _product(tree: Tree, parts: RuleOperands, cut: RuleCut) -> MessageBody | None:
    """A subtree as a product, if it is worth a message.

    It is if it multiplies a nonterminal with parameters, or sums over an index, or multiplies
    parameters and inputs with each other at fewer indices than the rule has.
    """
    kinds = [parts.parts[i].kind for i in tree.parts]
    charts, parameters = kinds.count("chart"), kinds.count("parameter")
    if len(kinds) < 2 or charts > 1 or parameters == len(kinds):
        return None
    sources = [parts.sources[i] for i in sorted(tree.parts)]
    edges = tuple(edge for edge in sources if isinstance(edge, Edge))
    clamps = tuple(clamp for clamp in sources if isinstance(clamp, Clamp))
    product = _summed(MessageBody(edges, tree.keep, clamps), cut)
    if charts and parameters == len(kinds) - 1:
        return product
    if product.summed:
        return product
    loops = cut.head | {n for e in cut.rule.rhs.edges for n in cut.names(e.indices)}
    if not charts and parameters > 1 and "table" in kinds and _variables(cut, product) < loops:
        return product
    return None


def _summed(product: MessageBody, cut: RuleCut) -> MessageBody:
    """The product with a sum over each index that it alone depends on, where that is possible."""
    chart = _chart(cut.grammar, product)
    inside = _variables(cut, product)
    known = inside if chart is None else set(cut.at(chart))
    outside = set(cut.head)
    mine = set(map(id, (*product.edges, *product.clamps)))
    everything: tuple[Edge | Clamp, ...] = (*cut.rule.rhs.edges, *cut.rule.rhs.clamps)
    for part in everything:
        if id(part) not in mine:
            outside |= cut.names(part.indices)
    inputs = [i for c in product.clamps for i in c.indices]
    inputs += [i for e in product.edges if e is not chart for i in e.indices]
    if not cut.names(inputs) <= known:
        return product
    for name in sorted(inside - outside):
        if chart is not None and Expr.of(name) not in chart.indices:
            continue
        if chart is not None and sum(name in i.names() for i in chart.indices) > 1:
            continue
        about = cut.about(name)
        left = without(about, name)
        spoken = {n for c in about for n in cut.names(c.terms)}
        if left is None or not spoken <= known or spoken & set(product.summed):
            continue
        product = replace(
            product,
            summed=(*product.summed, name),
            conditions=(*product.conditions, *about),
            left=(*product.left, *(c for c in left if cut.names(c.terms))),
        )
    return product
