"""Readings of a token: several clamps of one rule that read one position of an input.

If the token is known, it fixes each clamp separately. A missing token (-1) is one variable: an
assignment of the rule's nodes counts once if some token has all the values that the clamps read.
Clamps through different components of a product read different variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from fgg.grammar import (
    Attachment,
    Clamp,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Node,
    Product,
    Rule,
    Sized,
)
from fgg.grammar.domains import domain_size, parts, size_values
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, implies, is_feasible
from fgg.grammar.memo import per_grammar
from fgg.grammar.names import fresh
from fgg.grammar.ranges import regions, row, rule_rows
from fgg.grammar.values import Map
from fgg.inputs.clamps import is_pinned, path_end, path_value, pinned_inputs

Path = tuple[str, ...]


def are_related(grammar: Grammar, domain: str, one: Path, two: Path) -> bool:
    """Whether what two paths read of a token of a domain depends on each other.

    It does not if they lead to different components of a product.
    """
    for first, second in zip(one, two, strict=False):
        if first != second:
            return not isinstance(grammar.domain[domain].shape, Product)
        domain = path_end(grammar, domain, (first,))
    return True


def read_together(grammar: Grammar, one: Clamp, two: Clamp) -> bool:
    """Whether two clamps would read related values if their positions were the same."""
    if one.input != two.input:
        return False
    return are_related(grammar, grammar.input[one.input].domain, one.path, two.path)


def meet(grammar: Grammar, one: Clamp, two: Clamp, rows: Sequence[Row]) -> bool | None:
    """Whether two clamps of an input read the same position, wherever inequalities hold.

    None if they do at some indices, or if that is unknown.
    """
    gaps = [a - b for a, b in zip(one.indices, two.indices, strict=True)]
    open_gaps = [gap for gap in gaps if gap.constant is None]
    if any(gap.constant for gap in gaps):
        return False
    if not open_gaps:
        return True
    sizes = size_values(grammar)
    same = [row(expr, sizes) for gap in open_gaps for expr in (gap, -gap)]
    if not is_feasible([*rows, *same]):
        return False
    return True if all(implies(rows, item) for item in same) else None


def clamp_pairs(grammar: Grammar, rule: Rule) -> Iterator[tuple[Clamp, Clamp]]:
    """The pairs of clamps of a rule that would read related values of one position."""
    for one, two in combinations(rule.rhs.clamps, 2):
        if read_together(grammar, one, two):
            yield one, two


@per_grammar
def known_inputs(grammar: Grammar) -> tuple[str, ...]:
    """The inputs of which no token may be missing, as the rules stand.

    Rules follow their tokens through maps, or may read a position more than once; `Ties` writes
    such rules for missing tokens.
    """
    names = dict.fromkeys(pinned_inputs(grammar))
    for rule in grammar.rules:
        pairs = [pair for pair in clamp_pairs(grammar, rule) if pair[0].input not in names]
        rows = rows_of(grammar, rule) if pairs else []
        for one, two in pairs:
            if meet(grammar, one, two, rows) is not False:
                names[one.input] = None
    return tuple(names)


def rows_of(grammar: Grammar, rule: Rule) -> list[Row]:
    """The inequalities that hold for the indices of a rule wherever it applies."""
    ranges = regions(grammar)
    return rule_rows(grammar, rule, ranges) if rule.lhs in ranges else []


class Ties:
    """Writes fragments in which a missing token is one variable, however often it is read.

    Clamps that read the same become one, on one node. What else is read of the token follows from
    one of the clamps, by a map, or all of it from a new node, which has a value for each way in
    which tokens can be read. `domains` and `factors` are those of the new nodes and maps.
    """

    def __init__(self, grammar: Grammar, labels: set[str] | None = None) -> None:
        self.grammar = grammar
        all_labels = {*grammar.factor, *grammar.nonterminal, *grammar.input_factor}
        self.labels = all_labels if labels is None else labels
        self.domains: list[Domain] = []
        self.factors: list[Factor] = []
        self.names: dict[tuple[str, str, tuple[int, ...]], str] = {}
        self.ways: dict[tuple[str, tuple[Path, ...]], tuple[tuple[int, ...], ...]] = {}

    def tied(
        self, fragment: Fragment, groups: Sequence[Sequence[Clamp]]
    ) -> tuple[Fragment | None, Mapping[str, str]]:
        """A fragment in which the clamps of each group read one position, and its renamed nodes.

        None if no token has all that is read of one position: the rule then has weight 0.
        """
        if not groups:
            return fragment, {}
        tying = _Tying(self, fragment)
        alive = True
        for group in groups:
            for clamps in self.related(group):
                alive = tying.tie(clamps) and alive
        return (tying.fragment() if alive else None), tying.renamed

    def related(self, clamps: Sequence[Clamp]) -> list[list[Clamp]]:
        """Clamps of one position, put together where what they read is related."""
        groups: list[list[Clamp]] = []
        for clamp in clamps:
            near = [g for g in groups if any(read_together(self.grammar, clamp, c) for c in g)]
            groups = [g for g in groups if g not in near] + [[*(c for g in near for c in g), clamp]]
        return groups

    def readings(self, clamps: Sequence[Clamp]) -> tuple[tuple[int, ...], ...]:
        """The values that the clamps can read of a token, in the order of the tokens."""
        domain = self.grammar.input[clamps[0].input].domain
        paths = [clamp.path for clamp in clamps]
        # Every value of a part is that of some token; of a map, only those that it takes.
        while all(paths) and len({path[0] for path in paths}) == 1:
            if paths[0][0] not in parts(self.grammar, domain):
                break
            domain = path_end(self.grammar, domain, paths[0][:1])
            paths = [path[1:] for path in paths]
        key = (domain, tuple(paths))
        if key not in self.ways:
            tokens = range(domain_size(self.grammar, domain))
            ways = dict.fromkeys(
                tuple(path_value(self.grammar, domain, path, token) for path in paths)
                for token in tokens
            )
            self.ways[key] = tuple(
                tuple(value for value in way if value is not None)
                for way in ways
                if None not in way
            )
        return self.ways[key]

    def map(self, source: str, target: str, values: tuple[int, ...], name: str) -> str:
        """The label of the map that has these values."""
        key = (source, target, values)
        if key not in self.names:
            label = fresh(name, self.labels)
            self.labels.add(label)
            self.factors.append(
                Factor(name=label, domains=(source, target), given=1, value=Map(values=values))
            )
            self.names[key] = label
        return self.names[key]

    def domain(self, size: int, name: str) -> str:
        """The domain of a new node with so many values."""
        for item in self.domains:
            if item.shape == Sized(Expr.of(size)):
                return item.name
        taken = {*self.grammar.domain, *self.grammar.size, *(d.name for d in self.domains)}
        self.domains.append(Domain(name=fresh(name, taken), shape=Sized(Expr.of(size))))
        return self.domains[-1].name


class _Tying:
    """One fragment, while the clamps of its positions are tied."""

    def __init__(self, ties: Ties, fragment: Fragment) -> None:
        self.ties = ties
        self.whole = fragment
        self.nodes = list(fragment.nodes)
        self.edges = list(fragment.edges)
        self.clamps = list(fragment.clamps)
        self.renamed: dict[str, str] = {}

    def fragment(self) -> Fragment:
        """The fragment with all clamps tied."""
        whole = self.whole
        nodes = tuple(node for node in self.nodes if node.name not in self.renamed)
        edges = tuple(
            replace(e, attachments=tuple(map(self.attachment, e.attachments))) for e in self.edges
        )
        clamps = dict.fromkeys(map(self.clamp, self.clamps))
        externals = tuple(self.name(name) for name in whole.externals)
        tied = Fragment.make(nodes, edges, tuple(clamps), externals)
        return whole if tied == whole else tied

    def name(self, node: str) -> str:
        while node in self.renamed:
            node = self.renamed[node]
        return node

    def attachment(self, attachment: Attachment) -> Attachment:
        name = self.name(attachment.node)
        return attachment if name == attachment.node else replace(attachment, node=name)

    def clamp(self, clamp: Clamp) -> Clamp:
        return replace(clamp, attachment=self.attachment(clamp.attachment))

    def tie(self, clamps: Sequence[Clamp]) -> bool:
        """Tie clamps that read related values of one token; False if there is no such token."""
        kept = self.merged(clamps)
        if len(kept) == 1 and not is_pinned(self.ties.grammar, kept[0]):
            return True
        ways = self.ties.readings(kept)
        if not ways:
            return False
        columns = list(zip(*ways, strict=True))
        sizes = [domain_size(self.ties.grammar, self.end(clamp)) for clamp in kept]
        for first, (column, size) in enumerate(zip(columns, sizes, strict=True)):
            if len(set(column)) == len(column) == size:
                self.follow(kept, columns, first)
                return True
        self.join(kept, columns)
        return True

    def merged(self, clamps: Sequence[Clamp]) -> list[Clamp]:
        """The clamps, with one for each path to a whole node; the nodes of the others are its."""
        kept: list[Clamp] = []
        for clamp in clamps:
            node, path = self.name(clamp.attachment.node), clamp.attachment.path
            same = [
                c
                for c in kept
                if c.path == clamp.path
                and c.attachment.path == path
                and (not path or self.name(c.attachment.node) == node)
            ]
            if not same:
                kept.append(clamp)
                continue
            self.clamps.remove(clamp)
            other = self.name(same[0].attachment.node)
            if node != other:
                self.renamed[node] = other
        return kept

    def end(self, clamp: Clamp) -> str:
        """The domain of the value that a clamp reads."""
        grammar = self.ties.grammar
        return path_end(grammar, grammar.input[clamp.input].domain, clamp.path)

    def follow(
        self, clamps: Sequence[Clamp], columns: Sequence[tuple[int, ...]], first: int
    ) -> None:
        """Derive the values of the other clamps from the value that one of them reads."""
        source = clamps[first]
        for clamp, column in zip(clamps, columns, strict=True):
            if clamp is not source:
                values = tuple(v for _, v in sorted(zip(columns[first], column, strict=True)))
                self.edge(source.attachment, self.end(source), clamp, values)
                self.clamps.remove(clamp)

    def join(self, clamps: Sequence[Clamp], columns: Sequence[tuple[int, ...]]) -> None:
        """Derive the values of all clamps from a new node."""
        name = f"{clamps[0].input}_read"
        domain = self.ties.domain(len(columns[0]), name)
        node = Node(name=fresh(name, {n.name for n in self.nodes}), domain=domain)
        self.nodes.append(node)
        for clamp, column in zip(clamps, columns, strict=True):
            self.edge(Attachment(node=node.name), domain, clamp, column)

    def edge(self, source: Attachment, domain: str, clamp: Clamp, values: tuple[int, ...]) -> None:
        """Add the map from a node to the value that a clamp reads."""
        name = "_".join((clamp.input, "gives", *clamp.path))
        label = self.ties.map(domain, self.end(clamp), values, name)
        ends = replace(source, span=None), replace(clamp.attachment, span=None)
        self.edges.append(Edge(label=label, attachments=ends, span=clamp.span))
