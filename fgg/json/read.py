"""Reading grammars in the JSON format of the `fggs` library, or in the flat form.

Every problem is reported with its path in the document, all of them in one go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from fgg.check.grammar import check_grammar
from fgg.diagnostics import Diagnostic, did_you_mean
from fgg.grammar import (
    Attachment,
    Domain,
    Edge,
    Enumerated,
    Factor,
    Fragment,
    Grammar,
    Node,
    Nonterminal,
    Reference,
    Rule,
    Sized,
)
from fgg.grammar.domains import MAX_SIZE, domain_size
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh, is_safe, safe_names
from fgg.grammar.options import check_attribute, check_definitions, with_attributes
from fgg.grammar.values import Map, Value
from fgg.json.attributes import read_attributes
from fgg.json.document import (
    Located,
    Malformed,
    attempt,
    parse_json,
    read_each,
    read_fields,
    unflatten,
    whole_number,
)
from fgg.json.tensor import constant_value, read_weight, read_weights
from fgg.rewrite.rename import Renaming

_KEYS = ("rules", "start", "terminals", "nonterminals")


def from_json(
    data: object, name: str = "grammar", *, domain_sizes: Mapping[str, int] | None = None
) -> tuple[Grammar | None, tuple[Diagnostic, ...]]:
    """The grammar that parsed JSON describes, and its diagnostics.

    The grammar is None exactly when there is an error among the diagnostics. `domain_sizes` gives
    the number of values of node labels for which the document has no domain. Names that the
    language cannot write are replaced.
    """
    document = Located(unflatten(data))
    try:
        grammar = attempt(_read_grammar, document, name, domain_sizes or {})
        if grammar is None:
            return None, document.problems.all()
        problems = tuple(check_grammar(grammar))
    except RecursionError:
        return None, (Diagnostic(code="F405", message="the document is nested too deep"),)
    if any(d.is_error for d in problems):
        return None, problems
    return replace(grammar, warnings=problems), problems


def read_json_text(
    text: str, name: str = "grammar", *, domain_sizes: Mapping[str, int] | None = None
) -> tuple[Grammar | None, tuple[Diagnostic, ...]]:
    """The grammar that a JSON text describes, and its diagnostics.

    As `from_json`; a text that is no JSON, or has a key twice in one object, is an error F405.
    """
    data, problems = parse_json(text)
    return (None, problems) if problems else from_json(data, name, domain_sizes=domain_sizes)


def _read_grammar(document: Located, name: str, domain_sizes: Mapping[str, int]) -> Grammar:
    grammar, interpretation = _halves(document)
    terminals = {
        label: attempt(_read_factor, label, entry)
        for label, entry in _fields_at(grammar, "terminals").items()
    }
    nonterminals = {
        label: attempt(_read_nonterminal, label, entry)
        for label, entry in _fields_at(grammar, "nonterminals").items()
    }
    for label in terminals:
        if label in nonterminals:
            grammar.child("nonterminals").child(label).report(f"`{label}` is a terminal as well")
    reader = _RuleReader(terminals, nonterminals)
    start = attempt(reader.nonterminal_at, grammar, "start") or ""
    reader.used[start] = None
    rules = read_each(_items_at(grammar, "rules"), reader.rule)
    weights: Mapping[str, Located] = {}
    listed: Mapping[str, Located] = {}
    if interpretation is not None:
        weights = _fields_at(interpretation, "factors")
        listed = _fields_at(interpretation, "domains")
    used = dict.fromkeys(node.domain for rule in rules for node in rule.rhs.nodes)
    for label in (*reader.used, *weights):
        declared = reader.declared(label)
        used |= dict.fromkeys(() if declared is None else declared.domains)
    domains = _read_domains(document, listed, domain_sizes, used)
    sizes = Grammar(start=Reference(label=""), domains=tuple(domains.values()))

    def read_value(name: str, entry: Located) -> Value:
        if name not in terminals:
            entry.fail(f"there is no terminal `{name}`", did_you_mean(name, terminals))
        factor = terminals[name]
        known = factor is not None and all(node in domains for node in factor.domains)
        return _read_value(entry, factor if known else None, sizes)

    values = read_fields(weights, read_value)
    if document.problems.has_errors:
        raise Malformed
    # Labels that no rule uses may have node labels without domains; these are left out.
    factors = [f for f in terminals.values() if f and all(x in domains for x in f.domains)]
    heads = [x for x in nonterminals.values() if x and all(d in domains for d in x.domains)]
    result = Grammar(
        name=name.rsplit("/", 1)[-1].removesuffix(".json") or "grammar",
        start=Reference(label=start),
        domains=tuple(domains.values()),
        factors=tuple(replace(factor, value=values.get(factor.name)) for factor in factors),
        nonterminals=tuple(heads),
        rules=tuple(rules),
    )
    labels = safe_names({**terminals, **nonterminals})
    return Renaming({}, safe_names(domains), labels, {}).grammar(result)


def _halves(document: Located) -> tuple[Located, Located | None]:
    """The grammar and the interpretation of a document, which may be a grammar alone."""
    document.as_object()
    if "grammar" not in document.entries:
        if not any(key in document.entries for key in _KEYS):
            document.fail("there is no `grammar`")
        return document, None
    grammar = attempt(lambda: document.required("grammar").as_object())
    interpretation = None
    if "interpretation" in document.entries:
        interpretation = document.required("interpretation").as_object()
    if grammar is None:
        raise Malformed
    return grammar, interpretation


def _fields_at(data: Located, key: str) -> Mapping[str, Located]:
    """The entries of the object under a key; none, and a report, if there is no such object."""
    return attempt(lambda: data.required(key).fields()) or {}


def _items_at(data: Located, key: str) -> list[Located]:
    """The items of the list under a key; none, and a report, if there is no such list."""
    return attempt(lambda: data.required(key).items()) or []


def _read_factor(name: str, entry: Located) -> Factor:
    """A terminal without its weights, with the entries that only our own writer makes."""
    domains = _read_type(entry)
    given, rank, attributes = entry.child("given"), entry.child("rank"), entry.child("with", {})
    reports = len(entry.problems.diagnostics)
    arity = len(domains)
    if given.value is not None and not (whole_number(given.value) and given.value < arity):
        given.report(f"a whole number below {arity} was expected")
    if rank.value is not None and not (whole_number(rank.value) and rank.value > 0 and arity > 1):
        rank.report("a positive whole number, of a terminal with two nodes or more, was expected")
    try:
        read = read_attributes(attributes.value)
    except (ValueError, OverflowError) as error:
        attributes.fail(str(error))
    for attribute in read:
        problem = check_attribute(attribute)
        if problem is not None:
            attributes.child(attribute.key).report(problem.message)
    clash = check_definitions(read)
    if clash is not None:
        attributes.report(clash.message)
    if len(entry.problems.diagnostics) > reports:
        raise Malformed
    factor = Factor(
        name=name,
        domains=domains,
        given=given.value if whole_number(given.value) else None,
        rank=Expr.of(rank.value) if whole_number(rank.value) else None,
    )
    return with_attributes(factor, read)


def _read_nonterminal(name: str, entry: Located) -> Nonterminal:
    return Nonterminal(name=name, domains=_read_type(entry))


def _read_type(entry: Located) -> tuple[str, ...]:
    """The node labels of a terminal or nonterminal."""
    nodes = entry.as_object().required("type").items()
    labels = tuple(read_each(nodes, Located.text))
    if len(labels) < len(nodes):
        raise Malformed
    return labels


def _read_domains(
    document: Located,
    listed: Mapping[str, Located],
    domain_sizes: Mapping[str, int],
    used: Mapping[str, None],
) -> dict[str, Domain]:
    """The domains that are listed or whose sizes the caller gives; all used ones must be there."""
    domains = read_fields(listed, _read_domain)

    def read_given(label: str, size: Located) -> Domain:
        if label in domains:
            size.fail("the file already gives the values of this node label")
        if label not in used:
            size.fail("the grammar has no such node label", did_you_mean(label, used))
        return Domain(name=label, shape=Sized(Expr.of(_read_size(size))))

    problems = document.problems
    sizes = {label: Located(n, label, problems, "F410") for label, n in domain_sizes.items()}
    domains |= read_fields(sizes, read_given)
    missing = [f"`{label}`" for label in used if label not in domains and label not in listed]
    if missing:
        place = replace(document, path="interpretation.domains" if listed else "interpretation")
        message = f"the number of values of {', '.join(missing)} is not known"
        help_text = "add domains to the file, or give the sizes of these node labels"
        place.report(f"{message}, and every domain needs one", help_text)
    return domains


def _read_domain(name: str, entry: Located) -> Domain:
    """A domain, named after its node label."""
    kind = entry.as_object().required("class")
    if kind.text() == "range":
        shape = Sized(Expr.of(_read_size(entry.child("size"))))
        return Domain(name=name, shape=shape, rank=entry.entries.get("rank") is True)
    if kind.value == "finite":
        return Domain(name=name, shape=Enumerated(_read_value_names(entry.required("values"))))
    kind.fail(f'"finite" or "range" was expected, not {json.dumps(kind.value)}')


def _read_size(size: Located) -> int:
    if not whole_number(size.value) or not 0 < size.value <= MAX_SIZE:
        size.fail(f"a whole number between 1 and {MAX_SIZE} was expected")
    return size.value


def _read_value_names(data: Located) -> tuple[str, ...]:
    """The names of values: texts as they are, everything else as JSON writes it."""
    values = data.raw_list()
    if not values:
        data.fail("a domain without values")
    taken = {value for value in values if isinstance(value, str)}
    seen: dict[tuple[bool, str], int] = {}
    names: list[str] = []
    for number, value in enumerate(values):
        is_text = isinstance(value, str)
        name = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        first = seen.setdefault((is_text, name), number)
        if first != number:
            data.item(number, value).report(f"the same value as values[{first}]")
        if not is_text:
            name = fresh(name, taken)
            taken.add(name)
        names.append(name)
    if len(seen) < len(values):
        raise Malformed
    return tuple(names)


def _read_value(entry: Located, factor: Factor | None, sizes: Grammar) -> Value:
    """The value of a factor. None is a factor of unknown shape; `sizes` has the known domains."""
    kind = entry.as_object().required("function")
    if kind.text() not in ("finite", "constant"):
        kind.fail(f'"finite" or "constant" was expected, not {json.dumps(kind.value)}')
    key = "weights" if kind.value == "finite" else "weight"
    if key not in entry.entries:
        entry.fail(f"there is no `{key}`")
    if factor is None:
        raise Malformed
    shape = tuple(domain_size(sizes, name) for name in factor.domains)
    weights = entry.child(key, code="F407")
    if "map" in entry.entries:
        return _read_map(entry.child("map", code="F407"), shape)
    if key == "weights":
        return read_weights(weights, shape, factor.given)
    return constant_value(read_weight(weights), shape, factor.given)


def _read_map(data: Located, shape: tuple[int, ...]) -> Map:
    """A function as a list with one number for each value."""
    numbers = data.value
    if len(shape) != 2 or not isinstance(numbers, list) or len(numbers) != shape[0]:
        data.fail("a list with a number for each value was expected")
    for position, number in enumerate(numbers):
        if not whole_number(number) or number >= shape[1]:
            message = f"a whole number from 0 to {shape[1] - 1} was expected"
            data.item(position, number).fail(message)
    return Map(tuple(numbers))


@dataclass
class _RuleReader:
    """Reads rules and checks them against the declared labels, None where one is malformed.

    `used` collects the labels that occur in them.
    """

    terminals: Mapping[str, Factor | None]
    nonterminals: Mapping[str, Nonterminal | None]
    rule_names: set[str] = field(default_factory=set)
    used: dict[str, None] = field(default_factory=dict)

    def declared(self, label: str) -> Factor | Nonterminal | None:
        """The declaration of a label; None if it is missing or wrong."""
        return self.nonterminals.get(label) or self.terminals.get(label)

    def nonterminal_at(self, data: Located, key: str) -> str:
        """The nonterminal under a key."""
        name = data.required(key).text()
        if name not in self.nonterminals:
            message = f"there is no nonterminal `{name}`"
            if name in self.terminals:
                message = f"`{name}` is a terminal, not a nonterminal"
            data.child(key).report(message, did_you_mean(name, self.nonterminals))
        return name

    def rule(self, entry: Located) -> Rule:
        """A rule; the labels in it are still the document's."""
        lhs = attempt(self.nonterminal_at, entry.as_object(), "lhs")
        rhs = entry.required("rhs").as_object()
        if lhs is None:
            raise Malformed
        self.used[lhs] = None
        reports = len(rhs.problems.diagnostics)
        nodes = _read_nodes(rhs)
        edges = read_each(_items_at(rhs, "edges"), partial(self.edge, nodes))
        externals: tuple[str, ...] = ()
        if lhs in self.nonterminals and (self.nonterminals[lhs] or "externals" in rhs.entries):
            externals = self.attached(nodes, rhs.child("externals", []), "head", lhs)
        if len(rhs.problems.diagnostics) > reports:
            raise Malformed
        wanted = entry.entries.get("name")
        wanted = wanted if isinstance(wanted, str) and is_safe(wanted) else None
        name = fresh(wanted or safe_names([lhs])[lhs], self.rule_names)
        self.rule_names.add(name)
        known_nodes = tuple(node for node in nodes if node is not None)
        rhs_fragment = Fragment.make(known_nodes, tuple(edges), externals=externals)
        return Rule(name=name, lhs=lhs, rhs=rhs_fragment)

    def edge(self, nodes: Sequence[Node | None], entry: Located) -> Edge:
        """An edge of a right-hand side with the given nodes."""
        entry.as_object()
        label = attempt(lambda: entry.required("label").text())
        touched = entry.required("attachments")
        touched.raw_list()
        if label is None:
            raise Malformed
        self.used[label] = None
        if label not in self.terminals and label not in self.nonterminals:
            help_text = did_you_mean(label, {**self.terminals, **self.nonterminals})
            message = f"there is no terminal or nonterminal `{label}`"
            entry.child("label").report(message, help_text)
        names = self.attached(nodes, touched, "edge", label)
        return Edge(label=label, attachments=tuple(Attachment(node=name) for name in names))

    def attached(
        self, nodes: Sequence[Node | None], data: Located, kind: str, label: str
    ) -> tuple[str, ...]:
        """The nodes that an edge or a head touches, their number and labels checked."""
        items = data.items()
        declared = self.declared(label)
        if declared is not None and len(items) != len(declared.domains):
            wanted = len(declared.domains)
            data.report(f"{kind} `{label}` touches {len(items)} nodes, but its type has {wanted}")
            declared = None
        names = []
        for position, item in enumerate(items):
            number = item.value
            with suppress(Malformed):
                if not isinstance(number, int) or isinstance(number, bool):
                    item.expected("the number of a node")
                if not 0 <= number < len(nodes):
                    item.fail(f"there is no node {number}: there are {len(nodes)}")
                node = nodes[number]
                if node is None:
                    continue
                names.append(node.name)
                if declared is not None and declared.domains[position] != node.domain:
                    wants = f"`{label}` wants `{declared.domains[position]}`"
                    item.fail(f"node {number} has label `{node.domain}`, but {wants}")
        return tuple(names)


def _read_nodes(rhs: Located) -> list[Node | None]:
    """The nodes of a right-hand side, None for one with errors."""
    ids: dict[str, int] = {}

    def read(number: int, entry: Located) -> tuple[str, str | None]:
        label = attempt(lambda: entry.as_object().required("label").text())
        key = entry.child("id")
        if key.value is not None and ids.setdefault(key.text(), number) != number:
            key.report(f"nodes {ids[key.text()]} and {number} have the same id")
        if label is None:
            raise Malformed
        return label, None if key.value is None else key.text()

    entries = enumerate(_items_at(rhs, "nodes"))
    labels_and_ids = [attempt(read, number, entry) for number, entry in entries]
    names = safe_names(ids)
    unused = (name for i in count() if (name := f"n{i}") not in names.values())
    return [
        pair and Node(name=next(unused) if pair[1] is None else names[pair[1]], domain=pair[0])
        for pair in labels_and_ids
    ]
