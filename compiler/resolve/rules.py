"""Rules: edges and their nodes, positions of inputs, index expressions, conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fgg.compiler.resolve.constants import RuleConstants, bare_names, declared_nodes
from fgg.compiler.resolve.node_types import NodeTypes, Use, clamp_use, input_hint, make_fragment
from fgg.compiler.resolve.scope import Scope, count, usual_indices
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import Label, did_you_mean
from fgg.factors.maps import is_map
from fgg.grammar import (
    Attachment,
    Clamp,
    Edge,
    Factor,
    InputFactor,
    Nonterminal,
    Product,
    Rule,
    Union,
)
from fgg.grammar.index import Expr
from fgg.inputs.clamps import position_name


@dataclass
class RuleResolver:
    """Resolves one rule; collects the uses of its nodes until their domains can be inferred."""

    scope: Scope
    variables: set[str] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    clamps: list[Clamp] = field(default_factory=list)
    positions: dict[tuple[str, tuple[Expr, ...]], str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    vague: set[str] = field(default_factory=set)  # nodes that an edge with errors touches
    constants: RuleConstants | None = None  # a query has none
    good: bool = True

    def resolve(self, statement: tree.RuleDecl, name: str) -> Rule | None:
        """Return the rule, or None if it has errors."""
        self.taken = set(_node_names(statement))
        self.constants = RuleConstants.of(statement, self.scope)
        head = statement.head
        nonterminal = self.nonterminal(head.label)
        externals = self.externals(head, nonterminal)
        indices = self.indices(head.label, head.indices, nonterminal)
        for item in statement.body:
            if isinstance(item, tree.EdgeSyntax):
                self.edge(item)
            elif isinstance(item, tree.ClampSyntax):
                self.clamp(item)
            else:
                self.typed(item)
        conditions = self.scope.rule_conditions(statement.conditions, self.variables)
        if len(conditions) < len(statement.conditions):
            self.good = False
        errors = len(self.scope.report.diagnostics)
        nodes = NodeTypes(self.scope.domains, self.scope.report, self.vague).infer(self.uses)
        if not self.good or nonterminal is None or indices is None:
            return None
        if len(self.scope.report.diagnostics) > errors:
            return None
        return Rule(
            name=name,
            lhs=nonterminal.name,
            rhs=make_fragment(nodes, [*self.edges, *self.constants.edges], self.clamps, externals),
            indices=indices,
            conditions=conditions,
            span=statement.name.span if statement.name else head.span,
            head_span=head.span,
        )

    def nonterminal(self, label: Name) -> Nonterminal | None:
        """Return the nonterminal of a head; None, and a report, if there is none."""
        declared = self.scope.nonterminals.get(label.text)
        if declared is None:
            self.good = False
            other = self.scope.label(label.text)
            if other is not None:
                self.scope.report.add(
                    "F135",
                    f"`{label.text}` is a factor, but a rule rewrites a nonterminal",
                    label.span,
                    labels=[Label(other.span, "declared here")] if other.span else [],
                )
            elif label.text not in self.scope.broken:
                self.scope.report.add(
                    "F106",
                    f"there is no nonterminal `{label.text}`",
                    label.span,
                    help=did_you_mean(label.text, self.scope.nonterminals)
                    or f"declare `nonterminal {label.text}(…)`",
                )
        return declared

    def externals(self, head: tree.EdgeSyntax, nonterminal: Nonterminal | None) -> list[str]:
        """Return the external nodes, in the order of the head."""
        externals: list[str] = []
        arguments = head.arguments or ()
        if nonterminal is not None:
            self.check_arity(head, len(arguments), nonterminal, "head")
        domains = nonterminal.domains if nonterminal is not None else ()
        for i, argument in enumerate(arguments):
            if isinstance(argument, tree.PathSyntax) and len(argument.names) == 1:
                name = argument.names[0]
            elif isinstance(argument, tree.TypedSyntax):
                name = argument.node
                self.typed(argument)
            elif isinstance(argument, tree.LiteralSyntax):
                touched = self.attachment(argument, domains[i] if i < len(domains) else None)
                if touched is None:
                    continue
                name = Name(touched.node, argument.span)
            else:
                self.good = False
                self.scope.report.add(
                    "F149",
                    "a rule's head names nodes, not parts or positions of inputs",
                    argument.span,
                    "a node was expected",
                    help="name the node here, and touch the part or position in the body",
                )
                if isinstance(argument, tree.PositionSyntax):
                    continue
                name = argument.names[0]
            externals.append(name.text)
            if i < len(domains):
                attachment = Attachment(node=name.text, span=name.span)
                self.uses.append(Use(attachment, domains[i], f"`{head.label.text}`"))
            else:
                self.good = False
                self.vague.add(name.text)
        return externals

    def indices(
        self,
        label: Name,
        nodes: Iterable[tree.Arithmetic],
        declared: Nonterminal | InputFactor | Factor | None,
    ) -> tuple[Expr, ...] | None:
        """Return the indices of an edge or a head; None, and a report, if they are wrong."""
        indices = self.scope.affines(nodes, self.variables)
        if indices is None:
            self.good = False
        elif declared is not None:
            wanted = () if isinstance(declared, Factor) else declared.indices
            if not self.scope.check_count(label, len(indices), wanted, declared.span):
                self.good = False
                return None
        return indices

    def check_arity(
        self,
        edge: tree.EdgeSyntax,
        touched: int,
        label: Factor | Nonterminal | InputFactor,
        where: str = "edge",
    ) -> None:
        """Report an edge that touches the wrong number of nodes."""
        wanted = len(label.domains)
        if touched == wanted:
            return
        self.good = False
        kind = "nonterminal" if isinstance(label, Nonterminal) else "factor"
        self.scope.report.add(
            "F112",
            f"{where} `{edge.label.text}` touches {count(touched, 'node', 'nodes')}, "
            f"but the {kind} takes {wanted or 'none'}",
            edge.span,
            count(touched, "node", "nodes"),
            labels=[Label(label.span, "declared here")] if label.span else [],
            help=f"it is declared as `{label.name}({_signature(label)})`",
        )

    def edge(self, item: tree.EdgeSyntax) -> None:
        """Resolve an edge of the body."""
        label = self.scope.label(item.label.text)
        if label is None:
            self.good = False
            self.unknown_label(item.label)
        arguments = item.arguments or ()
        attachments = []
        for i, argument in enumerate(arguments):
            wanted = label.domains[i] if label is not None and i < len(label.domains) else None
            attachments.append(self.attachment(argument, wanted))
        if label is None or len(attachments) != len(label.domains):
            self.vague |= {a.node for a in attachments if a is not None and not a.path}
        indices = self.indices(item.label, item.indices, label)
        if label is None:
            return
        self.check_arity(item, len(arguments), label)
        edge = Edge(
            label=label.name,
            attachments=tuple(a for a in attachments if a is not None),
            indices=indices or (),
            span=item.span,
        )
        if len(attachments) == len(label.domains):
            reason = f"`{label.name}`"
            for touched, domain in zip(attachments, label.domains, strict=True):
                if touched is not None:
                    self.uses.append(Use(touched, domain, reason))
        self.edges.append(edge)

    def unknown_label(self, name: Name) -> None:
        """Report an edge label that is not declared."""
        if name.text in self.scope.broken:
            return
        if name.text in self.scope.inputs:
            help_text = f"`{name.text}` is an input: touch a position, `f(u, {name.text}[i])`"
        else:
            help_text = did_you_mean(name.text, self.scope.all_labels())
        self.scope.report.add(
            "F103",
            f"there is no factor or nonterminal `{name.text}`",
            name.span,
            help=help_text or f"declare `factor {name.text}(…)` or `nonterminal {name.text}(…)`",
        )

    def attachment(self, argument: tree.Argument, wanted: str | None) -> Attachment | None:
        """Return the node that an edge touches; a position of an input becomes a clamped node."""
        if isinstance(argument, tree.LiteralSyntax):
            return self.constant(argument.value, wanted)
        if isinstance(argument, tree.PathSyntax):
            node, *path = [name.text for name in argument.names]
            if not path and self.constants is not None and self.constants.is_value(node, wanted):
                return self.constant(argument.names[0], wanted)
            return Attachment(node=node, path=tuple(path), span=argument.span)
        if isinstance(argument, tree.TypedSyntax):
            self.typed(argument)
            return Attachment(node=argument.node.text, span=argument.node.span)
        return self.position(argument, wanted)

    def constant(self, value: Name, domain: str | None) -> Attachment | None:
        """Return the node that is fixed to a value of a domain; equal values share a node."""
        if self.constants is None or domain is None:
            self.good = False
            return None
        node = self.constants.node(value, domain, self.taken)
        self.good &= node is not None
        return None if node is None else Attachment(node=node, span=value.span)

    def position(self, node: tree.PositionSyntax, wanted: str | None) -> Attachment | None:
        """Return the node for a position of an input; equal positions share a node."""
        indices = self.input_indices(node.input, node.indices)
        if indices is None:
            return None
        declared = self.scope.inputs[node.input.text]
        domain, span = declared.domain, declared.span
        if wanted is not None and wanted != domain:
            self.good = False
            self.scope.report.add(
                "F148",
                f"input `{node.input.text}` has domain `{domain}`, but `{wanted}` is expected here",
                node.span,
                labels=[Label(span, "declared here")] if span else [],
                help=input_hint(self.scope.domains, node.input.text, domain, wanted),
            )
            return None
        key = (node.input.text, indices)
        if key not in self.positions:
            name = position_name(node.input.text, self.taken)
            self.taken.add(name)
            self.positions[key] = name
            attachment = Attachment(node=name, span=node.span)
            clamp = Clamp(
                attachment=attachment, input=node.input.text, indices=indices, span=node.span
            )
            self.clamps.append(clamp)
            self.uses.append(clamp_use(clamp, domain))
        return Attachment(node=self.positions[key], span=node.span)

    def input_indices(
        self, name: Name, nodes: tuple[tree.Arithmetic, ...]
    ) -> tuple[Expr, ...] | None:
        """Return the indices of a position; None, and a report, if they or the input are wrong."""
        declared = self.scope.inputs.get(name.text)
        indices = self.scope.affines(nodes, self.variables)
        if declared is None:
            self.good = False
            if name.text not in self.scope.broken:
                self.scope.report.add(
                    "F104",
                    f"there is no input `{name.text}`",
                    name.span,
                    help=did_you_mean(name.text, self.scope.inputs)
                    or f"declare `input {name.text}: …[n]`",
                )
            return None
        if indices is None or not self.scope.check_count(
            name, len(indices), usual_indices(len(declared.shape)), declared.span
        ):
            self.good = False
            return None
        return indices

    def clamp(self, item: tree.ClampSyntax) -> None:
        """Resolve `o = w[i]`."""
        indices = self.input_indices(item.input, item.indices)
        node, *path = [name.text for name in item.path.names]
        attachment = Attachment(node=node, path=tuple(path), span=item.path.span)
        if indices is None or not self.has_part(item):
            return
        clamp = Clamp(
            attachment=attachment,
            input=item.input.text,
            indices=indices,
            path=tuple(name.text for name in item.part),
            span=item.span,
        )
        self.clamps.append(clamp)
        domain = self.scope.inputs[item.input.text].domain
        self.uses.append(clamp_use(clamp, domain, self.scope.domains, self.scope.factors))

    def has_part(self, item: tree.ClampSyntax) -> bool:
        """Return whether an input's domain has the part `N` of `o = w[i].N`; report if not."""
        domain = self.scope.inputs[item.input.text].domain
        for name in item.part:
            shape = self.scope.domains[domain].shape
            known = shape.parts if isinstance(shape, Union | Product) else ()
            factor = self.scope.factors.get(name.text)
            if not known and factor is not None and is_map(factor) and factor.domains[0] == domain:
                domain = factor.domains[1]
                continue
            if name.text not in known:
                self.good = False
                self.scope.report.add(
                    "F105",
                    f"domain `{domain}` of input `{item.input.text}` has no part `{name.text}`",
                    name.span,
                    help=did_you_mean(name.text, known),
                )
                return False
            domain = name.text
        return True

    def typed(self, item: tree.TypedSyntax) -> None:
        """Resolve `(u: T)`."""
        domain = self.scope.domain_name(item.domain)
        if domain is None:
            self.good = False
            self.vague.add(item.node.text)
            return
        attachment = Attachment(node=item.node.text, span=item.node.span)
        self.uses.append(Use(attachment, domain, "its declaration"))


def _signature(label: Factor | Nonterminal | InputFactor) -> str:
    """Return the domains of a label as in its declaration."""
    given = label.given if isinstance(label, Factor) else None
    if given is None:
        return ", ".join(label.domains)
    return f"{', '.join(label.domains[:given])} -> {', '.join(label.domains[given:])}".lstrip()


def _node_names(statement: tree.RuleDecl) -> Iterator[str]:
    """Yield the names of all nodes in the text of a rule."""
    yield from declared_nodes(statement)
    for item in (statement.head, *statement.body):
        if isinstance(item, tree.EdgeSyntax):
            yield from (name.text for name in bare_names(item))


def resolve_rule(statement: tree.RuleDecl, name: str, scope: Scope) -> Rule | None:
    """Return a rule of the model, or None if it has errors."""
    return RuleResolver(scope).resolve(statement, name)
