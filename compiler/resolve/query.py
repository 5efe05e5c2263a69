"""Queries: their inputs, their index ranges, and their rules, each paired with a model rule."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fgg.compiler.resolve.declarations import (
    declare_input_factor,
    declare_inputs,
    duplicate,
    index_variables,
    start_reference,
)
from fgg.compiler.resolve.node_types import NodeTypes, Use, clamp_use, edge_uses
from fgg.compiler.resolve.rules import RuleResolver
from fgg.compiler.resolve.scope import Scope, count
from fgg.compiler.syntax import tree
from fgg.diagnostics import Label, did_you_mean
from fgg.grammar import (
    Attachment,
    Clamp,
    Edge,
    InputFactor,
    Nonterminal,
    Query,
    QueryRule,
    Reference,
    Rule,
)


class QueryResolver:
    """Resolves one query against the model in `scope`."""

    def __init__(self, scope: Scope, start: Reference | None) -> None:
        """Take the scope of the query and the start symbol of the model."""
        self.scope = scope
        self.start = start
        self.families: dict[str, Nonterminal] = {}
        self.arities: dict[str, Reference] = {}
        self.good = True

    def resolve(self, statement: tree.QueryDecl) -> Query | None:
        """Return the query, or None if it has errors."""
        scope = self.scope
        before = len(scope.report.diagnostics)
        items = statement.statements
        inputs, tables = declare_inputs(
            [s for s in items if isinstance(s, tree.InputDecl | tree.InputTableDecl)], scope
        )
        factors: list[InputFactor] = []
        for item in items:
            if isinstance(item, tree.InputFactorDecl):
                factor = declare_input_factor(item, scope)
                if factor is not None:
                    factors.append(factor)
        for item in items:
            if isinstance(item, tree.NonterminalDecl):
                self.family(item)
        rules = [self.rule(item) for item in items if isinstance(item, tree.RuleDecl)]
        start = self.resolve_start([s for s in items if isinstance(s, tree.StartDecl)], statement)
        if not self.good or any(d.is_error for d in scope.report.diagnostics[before:]):
            return None
        return Query(
            name=statement.name.text,
            inputs=inputs,
            input_factors=tuple(factors),
            tables=tables,
            families=tuple(self.families.values()),
            start=start,
            rules=tuple(rule for rule in rules if rule is not None),
            span=statement.name.span,
        )

    def family(self, item: tree.NonterminalDecl) -> None:
        """Resolve `nonterminal X[i, j] for …` inside a query."""
        name = item.name
        model = self.scope.nonterminals.get(name.text)
        if model is None:
            self.unknown_nonterminal(name)
            return
        if item.domains:
            self.scope.report.add(
                "F149",
                f"a query gives `{name.text}` indices only; its domains come from the model",
                name.span,
                help=f"leave out the parentheses: `nonterminal {name.text}[…] for …`",
            )
        first = self.families.get(name.text)
        if first is not None and first.span is not None:
            duplicate(name, first.span, self.scope.report)
            return
        variables = index_variables(item.variables, self.scope)
        if variables is None:
            self.good = False
            return
        conditions = self.scope.range_conditions(item.conditions, set(variables))
        self.families[name.text] = Nonterminal(
            name=name.text, indices=variables, conditions=conditions, span=name.span
        )

    def unknown_nonterminal(self, name: tree.Name) -> None:
        """Report a nonterminal that the model does not have."""
        self.good = False
        if name.text not in self.scope.broken:
            self.scope.report.add(
                "F106",
                f"the model has no nonterminal `{name.text}`",
                name.span,
                help=did_you_mean(name.text, self.scope.nonterminals),
            )

    def reference(self, item: tree.EdgeSyntax, resolver: RuleResolver) -> Reference | None:
        """Return a nonterminal with its indices; their number is the same in the whole query."""
        indices = self.scope.affines(item.indices, resolver.variables)
        if item.arguments is not None and item.arguments:
            self.good = False
            self.scope.report.add(
                "F149",
                f"a query does not repeat the nodes of `{item.label.text}`",
                item.span,
                help="write the indices only",
            )
        if indices is None:
            self.good = False
            return None
        reference = Reference(label=item.label.text, indices=indices, span=item.span)
        self.check_arity(reference)
        return reference

    def check_arity(self, reference: Reference) -> None:
        """Report a nonterminal that has different numbers of indices in two places."""
        name = reference.label
        family = self.families.get(name)
        first = self.arities.setdefault(name, reference)
        wanted = len(family.indices) if family is not None else len(first.indices)
        if len(reference.indices) == wanted:
            return
        self.good = False
        place = family.span if family is not None else first.span
        self.scope.report.add(
            "F147",
            f"`{name}` has {count(len(reference.indices), 'index', 'indices')} here, "
            f"but {wanted or 'none'} elsewhere",
            reference.span,
            labels=[Label(place, f"{wanted or 'none'} here")] if place else [],
            help="a query gives a nonterminal the same number of indices everywhere",
        )

    def rule(self, statement: tree.RuleDecl) -> QueryRule | None:
        """Return a query rule, paired with the model rule of its name; None if it has errors."""
        scope = self.scope
        name = statement.name or statement.head.label
        model = scope.rules.get(name.text)
        if model is None:
            self.good = False
            if f"rule {name.text}" not in scope.broken:
                scope.report.add(
                    "F143",
                    f"the model has no rule `{name.text}`",
                    name.span,
                    help=did_you_mean(name.text, scope.rules)
                    or f"its rules are {_names(scope.rules)}",
                )
            return None
        resolver = RuleResolver(scope)
        head = self.reference(statement.head, resolver)
        body: list[Reference] = []
        for item in statement.body:
            if isinstance(item, tree.TypedSyntax):
                self.good = False
                scope.report.add("F149", "a query cannot add nodes to a rule", item.span)
            elif isinstance(item, tree.ClampSyntax):
                resolver.clamp(item)
            elif item.label.text in scope.nonterminals:
                reference = self.reference(item, resolver)
                if reference is not None:
                    body.append(reference)
            elif any(isinstance(a, tree.LiteralSyntax) for a in item.arguments or ()):
                self.good = False
                scope.report.add(
                    "F149",
                    "a query cannot fix nodes to values",
                    item.span,
                    help="write the value in the model's rule, or make it an input",
                )
            elif any(isinstance(a, tree.PositionSyntax) for a in item.arguments or ()):
                self.good = False
                scope.report.add(
                    "F149",
                    "a query cannot add nodes to a rule",
                    item.span,
                    help="fix a node of the model's rule first: `o = w[i]`, then touch `o`",
                )
            else:
                resolver.edge(item)
        conditions = scope.rule_conditions(statement.conditions, resolver.variables)
        self.good &= resolver.good and len(conditions) == len(statement.conditions)
        self.check_nodes(model, resolver.edges, resolver.clamps)
        if head is None or not self.pairs(model, head, body, statement):
            return None
        return QueryRule(
            name=model.name,
            head=head,
            body=tuple(body),
            edges=tuple(resolver.edges),
            clamps=tuple(resolver.clamps),
            conditions=conditions,
            span=name.span,
        )

    def pairs(
        self, model: Rule, head: Reference, body: list[Reference], statement: tree.RuleDecl
    ) -> bool:
        """Return whether a query rule has the nonterminals of its model rule, in order."""
        nonterminals = self.scope.nonterminals
        wanted = [edge for edge in model.rhs.edges if edge.label in nonterminals]
        expected = " ".join(f"{edge.label}[…]" for edge in wanted)
        labels = [Label(model.span, "the model's rule")] if model.span else []
        pairs = [(model.lhs, head)]
        if len(body) == len(wanted):
            pairs += [(edge.label, r) for edge, r in zip(wanted, body, strict=True)]
        else:
            self.good = False
            self.scope.report.add(
                "F144",
                f"{count(len(body), 'nonterminal', 'nonterminals')} on the right-hand side, "
                f"but the model's rule `{model.name}` has {len(wanted) or 'none'}",
                statement.span,
                labels=labels,
                help=f"write them in order, with indices: `{expected}`" if wanted else "",
            )
        for label, reference in pairs:
            if label != reference.label:
                self.good = False
                self.scope.report.add(
                    "F145",
                    f"`{reference.label}` stands where the model's rule `{model.name}` "
                    f"has `{label}`",
                    reference.span,
                    labels=labels,
                )
        return self.good

    def check_nodes(self, model: Rule, edges: list[Edge], clamps: list[Clamp]) -> None:
        """Report nodes that the model's rule does not have, and domains that do not fit."""
        nodes = model.rhs.by_name
        uses = [use for edge in edges for use in edge_uses(edge, self.signature(edge))]
        scope = self.scope
        uses += [
            clamp_use(clamp, scope.inputs[clamp.input].domain, scope.domains, scope.factors)
            for clamp in clamps
        ]
        known = []
        for use in uses:
            if use.attachment.node in nodes:
                known.append(use)
                continue
            self.good = False
            self.scope.report.add(
                "F146",
                f"rule `{model.name}` has no node `{use.attachment.node}`",
                use.attachment.span,
                labels=[Label(model.span, "the model's rule")] if model.span else [],
                help=_node_help(use.attachment.node, nodes),
            )
        declared = [
            Use(Attachment(node=node.name, span=node.span), node.domain, f"rule `{model.name}`")
            for node in nodes.values()
        ]
        before = len(self.scope.report.diagnostics)
        NodeTypes(self.scope.domains, self.scope.report).infer([*declared, *known])
        self.good &= len(self.scope.report.diagnostics) == before

    def signature(self, edge: Edge) -> tuple[str, ...]:
        """Return the domains of the nodes that an edge touches."""
        label = self.scope.label(edge.label)
        return label.domains if label is not None else ()

    def resolve_start(
        self, statements: list[tree.StartDecl], query: tree.QueryDecl
    ) -> Reference | None:
        """Return the start of the query; it needs one if it indexes the model's start symbol."""
        for statement in statements[1:]:
            self.scope.report.add(
                "F137",
                "this is a second start symbol, but a query has one",
                statement.span,
                labels=[Label(statements[0].span, "the first one")],
            )
        if statements:
            used = self.arities.get(statements[0].name.text)
            arity = len(used.indices) if used else len(statements[0].indices)
            return start_reference(statements[0], self.scope, arity)
        first = self.arities.get(self.start.label) if self.start is not None else None
        if first is not None and first.indices:
            self.scope.report.add(
                "F136",
                f"query `{query.name.text}` indexes the start symbol `{first.label}`, "
                "but does not say where to start",
                first.span,
                help=f"add `start {first.label}[…]` to the query",
            )
        return None


def resolve_query(statement: tree.QueryDecl, scope: Scope, start: Reference | None) -> Query | None:
    """Return a query, resolved in its inner scope; None if it has errors."""
    return QueryResolver(scope, start).resolve(statement)


def _names(names: Iterable[str]) -> str:
    """Return at most eight names, for a message."""
    listed = [f"`{name}`" for name in names]
    return ", ".join(listed[:8]) + (", …" if len(listed) > 8 else "")


def _node_help(name: str, nodes: Collection[str]) -> str:
    """Return a hint for a name that is no node of a rule: it may be a value there."""
    for node in nodes:
        domain, _, value = node.rpartition(".")
        if domain and value == name:
            return (
                f"there `{name}` is the value `{name}` of `{domain}`; "
                f"give the node another name, or declare it: `({name}: {domain})`"
            )
    return did_you_mean(name, nodes) or (
        f"its nodes are {_names(nodes)}" if nodes else "it has no nodes"
    )
