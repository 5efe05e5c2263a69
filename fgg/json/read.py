"""Reading the JSON format of the `fggs` library: the grammar as a whole.

Every problem is reported with its path in the document, all of them in one go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fgg.diagnostics import Diagnostic, did_you_mean
from fgg.grammar import (
    Domain,
    Factor,
    Fragment,
    Grammar,
    Nonterminal,
    Reference,
    Rule,
    Sized,
)
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.grammar.names import safe_names
from fgg.grammar.options import with_attributes
from fgg.grammar.values import Value
from fgg.json.places import Document, join
from fgg.json.read_rules import RuleReader
from fgg.json.read_symbols import (
    Labels,
    Terminal,
    check_size,
    read_domains,
    read_factors,
    read_labels,
)

_KEYS = ("rules", "start", "terminals", "nonterminals")


def read_grammar(
    data: object, name: str, domain_sizes: Mapping[str, int]
) -> tuple[Grammar | None, tuple[Diagnostic, ...]]:
    """The grammar that a JSON document describes, or None, and what is wrong with it."""
    document = Document()
    grammar = _read(document, data, name, domain_sizes)
    problems = document.problems()
    return (None if problems else grammar), problems


def _read(
    document: Document, data: object, name: str, domain_sizes: Mapping[str, int]
) -> Grammar | None:
    outer = document.as_object(data, "")
    if outer is None:
        return None
    inner: dict[str, object] | None = outer
    path = ""
    if "grammar" in outer:
        inner, path = document.object_at(outer, "grammar", ""), "grammar"
    elif not any(key in outer for key in _KEYS):
        document.fail("", "there is no `grammar`")
        return None
    interpretation: dict[str, object] | None = None
    if path and "interpretation" in outer:
        interpretation = document.object_at(outer, "interpretation", "")
        if interpretation is None:
            return None
    if inner is None:
        return None
    terminals = read_labels(document, inner, "terminals", path)
    nonterminals = read_labels(document, inner, "nonterminals", path)
    for label in terminals:
        if label in nonterminals:
            place = join(join(path, "nonterminals"), label)
            document.fail(place, f"`{label}` is a terminal as well")
    reader = RuleReader(document, terminals, nonterminals)
    start = reader.start(inner, path)
    rules = reader.read(inner, path)
    weights: dict[str, object] = {}
    domains: dict[str, Domain] = {}
    listed: dict[str, object] = {}
    if interpretation is not None:
        weights = document.object_at(interpretation, "factors", "interpretation") or {}
        listed = document.object_at(interpretation, "domains", "interpretation") or {}
        domains = read_domains(document, listed, "interpretation.domains")
    labels = {**terminals, **nonterminals}
    used = _node_labels(rules, [labels.get(label) for label in (*reader.used, *weights)])
    domains |= _sized(document, domain_sizes, used, domains)
    _report_missing(document, [x for x in used if x not in domains and x not in listed], listed)
    sizes = _sizes(domains)
    values = read_factors(document, weights, "interpretation.factors", terminals, sizes)
    if document.report.has_errors:
        return None
    return _build(name, start, rules, domains, values, terminals, nonterminals)


def _node_labels(rules: list[Rule], declared: list[Terminal | None]) -> dict[str, None]:
    """The node labels that rules and the edge labels in them use."""
    used = dict.fromkeys(node.domain for rule in rules for node in rule.rhs.nodes)
    used.update(dict.fromkeys(x for label in declared if label is not None for x in label.type))
    return used


def _sized(
    document: Document,
    domain_sizes: Mapping[str, int],
    used: Mapping[str, None],
    known: Mapping[str, Domain],
) -> dict[str, Domain]:
    """The domains whose sizes the caller gives."""
    found: dict[str, Domain] = {}
    for label, size in domain_sizes.items():
        if label in known:
            document.fail(label, "the file says what values this node label has", "F410")
        elif label not in used:
            help_text = did_you_mean(label, used)
            document.fail(label, "the grammar has no such node label", "F410", help_text)
        elif check_size(document, size, label, "F410"):
            found[label] = Domain(name=label, shape=Sized(Expr.of(size)))
    return found


def _report_missing(document: Document, missing: list[str], listed: Mapping[str, object]) -> None:
    """Report node labels of which it is not known what values they have."""
    if not missing:
        return
    shown = ", ".join(f"`{label}`" for label in missing)
    document.fail(
        "interpretation.domains" if listed else "interpretation",
        f"the number of values of {shown} is not known, and every domain needs one",
        help="add domains to the file, or give the sizes of these node labels",
    )


def _sizes(domains: Mapping[str, Domain]) -> dict[str, int]:
    grammar = Grammar(start=Reference(label=""), domains=tuple(domains.values()))
    return {label: domain_size(grammar, label) for label in domains}


def _build(
    name: str,
    start: str,
    rules: list[Rule],
    domains: Mapping[str, Domain],
    values: Mapping[str, Value],
    terminals: Labels,
    nonterminals: Labels,
) -> Grammar:
    """The grammar, with names that the language can write.

    Labels that no rule uses, over node labels without domains, are left out.
    """
    places = safe_names(domains)
    names = safe_names({**terminals, **nonterminals})
    factors = [
        with_attributes(
            Factor(
                name=names[label],
                domains=tuple(places[x] for x in found.type),
                given=found.given,
                rank=None if found.rank is None else Expr.of(found.rank),
                value=values.get(label),
            ),
            found.attributes,
        )
        for label, found in terminals.items()
        if found is not None and all(x in domains for x in found.type)
    ]
    heads = [
        Nonterminal(name=names[label], domains=tuple(places[x] for x in found.type))
        for label, found in nonterminals.items()
        if found is not None and all(x in domains for x in found.type)
    ]
    return Grammar(
        name=name.rsplit("/", 1)[-1].removesuffix(".json") or "grammar",
        start=Reference(label=names[start]),
        domains=tuple(replace(domain, name=places[label]) for label, domain in domains.items()),
        factors=tuple(factors),
        nonterminals=tuple(heads),
        rules=tuple(_named(rule, places, names) for rule in rules),
    )


def _named(rule: Rule, places: Mapping[str, str], names: Mapping[str, str]) -> Rule:
    rhs = Fragment(
        nodes=tuple(replace(node, domain=places[node.domain]) for node in rule.rhs.nodes),
        edges=tuple(replace(edge, label=names[edge.label]) for edge in rule.rhs.edges),
        externals=rule.rhs.externals,
    )
    return replace(rule, lhs=names[rule.lhs], rhs=rhs)
