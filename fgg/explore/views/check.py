"""The editor: all diagnostics of a text, and what can be chosen about its grammar."""

from __future__ import annotations

from fgg.check.describe import summary_lines
from fgg.diagnostics import GrammarError
from fgg.explore.asked import Answer, Asked, Json, Send
from fgg.explore.problems import listed
from fgg.grammar import Enumerated, FromFile, Grammar, Input
from fgg.grammar.domains import domain_size, lengths, size_values
from fgg.rewrite.conjoin import conjoin

SHOWN_VALUES = 60
"""How many values of a domain the page proposes."""


def view(asked: Asked, send: Send) -> Answer:
    """The diagnostics; and if the grammar has no errors its sizes, queries and a summary."""
    diagnostics = asked.loaded.diagnostics
    answer: Answer = {"diagnostics": listed(diagnostics, asked.text), "ok": False}
    if asked.loaded.grammar is None or any(d.is_error for d in diagnostics):
        return answer
    grammar = asked.grammar
    return {
        **answer,
        "ok": True,
        "name": grammar.name,
        "sizes": adjustable_sizes(grammar),
        "queries": queries(grammar),
        "query": asked.query_name,
        "ranked": any(f.rank is not None for f in grammar.factors)
        or any(domain.rank for domain in grammar.domains),
        "summary": summary_lines(grammar),
    }


def adjustable_sizes(grammar: Grammar) -> list[Answer]:
    """The sizes that are plain numbers, with their values."""
    values = size_values(grammar)
    return [
        {"name": size.name, "value": values[size.name]}
        for size in grammar.sizes
        if not [*size.value.names()]
    ]


def queries(grammar: Grammar) -> list[Json]:
    """What is observed under each query; under the name None for a grammar without queries."""
    if not grammar.queries:
        return [{"name": None, **observed(grammar)}]
    answers: list[Json] = []
    for query in grammar.queries:
        try:
            answers.append({"name": query.name, **observed(conjoin(grammar, query))})
        except GrammarError as error:
            refused = error.diagnostics[0].message
            answers.append({"name": query.name, "inputs": [], "lengths": [], "refused": refused})
    return answers


def observed(source: Grammar) -> Answer:
    """The inputs and the lengths of a grammar joined with its query."""
    return {
        "inputs": [_input(source, item) for item in source.inputs],
        "factors": [item.name for item in source.input_factors],
        "tables": [item.name for item in source.tables],
        "lengths": sorted(lengths(source)),
    }


def _input(source: Grammar, item: Input) -> Json:
    shape = source.domain[item.domain].shape
    values = shape.values if isinstance(shape, Enumerated | FromFile) else ()
    return {
        "name": item.name,
        "shape": [str(extent) for extent in item.shape],
        "domain": item.domain,
        "size": domain_size(source, item.domain),
        "values": list(values[:SHOWN_VALUES]),
    }
