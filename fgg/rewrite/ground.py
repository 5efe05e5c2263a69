"""Grounding: every family written out for concrete sizes, lengths and inputs.

The result is a plain finite FGG. A position of an input becomes a unary factor that says what is
observed there: `w_0`, a parameter as long as the input is not given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import exp, inf
from typing import NoReturn, cast

from fgg.check.indices import check_indices, rule_variables
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.grammar import (
    Clamp,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Nonterminal,
    Origin,
    Reference,
    Rule,
)
from fgg.grammar.definitions import Definition, InputEvidence, InputPotential
from fgg.grammar.domains import size_values, with_sizes
from fgg.grammar.index import Condition, Expr
from fgg.grammar.linear import scan, scan_order
from fgg.grammar.memo import per_grammar
from fgg.grammar.names import fresh
from fgg.grammar.ranges import regions, rule_rows
from fgg.grammar.values import MAX_LOG, Constant, Exp, Nested, Sparse, Table, Value
from fgg.inputs.clamps import clamp_domain, path_value
from fgg.inputs.given import Nest, Observation, observe
from fgg.inputs.readings import Ties
from fgg.inputs.tokens import IMPOSSIBLE, MISSING
from fgg.progress import steps
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.trim import trim

MAX_INSTANCES = 200_000


def ground(
    grammar: Grammar,
    *,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    lengths: Mapping[str, int] | None = None,
    inputs: Mapping[str, Nest] | None = None,
    limit: int = MAX_INSTANCES,
) -> Grammar:
    """The finite grammar for given sizes, lengths and inputs, without useless symbols.

    `query` names the question to ask; without one the model is grounded as it stands. Lengths
    follow from the inputs that are given. Raises GrammarError where something is missing, does
    not fit, or would need more than `limit` rules.
    """
    asked = _asked(grammar, query, sizes or {})
    return ground_with_origin(asked, lengths=lengths, inputs=inputs, limit=limit)[0]


Origins = Mapping[str, tuple[str, tuple[int, ...]]]
"""For each factor that log-potentials became, the input factor and the index."""


def ground_with_origin(
    grammar: Grammar,
    *,
    lengths: Mapping[str, int] | None = None,
    inputs: Mapping[str, Nest] | None = None,
    limit: int = MAX_INSTANCES,
) -> tuple[Grammar, Origins]:
    """The finite grammar of a grammar without queries, and where log-potentials come from."""
    flat, grounder = _grounded(grammar, lengths, inputs, limit)
    labels = {} if grounder is None else grounder.labels
    return flat, {label: key for key, label in labels.items() if label in flat.factor}


@dataclass(frozen=True)
class Reading:
    """What a factor of a ground grammar says: the value at a position of an input, or its part."""

    input: str
    path: tuple[str, ...]
    position: tuple[int, ...]


def ground_with_readings(
    grammar: Grammar, *, lengths: Mapping[str, int], limit: int = MAX_INSTANCES
) -> tuple[Grammar, Mapping[str, Reading]]:
    """The finite grammar for inputs that are not given, and which factor reads which position."""
    flat, grounder = _grounded(grammar, lengths, None, limit)
    evidences = {} if grounder is None else grounder.evidences
    return flat, {label: Reading(*key) for key, label in evidences.items() if label in flat.factor}


def _grounded(
    grammar: Grammar,
    lengths: Mapping[str, int] | None,
    inputs: Mapping[str, Nest] | None,
    limit: int,
) -> tuple[Grammar, _Grounder | None]:
    """The finite grammar, and what wrote it out; None where there was nothing to write out."""
    if not grammar.is_indexed and not any(rule.conditions for rule in grammar.rules):
        observe(grammar, lengths=lengths, inputs=inputs)  # there must be none
        return trim(grammar), None
    problems = _wrong_indices(grammar)
    if problems:
        raise GrammarError(problems)
    seen = observe(grammar, lengths=lengths, inputs=inputs)
    grounder = _Grounder(grammar, seen, limit)
    return trim(grounder.run()), grounder


def _asked(grammar: Grammar, query: str | None, sizes: Mapping[str, int]) -> Grammar:
    """The grammar with sizes set, conjoined with one query; its other queries go."""
    for name in sizes:
        if name not in grammar.size:
            _unknown("size", name, grammar.size)
    grammar = with_sizes(grammar, sizes)
    if query is not None:
        if query not in grammar.query:
            _unknown("query", query, grammar.query)
        grammar = conjoin(grammar, grammar.query[query])
    if grammar.queries:  # else the same grammar, with all that is remembered of it
        grammar = replace(grammar, queries=())
    return grammar


@per_grammar
def _wrong_indices(grammar: Grammar) -> tuple[Diagnostic, ...]:
    return tuple(d for d in check_indices(grammar) if d.is_error)


def _unknown(kind: str, name: str, known: Mapping[str, object]) -> NoReturn:
    code = "F409" if kind == "query" else "F410"
    names = ", ".join(f"`{k}`" for k in known) or "none"
    help = did_you_mean(name, known) or f"it has {names}"
    refuse(code, f"the grammar has no {kind} `{name}`", help)


class _Grounder:
    """Writes out the rules of one grammar for one observation."""

    def __init__(self, grammar: Grammar, seen: Observation, limit: int) -> None:
        self.grammar = grammar
        self.seen = seen
        self.limit = limit
        self.known = {**size_values(grammar), **seen.lengths}
        self.extents = {item.name: self.values(item.shape, self.known) for item in grammar.inputs}
        self.labels: dict[tuple[str, tuple[int, ...]], str] = {}
        self.evidences: dict[tuple[str, tuple[str, ...], tuple[int, ...]], str] = {}
        self.taken = {*grammar.factor}
        self.ties = Ties(grammar, self.taken)
        self.nonterminals: dict[str, Nonterminal] = {}
        self.factors: dict[str, Factor] = {f.name: f for f in grammar.factors}
        self.rules: list[Rule] = []
        self.rule_names: set[str] = set()

    def run(self) -> Grammar:
        grammar = self.grammar
        start = self.nonterminal(
            grammar.start.label, self.values(grammar.start.indices, self.known) or ()
        )
        count = self.check_size()
        instances = ((rule, values) for rule in grammar.rules for values in self.instances(rule))
        for rule, values in steps(instances, "rule written out", count):
            self.instance(rule, values)
            if len(self.rules) > self.limit:
                self.refuse_size()
        return Grammar(
            name=grammar.name,
            start=Reference(label=start),
            sizes=grammar.sizes,
            domains=(*grammar.domains, *self.ties.domains),
            factors=(*self.factors.values(), *self.ties.factors),
            nonterminals=tuple(self.nonterminals.values()),
            rules=tuple(self.rules),
        )

    def check_size(self) -> int:
        """The number of ground rules. Refuses a grammar with too many before writing it out.

        Instances that look up a table may not exist, so they are not counted.
        """
        left = self.limit
        for rule in self.grammar.rules:
            exprs = [*rule.indices, *(e for edge in rule.rhs.edges for e in edge.indices)]
            exprs += [e for clamp in rule.rhs.clamps for e in clamp.indices]
            if not any(True for expr in exprs for _ in expr.lookups()):
                left -= sum(1 for _ in islice(self.instances(rule), left + 1))
            if left < 0:
                self.refuse_size()
        return self.limit - left

    def refuse_size(self) -> NoReturn:
        """Raise GrammarError: there are too many rules."""
        message = f"the ground grammar has more than {self.limit:,} rules"
        refuse("F302", message, "choose smaller lengths")

    def instances(self, rule: Rule) -> Iterator[Mapping[str, int]]:
        """The values of a rule's index variables that satisfy its conditions."""
        ranges = regions(self.grammar)
        if rule.lhs not in ranges:
            return
        rows = rule_rows(self.grammar, rule, ranges)
        names = rule_variables(rule, self.grammar, set(self.seen.lengths))
        nest = scan_order(rows, names, self.seen.lengths)
        yield from scan(nest, self.seen.lengths)

    def values(self, exprs: Sequence[Expr], values: Mapping[str, int]) -> tuple[int, ...] | None:
        """The values of index expressions; None where a look-up lies outside its table."""
        numbers = []
        for expr in exprs:
            value = expr.evaluate(values, self.seen.look_up)
            if value is None:
                return None
            numbers.append(value)
        return tuple(numbers)

    def instance(self, rule: Rule, values: Mapping[str, int]) -> None:
        """Add one instance of a rule, unless it refers to something that does not exist."""
        variables = {n: v for n, v in values.items() if n not in self.seen.lengths}
        values = {**self.known, **variables}
        head = self.values(rule.indices, values)
        if not all(self.holds(condition, values) for condition in rule.conditions):
            return
        edges: list[Edge] = []
        for edge in rule.rhs.edges:
            indices = self.values(edge.indices, values)
            if indices is None or not self.in_range(edge.label, indices):
                return
            label = self.label(edge.label, indices)
            edges.append(Edge(label=label, attachments=edge.attachments, span=edge.span))
        clamps: list[Clamp] = []
        for clamp in rule.rhs.clamps:
            position = self.values(clamp.indices, values)
            if position is None or not self.inside(clamp, position):
                return
            clamps.append(replace(clamp, indices=tuple(map(Expr.of, position))))
        fragment = self.observed_fragment(rule.rhs, tuple(edges), tuple(clamps))
        if head is None or fragment is None:
            return
        name = fresh(_name(rule.name, tuple(variables.values())), self.rule_names)
        self.rule_names.add(name)
        source = rule.origin_or_self.rule
        self.rules.append(
            Rule(
                name=name,
                lhs=self.nonterminal(rule.lhs, head),
                rhs=fragment,
                origin=Origin(rule=source, values=tuple(variables.items())),
                span=rule.span,
                head_span=rule.head_span,
            )
        )

    def observed_fragment(
        self, fragment: Fragment, edges: tuple[Edge, ...], clamps: tuple[Clamp, ...]
    ) -> Fragment | None:
        """A fragment with its ground edges, and factors for the observed values at clamps.

        None if it reads more of a missing token than any token has.
        """
        ground = Fragment.make(fragment.nodes, edges, clamps, fragment.externals)
        unknown: dict[tuple[str, tuple[int, ...]], list[Clamp]] = {}
        for clamp in clamps:
            tokens, position = self.seen.tokens.get(clamp.input), _position(clamp)
            if tokens is None or tokens[position] == MISSING:
                unknown.setdefault((clamp.input, position), []).append(clamp)
        tied, _ = self.ties.tied(ground, list(unknown.values()))
        if tied is None:
            return None
        evidence = tuple(
            Edge(label=self.evidence(c), attachments=(c.attachment,), span=c.span)
            for c in tied.clamps
        )
        return Fragment.make(tied.nodes, (*tied.edges, *evidence), (), tied.externals)

    def holds(self, condition: Condition, values: Mapping[str, int]) -> bool:
        """Whether a condition holds.

        The inequalities of those without look-ups hold by the choice of values.
        """
        apart = self.values(tuple(condition.differences()), values)
        if apart is None or 0 in apart:
            return False
        if not condition.looks_up:
            return True
        numbers = self.values(tuple(condition.inequalities()), values)
        return numbers is not None and all(value >= 0 for value in numbers)

    def in_range(self, name: str, indices: tuple[int, ...]) -> bool:
        """Whether an index lies in the range of an input factor; beyond it there is nothing.

        A nonterminal beyond its range has no rules: nothing needs to be checked.
        """
        factor = self.grammar.input_factor.get(name)
        if factor is None:
            return True
        values = {**self.known, **dict(zip(factor.indices, indices, strict=True))}
        numbers = self.values([f for c in factor.conditions for f in c.inequalities()], values)
        return numbers is not None and all(value >= 0 for value in numbers)

    def inside(self, clamp: Clamp, position: tuple[int, ...]) -> bool:
        """Whether a position lies inside its input."""
        extents = self.extents[clamp.input]
        assert extents is not None
        return all(0 <= i < n for i, n in zip(position, extents, strict=True))

    def label(self, name: str, indices: tuple[int, ...]) -> str:
        """The ground edge label of a reference."""
        if name in self.grammar.nonterminal:
            return self.nonterminal(name, indices)
        if name in self.grammar.factor:
            return name
        key = (name, indices)
        if key not in self.labels:
            family = self.grammar.input_factor[name]
            definition: Definition = InputPotential(name)
            if family.definition is not None:
                source = self.label(family.definition.source, indices)
                definition = replace(family.definition, source=source)
            self.labels[key] = self.new_name(name, indices)
            value = self.potential(name, indices)
            self.factors[self.labels[key]] = Factor(
                name=self.labels[key],
                domains=family.domains,
                value=value,
                definition=definition if value is None else None,
            )
        return self.labels[key]

    def potential(self, name: str, indices: tuple[int, ...]) -> Value | None:
        """The weights of an input factor at an index, from the log-potentials given.

        They stay logarithms where no float holds their exponentials with all its digits.
        """
        if name not in self.seen.potentials:
            return None
        logs: list[float] = []

        def nested(nest: object, depth: int, entry: Callable[[float], float]) -> Nested:
            if depth:
                return tuple(nested(item, depth - 1, entry) for item in cast(Nest, nest))
            logs.append(cast(float, nest))
            return entry(logs[-1])

        nest = self.seen.potentials[name]
        for index in indices:
            if not 0 <= index < len(nest):
                problem = (
                    f"`{name}{list(indices)}` is needed, but no log-potentials are given for it"
                )
                refuse("F411", problem)
            nest = cast(Nest, nest[index])
        depth = len(self.grammar.input_factor[name].domains)
        entries = nested(nest, depth, float)
        if any(abs(log) > MAX_LOG and log != -inf for log in logs):
            return Exp(entries)
        weights = nested(nest, depth, exp)
        return Table(weights) if isinstance(weights, tuple) else Constant(weights)

    def nonterminal(self, name: str, indices: tuple[int, ...]) -> str:
        """The ground nonterminal of a family at an index."""
        key = (name, indices)
        if key not in self.labels:
            label = self.new_name(name, indices)
            self.labels[key] = label
            self.nonterminals[label] = Nonterminal(
                name=label,
                domains=self.grammar.nonterminal[name].domains,
                origin=(name, indices),
            )
        return self.labels[key]

    def evidence(self, clamp: Clamp) -> str:
        """The unary factor of the value of an input at a position."""
        position = _position(clamp)
        key = (clamp.input, clamp.path, position)
        if key not in self.evidences:
            label = self.new_name("_".join((clamp.input, *clamp.path)), position)
            self.evidences[key] = label
            domain = clamp_domain(self.grammar, clamp)
            value = self.observed(clamp, position)
            self.factors[label] = Factor(
                name=label,
                domains=(domain,),
                value=value,
                definition=InputEvidence(clamp.input) if value is None else None,
            )
        return self.evidences[key]

    def observed(self, clamp: Clamp, position: tuple[int, ...]) -> Value | None:
        """Which values agree with an input at a position; None if the input is not given."""
        tokens = self.seen.tokens.get(clamp.input)
        if tokens is None:
            return None
        token = tokens[position]
        if token in (MISSING, IMPOSSIBLE):
            return Constant(1.0 if token == MISSING else 0.0)
        whole = self.grammar.input[clamp.input].domain
        part = path_value(self.grammar, whole, clamp.path, token)
        return Constant(0.0) if part is None else Sparse((((part,), 1.0),))

    def new_name(self, name: str, indices: tuple[int, ...]) -> str:
        label = fresh(_name(name, indices), self.taken)
        self.taken.add(label)
        return label


def _position(clamp: Clamp) -> tuple[int, ...]:
    """The position of a clamp whose indices are numbers."""
    return tuple(index.constant or 0 for index in clamp.indices)


def _name(name: str, indices: Sequence[int]) -> str:
    return "_".join([name, *(str(i) if i >= 0 else f"m{-i}" for i in indices)])
