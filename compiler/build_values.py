"""From Lark's parse tree to the syntax tree: names, expressions, numbers, values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from sys import float_info
from typing import cast

from lark import Token, Tree

from fgg.compiler import syntax
from fgg.compiler.lex import find_surrogate, show_text, token_span
from fgg.compiler.syntax import Name
from fgg.diagnostics import Report
from fgg.spans import Span

Child = Token | Tree[Token] | None

MAX_DIGITS = 400
MAX_EXPONENT = 400


@dataclass
class ValueBuilder:
    """Builds what statements are made of; mistakes that the grammar lets through are reported."""

    report: Report

    def name(self, child: Child) -> Name:
        """A name, without its backquotes."""
        assert isinstance(child, Tree)
        return Name(self.name_text(cast(Token, child.children[0])), tree_span(child))

    def name_text(self, token: Token) -> str:
        """The text of a name; a report if it contains what cannot be seen."""
        if not token.isprintable():
            self.report.add(
                "F003", "a name contains characters that cannot be seen", token_span(token)
            )
        return str(token).strip("`")

    def names(self, child: Child) -> tuple[Name, ...]:
        """A list of names; none where the list is left out."""
        if child is None:
            return ()
        assert isinstance(child, Tree)
        return tuple(self.name(item) for item in child.children)

    def indices(self, child: Child) -> tuple[syntax.Arithmetic, ...]:
        """A list of index expressions; none where the brackets are left out."""
        if child is None:
            return ()
        assert isinstance(child, Tree)
        return tuple(self.arithmetic(item) for item in child.children)

    def conditions(self, child: Child) -> tuple[syntax.Comparison, ...]:
        """The conditions after `for`."""
        if child is None:
            return ()
        assert isinstance(child, Tree)
        found = []
        for item in child.children:
            assert isinstance(item, Tree)
            terms = tuple(self.arithmetic(part) for part in item.children[::2])
            operators = tuple(str(part) for part in item.children[1::2])
            found.append(syntax.Comparison(terms, operators, tree_span(item)))
        return tuple(found)

    def arithmetic(self, child: Child) -> syntax.Arithmetic:
        """An expression."""
        assert isinstance(child, Tree)
        span = tree_span(child)
        parts = child.children
        if child.data == "integer":
            return syntax.Integer(self.integer(cast(Token, parts[0])), span)
        if child.data == "reference":
            return syntax.NameRef(self.name(parts[0]), span)
        if child.data == "lookup":
            return syntax.TableEntry(self.name(parts[0]), self.indices(parts[1]), span)
        if child.data == "signed":
            operand = self.arithmetic(parts[-1])
            minuses = sum(str(part) == "-" for part in parts[:-1])
            return syntax.Negated(operand, span) if minuses % 2 else operand
        if child.data == "product":
            factors = tuple(self.arithmetic(part) for part in parts)
            return factors[0] if len(factors) == 1 else syntax.Times(factors, span)
        terms = [(1, self.arithmetic(parts[0]))]
        for sign, part in zip(parts[1::2], parts[2::2], strict=True):
            terms.append((-1 if str(sign) == "-" else 1, self.arithmetic(part)))
        return terms[0][1] if len(terms) == 1 else syntax.Sum(tuple(terms), span)

    def integer(self, token: Token) -> int:
        """The value of a whole number."""
        return int(self.digits(token))

    def digits(self, token: Token) -> str:
        """The text of a number; `1`, and a report, if it is absurdly long, large or small."""
        exponent = str(token).lower().partition("e")[2]
        if len(token) > MAX_DIGITS:
            self.report.add(
                "F010",
                f"a number of {len(token):,} digits",
                token_span(token),
                f"at most {MAX_DIGITS} digits are read",
            )
            return "1"
        if exponent and (len(exponent) > 6 or abs(int(exponent)) > MAX_EXPONENT):
            self.report.add(
                "F010",
                f"the exponent of {show_text(str(token))} is out of range",
                token_span(token),
                f"exponents lie between -{MAX_EXPONENT} and {MAX_EXPONENT}",
            )
            return "1"
        return str(token)

    def value(self, child: Child) -> syntax.ValueSyntax:
        """What stands right of `=`."""
        assert isinstance(child, Tree)
        span = tree_span(child)
        if child.data == "number":
            sign, digits, denominator = (cast("Token | None", part) for part in child.children)
            assert digits is not None
            over, under = self.digits(digits), None
            if denominator is not None:
                under = self.digits(denominator)
                over = self.checked_fraction(over, under, span)
            return syntax.NumberLiteral(str(sign) == "-", over, under, span)
        if child.data == "list":
            return syntax.ListLiteral(tuple(self.value(c) for c in child.children if c), span)
        if child.data == "map":
            entries = []
            for entry in child.children:
                if entry is not None:
                    key, item = cast("Tree[Token]", entry).children
                    entries.append((self.constant(key), self.value(item)))
            return syntax.MapLiteral(tuple(entries), span)
        if child.data == "string":
            return syntax.StringLiteral(self.string(cast(Token, child.children[0])), span)
        if child.data == "call":
            return self.call(child)
        return syntax.WordLiteral(self.name(child.children[0]), span)

    def checked_fraction(self, over: str, under: str, span: Span) -> str:
        """The text of a numerator; `1`, and a report, if the fraction is too long or too large."""
        fraction = Fraction(over) / (int(under) or 1)
        if fraction > Fraction(float_info.max):
            self.report.add("F010", "this fraction is too large", span)
            return "1"
        if max(fraction.numerator, fraction.denominator) >= 10**MAX_DIGITS:
            self.report.add(
                "F010",
                "a fraction of very many digits",
                span,
                f"numerator and denominator have at most {MAX_DIGITS} digits",
            )
            return "1"
        return over

    def call(self, tree: Tree[Token]) -> syntax.CallLiteral:
        """A name with arguments."""
        name, *children = tree.children
        arguments = []
        keywords = []
        for child in children:
            if child is None:
                continue
            assert isinstance(child, Tree)
            if child.data == "keyword":
                key, item = child.children
                keywords.append((self.name(key), self.value(item)))
            else:
                arguments.append(self.value(child))
        return syntax.CallLiteral(
            self.name(name), tuple(arguments), tuple(keywords), tree_span(tree)
        )

    def constant(self, child: Child) -> Name:
        """A domain value: a name, a string or a number."""
        assert isinstance(child, Tree)
        token = cast(Token, child.children[0])
        text = self.string(token) if token.type == "STRING" else self.name_text(token)
        return Name(text, tree_span(child))

    def string(self, token: Token) -> str:
        """The text of a string literal."""
        try:
            text = cast(str, json.loads(token, strict=False))
        except ValueError:
            self.report.add(
                "F012",
                "a string has an escape that is not known",
                token_span(token),
                help=r"known escapes are \" \\ \/ \b \f \n \r \t and \u followed by four digits",
            )
            return str(token)[1:-1]
        if find_surrogate(text):
            self.report.add("F012", "an escape stands for half a character only", token_span(token))
            return "?"
        return text


def tree_span(tree: Child) -> Span:
    """Where a subtree stands."""
    assert isinstance(tree, Tree)
    return Span(tree.meta.start_pos, tree.meta.end_pos)
