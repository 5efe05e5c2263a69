"""The syntax tree: statements as written, with their spans, before any name is looked up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fgg.compiler.syntax.flat_lists import row_numbers, row_place
from fgg.grammar.spans import Span
from fgg.grammar.values import Number


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it stands in the text."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number in an expression."""

    value: int
    span: Span


@dataclass(frozen=True, slots=True)
class NameRef:
    """A name in an expression: a size, a length, an index variable or a domain."""

    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A look-up in an expression, `left[v]`."""

    table: Name
    indices: tuple[Arithmetic, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Negated:
    """A minus sign in front of an expression."""

    operand: Arithmetic
    span: Span


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms with their signs (+1 or -1)."""

    terms: tuple[tuple[int, Arithmetic], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Times:
    """A product of expressions."""

    factors: tuple[Arithmetic, ...]
    span: Span


Arithmetic = Integer | NameRef | TableEntry | Negated | Sum | Times


@dataclass(frozen=True, slots=True)
class Comparison:
    """A chain of comparisons, `i < k < j`."""

    terms: tuple[Arithmetic, ...]
    operators: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number in a value: sign and digits, and a denominator if written `1/3`."""

    negative: bool
    digits: str
    denominator: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A text between double quotes, escapes resolved."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """A list of values."""

    items: tuple[ValueSyntax, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class NumberRow:
    """A flat list of numbers, as it stands in the text."""

    text: str
    span: Span

    def numbers(self) -> tuple[Number, ...]:
        """Return the numbers of the list."""
        return row_numbers(self.text)

    def place(self, index: int) -> Span | None:
        """Return the span of an item; None if the list is shorter."""
        item = row_place(self.text, index)
        return item and Span(self.span.start + item.start, self.span.start + item.end)


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """A map from domain values to values."""

    entries: tuple[tuple[Name, ValueSyntax], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class WordLiteral:
    """A bare name where a value is expected."""

    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class CallLiteral:
    """A name with arguments where a value is expected."""

    name: Name
    arguments: tuple[ValueSyntax, ...]
    keywords: tuple[tuple[Name, ValueSyntax], ...]
    span: Span


ListSyntax = ListLiteral | NumberRow
ValueSyntax = NumberLiteral | StringLiteral | ListSyntax | MapLiteral | WordLiteral | CallLiteral


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The values of a domain, by name."""

    values: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class UseDecl:
    """`use "file.fgg"`, or `use "file.fgg" as m`, which puts `m_` before all names."""

    path: StringLiteral
    prefix: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class SizeDecl:
    """`size m = 3`."""

    name: Name
    value: Arithmetic
    span: Span


@dataclass(frozen=True, slots=True)
class DomainDecl:
    """`domain N = …` or `rank R = …`."""

    name: Name
    definition: Arithmetic | Enumeration | CallLiteral
    rank: bool
    span: Span


@dataclass(frozen=True, slots=True)
class AttributeDecl:
    """`key = value` after `with`."""

    key: Name
    value: ValueSyntax
    span: Span


@dataclass(frozen=True, slots=True)
class RankClause:
    """`rank r`, which belongs to the factor before it."""

    rank: Arithmetic
    span: Span


@dataclass(frozen=True, slots=True)
class WithClause:
    """`with key = value, …`, which belongs to the factor before it."""

    attributes: tuple[AttributeDecl, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class FactorDecl:
    """`factor f(A -> B) = value rank r with …`; `given` is None where there is no arrow."""

    name: Name
    given: tuple[Name, ...] | None
    over: tuple[Name, ...]
    value: ValueSyntax | None
    rank: Arithmetic | None
    attributes: tuple[AttributeDecl, ...]
    signature_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class NonterminalDecl:
    """`nonterminal X[i](T) for …`; `domains` is None where there are no parentheses."""

    name: Name
    variables: tuple[Name, ...]
    domains: tuple[Name, ...] | None
    conditions: tuple[Comparison, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class InputDecl:
    """`input w: W[n]`."""

    name: Name
    domain: Name
    shape: tuple[Arithmetic, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class InputFactorDecl:
    """`input factor phi[i](T, T) for …`."""

    name: Name
    variables: tuple[Name, ...]
    domains: tuple[Name, ...]
    conditions: tuple[Comparison, ...]
    attributes: tuple[AttributeDecl, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class InputTableDecl:
    """`input table left[m]`."""

    name: Name
    shape: tuple[Arithmetic, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class StartDecl:
    """`start S`."""

    name: Name
    indices: tuple[Arithmetic, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class PathSyntax:
    """A node, or a part of it: `a`, `a.N`."""

    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TypedSyntax:
    """A node with its domain, `u: T`."""

    node: Name
    domain: Name
    span: Span


@dataclass(frozen=True, slots=True)
class PositionSyntax:
    """A position of an input where a node is expected, `w[i]`."""

    input: Name
    indices: tuple[Arithmetic, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class LiteralSyntax:
    """A value of a domain where a node is expected, `"New York"` or `0`.

    A value that is written as a bare name, `stop`, looks like a node: it is a `PathSyntax`.
    """

    value: Name
    span: Span


Argument = PathSyntax | TypedSyntax | PositionSyntax | LiteralSyntax


@dataclass(frozen=True, slots=True)
class EdgeSyntax:
    """An edge; `arguments` is None where there are no parentheses."""

    label: Name
    indices: tuple[Arithmetic, ...]
    arguments: tuple[Argument, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class ClampSyntax:
    """`o = w[i]`, or `o = w[i].N` for a part of what the input has there."""

    path: PathSyntax
    input: Name
    indices: tuple[Arithmetic, ...]
    part: tuple[Name, ...]
    span: Span


BodyItem = EdgeSyntax | TypedSyntax | ClampSyntax


@dataclass(frozen=True, slots=True)
class RuleDecl:
    """`rule name: head -> body for conditions`."""

    name: Name | None
    head: EdgeSyntax
    body: tuple[BodyItem, ...]
    conditions: tuple[Comparison, ...]
    span: Span


QueryStatement = (
    NonterminalDecl | InputDecl | InputFactorDecl | InputTableDecl | StartDecl | RuleDecl
)


@dataclass(frozen=True, slots=True)
class QueryDecl:
    """`query name(inputs) { statements }`; the inputs come first among the statements."""

    name: Name
    statements: tuple[QueryStatement, ...]
    span: Span


Statement = UseDecl | SizeDecl | DomainDecl | FactorDecl | QueryDecl | QueryStatement


class ValueSpans:
    """Finds the span of an entry of a factor's value, for messages."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._values = {
            s.name.text: s.value
            for s in statements
            if isinstance(s, FactorDecl) and s.value is not None
        }

    def locate(self, factor: str, position: tuple[int, ...]) -> Span | None:
        """Return the span of an entry, or of the innermost list around it; None without a value."""
        node = self._values.get(factor)
        if node is None:
            return None
        for index in position:
            if isinstance(node, NumberRow):
                return node.place(index) or node.span
            if not isinstance(node, ListLiteral) or index >= len(node.items):
                break
            node = node.items[index]
        return node.span
