"""A grammar as source text, which parses back to an equal grammar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fgg.grammar import (
    Attachment,
    Clamp,
    Domain,
    Edge,
    Enumerated,
    Factor,
    Fragment,
    FromFile,
    Grammar,
    Input,
    InputFactor,
    InputTable,
    Nonterminal,
    Query,
    QueryRule,
    Reference,
    Rule,
    Sized,
    Union,
)
from fgg.grammar.constants import constants, implied_factors, is_bare_value, unfixed_edges
from fgg.grammar.domains import domain_values
from fgg.grammar.index import Condition, Expr, is_plain_name, quote_name
from fgg.grammar.options import written_attributes
from fgg.grammar.print_values import (
    STEP,
    Bracketed,
    fill,
    lay_out,
    print_attribute,
    print_constant,
    print_string,
    value_piece,
)
from fgg.grammar.values import Sparse
from fgg.inputs.clamps import positions

HANG = 4
MAX_PAD = 24


def print_grammar(grammar: Grammar) -> str:
    """The text of a grammar: sizes, domains, inputs, factors, nonterminals, rules, queries."""
    blocks = [
        [f"size {quote_name(size.name)} = {size.value}" for size in grammar.sizes],
        [print_domain(domain) for domain in grammar.domains],
        [
            *map(print_input, grammar.inputs),
            *map(print_table, grammar.tables),
            *map(print_input_factor, grammar.input_factors),
        ],
        [
            print_factor(grammar, factor)
            for factor in grammar.factors
            if factor.name not in implied_factors(grammar)
        ],
        [
            *map(print_nonterminal, grammar.nonterminals),
            f"start {print_reference(grammar.start)}",
        ],
        _aligned([_rule_parts(grammar, rule) for rule in grammar.rules]),
        *([print_query(query)] for query in grammar.queries),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def print_domain(domain: Domain) -> str:
    """A domain's declaration."""
    name = quote_name(domain.name)
    shape = domain.shape
    if isinstance(shape, Enumerated):
        start = f"domain {name} = "
        values = Bracketed("{", tuple(map(print_constant, shape.values)), "}")
        return start + lay_out(values, 0, len(start))
    if isinstance(shape, FromFile):
        return f"domain {name} = file({print_string(shape.path)})"
    if isinstance(shape, Sized):
        return f"{'rank' if domain.rank else 'domain'} {name} = {shape.size}"
    sign = "+" if isinstance(shape, Union) else "*"
    first, *rest = map(quote_name, shape.parts)
    return fill([f"domain {name} = {first}", *(f"{sign} {part}" for part in rest)], HANG, 0)


def print_input(item: Input) -> str:
    """An input's declaration."""
    return f"input {_declaration(item)}"


def _declaration(item: Input) -> str:
    return f"{quote_name(item.name)}: {quote_name(item.domain)}{_indices(item.shape)}"


def print_table(item: InputTable) -> str:
    """An input table's declaration."""
    return f"input table {quote_name(item.name)}{_indices(item.shape)}"


def print_input_factor(item: InputFactor, indent: int = 0) -> str:
    """An input factor's declaration."""
    start = f"input factor {_family(item.name, item.indices)}({_names(item.domains)})"
    clauses = [*_conditions(item.conditions), *_attributes(item)]
    return fill([start, *clauses], indent + HANG, indent)


def print_factor(grammar: Grammar, factor: Factor) -> str:
    """A factor's declaration: signature, value, rank, attributes."""
    if factor.given is None:
        signature = _names(factor.domains)
    else:
        left, right = factor.domains[: factor.given], factor.domains[factor.given :]
        signature = f"{_names(left)} -> {_names(right)}".lstrip()
    text = f"factor {quote_name(factor.name)}({signature})"
    if factor.value is not None:
        # Only a map by values needs their names, of which there may be very many.
        named = isinstance(factor.value, Sparse)
        axes = [domain_values(grammar, name) for name in factor.domains] if named else []
        text += " = "
        text += lay_out(value_piece(factor.value, axes), 0, len(text))
    clauses = [f"rank {factor.rank}"] if factor.rank is not None else []
    return fill([text, *clauses, *_attributes(factor)], HANG, 0)


def _attributes(item: Factor | InputFactor) -> list[str]:
    attributes = written_attributes(item)
    shown = [f"{quote_name(a.key)} = {print_attribute(a.value)}" for a in attributes]
    return _listed("with", shown)


def print_nonterminal(item: Nonterminal) -> str:
    """A nonterminal's declaration."""
    start = f"nonterminal {_family(item.name, item.indices)}({_names(item.domains)})"
    return fill([start, *_conditions(item.conditions)], HANG, 0)


def print_reference(reference: Reference) -> str:
    """A nonterminal with its indices."""
    return quote_name(reference.label) + _indices(reference.indices)


def print_rule(grammar: Grammar, rule: Rule) -> str:
    """A rule on its own."""
    return _aligned([_rule_parts(grammar, rule)])[0]


def _rule_parts(grammar: Grammar, rule: Rule) -> tuple[str, str, list[str]]:
    sugar = positions(rule.rhs)
    values = written_constants(grammar, rule.rhs)
    head = _head(rule, values)
    written = {**values, **{node: _position(clamp) for node, clamp in sugar.items()}}
    body = [_edge(edge, written) for edge in unfixed_edges(rule.rhs, values)]
    body += [_clamp(clamp) for clamp in rule.rhs.clamps if clamp.attachment.node not in sugar]
    known = {a.node for edge in rule.rhs.edges for a in edge.attachments if not a.path}
    known.update(c.attachment.node for c in rule.rhs.clamps if not c.attachment.path)
    known.update(rule.rhs.externals)
    known -= {n.name for n in rule.rhs.nodes if is_bare_value(grammar, n.domain, n.name)}
    body += [
        f"({quote_name(node.name)}: {quote_name(node.domain)})"
        for node in rule.rhs.nodes
        if node.name not in known and node.name not in written
    ]
    return quote_name(rule.name), head, body + _guards(rule.conditions)


def written_constants(grammar: Grammar, fragment: Fragment) -> dict[str, str]:
    """The nodes that are written as values, with the text of the values.

    A value that a reader would take for a node stands between quotes.
    """
    values = constants(grammar, fragment)
    names = set(fragment.by_name) - set(values)
    return {
        node: print_constant(value)
        if not is_plain_name(value)
        or (value not in names and is_bare_value(grammar, fragment.by_name[node].domain, value))
        else print_string(value)
        for node, value in values.items()
    }


def _head(rule: Rule, values: Mapping[str, str]) -> str:
    """The head of a rule. A bare name would be a node there, so values stand between quotes."""
    shown = []
    for name in rule.rhs.externals:
        value = values.get(name, quote_name(name))
        bare = name in values and is_plain_name(value)
        shown.append(f'"{value}"' if bare else value)
    return print_reference(rule.head) + (f"({', '.join(shown)})" if shown else "")


def print_query(query: Query) -> str:
    """A query with everything it contains."""
    start = f"query {quote_name(query.name)}"
    if query.inputs:
        inputs = Bracketed(f"{start}(", tuple(map(_declaration, query.inputs)), ")")
        start = lay_out(inputs, 0, 0, len(" {"))
    pad = " " * STEP
    lines = [pad + print_table(item) for item in query.tables]
    lines += [pad + print_input_factor(item, STEP) for item in query.input_factors]
    for family in query.families:
        name = f"{pad}nonterminal {_family(family.name, family.indices)}"
        lines.append(fill([name, *_conditions(family.conditions)], STEP + HANG, 0))
    if query.start is not None:
        lines.append(f"{pad}start {print_reference(query.start)}")
    lines += _aligned([_query_rule_parts(rule) for rule in query.rules], STEP)
    return "\n".join([f"{start} {{", *lines, "}"])


def _query_rule_parts(rule: QueryRule) -> tuple[str, str, list[str]]:
    body = [print_reference(reference) for reference in rule.body]
    body += [_edge(edge, {}) for edge in rule.edges]
    body += [_clamp(clamp) for clamp in rule.clamps]
    head = print_reference(rule.head)
    return quote_name(rule.name), head, body + _guards(rule.conditions)


def _aligned(rules: Sequence[tuple[str, str, list[str]]], indent: int = 0) -> list[str]:
    """Rules with heads and arrows aligned, except for names longer than `MAX_PAD`."""
    pads = [
        max((len(rule[part]) for rule in rules if len(rule[part]) <= MAX_PAD), default=0)
        for part in (0, 1)
    ]
    lines = []
    for name, head, body in rules:
        start = f"{' ' * indent}rule {f'{name}:':{pads[0] + 1}} {head:{pads[1]}} ->"
        lines.append(fill([start, *body], indent + HANG, 0))
    return lines


def _edge(edge: Edge, written: Mapping[str, str]) -> str:
    """An edge, with what is written in the place of some nodes."""
    shown = [written.get(a.node) or _attachment(a) for a in edge.attachments]
    return f"{quote_name(edge.label)}{_indices(edge.indices)}({', '.join(shown)})"


def _attachment(attachment: Attachment) -> str:
    return ".".join(map(quote_name, (attachment.node, *attachment.path)))


def _clamp(clamp: Clamp) -> str:
    path = "".join(f".{quote_name(name)}" for name in clamp.path)
    return f"{_attachment(clamp.attachment)} = {_position(clamp)}{path}"


def _position(clamp: Clamp) -> str:
    return quote_name(clamp.input) + _indices(clamp.indices)


def _family(name: str, indices: Iterable[str]) -> str:
    shown = _names(indices)
    return quote_name(name) + (f"[{shown}]" if shown else "")


def _indices(indices: Iterable[Expr]) -> str:
    shown = ", ".join(map(_index, indices))
    return f"[{shown}]" if shown else ""


def _index(expr: Expr) -> str:
    text = str(expr)
    # Names between backquotes may contain anything, so there the spaces stay.
    return text if "`" in text else text.replace(" + ", "+").replace(" - ", "-")


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_name, names))


def _conditions(conditions: Sequence[Condition]) -> list[str]:
    return _listed("for", list(map(str, conditions)))


def _guards(conditions: Sequence[Condition]) -> list[str]:
    """The conditions of a rule, set off from its body."""
    first, *rest = _conditions(conditions) or [""]
    return [f"  {first}", *rest] if first else []


def _listed(word: str, items: list[str]) -> list[str]:
    """The pieces of a list after a reserved word, each with the comma that follows it."""
    pieces = [f"{item}," for item in items[:-1]] + items[-1:]
    return [f"{word} {pieces[0]}", *pieces[1:]] if pieces else []
