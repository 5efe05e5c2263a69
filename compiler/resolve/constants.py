"""Values of domains in the place of nodes: which names are values, and the nodes they become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fgg.compiler.resolve.scope import Scope
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import GrammarError, did_you_mean
from fgg.grammar import Edge
from fgg.grammar.constants import indicator, indicator_edge, indicator_name, is_bare_value
from fgg.grammar.domains import value_index
from fgg.grammar.names import fresh


@dataclass
class RuleConstants:
    """The values that a rule has in the place of nodes.

    A bare name is a value if its domain has a value of that name, unless the rule has a node of
    that name: one that the head names, that is declared or fixed to an input, or that is touched
    in part or where the domain has no such value.
    """

    scope: Scope
    nodes: set[str]
    edges: list[Edge] = field(default_factory=list)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, statement: tree.RuleDecl, scope: Scope) -> RuleConstants:
        """Return the constants of a rule, none yet; warn of nodes that are called like values."""
        declared = set(declared_nodes(statement))
        constants = cls(scope, declared | {name.text for name in bare_names(statement.head)})
        label = scope.nonterminals.get(statement.head.label.text)
        for place, argument in enumerate(statement.head.arguments or ()):
            if label is None or place >= len(label.domains):
                break
            if isinstance(argument, tree.PathSyntax) and argument.names[0].text not in declared:
                constants.warn(argument.names[0], label.domains[place])
        for item in statement.body:
            if isinstance(item, tree.EdgeSyntax):
                constants.nodes |= set(constants.touched_as_nodes(item))
        return constants

    def touched_as_nodes(self, edge: tree.EdgeSyntax) -> Iterator[str]:
        """Yield the names that an edge touches in a place where they cannot be values."""
        label = self.scope.label(edge.label.text)
        for place, argument in enumerate(edge.arguments or ()):
            if isinstance(argument, tree.PathSyntax):
                name = argument.names[0].text
                known = label is not None and place < len(label.domains)
                if len(argument.names) > 1:
                    yield name
                elif not (known and label and self.has_value(label.domains[place], name)):
                    yield name

    def has_value(self, domain: str, name: str) -> bool:
        """Return whether a bare name can be a value of a domain."""
        return is_bare_value(self.scope.of_domains, domain, name)

    def warn(self, name: Name, domain: str) -> None:
        """Warn of a node of the head that is called like a value of its domain."""
        if self.has_value(domain, name.text):
            self.scope.report.add(
                "F210",
                f"`{name.text}` is a node here, although `{domain}` has a value `{name.text}`",
                name.span,
                help=f'rename the node, or write `"{name.text}"` for the value',
            )

    def is_value(self, name: str, domain: str | None) -> bool:
        """Return whether a bare name in a place for nodes of a domain is a value."""
        return domain is not None and name not in self.nodes and self.has_value(domain, name)

    def node(self, value: Name, domain: str, taken: set[str]) -> str | None:
        """Return the node that is fixed to a value; None, and a report, if there is none."""
        try:
            known = value_index(self.scope.of_domains, domain)
        except GrammarError:  # too many values to name
            problem = f"`{domain}` has too many values to name them"
            self.scope.report.add("F129", problem, value.span)
            return None
        if value.text not in known:
            self.scope.report.add(
                "F129",
                f"domain `{domain}` has no value `{value.text}`",
                value.span,
                help=did_you_mean(value.text, known),
            )
            return None
        key = (domain, value.text)
        if key not in self._names:
            name = fresh(indicator_name(*key), taken)
            taken.add(name)
            self._names[key] = name
            label = self.factor(domain, value.text, known[value.text])
            self.edges.append(indicator_edge(label, name))
        return self._names[key]

    def factor(self, domain: str, value: str, position: int) -> str:
        """Return the name of the indicator of a value, which is declared if it is not yet."""
        factor = indicator(domain, value, position)
        if self.scope.factors.get(factor.name) == factor:
            return factor.name
        name = fresh(factor.name, set(self.scope.all_labels()))
        self.scope.factors[name] = indicator(domain, value, position, name)
        return name


def declared_nodes(statement: tree.RuleDecl) -> Iterator[str]:
    """Yield the nodes that are declared, or fixed to an input, in a rule."""
    for item in (statement.head, *statement.body):
        if isinstance(item, tree.TypedSyntax):
            yield item.node.text
        elif isinstance(item, tree.ClampSyntax):
            yield item.path.names[0].text
        else:
            for argument in item.arguments or ():
                if isinstance(argument, tree.TypedSyntax):
                    yield argument.node.text


def bare_names(edge: tree.EdgeSyntax) -> Iterator[Name]:
    """Yield the names in the places of an edge's nodes, without their parts."""
    for argument in edge.arguments or ():
        if isinstance(argument, tree.PathSyntax):
            yield argument.names[0]
