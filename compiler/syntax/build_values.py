"""Building the syntax tree: names, expressions, numbers, values.

The method `_x` makes the node of the alternative `x` of the grammar. Its arguments are the parts,
which are nodes and the numbers of tokens, and the numbers of the first and the last token.
"""

from __future__ import annotations

import json
from fractions import Fraction
from sys import float_info
from typing import cast

from fgg.compiler.syntax import tree
from fgg.compiler.syntax.flat_lists import value_places
from fgg.compiler.syntax.lalr import Parts
from fgg.compiler.syntax.lex import Tokens, find_surrogate, show_text
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import Report
from fgg.grammar.spans import Span

MAX_DIGITS = 400
MAX_EXPONENT = 400
MAX_OPERANDS = 1000


class ValueBuilder:
    """Builds the parts of statements, and reports errors that the grammar cannot express."""

    def __init__(self, tokens: Tokens, report: Report) -> None:
        self.tokens = tokens
        self.report = report
        self._names: dict[str, str] = {}

    def text(self, place: int) -> str:
        """Return the text of a token."""
        tokens = self.tokens
        return tokens.text[tokens.starts[place] : tokens.ends[place]]

    def span(self, first: int, last: int) -> Span:
        """Return the span from the beginning of one token to the end of another."""
        return Span(self.tokens.starts[first], self.tokens.ends[last])

    def name(self, place: int) -> Name:
        """Return the name at a token, without its backquotes."""
        tokens = self.tokens
        span = Span(tokens.starts[place], tokens.ends[place])
        return Name(self.name_text(tokens.text[span.start : span.end], span), span)

    def name_text(self, written: str, span: Span) -> str:
        """Return the text of a name; report characters that cannot be seen."""
        known = self._names.get(written)
        if known is not None:
            return known
        text = written.strip("`")
        if written.isprintable():
            self._names[written] = text
        else:
            self.report.add("F003", "a name contains invisible characters", span)
        return text

    # Lists and brackets.

    def _none(self, parts: Parts, first: int, last: int) -> Parts:
        return []

    def _absent(self, parts: Parts, first: int, last: int) -> None:
        return None

    def _one(self, parts: Parts, first: int, last: int) -> Parts:
        return parts

    def _more(self, parts: Parts, first: int, last: int) -> Parts:
        parts[0].append(parts[-1])
        return cast(Parts, parts[0])

    def _inner(self, parts: Parts, first: int, last: int) -> object:
        return parts[1]

    def _one_name(self, parts: Parts, first: int, last: int) -> list[Name]:
        return [self.name(first)]

    def _more_names(self, parts: Parts, first: int, last: int) -> list[Name]:
        parts[0].append(self.name(last))
        return cast(list[Name], parts[0])

    # Expressions. The operands of a chain are collected together with their operators.

    def _first_pair(self, parts: Parts, first: int, last: int) -> Parts:
        return parts

    def _next_pair(self, parts: Parts, first: int, last: int) -> Parts:
        chain = cast(Parts, parts[0])
        if len(chain) == 2 * MAX_OPERANDS - 1:
            self.report.add(
                "F014",
                "this expression is too large",
                self.span(first, last),
                f"at most {MAX_OPERANDS:,} operands can stand side by side",
                help="give parts of it names: `size m = k * k`",
            )
        if len(chain) < 2 * MAX_OPERANDS:  # one too many, so that it is reported once
            chain += parts[1:]
        return chain

    def _condition(self, parts: Parts, first: int, last: int) -> tree.Comparison:
        (chain,) = parts
        operators = tuple(self.text(place) for place in chain[1::2])
        return tree.Comparison(tuple(chain[::2]), operators, self.span(first, last))

    def _sum(self, parts: Parts, first: int, last: int) -> tree.Sum:
        (chain,) = parts
        signs = [1, *(-1 if self.text(place) == "-" else 1 for place in chain[1::2])]
        return tree.Sum(tuple(zip(signs, chain[::2], strict=True)), self.span(first, last))

    def _product(self, parts: Parts, first: int, last: int) -> tree.Times:
        return tree.Times(tuple(parts[0][::2]), self.span(first, last))

    def _signed(self, parts: Parts, first: int, last: int) -> tree.Arithmetic:
        sign, operand = parts
        if self.text(sign) == "-":
            return tree.Negated(operand, self.span(first, last))
        return cast(tree.Arithmetic, operand)

    def _integer(self, parts: Parts, first: int, last: int) -> tree.Integer:
        return tree.Integer(int(self.digits(first)), self.span(first, last))

    def _reference(self, parts: Parts, first: int, last: int) -> tree.NameRef:
        name = self.name(first)
        return tree.NameRef(name, name.span)

    def _lookup(self, parts: Parts, first: int, last: int) -> tree.TableEntry:
        return tree.TableEntry(self.name(first), tuple(parts[1]), self.span(first, last))

    # Values.

    def digits(self, place: int) -> str:
        """Return the text of a number; `1`, and a report, if it is too long, large or small."""
        text = self.text(place)
        exponent = text.lower().partition("e")[2]
        if len(text) > MAX_DIGITS:
            self.report.add(
                "F010",
                f"this number has {len(text):,} digits",
                self.tokens.span(place),
                f"at most {MAX_DIGITS} digits are read",
            )
            return "1"
        if exponent and (len(exponent) > 6 or abs(int(exponent)) > MAX_EXPONENT):
            self.report.add(
                "F010",
                f"the exponent of {show_text(text)} is out of range",
                self.tokens.span(place),
                f"exponents lie between -{MAX_EXPONENT} and {MAX_EXPONENT}",
            )
            return "1"
        return text

    def _number(self, parts: Parts, first: int, last: int) -> tree.NumberLiteral:
        signed = self.tokens.types[first] == "SIGN"
        span = self.span(first, last)
        over, under = self.digits(parts[1] if signed else first), None
        if len(parts) > 2:
            under = self.digits(last)
            over = self.checked_fraction(over, under, span)
        return tree.NumberLiteral(signed and self.text(first) == "-", over, under, span)

    def checked_fraction(self, over: str, under: str, span: Span) -> str:
        """Return the numerator; `1`, and a report, if the fraction is too long or too large."""
        fraction = Fraction(over) / (int(under) or 1)
        if fraction > Fraction(float_info.max):
            self.report.add("F010", "this fraction is too large", span)
            return "1"
        if max(fraction.numerator, fraction.denominator) >= 10**MAX_DIGITS:
            self.report.add(
                "F010",
                "this fraction has too many digits",
                span,
                f"numerator and denominator have at most {MAX_DIGITS} digits",
            )
            return "1"
        return over

    def _list(self, parts: Parts, first: int, last: int) -> tree.ListLiteral:
        items = tuple(parts[1]) if len(parts) > 2 else ()
        return tree.ListLiteral(items, self.span(first, last))

    def _row(self, parts: Parts, first: int, last: int) -> tree.NumberRow:
        return tree.NumberRow(self.text(first), self.tokens.span(first))

    def _map(self, parts: Parts, first: int, last: int) -> tree.MapLiteral:
        entries = tuple(parts[1]) if len(parts) > 2 else ()
        return tree.MapLiteral(entries, self.span(first, last))

    def _entry(self, parts: Parts, first: int, last: int) -> tuple[Name, tree.ValueSyntax]:
        return parts[0], parts[2]

    def _word(self, parts: Parts, first: int, last: int) -> tree.WordLiteral:
        name = self.name(first)
        return tree.WordLiteral(name, name.span)

    def _string(self, parts: Parts, first: int, last: int) -> tree.StringLiteral:
        span = self.tokens.span(first)
        return tree.StringLiteral(self.string(self.text(first), span), span)

    def _call(self, parts: Parts, first: int, last: int) -> tree.CallLiteral:
        given = parts[2] if len(parts) > 3 else []
        return tree.CallLiteral(
            self.name(first),
            tuple(item for item in given if not isinstance(item, tuple)),
            tuple(item for item in given if isinstance(item, tuple)),
            self.span(first, last),
        )

    def _keyword(self, parts: Parts, first: int, last: int) -> tuple[Name, tree.ValueSyntax]:
        return self.name(first), parts[2]

    # Domain values: names, strings and numbers.

    def _enumeration(self, parts: Parts, first: int, last: int) -> tree.Enumeration:
        values = tuple(parts[1]) if len(parts) > 2 else ()
        return tree.Enumeration(values, self.span(first, last))

    def _values(self, parts: Parts, first: int, last: int) -> tree.Enumeration:
        span = self.tokens.span(first)
        places = value_places(self.tokens.text, span.start, span.end)
        return tree.Enumeration(tuple(map(self.constant, places)), span)

    def _constant(self, parts: Parts, first: int, last: int) -> Name:
        return self.constant(self.tokens.span(first))

    def constant(self, span: Span) -> Name:
        """Return the domain value at a span."""
        written = self.tokens.text[span.start : span.end]
        if written[0] == '"':
            return Name(self.string(written, span), span)
        if written[0] != "`" and written.isprintable():
            return Name(written, span)
        return Name(self.name_text(written, span), span)

    def _dotted_key(self, parts: Parts, first: int, last: int) -> Name:
        names = [name.text for name in parts[0]]
        number = self.text(last)[1:] if len(parts) > 1 else None
        text = ".".join(names if number is None else [*names, number])
        return Name(text, self.span(first, last))

    def string(self, written: str, span: Span) -> str:
        """Return the text of a string literal, its escapes resolved."""
        try:
            text = cast(str, json.loads(written, strict=False))
        except ValueError:
            self.report.add(
                "F012",
                "a string has an escape that is not known",
                span,
                help=r"known escapes are \" \\ \/ \b \f \n \r \t and \u followed by four digits",
            )
            return written[1:-1]
        if find_surrogate(text):
            self.report.add("F012", "an escape stands for half a character only", span)
            return "?"
        return text
