"""Making grammars in Python instead of writing text: the code behind `fgg.build`.

    b = Builder("hmm")
    T, W = b.domain("T", 8), b.domain("W", ["the", "dog", "barks"])
    init = b.factor("init", over=[T])
    trans = b.factor("trans", given=[T], over=[T])
    emit = b.factor("emit", given=[T], over=[W])
    S, X = b.nonterminal("S"), b.nonterminal("X", [T])
    b.rule("begin", S(), init("t"), X("t"))
    b.rule("step", X("t"), emit("t", "o"), trans("t", "u"), X("u"))
    b.rule("last", X("t"), emit("t", "o"))
    grammar = b.grammar(start=S)

Nodes are strings; `"a.N"` is the `N` part of node `a`. A builder writes statements as text
and parses them. So grammars from Python and from files are checked alike, and an error shows the
statement that is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import SupportsFloat, cast

from fgg.check.grammar import check_grammar
from fgg.compiler.resolve.load import load_text
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.index import Condition, Expr, Lookup, is_plain_name, quote_name
from fgg.grammar.values import Constant, Nested, Table, Value

Index = Expr | int | str
Indices = Index | tuple[Index, ...]


def symbols(names: str) -> tuple[Expr, ...]:
    """Return index variables, lengths and sizes, for index expressions: `symbols("i j n")`."""
    return tuple(Expr.of(name) for name in names.split())


def _listed(indices: Indices) -> tuple[Expr, ...]:
    return tuple(Expr.of(i) for i in (indices if isinstance(indices, tuple) else (indices,)))


def _brackets(indices: Iterable[Expr]) -> str:
    text = ", ".join(map(str, indices))
    return f"[{text}]" if text else ""


@dataclass(frozen=True)
class InputPosition:
    """A position of an input, `w[i]`. An edge can touch it, and a node can be fixed to it."""

    input: str
    indices: tuple[Expr, ...]

    def __str__(self) -> str:
        return quote_name(self.input) + _brackets(self.indices)


@dataclass(frozen=True)
class EdgeTerm:
    """An edge: a label, its indices, and the nodes that the edge touches, `X[i]("t")`."""

    label: str
    indices: tuple[Expr, ...] = ()
    nodes: tuple[str | InputPosition, ...] | None = None

    def __call__(self, *nodes: str | InputPosition) -> EdgeTerm:
        """Return the edge that touches these nodes."""
        return replace(self, nodes=nodes)

    def __getitem__(self, indices: Indices) -> EdgeTerm:
        return replace(self, indices=_listed(indices))

    def __str__(self) -> str:
        text = quote_name(self.label) + _brackets(self.indices)
        if self.nodes is None:
            return text
        return f"{text}({', '.join(map(_node, self.nodes))})"


def _node(node: str | InputPosition) -> str:
    if isinstance(node, InputPosition):
        return str(node)
    name, colon, domain = node.partition(":")
    path = ".".join(quote_name(part) for part in name.strip().split("."))
    return f"{path}: {quote_name(domain.strip())}" if colon else path


@dataclass(frozen=True)
class FixedNode:
    """A node, or a part of it, that is fixed to a position of an input: `o = w[i]`."""

    node: str
    position: InputPosition

    def __str__(self) -> str:
        return f"{_node(self.node)} = {self.position}"


def fix(node: str, position: InputPosition) -> FixedNode:
    """Fix a node, or a part of it, to a position of an input: `fix("o", w[i])`."""
    return FixedNode(node, position)


@dataclass(frozen=True)
class InputName:
    """A declared input: `w[i]` is a position of it."""

    name: str

    def __getitem__(self, indices: Indices) -> InputPosition:
        return InputPosition(self.name, _listed(indices))


@dataclass(frozen=True)
class TableName:
    """A declared table: `left[v]` is an index expression."""

    name: str

    def __getitem__(self, indices: Indices) -> Expr:
        return Expr.of(Lookup(self.name, _listed(indices)))


def _where(conditions: Iterable[Condition]) -> str:
    text = ", ".join(map(str, conditions))
    return f" for {text}" if text else ""


def _names(names: Iterable[str]) -> str:
    listed = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if "`" in name or "\n" in name:
            raise ValueError(f"a name cannot have a backquote or a line break: {name!r}")
    return ", ".join(map(quote_name, listed))


class Statements:
    """The statements that models and queries share: inputs, tables and rules."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def input(self, name: str, domain: str, *shape: Index) -> InputName:
        """Declare an input, `input w: W[n]`."""
        extents = _brackets(Expr.of(e) for e in shape)
        self.lines.append(f"input {quote_name(name)}: {quote_name(domain)}{extents}")
        return InputName(name)

    def input_factor(
        self,
        name: str,
        domains: Sequence[str],
        *,
        indices: Sequence[str] = (),
        where: Iterable[Condition] = (),
    ) -> EdgeTerm:
        """Declare a family of factors whose log-potentials are given at run time."""
        family = quote_name(name) + (f"[{_names(indices)}]" if indices else "")
        self.lines.append(f"input factor {family}({_names(domains)}){_where(where)}")
        return EdgeTerm(name)

    def table(self, name: str, *shape: Index) -> TableName:
        """Declare an integer table, `input table left[m]`."""
        extents = _brackets(Expr.of(e) for e in shape)
        self.lines.append(f"input table {quote_name(name)}{extents}")
        return TableName(name)

    def rule(
        self,
        name: str,
        head: EdgeTerm,
        *body: EdgeTerm | FixedNode | str,
        where: Iterable[Condition] = (),
    ) -> None:
        """Declare a rule: its head, then edges, fixed nodes and nodes without edges (`"u: T"`)."""
        items = [f"({_node(item)})" if isinstance(item, str) else str(item) for item in body]
        arrow = f"{head} -> {' '.join(items)}".rstrip()
        self.lines.append(f"rule {quote_name(name)}: {arrow}{_where(where)}")


class QueryBuilder(Statements):
    """Collects the statements of a query. Its nonterminals have indices but no nodes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def family(
        self, label: EdgeTerm, indices: Sequence[str], *, where: Iterable[Condition]
    ) -> None:
        """Declare the range of a nonterminal's indices."""
        name = quote_name(label.label)
        self.lines.append(f"nonterminal {name}[{_names(indices)}]{_where(where)}")

    def start(self, label: EdgeTerm) -> None:
        """Declare the indices of the start symbol."""
        self.lines.append(f"start {label}")


class Builder(Statements):
    """Collects the statements of a grammar; `grammar` parses and checks them."""

    def __init__(self, name: str = "grammar") -> None:
        super().__init__()
        self.name = name
        self.values: dict[str, Value] = {}
        self.queries: list[QueryBuilder] = []

    def size(self, name: str, value: Index) -> Expr:
        """Declare a size."""
        self.lines.append(f"size {quote_name(name)} = {Expr.of(value)}")
        return Expr.of(name)

    def domain(self, name: str, values: Expr | int | Iterable[str], *, rank: bool = False) -> str:
        """Declare a domain by its size or by the names of its values."""
        if isinstance(values, Expr | int):
            shape = str(Expr.of(values))
        else:
            shape = "{" + ", ".join(v if is_plain_name(v) else json.dumps(v) for v in values) + "}"
        self.lines.append(f"{'rank' if rank else 'domain'} {quote_name(name)} = {shape}")
        return name

    def union(self, name: str, *parts: str) -> str:
        """Declare a disjoint union of domains."""
        self.lines.append(f"domain {quote_name(name)} = {' + '.join(map(quote_name, parts))}")
        return name

    def product(self, name: str, *parts: str) -> str:
        """Declare a product of domains."""
        self.lines.append(f"domain {quote_name(name)} = {' * '.join(map(quote_name, parts))}")
        return name

    def factor(
        self,
        name: str,
        domains: Sequence[str] = (),
        *,
        given: Sequence[str] = (),
        over: Sequence[str] = (),
        value: object = None,
        rank: Index | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> EdgeTerm:
        """Declare a factor: a potential over `domains`, or a distribution over `over`.

        `value` is a number, nested lists, an array, or a value of `fgg.grammar.values`;
        attributes are written as in the language, `{"prior": "dirichlet(0.1)"}`.
        """
        if domains and (given or over):
            raise TypeError("a factor has either `domains` or `given` and `over`")
        arrow = f"{_names(given)} -> {_names(over)}" if given or over else _names(domains)
        line = f"factor {quote_name(name)}({arrow.strip()})"
        if rank is not None:
            line += f" rank {Expr.of(rank)}"
        if attributes:
            line += " with " + ", ".join(f"{key} = {text}" for key, text in attributes.items())
        self.lines.append(line)
        if value is not None:
            self.values[name] = _value(value)
        return EdgeTerm(name)

    def nonterminal(
        self,
        name: str,
        domains: Sequence[str] = (),
        *,
        indices: Sequence[str] = (),
        where: Iterable[Condition] = (),
    ) -> EdgeTerm:
        """Declare a nonterminal, or a family of nonterminals if it has indices."""
        family = quote_name(name) + (f"[{_names(indices)}]" if indices else "")
        self.lines.append(f"nonterminal {family}({_names(domains)}){_where(where)}")
        return EdgeTerm(name)

    def query(self, name: str) -> QueryBuilder:
        """Begin a query."""
        query = QueryBuilder(name)
        self.queries.append(query)
        return query

    def text(self, start: EdgeTerm | str) -> str:
        """Return the statements so far, without the values of factors."""
        first = EdgeTerm(start) if isinstance(start, str) else start
        lines = [*self.lines, f"start {replace(first, nodes=None)}"]
        for query in self.queries:
            body = "\n".join(f"  {line}" for line in query.lines)
            lines.append(f"query {quote_name(query.name)} {{\n{body}\n}}")
        return "\n".join(lines) + "\n"

    def grammar(self, *, start: EdgeTerm | str) -> Grammar:
        """Return the checked grammar. Raises GrammarError with all of its errors."""
        grammar, diagnostics, source = load_text(self.text(start), f"<{self.name}>")
        if grammar is None:
            raise GrammarError([d for d in diagnostics if d.is_error], source)
        factors = tuple(replace(f, value=self.values.get(f.name, f.value)) for f in grammar.factors)
        grammar = replace(grammar, factors=factors, name=self.name)
        problems = [d for d in check_grammar(grammar) if d.is_error]
        if problems:
            raise GrammarError(problems, source)
        return grammar


def _value(value: object) -> Value:
    if isinstance(value, Value):
        return value
    if isinstance(value, int | float):
        return Constant(float(value))
    return Table(_nested(value.tolist() if hasattr(value, "tolist") else value))


def _nested(value: object) -> Nested:
    if isinstance(value, list | tuple):
        return tuple(_nested(item) for item in value)
    return float(cast(SupportsFloat, value))
