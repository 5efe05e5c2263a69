"""A grammar at a glance: counts, parameters, B-FGG status, queries."""

from __future__ import annotations

from math import prod

from fgg.check.bfgg import b_status
from fgg.grammar import Factor, Grammar, Query
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.options import is_frozen


def parameter_count(grammar: Grammar, factor: Factor) -> int:
    """The number of weights of a factor; of its pieces if it has a rank."""
    sizes = [domain_size(grammar, domain) for domain in factor.domains]
    if factor.rank is None:
        return prod(sizes)
    rank = factor.rank.evaluate(size_values(grammar))
    assert rank is not None
    return rank * sum(sizes)


def is_learned(factor: Factor) -> bool:
    """Whether nothing else gives a factor its weights: a tie, a slice, a product, an input.

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
    """A few lines that say what a grammar consists of."""
    learned = [f for f in grammar.factors if f.value is None]
    free = sum(free_parameters(grammar, f) for f in learned)
    counts = [
        _count(len(grammar.domains), "domain"),
        _count(len(grammar.factors) + len(grammar.input_factors), "factor"),
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
