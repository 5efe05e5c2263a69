"""From Lark's parse tree to the syntax tree of `fgg.compiler.syntax`: statements and fragments."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from lark import Token, Tree

from fgg.compiler import syntax
from fgg.compiler.build_values import ValueBuilder, tree_span
from fgg.spans import Span


class TreeBuilder(ValueBuilder):
    """Builds statements, and the edges, clamps and nodes of rules."""

    def statements(self, tree: Tree[Token]) -> tuple[syntax.Statement, ...]:
        """The statements of a file, with `rank` and `with` clauses attached to their factors."""
        found: list[syntax.Statement] = []
        for child in tree.children:
            assert isinstance(child, Tree)
            kind = child.data
            if kind == "with" or (kind == "rank" and child.children[1] is None):
                if found and isinstance(found[-1], syntax.FactorDecl):
                    found[-1] = self.attach(found[-1], child)
                else:
                    self.report.add(
                        "F011",
                        f"a `{kind}` clause must follow the factor it speaks of",
                        tree_span(child),
                    )
                continue
            statement = self.statement(child)
            if statement is not None:
                found.append(statement)
        return tuple(found)

    def attach(self, factor: syntax.FactorDecl, clause: Tree[Token]) -> syntax.FactorDecl:
        """The factor with one more `rank` or `with` clause."""
        span = factor.span.to(tree_span(clause))
        if clause.data == "rank":
            if factor.rank is not None:
                self.report.add("F013", "a second `rank` for one factor", tree_span(clause))
            return replace(factor, rank=self.arithmetic(clause.children[0]), span=span)
        attributes = list(factor.attributes)
        for child in clause.children:
            assert isinstance(child, Tree)
            key = self.name(child.children[0])
            if any(known.key.text == key.text for known in attributes):
                self.report.add("F013", f"a second `{key.text}` for one factor", key.span)
            value = self.value(child.children[1])
            attributes.append(syntax.AttributeDecl(key, value, tree_span(child)))
        return replace(factor, attributes=tuple(attributes), span=span)

    def statement(self, tree: Tree[Token]) -> syntax.Statement | None:
        """One statement."""
        build = getattr(self, f"_{tree.data}")
        return cast(syntax.Statement | None, build(tree, tree_span(tree)))

    def _size(self, tree: Tree[Token], span: Span) -> syntax.SizeDecl:
        name, value = tree.children
        return syntax.SizeDecl(self.name(name), self.arithmetic(value), span)

    def _domain(self, tree: Tree[Token], span: Span) -> syntax.DomainDecl:
        name, definition = tree.children
        assert isinstance(definition, Tree)
        shape: syntax.Arithmetic | syntax.Enumeration | syntax.CallLiteral
        if definition.data == "enumeration":
            values = tuple(self.constant(child) for child in definition.children if child)
            shape = syntax.Enumeration(values, tree_span(definition))
        elif definition.data == "call":
            shape = self.call(definition)
        else:
            shape = self.arithmetic(definition)
        return syntax.DomainDecl(self.name(name), shape, False, span)

    def _rank(self, tree: Tree[Token], span: Span) -> syntax.DomainDecl | None:
        left = self.arithmetic(tree.children[0])
        if not isinstance(left, syntax.NameRef):
            self.report.add("F001", "a rank domain is declared by its name", left.span)
            return None
        return syntax.DomainDecl(left.name, self.arithmetic(tree.children[1]), True, span)

    def _factor(self, tree: Tree[Token], span: Span) -> syntax.FactorDecl:
        name, signature, *value = tree.children
        assert isinstance(signature, Tree)
        left, arrow, right = signature.children
        given = None if arrow is None else self.names(left)
        over = self.names(left) if arrow is None else self.names(right)
        name_node = self.name(name)
        place = name_node.span if signature.meta.empty else tree_span(signature)
        literal = self.value(value[0]) if value else None
        return syntax.FactorDecl(name_node, given, over, literal, None, (), place, span)

    def _nonterminal(self, tree: Tree[Token], span: Span) -> syntax.NonterminalDecl:
        name, variables, domains, conditions = tree.children
        listed = domains.children[0] if isinstance(domains, Tree) else None
        return syntax.NonterminalDecl(
            self.name(name),
            self.names(variables),
            None if domains is None else self.names(listed),
            self.conditions(conditions),
            span,
        )

    def _declaration(self, tree: Tree[Token], span: Span) -> syntax.InputDecl:
        name, domain, shape = tree.children
        return syntax.InputDecl(self.name(name), self.name(domain), self.indices(shape), span)

    def _input(self, tree: Tree[Token], span: Span) -> syntax.InputDecl:
        return self._declaration(cast("Tree[Token]", tree.children[0]), span)

    def _input_factor(self, tree: Tree[Token], span: Span) -> syntax.InputFactorDecl:
        name, variables, domains, conditions = tree.children
        return syntax.InputFactorDecl(
            self.name(name),
            self.names(variables),
            self.names(domains),
            self.conditions(conditions),
            span,
        )

    def _input_table(self, tree: Tree[Token], span: Span) -> syntax.InputTableDecl | None:
        word, name, shape = tree.children
        if self.name(word).text != "table":
            domain, item = self.name(name), self.name(word)
            self.report.add(
                "F020",
                "an input's name is followed by a colon and its domain",
                item.span,
                "expected `:` after this",
                help=f"write `input {item.text}: {domain.text}[…]`",
            )
            return None
        return syntax.InputTableDecl(self.name(name), self.indices(shape), span)

    def _start_symbol(self, tree: Tree[Token], span: Span) -> syntax.StartDecl:
        name, indices = tree.children
        return syntax.StartDecl(self.name(name), self.indices(indices), span)

    def _rule(self, tree: Tree[Token], span: Span) -> syntax.RuleDecl:
        name, head, *body, conditions = tree.children
        items = tuple(self.body_item(cast("Tree[Token]", item)) for item in body if item)
        return syntax.RuleDecl(
            None if name is None else self.name(name),
            self.edge(cast("Tree[Token]", head)),
            items,
            self.conditions(conditions),
            span,
        )

    def _query(self, tree: Tree[Token], span: Span) -> syntax.QueryDecl:
        name, *statements = tree.children
        built = [self.statement(child) for child in statements if isinstance(child, Tree)]
        kept = tuple(cast(syntax.QueryStatement, item) for item in built if item is not None)
        return syntax.QueryDecl(self.name(name), kept, span)

    def body_item(self, tree: Tree[Token]) -> syntax.BodyItem:
        """An edge, a node declaration or a clamp."""
        if tree.data == "node":
            return self.typed(tree)
        if tree.data == "clamp":
            path, name, indices = tree.children
            return syntax.ClampSyntax(
                self.path(cast("Tree[Token]", path)),
                self.name(name),
                self.indices(indices),
                tree_span(tree),
            )
        return self.edge(tree)

    def edge(self, tree: Tree[Token]) -> syntax.EdgeSyntax:
        """An edge or a rule's head."""
        name, indices, *rest = tree.children
        arguments = None
        if tree.data != "bare_edge":
            listed = rest[0]
            children = listed.children if isinstance(listed, Tree) else []
            arguments = tuple(self.argument(cast("Tree[Token]", child)) for child in children)
        return syntax.EdgeSyntax(self.name(name), self.indices(indices), arguments, tree_span(tree))

    def argument(self, tree: Tree[Token]) -> syntax.Argument:
        """What an edge touches."""
        if tree.data == "typed":
            return self.typed(tree)
        if tree.data == "position":
            name, indices = tree.children
            return syntax.PositionSyntax(self.name(name), self.indices(indices), tree_span(tree))
        return self.path(tree)

    def typed(self, tree: Tree[Token]) -> syntax.TypedSyntax:
        """A node with its domain."""
        node, domain = tree.children
        return syntax.TypedSyntax(self.name(node), self.name(domain), tree_span(tree))

    def path(self, tree: Tree[Token]) -> syntax.PathSyntax:
        """A node or a part of it."""
        return syntax.PathSyntax(tuple(self.name(c) for c in tree.children), tree_span(tree))
