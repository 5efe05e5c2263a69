"""Building the syntax tree: statements, and the edges, clamps and nodes of rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from fgg.compiler.syntax import tree
from fgg.compiler.syntax.build_values import ValueBuilder
from fgg.compiler.syntax.lalr import Parts
from fgg.compiler.syntax.tree import Name

Clause = tree.RankClause | tree.WithClause
AnyFactor = TypeVar("AnyFactor", tree.FactorDecl, tree.InputFactorDecl)


class TreeBuilder(ValueBuilder):
    """Builds statements, and the edges, clamps and nodes of rules."""

    def _start(self, parts: Parts, first: int, last: int) -> tuple[tree.Statement, ...]:
        return self.statements(parts[0])

    def statements(
        self, listed: Iterable[tree.Statement | Clause | None]
    ) -> tuple[tree.Statement, ...]:
        """Return statements with `rank` and `with` clauses attached to their factors."""
        statements: list[tree.Statement] = []
        for item in listed:
            if isinstance(item, Clause):
                last = statements[-1] if statements else None
                if isinstance(last, tree.FactorDecl):
                    statements[-1] = self.attach(last, item)
                elif isinstance(last, tree.InputFactorDecl) and isinstance(item, tree.WithClause):
                    statements[-1] = self.attach_attributes(last, item)
                else:
                    kind = "rank" if isinstance(item, tree.RankClause) else "with"
                    self.report.add(
                        "F011",
                        f"a `{kind}` clause must follow the factor that it belongs to",
                        item.span,
                    )
            elif item is not None:
                statements.append(item)
        return tuple(statements)

    def attach(self, factor: tree.FactorDecl, clause: Clause) -> tree.FactorDecl:
        """Return the factor with one more `rank` or `with` clause."""
        if isinstance(clause, tree.RankClause):
            if factor.rank is not None:
                self.report.add("F013", "this factor has a second `rank`", clause.span)
            return replace(factor, rank=clause.rank, span=factor.span.to(clause.span))
        return self.attach_attributes(factor, clause)

    def attach_attributes(self, factor: AnyFactor, clause: tree.WithClause) -> AnyFactor:
        """Return the factor, or input factor, with one more `with` clause."""
        known = {attribute.key.text for attribute in factor.attributes}
        for attribute in clause.attributes:
            key = attribute.key
            if key.text in known:
                self.report.add("F013", f"this factor has a second `{key.text}`", key.span)
            known.add(key.text)
        span = factor.span.to(clause.span)
        return replace(factor, attributes=factor.attributes + clause.attributes, span=span)

    def _use(self, parts: Parts, first: int, last: int) -> tree.UseDecl | None:
        path = parts[1]
        span = self.tokens.span(path)
        literal = tree.StringLiteral(self.string(self.text(path), span), span)
        if len(parts) > 2 and self.text(parts[2]) != "as":
            self.report.add(
                "F001",
                f"unexpected `{self.text(parts[2])}` after the name of a file",
                self.tokens.span(parts[2]),
                help='write `use "…" as m` to put `m_` before all names',
            )
            return None
        prefix = self.name(parts[3]) if len(parts) > 2 else None
        return tree.UseDecl(literal, prefix, self.span(first, last))

    def _size(self, parts: Parts, first: int, last: int) -> tree.SizeDecl:
        _, name, _, value = parts
        return tree.SizeDecl(self.name(name), value, self.span(first, last))

    def _domain(self, parts: Parts, first: int, last: int) -> tree.DomainDecl:
        _, name, _, shape = parts
        return tree.DomainDecl(self.name(name), shape, False, self.span(first, last))

    def _rank_domain(self, parts: Parts, first: int, last: int) -> tree.DomainDecl | None:
        _, left, _, size = parts
        if not isinstance(left, tree.NameRef):
            self.report.add("F001", "a rank domain is declared by its name", left.span)
            return None
        return tree.DomainDecl(left.name, size, True, self.span(first, last))

    def _rank_clause(self, parts: Parts, first: int, last: int) -> tree.RankClause:
        return tree.RankClause(parts[1], self.span(first, last))

    def _with_clause(self, parts: Parts, first: int, last: int) -> tree.WithClause:
        return tree.WithClause(tuple(parts[1]), self.span(first, last))

    def _attribute(self, parts: Parts, first: int, last: int) -> tree.AttributeDecl:
        name, _, value = parts
        return tree.AttributeDecl(self.name(name), value, self.span(first, last))

    def _factor(self, parts: Parts, first: int, last: int) -> tree.FactorDecl:
        name = self.name(parts[1])
        given, over, place = parts[3]
        value = parts[6] if len(parts) > 5 else None
        span = self.span(first, last)
        return tree.FactorDecl(name, given, over, value, None, (), place or name.span, span)

    def _signature(self, parts: Parts, first: int, last: int) -> Parts:
        place = self.span(first, last) if first <= last else None
        given = tuple(parts[0]) if len(parts) > 1 else None
        return [given, tuple(parts[-1]), place]

    def _nonterminal(self, parts: Parts, first: int, last: int) -> tree.NonterminalDecl:
        _, name, variables, domains, conditions = parts
        return tree.NonterminalDecl(
            self.name(name),
            tuple(variables),
            None if domains is None else tuple(domains),
            tuple(conditions),
            self.span(first, last),
        )

    def _declaration(self, parts: Parts, first: int, last: int) -> tree.InputDecl:
        name, _, domain, shape = parts
        span = self.span(first, last)
        return tree.InputDecl(self.name(name), self.name(domain), tuple(shape), span)

    def _input(self, parts: Parts, first: int, last: int) -> tree.InputDecl:
        declared: tree.InputDecl = parts[1]
        return replace(declared, span=self.span(first, last))

    def _input_factor(self, parts: Parts, first: int, last: int) -> tree.InputFactorDecl:
        _, _, name, variables, _, domains, _, conditions = parts
        return tree.InputFactorDecl(
            self.name(name),
            tuple(variables),
            tuple(domains),
            tuple(conditions),
            (),
            self.span(first, last),
        )

    def _input_table(self, parts: Parts, first: int, last: int) -> tree.InputTableDecl | None:
        _, word, name, shape = parts
        item = self.name(word)
        if item.text != "table":
            domain = self.name(name)
            self.report.add(
                "F020",
                "an input's name is followed by a colon and its domain",
                item.span,
                "expected `:` after this",
                help=f"write `input {item.text}: {domain.text}[…]`",
            )
            return None
        return tree.InputTableDecl(self.name(name), tuple(shape), self.span(first, last))

    def _start_symbol(self, parts: Parts, first: int, last: int) -> tree.StartDecl:
        _, name, indices = parts
        return tree.StartDecl(self.name(name), tuple(indices), self.span(first, last))

    def _rule(self, parts: Parts, first: int, last: int) -> tree.RuleDecl:
        head, _, body, conditions = parts[-4:]
        name = self.name(parts[1]) if len(parts) > 5 else None
        span = self.span(first, last)
        return tree.RuleDecl(name, head, tuple(body), tuple(conditions), span)

    def _query(self, parts: Parts, first: int, last: int) -> tree.QueryDecl:
        _, name, inputs, _, inside, _ = parts
        statements = tuple(item for item in (*inputs, *inside) if item is not None)
        return tree.QueryDecl(self.name(name), statements, self.span(first, last))

    def _head(self, parts: Parts, first: int, last: int) -> tree.EdgeSyntax:
        touched = tuple(parts[3]) if len(parts) > 2 else ()
        span = self.span(first, last)
        return tree.EdgeSyntax(self.name(first), tuple(parts[1]), touched, span)

    def _edge(self, parts: Parts, first: int, last: int) -> tree.EdgeSyntax:
        name, indices, _, touched, _ = parts
        span = self.span(first, last)
        return tree.EdgeSyntax(self.name(name), tuple(indices), tuple(touched), span)

    def _bare_edge(self, parts: Parts, first: int, last: int) -> tree.EdgeSyntax:
        name = self.name(first)
        span = self.span(first, last) if first < last else name.span
        return tree.EdgeSyntax(name, tuple(parts[1]), None, span)

    def _node(self, parts: Parts, first: int, last: int) -> tree.TypedSyntax:
        _, node, _, domain, _ = parts
        return tree.TypedSyntax(self.name(node), self.name(domain), self.span(first, last))

    def _clamp(self, parts: Parts, first: int, last: int) -> tree.ClampSyntax:
        path, _, name, indices = parts[:4]
        part = tuple(parts[5]) if len(parts) > 4 else ()
        span = self.span(first, last)
        return tree.ClampSyntax(path, self.name(name), tuple(indices), part, span)

    def _typed(self, parts: Parts, first: int, last: int) -> tree.TypedSyntax:
        node, _, domain = parts
        return tree.TypedSyntax(self.name(node), self.name(domain), self.span(first, last))

    def _position(self, parts: Parts, first: int, last: int) -> tree.PositionSyntax:
        name, indices = parts
        return tree.PositionSyntax(self.name(name), tuple(indices), self.span(first, last))

    def _literal(self, parts: Parts, first: int, last: int) -> tree.LiteralSyntax:
        value = self.constant(self.tokens.span(first))
        return tree.LiteralSyntax(value, value.span)

    def _path(self, parts: Parts, first: int, last: int) -> tree.PathSyntax:
        names: list[Name] = parts[0]
        span = names[0].span if len(names) == 1 else self.span(first, last)
        return tree.PathSyntax(tuple(names), span)
