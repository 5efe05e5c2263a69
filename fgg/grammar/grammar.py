"""The data model: domains, factors, nonterminals, fragments, rules, queries, grammars.

Everything is frozen and compares by value; spans take no part in equality. Constructors check
local invariants only; what a whole grammar must satisfy is checked in `fgg.check.grammar`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from fgg.grammar.definitions import Definition, Slice
from fgg.grammar.index import Condition, Expr
from fgg.grammar.spans import Span
from fgg.grammar.values import AttributeValue, Value, Word

if TYPE_CHECKING:
    from fgg.diagnostics import Diagnostic
    from fgg.draw.picture import Picture
    from fgg.grammar.provenance import FamilySource, RuleSource


def _span() -> Span | None:
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Size:
    """A named integer, `size m = 2 * k`."""

    name: str
    value: Expr
    span: Span | None = _span()


@dataclass(frozen=True)
class Sized:
    """The values 0, 1, …, size - 1."""

    size: Expr


@dataclass(frozen=True)
class Enumerated:
    """Values by name, `{Noun, Verb}`."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class FromFile:
    """Values read from a file, one on each line, `file("vocab.txt")`."""

    path: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Union:
    """The disjoint union of other domains, `N + P`; a node's part is written `a.N`."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Product:
    """The product of other domains, `N * W`; a node's component is written `a.N`."""

    parts: tuple[str, ...]


Shape = Sized | Enumerated | FromFile | Union | Product


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A finite set of values a node can take; `rank` marks the domains of rank nodes."""

    name: str
    shape: Shape
    rank: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """An option of a factor, for training or sparsity, `with prior = dirichlet(0.1)`."""

    key: str
    value: AttributeValue
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A terminal edge label: a non-negative tensor over the domains of its nodes.

    `given` is the number of domains left of the arrow: for each of their values the weights sum
    to one over the rest. None: a potential, not normalised. The weights are those of `value`,
    follow from other factors or inputs by `definition`, or else are parameters.
    """

    name: str
    domains: tuple[str, ...]
    given: int | None = None
    rank: Expr | None = None
    value: Value | None = None
    definition: Definition | None = None
    attributes: tuple[Attribute, ...] = ()
    span: Span | None = _span()

    def __post_init__(self) -> None:
        assert self.given is None or 0 <= self.given < max(len(self.domains), 1)

    def attribute(self, key: str) -> AttributeValue | None:
        """The value of the attribute `key`, or None."""
        return next((a.value for a in self.attributes if a.key == key), None)

    @property
    def blocks(self) -> str | None:
        """The name of the map in whose blocks the weights sum to one, or None."""
        value = self.attribute("blocks")
        return value.name if isinstance(value, Word) else None

    @property
    def sources(self) -> tuple[str, ...]:
        """The factors that this one follows from, and the map of its blocks."""
        sources = () if self.definition is None else self.definition.sources
        return sources if self.blocks is None else (*sources, self.blocks)


@dataclass(frozen=True, kw_only=True)
class Nonterminal:
    """An edge label that rules rewrite; a family when it has indices.

    An indexed nonterminal without conditions has its range inferred from the rules. In a ground
    grammar, `origin` is the family and the index of the cell that it is; in a compiled one,
    `source` is the part of the user's family that it is (`fgg.grammar.provenance`).
    """

    name: str
    domains: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    origin: tuple[str, tuple[int, ...]] | None = field(default=None, compare=False, repr=False)
    source: FamilySource | None = field(default=None, compare=False, repr=False)
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Input:
    """Observed values, `input w: W[n]`; names in the shape that are no sizes are lengths."""

    name: str
    domain: str
    shape: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class InputFactor:
    """A family of factors whose log-potentials are given at run time.

    With a definition it is a slice of another input factor, and not given itself.
    """

    name: str
    domains: tuple[str, ...]
    indices: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    definition: Slice | None = None
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class InputTable:
    """An integer table that index expressions may look up, `input table left[m]`."""

    name: str
    shape: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Node:
    """A variable of a fragment, with a domain."""

    name: str
    domain: str
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """Where an edge touches a node: all of it, or the part or component that `path` names."""

    node: str
    path: tuple[str, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A hyperedge: a label and the ordered list of nodes it touches."""

    label: str
    attachments: tuple[Attachment, ...] = ()
    indices: tuple[Expr, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """A node (or a part of it) that is fixed to a position of an input, `o = w[i]`.

    With a path, `o = w[i].N`, it is fixed to a part or component of the input's value: a token
    outside that part never matches, and where the token is missing the node is summed out.
    """

    attachment: Attachment
    input: str
    indices: tuple[Expr, ...]
    path: tuple[str, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """A right-hand side: nodes, edges, clamps, and the ordered list of external nodes.

    A node may be external more than once. `make` puts nodes into their canonical order.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    clamps: tuple[Clamp, ...] = ()
    externals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = {node.name for node in self.nodes}
        assert len(names) == len(self.nodes), "a node's name is used twice"
        assert names.issuperset(self.externals), "an external node is not in the fragment"
        for edge in self.edges:
            assert all(a.node in names for a in edge.attachments), "an edge touches no node"
        assert all(c.attachment.node in names for c in self.clamps), "a clamp touches no node"

    @staticmethod
    def make(
        nodes: tuple[Node, ...],
        edges: tuple[Edge, ...] = (),
        clamps: tuple[Clamp, ...] = (),
        externals: tuple[str, ...] = (),
    ) -> Fragment:
        """The fragment with its nodes ordered: external, then as edges and clamps touch them."""
        by_name = {node.name: node for node in nodes}
        order = dict.fromkeys(externals)
        order.update(dict.fromkeys(a.node for edge in edges for a in edge.attachments))
        order.update(dict.fromkeys(clamp.attachment.node for clamp in clamps))
        order.update(dict.fromkeys(by_name))
        return Fragment(
            nodes=tuple(by_name[name] for name in order),
            edges=edges,
            clamps=clamps,
            externals=externals,
        )

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    @property
    def internals(self) -> tuple[Node, ...]:
        """The nodes that are summed out."""
        return tuple(node for node in self.nodes if node.name not in self.externals)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a derived rule comes from: the user's rule and the values of its indices."""

    rule: str
    values: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Nonterminal -> fragment, for every index that satisfies the conditions.

    `origin` names the rule as the user wrote it. In a compiled grammar, `source` is the variant of
    the user's rule that it is (`fgg.grammar.provenance`).
    """

    name: str
    lhs: str
    rhs: Fragment
    indices: tuple[Expr, ...] = ()
    conditions: tuple[Condition, ...] = ()
    origin: Origin | None = field(default=None, compare=False, repr=False)
    source: RuleSource | None = field(default=None, compare=False, repr=False)
    span: Span | None = _span()
    head_span: Span | None = _span()

    def __repr__(self) -> str:
        edges = ", ".join(edge.label for edge in self.rhs.edges)
        return f"Rule({self.name!r}, {self.lhs} -> {edges})"

    @property
    def origin_or_self(self) -> Origin:
        """The origin; a rule without one is the user's own."""
        return self.origin or Origin(rule=self.name)

    @property
    def head(self) -> Reference:
        """The left-hand side with its indices."""
        return Reference(label=self.lhs, indices=self.indices, span=self.head_span)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A nonterminal with indices but without nodes, as queries write it: `X[i, k]`."""

    label: str
    indices: tuple[Expr, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class QueryRule:
    """A query's rule: indices for the nonterminals of a model rule, in order, and evidence.

    `edges` are factors that the query adds; they and the clamps touch the model rule's nodes.
    """

    name: str
    head: Reference
    body: tuple[Reference, ...] = ()
    edges: tuple[Edge, ...] = ()
    clamps: tuple[Clamp, ...] = ()
    conditions: tuple[Condition, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, kw_only=True)
class Query:
    """A second grammar over the same rule names, which fixes the observed nodes."""

    name: str
    inputs: tuple[Input, ...] = ()
    input_factors: tuple[InputFactor, ...] = ()
    tables: tuple[InputTable, ...] = ()
    families: tuple[Nonterminal, ...] = ()
    start: Reference | None = None
    rules: tuple[QueryRule, ...] = ()
    span: Span | None = _span()

    def __repr__(self) -> str:
        inputs = [item.name for item in self.inputs]
        inputs += [item.name for item in self.input_factors]
        return f"Query({self.name!r}, inputs={inputs}, rules={len(self.rules)})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Grammar:
    """A factor graph grammar: domains, factors, nonterminals, rules, a start symbol; and queries.

    Edge labels (factors, input factors, nonterminals) share one namespace, sizes and domains
    another, inputs and tables a third. `warnings` are those of `fggc check`.
    """

    start: Reference
    sizes: tuple[Size, ...] = ()
    domains: tuple[Domain, ...] = ()
    inputs: tuple[Input, ...] = ()
    input_factors: tuple[InputFactor, ...] = ()
    tables: tuple[InputTable, ...] = ()
    factors: tuple[Factor, ...] = ()
    nonterminals: tuple[Nonterminal, ...] = ()
    rules: tuple[Rule, ...] = ()
    queries: tuple[Query, ...] = ()
    name: str = field(default="grammar", compare=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        counted = f"rules={len(self.rules)}, factors={len(self.factors)}"
        queries = f", queries={list(self.query)}" if self.queries else ""
        return f"Grammar({self.name!r}, {counted}{queries})"

    def __str__(self) -> str:
        """Return the grammar as source text."""
        from fgg.grammar.printer import print_grammar

        return print_grammar(self)

    def draw(self, rule: str | None = None) -> Picture:
        """The picture of all rules, or of the one that is named. Raises `TooLarge`."""
        from fgg.diagnostics import did_you_mean, refuse
        from fgg.draw import draw_grammar, draw_rule

        if rule is None:
            return draw_grammar(self)
        names = [other.name for other in self.rules]
        if rule not in names:
            refuse("F412", f"`{self.name}` has no rule `{rule}`", did_you_mean(rule, names))
        return draw_rule(self, rule)

    def _repr_svg_(self) -> str | None:
        """Draw the rules in a notebook, if they fit into a picture."""
        from fgg.draw import TooLarge

        try:
            return self.draw().svg()
        except TooLarge:
            return None

    @cached_property
    def size(self) -> Mapping[str, Size]:
        """The sizes by name."""
        return {size.name: size for size in self.sizes}

    @cached_property
    def domain(self) -> Mapping[str, Domain]:
        """The domains by name."""
        return {domain.name: domain for domain in self.domains}

    @cached_property
    def factor(self) -> Mapping[str, Factor]:
        """The factors by name."""
        return {factor.name: factor for factor in self.factors}

    @cached_property
    def nonterminal(self) -> Mapping[str, Nonterminal]:
        """The nonterminals by name."""
        return {nonterminal.name: nonterminal for nonterminal in self.nonterminals}

    @cached_property
    def input(self) -> Mapping[str, Input]:
        """The inputs by name."""
        return {item.name: item for item in self.inputs}

    @cached_property
    def input_factor(self) -> Mapping[str, InputFactor]:
        """The input factors by name."""
        return {item.name: item for item in self.input_factors}

    @cached_property
    def table(self) -> Mapping[str, InputTable]:
        """The input tables by name."""
        return {item.name: item for item in self.tables}

    @cached_property
    def query(self) -> Mapping[str, Query]:
        """The queries by name."""
        return {query.name: query for query in self.queries}

    @cached_property
    def rules_of(self) -> Mapping[str, tuple[Rule, ...]]:
        """The rules of each nonterminal that has any."""
        by_head: dict[str, list[Rule]] = {}
        for rule in self.rules:
            by_head.setdefault(rule.lhs, []).append(rule)
        return {name: tuple(rules) for name, rules in by_head.items()}

    @cached_property
    def memo(self) -> dict[Hashable, object]:
        """Results that `fgg.grammar.memo` keeps, by function and arguments."""
        return {}

    def signature(self, label: str) -> tuple[str, ...] | None:
        """The domains that an edge label's nodes have, or None for an unknown label."""
        for table in (self.factor, self.nonterminal, self.input_factor):
            if label in table:
                return table[label].domains
        return None

    @property
    def observed(self) -> tuple[Input | InputTable, ...]:
        """The inputs and tables, which have shapes and so lengths."""
        return (*self.inputs, *self.tables)

    @property
    def is_indexed(self) -> bool:
        """Whether anything in the grammar depends on indices or inputs."""
        return bool(
            self.inputs
            or self.tables
            or self.input_factors
            or any(nonterminal.indices for nonterminal in self.nonterminals)
        )
