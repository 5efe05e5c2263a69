"""The index of symbols: each place of a text where a name stands, and what the name means there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fgg.compiler.resolve.constants import bare_names, declared_nodes
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.grammar.spans import Span

LOCAL = ("node", "index")
GIVEN = ("input", "table", "input factor", "length")
FACTOR_OPTIONS = frozenset(("blocks", "tied", "slice", "piece", "product"))


Placed = tuple[int, tree.Statement]
"""A statement, and the offset that its spans count from."""


class Symbol(NamedTuple):
    """Something with a name. `owner` is the rule, query, family or domain that it is local to."""

    kind: str
    name: str
    owner: str = ""


class Occurrence(NamedTuple):
    """A place where a symbol is named; `defines` if it is declared there."""

    start: int
    end: int
    symbol: Symbol
    defines: bool

    @property
    def span(self) -> Span:
        """The place."""
        return Span(self.start, self.end)


class SymbolIndex:
    """All occurrences of symbols in a text, in order."""

    def __init__(
        self,
        occurrences: Iterable[Occurrence],
        signatures: Mapping[str, tuple[str, ...]],
        values: Mapping[str, frozenset[str]],
    ) -> None:
        self.occurrences = sorted(occurrences)
        self.signatures = signatures  # the domains of labels
        self.values = values  # the values of domains that list them

    def at(self, offset: int) -> Occurrence | None:
        """The occurrence at, or just before, an offset."""
        place = bisect_right(self.occurrences, offset, key=lambda o: o.start) - 1
        for occurrence in reversed(self.occurrences[max(place - 3, 0) : place + 1]):
            if occurrence.start <= offset <= occurrence.end:
                return occurrence
        return None

    def of(self, symbol: Symbol) -> Sequence[Occurrence]:
        """The occurrences of a symbol."""
        return [occurrence for occurrence in self.occurrences if occurrence.symbol == symbol]

    def named(self, name: str) -> set[Symbol]:
        """The symbols of a name."""
        return {o.symbol for o in self.occurrences if o.symbol.name == name}

    def definition(self, symbol: Symbol) -> Occurrence | None:
        """Where a symbol is declared; a node or an index, where it stands first."""
        places = self.of(symbol)
        declared = next((o for o in places if o.defines), None)
        return declared or (places[0] if places and symbol.kind in LOCAL else None)

    def symbols(self, *kinds: str, owner: str = "") -> list[Symbol]:
        """The symbols of some kinds that all of a text can name, or an owner's."""
        named = dict.fromkeys(o.symbol for o in self.occurrences if o.symbol.kind in kinds)
        return [symbol for symbol in named if symbol.owner in ("", owner)]


def index_symbols(
    statements: Sequence[Placed], used: Sequence[tuple[str, SymbolIndex]] = ()
) -> SymbolIndex:
    """The index of a text. `used` are the indices of files that it uses, with their prefixes."""
    indexer = _Indexer(statements)
    for prefix, index in used:
        indexer.bring(prefix, index)
    return indexer.run()


class _Indexer:
    """Walks the statements of a text, global declarations first."""

    def __init__(self, statements: Sequence[Placed]) -> None:
        self.statements = statements
        self.offset = 0  # what the spans of the current statement count from
        self.occurrences: list[Occurrence] = []
        self.numbers: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.inputs: dict[str, tuple[str, str]] = {}
        self.lengths: dict[str, str] = {}
        self.signatures: dict[str, tuple[str, ...]] = {}
        self.values: dict[str, frozenset[str]] = {}

    def bring(self, prefix: str, index: SymbolIndex) -> None:
        """Take over what a file declares that the text uses; what is given later has no prefix."""
        for start, end, symbol, defines in index.occurrences:
            if defines and (symbol.kind == "value" or not symbol.owner) and symbol.kind != "query":
                brought = symbol
                if symbol.kind == "value":
                    brought = symbol._replace(owner=prefix + symbol.owner)
                elif symbol.kind not in GIVEN:
                    brought = symbol._replace(name=prefix + symbol.name)
                self.occurrences.append(Occurrence(start, end, brought, True))
                self.know(brought)
        self.values |= {prefix + name: values for name, values in index.values.items()}
        for name, domains in index.signatures.items():
            label = name if self.labels.get(name) == "input factor" else prefix + name
            self.signatures[label] = tuple(prefix + domain for domain in domains)

    def know(self, symbol: Symbol) -> None:
        if symbol.kind in ("size", "domain"):
            self.numbers[symbol.name] = symbol.kind
        elif symbol.kind in ("factor", "nonterminal", "input factor"):
            self.labels[symbol.name] = symbol.kind
        elif symbol.kind in ("input", "table"):
            self.inputs[symbol.name] = (symbol.kind, symbol.owner)
        elif symbol.kind == "length":
            self.lengths[symbol.name] = symbol.owner

    def run(self) -> SymbolIndex:
        for statement in self.each():
            self.declare(statement, "")
        for statement in self.each():
            if isinstance(statement, tree.DomainDecl):
                self.domain(statement)
        for number, statement in enumerate(self.each()):
            self.visit(statement, f"{number}", "")
        for statement in self.each():
            if isinstance(statement, tree.QueryDecl):
                self.query(statement)
        return SymbolIndex(self.occurrences, self.signatures, self.values)

    def each(self) -> Iterator[tree.Statement]:
        """Yield the statements; the offset is that of the last one."""
        for offset, statement in self.statements:
            self.offset = offset
            yield statement

    def add(self, kind: str, name: Name, owner: str = "", *, defines: bool = False) -> None:
        symbol = Symbol(kind, name.text, owner)
        span, offset = name.span, self.offset
        self.occurrences.append(Occurrence(span.start + offset, span.end + offset, symbol, defines))

    def define(self, kind: str, name: Name, owner: str = "") -> None:
        self.add(kind, name, owner, defines=True)
        self.know(Symbol(kind, name.text, owner))

    def declare(self, statement: tree.Statement, owner: str) -> None:
        """Note the names that a statement declares."""
        match statement:
            case tree.SizeDecl():
                self.define("size", statement.name)
            case tree.DomainDecl():
                self.define("domain", statement.name)
            case tree.FactorDecl():
                self.define("factor", statement.name)
                given = statement.given or ()
                self.signatures[statement.name.text] = tuple(
                    n.text for n in (*given, *statement.over)
                )
            case tree.InputFactorDecl():
                self.define("input factor", statement.name, owner)
                self.signatures[statement.name.text] = tuple(n.text for n in statement.domains)
            case tree.NonterminalDecl() if not owner:
                self.define("nonterminal", statement.name)
                self.signatures[statement.name.text] = tuple(
                    n.text for n in statement.domains or ()
                )
            case tree.InputDecl():
                self.define("input", statement.name, owner)
            case tree.InputTableDecl():
                self.define("table", statement.name, owner)
            case tree.RuleDecl() if statement.name is not None and not owner:
                self.define("rule", statement.name)
            case tree.QueryDecl():
                self.define("query", statement.name)

    def domain(self, statement: tree.DomainDecl) -> None:
        """Note the values that a domain names."""
        shape, name = statement.definition, statement.name.text
        if isinstance(shape, tree.Enumeration):
            self.values[name] = frozenset(value.text for value in shape.values)
            for value in shape.values:
                self.define("value", value, name)

    def visit(self, statement: tree.Statement, number: str, owner: str) -> None:
        """Note the names that a statement mentions; `owner` is the query around it."""
        match statement:
            case tree.SizeDecl():
                self.exprs([statement.value], "", owner)
            case tree.DomainDecl():
                if not isinstance(statement.definition, tree.Enumeration | tree.CallLiteral):
                    self.exprs([statement.definition], "", owner)
            case tree.FactorDecl():
                self.factor(statement)
            case tree.InputDecl() | tree.InputTableDecl():
                if isinstance(statement, tree.InputDecl):
                    self.add("domain", statement.domain)
                self.lengths_in(statement.shape, owner)
            case tree.InputFactorDecl() | tree.NonterminalDecl():
                self.family(statement, f"{owner}.{number}", owner)
            case tree.StartDecl():
                self.add("nonterminal", statement.name)
                self.exprs(statement.indices, "", owner)
            case tree.RuleDecl() if not owner:
                self.rule(statement, number)
            case _:
                pass

    def family(
        self, statement: tree.InputFactorDecl | tree.NonterminalDecl, local: str, owner: str
    ) -> None:
        if isinstance(statement, tree.NonterminalDecl) and owner:
            self.add("nonterminal", statement.name)
        for name in statement.domains or ():
            self.add("domain", name)
        for name in statement.variables:
            self.add("index", name, local, defines=True)
        variables = {name.text for name in statement.variables}
        for condition in statement.conditions:
            if isinstance(statement, tree.InputFactorDecl):
                self.lengths_in(condition.terms, owner, variables, local)
            else:
                self.exprs(condition.terms, local, owner)

    def lengths_in(
        self,
        exprs: Iterable[tree.Arithmetic],
        owner: str,
        variables: Iterable[str] = (),
        local: str = "",
    ) -> None:
        """Note the names in a shape: a name that is no size and no variable is a length."""
        for name in _names(exprs):
            if name.text in variables:
                self.add("index", name, local)
            elif name.text in self.numbers:
                self.add(self.numbers[name.text], name)
            else:
                known = self.lengths.get(name.text)
                self.add("length", name, owner if known is None else known, defines=known is None)
                self.lengths.setdefault(name.text, owner)

    def factor(self, statement: tree.FactorDecl) -> None:
        domains = (*(statement.given or ()), *statement.over)
        for name in domains:
            self.add("domain", name)
        if statement.rank is not None:
            self.exprs([statement.rank], "", "")
        if isinstance(statement.value, tree.MapLiteral):
            self.keys(statement.value, [name.text for name in domains])
        for attribute in statement.attributes:
            if attribute.key.text in FACTOR_OPTIONS:
                self.option(attribute.value)

    def keys(self, value: tree.ValueSyntax, domains: Sequence[str]) -> None:
        """Note the values of domains that are keys of a map of weights."""
        if isinstance(value, tree.MapLiteral) and domains:
            for key, inner in value.entries:
                if key.text in self.values.get(domains[0], ()):
                    self.add("value", key, domains[0])
                self.keys(inner, domains[1:])

    def option(self, value: tree.ValueSyntax) -> None:
        """Note the factors and domains that an option of a factor names."""
        if isinstance(value, tree.WordLiteral | tree.CallLiteral):
            kind = self.labels.get(value.name.text) or self.numbers.get(value.name.text)
            if kind is not None:
                self.add(kind, value.name)
        if isinstance(value, tree.CallLiteral):
            for argument in value.arguments:
                self.option(argument)

    def exprs(self, exprs: Iterable[tree.Arithmetic], local: str, owner: str) -> None:
        """Note the names in expressions: sizes, domains, lengths, tables and index variables."""
        for name in _names(exprs, tables=True):
            if name.text in self.inputs and self.inputs[name.text][0] == "table":
                self.add("table", name, self.inputs[name.text][1])
            elif name.text in self.numbers:
                self.add(self.numbers[name.text], name)
            elif name.text in self.lengths:
                self.add("length", name, self.lengths[name.text])
            elif local:
                self.add("index", name, local)

    def label(self, name: Name) -> None:
        if name.text in self.labels:
            self.add(self.labels[name.text], name)

    def rule(self, statement: tree.RuleDecl, local: str) -> None:
        nodes = set(self.certain_nodes(statement))
        for item in (statement.head, *statement.body):
            match item:
                case tree.EdgeSyntax():
                    self.edge(item, local, "", nodes)
                case tree.TypedSyntax():
                    self.typed(item, local)
                case tree.ClampSyntax():
                    self.clamp(item, local, "")
        for condition in statement.conditions:
            self.exprs(condition.terms, local, "")

    def certain_nodes(self, statement: tree.RuleDecl) -> Iterator[str]:
        """Yield the names that cannot be values, as `RuleConstants` has it."""
        yield from declared_nodes(statement)
        yield from (name.text for name in bare_names(statement.head))
        for item in statement.body:
            if not isinstance(item, tree.EdgeSyntax):
                continue
            domains = self.signatures.get(item.label.text, ())
            for place, argument in enumerate(item.arguments or ()):
                known = self.values.get(domains[place], ()) if place < len(domains) else ()
                if isinstance(argument, tree.PathSyntax) and (
                    len(argument.names) > 1 or argument.names[0].text not in known
                ):
                    yield argument.names[0].text

    def edge(
        self, edge: tree.EdgeSyntax, local: str, owner: str, nodes: Iterable[str] | None
    ) -> None:
        self.label(edge.label)
        self.exprs(edge.indices, local, owner)
        domains = self.signatures.get(edge.label.text, ())
        for place, argument in enumerate(edge.arguments or ()):
            domain = domains[place] if place < len(domains) else ""
            match argument:
                case tree.PathSyntax():
                    if nodes is not None and argument.names[0].text not in nodes:
                        self.add("value", argument.names[0], domain)
                    else:
                        self.path(argument, local)
                case tree.TypedSyntax():
                    self.typed(argument, local)
                case tree.PositionSyntax():
                    self.position(argument.input, argument.indices, local, owner)
                case tree.LiteralSyntax():
                    self.add("value", argument.value, domain)

    def path(self, path: tree.PathSyntax, local: str) -> None:
        self.add("node", path.names[0], local)
        for name in path.names[1:]:
            self.add("domain", name)

    def typed(self, item: tree.TypedSyntax, local: str) -> None:
        self.add("node", item.node, local, defines=True)
        self.add("domain", item.domain)

    def position(
        self, name: Name, indices: Iterable[tree.Arithmetic], local: str, owner: str
    ) -> None:
        self.add("input", name, self.inputs.get(name.text, ("", owner))[1])
        self.exprs(indices, local, owner)

    def clamp(self, item: tree.ClampSyntax, local: str, owner: str) -> None:
        self.path(item.path, local)
        self.position(item.input, item.indices, local, owner)
        for name in item.part:
            self.add("domain" if name.text in self.numbers else "factor", name)

    def query(self, query: tree.QueryDecl) -> None:
        """Note what a query declares and mentions; its nodes are those of the model's rules."""
        outer = (self.inputs, self.lengths, self.labels)
        self.inputs, self.lengths, self.labels = dict(outer[0]), dict(outer[1]), dict(outer[2])
        owner = query.name.text
        locals_of = {
            s.name.text: f"{number}"
            for number, (_, s) in enumerate(self.statements)
            if isinstance(s, tree.RuleDecl) and s.name is not None
        }
        for statement in query.statements:
            self.declare(statement, owner)
        for number, statement in enumerate(query.statements):
            local = f"{owner}.{number}"
            if isinstance(statement, tree.RuleDecl):
                name = statement.name or statement.head.label
                self.add("rule", name)
                self.query_rule(statement, locals_of.get(name.text, local), local, owner)
            else:
                self.visit(statement, f"{number}", owner)
        self.inputs, self.lengths, self.labels = outer

    def query_rule(self, rule: tree.RuleDecl, nodes: str, local: str, owner: str) -> None:
        for item in (rule.head, *rule.body):
            match item:
                case tree.EdgeSyntax():
                    self.label(item.label)
                    self.exprs(item.indices, local, owner)
                    for argument in item.arguments or ():
                        if isinstance(argument, tree.PathSyntax):
                            self.path(argument, nodes)
                case tree.ClampSyntax():
                    self.path(item.path, nodes)
                    self.position(item.input, item.indices, local, owner)
        for condition in rule.conditions:
            self.exprs(condition.terms, local, owner)


def _names(exprs: Iterable[tree.Arithmetic], *, tables: bool = False) -> Iterator[Name]:
    """Yield the names in expressions."""
    for expr in exprs:
        match expr:
            case tree.NameRef():
                yield expr.name
            case tree.TableEntry():
                if tables:
                    yield expr.table
                yield from _names(expr.indices, tables=tables)
            case tree.Negated():
                yield from _names([expr.operand], tables=tables)
            case tree.Sum():
                yield from _names([term for _, term in expr.terms], tables=tables)
            case tree.Times():
                yield from _names(expr.factors, tables=tables)
