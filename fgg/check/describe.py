"""Descriptions of a grammar: an explanation in words, its equations, a summary."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fgg.check.bfgg import b_status
from fgg.grammar import (
    Attachment,
    Clamp,
    Domain,
    Edge,
    Enumerated,
    Factor,
    FromFile,
    Grammar,
    Product,
    Query,
    Rule,
    Sized,
    Union,
)
from fgg.grammar.constants import constants, implied_factors, unfixed_edges
from fgg.grammar.definitions import InputEvidence, InputPotential
from fgg.grammar.domains import domain_size, lengths, size_values
from fgg.grammar.index import Expr
from fgg.grammar.options import is_frozen
from fgg.grammar.values import Constant, Exp, Eye, Load, Map, Sparse, Table, Uniform
from fgg.rewrite.conjoin import conjoin


def describe(grammar: Grammar) -> str:
    """The explanation of a grammar in words."""
    lines = [f"`{grammar.name}` is a factor graph grammar.", ""]
    lines.append("Nodes take their values from")
    lines += [f"  {d.name}: {domain_in_words(grammar, d)}" for d in grammar.domains]
    shown = _written_factors(grammar)
    if shown or grammar.input_factors:
        lines += ["", "Factors weigh them:"]
        lines += [f"  {factor_in_words(f)}" for f in shown]
        lines += [
            f"  {f.name}({', '.join(f.domains)}): log-potentials that are given at run time"
            for f in grammar.input_factors
        ]
    lines += ["", f"A derivation begins with {_start(grammar)} and applies rules until no"]
    lines.append("nonterminal is left. Each rule adds to the value of the nonterminal on its left:")
    lines += _equations(grammar)
    broken = [status for status in b_status(grammar) if not status.holds]
    lines.append("")
    if broken:
        lines.append("It is not a B-FGG, so not all of it can be moved to rank space:")
        lines += [f"  rule {status.rule}: {status.reason}" for status in broken]
    else:
        lines.append(
            "It is a B-FGG: each rule has one external node (the start symbol may have none), "
            "and no nonterminal touches it."
        )
    for query in grammar.queries:
        lines += ["", f"The query {query_signature(query)} asks for"]
        lines += _equations(conjoin(grammar, query))
    return "\n".join(lines)


def _written_factors(grammar: Grammar) -> list[Factor]:
    """The factors without those that fix nodes to values, which rules imply."""
    return [f for f in grammar.factors if f.name not in implied_factors(grammar)]


def _equations(grammar: Grammar) -> list[str]:
    width = max((len(rule.name) for rule in grammar.rules), default=0)
    return [
        f"  {rule.name:{width}}  {line}"
        for rule, line in zip(grammar.rules, equations(grammar), strict=True)
    ]


def _start(grammar: Grammar) -> str:
    indices = ", ".join(map(str, grammar.start.indices))
    return f"{grammar.start.label}[{indices}]" if indices else grammar.start.label


def domain_in_words(grammar: Grammar, domain: Domain) -> str:
    """How many values a domain has, and what they are."""
    size = f"{domain_size(grammar, domain.name):,}"
    shape = domain.shape
    if isinstance(shape, Sized):
        kind = "ranks" if domain.rank else "values"
        return f"{size} {kind}"
    if isinstance(shape, Enumerated):
        shown = ", ".join(shape.values[:6]) + (", …" if len(shape.values) > 6 else "")
        return f"{size} values: {shown}"
    if isinstance(shape, FromFile):
        return f"{size} values, the lines of {shape.path}"
    if isinstance(shape, Union):
        return f"{size} values, each one of {' or '.join(shape.parts)}"
    assert isinstance(shape, Product)
    return f"{size} values, each a combination of {' and '.join(shape.parts)}"


def factor_in_words(factor: Factor) -> str:
    """What a factor is, and where its weights come from."""
    name = f"{factor.name}({', '.join(factor.domains)})"
    if factor.given is None:
        text = "a potential"
    else:
        given, over = factor.domains[: factor.given], factor.domains[factor.given :]
        text = f"the probability of {' and '.join(over)}"
        text += f" given {' and '.join(given)}" if given else ""
    if factor.rank is not None:
        text += f", of rank {factor.rank}"
    if isinstance(factor.definition, InputEvidence | InputPotential):
        return f"{name}: what the input `{factor.definition.input}` says here"
    if factor.definition is not None:
        return f"{name}: {text}, which follows from another factor"
    if isinstance(factor.value, Map):
        return f"{name}: the {factor.domains[1]} of each {factor.domains[0]}, {_value(factor)}"
    blocks = factor.blocks
    if blocks is not None:
        text += f" within each block of `{blocks}`"
    return f"{name}: {text}, {_value(factor)}"


def _value(factor: Factor) -> str:
    value = factor.value
    if value is None:
        return "to be learned"
    if isinstance(value, Constant):
        return f"{float(value.number):g} everywhere"
    if isinstance(value, Uniform):
        return "uniform"
    if isinstance(value, Eye):
        return "1 where the two are equal, else 0"
    if isinstance(value, Load):
        return f"read from {value.path}"
    if isinstance(value, Map):
        return "1 for one value only" + (f", as {value.path} says" if value.path else "")
    assert isinstance(value, Table | Exp | Sparse)
    return "given"


def equation(grammar: Grammar, rule: Rule) -> str:
    """The term that a rule adds to the value of its nonterminal, as a line of mathematics."""
    sums = []
    variables = _free_indices(grammar, rule)
    if variables:
        sums.append("Σ_{" + ", ".join(variables) + "}")
    values = constants(grammar, rule.rhs)
    fixed = {c.attachment.node for c in rule.rhs.clamps if not c.attachment.path} | set(values)
    inner = [node.name for node in rule.rhs.internals if node.name not in fixed]
    if inner:
        sums.append("Σ_{" + ", ".join(inner) + "}")
    positions = {
        c.attachment.node: _position(c)
        for c in rule.rhs.clamps
        if not c.attachment.path and c.attachment.node not in rule.rhs.externals
    }
    written = {**values, **positions}
    factors = [_edge(edge, written) for edge in unfixed_edges(rule.rhs, values)]
    for clamp in rule.rhs.clamps:
        name = clamp.attachment.node
        touched = any(a.node == name for e in rule.rhs.edges for a in e.attachments)
        if clamp.attachment.path or name in rule.rhs.externals or not touched:
            node = ".".join((name, *clamp.attachment.path))
            factors.append(f"[{node} = {_position(clamp)}]")
    body = " · ".join(factors) or "1"
    head = Edge(
        label=rule.lhs,
        indices=rule.indices,
        attachments=tuple(Attachment(node=n) for n in rule.rhs.externals),
    )
    conditions = ", ".join(map(str, rule.conditions))
    text = f"{_edge(head, written)} += {' '.join([*sums, body])}"
    return f"{text}    for {conditions}" if conditions else text


def equations(grammar: Grammar) -> tuple[str, ...]:
    """The equations of all rules, in order."""
    return tuple(equation(grammar, rule) for rule in grammar.rules)


def _free_indices(grammar: Grammar, rule: Rule) -> list[str]:
    bound = {name for expr in rule.indices for name in expr.names()}
    exprs = [index for edge in rule.rhs.edges for index in edge.indices]
    exprs += [index for clamp in rule.rhs.clamps for index in clamp.indices]
    known = bound | set(grammar.size) | set(lengths(grammar))
    known |= {n for item in grammar.observed for e in item.shape for n in e.names()}
    return list(dict.fromkeys(n for expr in exprs for n in expr.names() if n not in known))


def _edge(edge: Edge, positions: dict[str, str]) -> str:
    nodes = [
        positions.get(a.node, a.node) + "".join(f".{part}" for part in a.path)
        for a in edge.attachments
    ]
    arguments = f"({', '.join(nodes)})" if nodes else ""
    return f"{edge.label}{_indices(edge.indices)}{arguments}"


def _position(clamp: Clamp) -> str:
    path = "".join(f".{name}" for name in clamp.path)
    return f"{clamp.input}{_indices(clamp.indices)}{path}"


def _indices(indices: Sequence[Expr]) -> str:
    return f"[{', '.join(map(str, indices))}]" if indices else ""


def parameter_count(grammar: Grammar, factor: Factor) -> int:
    """The number of weights of a factor; of its pieces if it has a rank."""
    sizes = [domain_size(grammar, domain) for domain in factor.domains]
    if factor.rank is None:
        return prod(sizes)
    rank = factor.rank.evaluate(size_values(grammar))
    assert rank is not None
    return rank * sum(sizes)


def is_learned(factor: Factor) -> bool:
    """Whether a factor is learned: it has no definition and is not frozen.

    Pieces are counted with the factor that they are the pieces of.
    """
    return factor.definition is None and not is_frozen(factor)


def free_parameters(grammar: Grammar, factor: Factor) -> int:
    """The number of non-redundant parameters of a factor that is to be learned.

    A distribution has one fewer than it has values, for each value of its left side; the pieces
    of a factor with a rank are distributions N -> R, R -> C, … or, for a potential, free.
    """
    if factor.value is not None or not is_learned(factor):
        return 0
    sizes = [domain_size(grammar, domain) for domain in factor.domains]
    given = factor.given
    if given is None:
        return parameter_count(grammar, factor)
    left, right = prod(sizes[:given]), sizes[given:]
    if factor.rank is None:
        return left * (prod(right) - 1)
    rank = factor.rank.evaluate(size_values(grammar))
    assert rank is not None
    return left * (rank - 1) + rank * sum(size - 1 for size in right)


def summary_lines(grammar: Grammar) -> list[str]:
    """A summary of a grammar in a few lines."""
    learned = [f for f in grammar.factors if f.value is None]
    free = sum(free_parameters(grammar, f) for f in learned)
    counts = [
        _count(len(grammar.domains), "domain"),
        _count(len(_written_factors(grammar)) + len(grammar.input_factors), "factor"),
        _count(len(grammar.nonterminals), "nonterminal"),
        _count(len(grammar.rules), "rule"),
    ]
    lines = [", ".join(counts) + f"; {_count(free, 'free parameter')}"]
    broken = [status for status in b_status(grammar) if not status.holds]
    lines.append("B-FGG: yes" if not broken else "B-FGG: no")
    lines += [f"  rule {status.rule}: {status.reason}" for status in broken[:10]]
    if len(broken) > 10:
        lines.append(f"  and {len(broken) - 10} more rules")
    lines += [f"query {query_signature(query)}" for query in grammar.queries]
    return lines


def query_signature(query: Query) -> str:
    """A query's name with its inputs."""
    inputs = [f"{i.name}: {i.domain}[{', '.join(map(str, i.shape))}]" for i in query.inputs]
    inputs += [
        f"factor {f.name}" + (f"[{', '.join(f.indices)}]" if f.indices else "")
        for f in query.input_factors
    ]
    inputs += [f"table {t.name}[{', '.join(map(str, t.shape))}]" for t in query.tables]
    return f"{query.name}({', '.join(inputs)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
