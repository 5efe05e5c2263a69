"""The union of grammars: merging declarations, keeping nonterminals apart, pooling queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import (
    Attachment,
    Edge,
    Fragment,
    Grammar,
    Node,
    Nonterminal,
    Query,
    QueryRule,
    Reference,
    Rule,
)
from fgg.grammar.domains import lengths
from fgg.grammar.names import fresh
from fgg.rewrite.rename import Renaming, variables


class _Named(Protocol):
    @property
    def name(self) -> str: ...


D = TypeVar("D", bound=_Named)


def union(*grammars: Grammar, start: str | None = None, shared: Iterable[str] = ()) -> Grammar:
    """The grammar that derives what any of the grammars derives, so that their values add up.

    Declarations that are equal are merged; different ones of the same name are an error. A fresh
    start symbol has one rule for each start symbol, and these must have the same signature; none
    is made if all grammars start with the same shared nonterminal, or if `start` names a
    nonterminal of the result. Otherwise `start` is the fresh symbol's name.

    Nonterminals are kept apart by renaming, except those in `shared`, whose rules are pooled.
    Rules of the same name are renamed too. Queries of the same name become one, which asks all
    grammars that have it; they must have the same inputs.

    Raises GrammarError (F304) where the grammars do not fit together.
    """
    pool = Pool(grammars, tuple(shared))
    result = pool.union(start)
    if pool.problems:
        raise GrammarError(dict.fromkeys(pool.problems))
    return result


class Pool:
    """Grammars that are being united; `problems` collects why they do not fit together."""

    def __init__(self, grammars: Sequence[Grammar], shared: tuple[str, ...]) -> None:
        assert grammars, "a union needs a grammar"
        self.problems: list[Diagnostic] = []
        self.shared = shared
        self.declared = self.merge(grammars)
        self.check_captures(grammars)
        self.labels = {*self.declared.factor, *self.declared.input_factor}
        self.labels |= {f.name for g in grammars for q in g.queries for f in q.input_factors}
        self.rule_names: set[str] = set()
        for name in shared:
            if not any(name in grammar.nonterminal for grammar in grammars):
                self.fail(f"no grammar has a nonterminal `{name}` to share")
            elif name in self.labels:
                self.fail(f"`{name}` is a factor in one grammar, a shared nonterminal in another")
        self.labels.update(shared)
        self.grammars = [self.apart(grammar) for grammar in grammars]

    def fail(self, message: str, help: str = "") -> None:
        """Report a reason why the grammars do not fit together."""
        self.problems.append(Diagnostic(code="F304", message=message, help=help))

    def merge(self, grammars: Sequence[Grammar]) -> Grammar:
        """All declarations but nonterminals and rules; reports those that differ."""
        kinds: dict[tuple[str, str], str] = {}

        def once(kind: str, namespace: str, items: Iterable[D]) -> tuple[D, ...]:
            declared: dict[str, D] = {}
            for item in items:
                other = kinds.setdefault((namespace, item.name), kind)
                if other != kind:
                    message = f"`{item.name}` is a {kind} in one grammar, a {other} in another"
                    self.fail(message, "rename one of them first")
                elif declared.setdefault(item.name, item) != item:
                    message = f"{kind} `{item.name}` is declared differently in two grammars"
                    self.fail(message, "rename one of them first")
            return tuple(declared.values())

        return Grammar(
            start=grammars[0].start,
            sizes=once("size", "domain", (x for g in grammars for x in g.sizes)),
            domains=once("domain", "domain", (x for g in grammars for x in g.domains)),
            inputs=once("input", "input", (x for g in grammars for x in g.inputs)),
            tables=once("table", "input", (x for g in grammars for x in g.tables)),
            input_factors=once(
                "input factor", "label", (x for g in grammars for x in g.input_factors)
            ),
            factors=once("factor", "label", (x for g in grammars for x in g.factors)),
        )

    def check_captures(self, grammars: Sequence[Grammar]) -> None:
        """Report names that are sizes or lengths in one grammar, and indices in another."""
        common = lengths(self.declared)
        for grammar in grammars:
            names = variables(grammar)
            for name in sorted(names & set(self.declared.size)):
                self.fail(
                    f"`{name}` is a size, but an index or a length in grammar `{grammar.name}`",
                    "rename the size first",
                )
            for name in sorted(names & (common - lengths(grammar))):
                self.fail(f"`{name}` is a length, but an index in grammar `{grammar.name}`")

    def apart(self, grammar: Grammar) -> Grammar:
        """The grammar with nonterminals and rules that no grammar before it has."""
        labels: dict[str, str] = {}
        for nonterminal in grammar.nonterminals:
            if nonterminal.name not in self.shared:
                labels[nonterminal.name] = fresh(nonterminal.name, self.labels)
                self.labels.add(labels[nonterminal.name])
        rules: dict[str, str] = {}
        for rule in grammar.rules:
            rules[rule.name] = fresh(rule.name, self.rule_names)
            self.rule_names.add(rules[rule.name])
        return Renaming({}, {}, labels, rules).grammar(grammar)

    def union(self, wanted: str | None) -> Grammar:
        """The union; `wanted` is the start symbol, or the name of a fresh one."""
        nonterminals: dict[str, Nonterminal] = {}
        for grammar in self.grammars:
            for item in grammar.nonterminals:
                if nonterminals.setdefault(item.name, item) != item:
                    self.fail(f"nonterminal `{item.name}` is declared differently in two grammars")
        rules = [rule for grammar in self.grammars for rule in grammar.rules]
        starts = dict.fromkeys(grammar.start for grammar in self.grammars)
        start = self.grammars[0].start
        start_rules: dict[Reference, Rule] = {}
        if wanted is not None and wanted in nonterminals:
            start = Reference(label=wanted)
            if nonterminals[wanted].indices:
                self.fail(f"`{wanted}` cannot be the start symbol: it has indices")
        elif len(starts) > 1 or wanted is not None:
            domains = nonterminals[start.label].domains
            start = Reference(label=fresh(wanted or start.label, self.labels))
            nonterminals = {
                start.label: Nonterminal(name=start.label, domains=domains),
                **nonterminals,
            }
            start_rules = self.start_rules(start.label, domains)
            rules = [*start_rules.values(), *rules]
        return replace(
            self.declared,
            start=start,
            nonterminals=tuple(nonterminals.values()),
            rules=tuple(rules),
            queries=self.queries(start, start_rules),
            name="_".join(dict.fromkeys(grammar.name for grammar in self.grammars)),
        )

    def start_rules(self, label: str, domains: tuple[str, ...]) -> dict[Reference, Rule]:
        """A rule for each start symbol of the grammars."""
        start_rules: dict[Reference, Rule] = {}
        nodes = tuple(Node(name=f"n{i}", domain=domain) for i, domain in enumerate(domains))
        names = tuple(node.name for node in nodes)
        for grammar in self.grammars:
            start = grammar.start
            if grammar.nonterminal[start.label].domains != domains:
                self.fail(
                    f"the start symbols of `{self.grammars[0].name}` and `{grammar.name}` have "
                    "different domains",
                    "name a common start symbol",
                )
                continue
            if start in start_rules:
                continue
            attachments = tuple(Attachment(node=name) for name in names)
            edge = Edge(label=start.label, attachments=attachments, indices=start.indices)
            rule_name = fresh(grammar.name, self.rule_names)
            self.rule_names.add(rule_name)
            rhs = Fragment.make(nodes, (edge,), (), names)
            start_rules[start] = Rule(name=rule_name, lhs=label, rhs=rhs)
        return start_rules

    def queries(self, start: Reference, start_rules: dict[Reference, Rule]) -> tuple[Query, ...]:
        """The queries of all grammars, those of the same name as one."""
        pooled: dict[str, Query] = {}
        for grammar in self.grammars:
            for query in grammar.queries:
                query = self.restart(grammar, query, start, start_rules.get(grammar.start))
                earlier = pooled.get(query.name)
                pooled[query.name] = query if earlier is None else self.pool(earlier, query)
        for query in pooled.values():
            self.check_query(query)
        return tuple(pooled.values())

    def restart(self, grammar: Grammar, query: Query, start: Reference, rule: Rule | None) -> Query:
        """A query that begins at the start symbol of the union."""
        asked = query.start or Reference(label=grammar.start.label)
        if rule is None:
            if asked.label != start.label:
                self.fail(f"query `{query.name}` starts at `{asked.label}`, not at `{start.label}`")
            return query
        if asked.label != grammar.start.label:
            self.fail(
                f"query `{query.name}` starts at `{asked.label}`, which is not the start symbol of "
                f"grammar `{grammar.name}`"
            )
        first = QueryRule(name=rule.name, head=Reference(label=start.label), body=(asked,))
        return replace(query, start=None, rules=(first, *query.rules))

    def pool(self, one: Query, two: Query) -> Query:
        """Two queries of the same name as one."""
        for kind in ("inputs", "tables", "input_factors", "start"):
            if getattr(one, kind) != getattr(two, kind):
                what = kind.replace("_", " ")
                self.fail(f"query `{one.name}` has different {what} in two grammars")
        families = {family.name: family for family in one.families}
        for family in two.families:
            if families.setdefault(family.name, family) != family:
                self.fail(f"query `{one.name}` gives `{family.name}` different ranges")
        # Only the rule that leads to a shared start symbol can be in both.
        rules = [rule for rule in two.rules if rule not in one.rules]
        return replace(one, families=tuple(families.values()), rules=(*one.rules, *rules))

    def check_query(self, query: Query) -> None:
        """Report what a query declares twice, and nonterminals that it indexes in two ways."""
        declared = self.declared
        known = {*declared.input, *declared.table}
        clashes = [item.name for item in query.inputs if item.name in known]
        clashes += [item.name for item in query.tables if item.name in known]
        known = {*declared.input_factor, *declared.factor}
        clashes += [item.name for item in query.input_factors if item.name in known]
        for name in clashes:
            self.fail(f"`{name}` is declared by query `{query.name}` and by a grammar")
        counts = {family.name: len(family.indices) for family in query.families}
        for rule in query.rules:
            for reference in (rule.head, *rule.body):
                count = counts.setdefault(reference.label, len(reference.indices))
                if count != len(reference.indices):
                    message = f"query `{query.name}` indexes `{reference.label}` in two ways"
                    self.fail(message)
