"""What an editor shows about the symbol under the pointer."""

from __future__ import annotations

from collections.abc import Callable

from fgg.check.describe import domain_in_words, equation, factor_in_words
from fgg.compiler.editing.symbols import Occurrence, Symbol
from fgg.compiler.syntax import tree
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar, Query, Rule
from fgg.grammar.domains import value_index
from fgg.grammar.printer import (
    print_domain,
    print_factor,
    print_input,
    print_input_factor,
    print_nonterminal,
    print_rule,
    print_table,
)
from fgg.lsp.analysis import Analysis
from fgg.rewrite.conjoin import conjoin

MAX_SHOWN = 400
MAX_EQUATIONS = 8


def hover_text(analysis: Analysis, occurrence: Occurrence, grammar: Grammar | None) -> str | None:
    """The text about a symbol, as Markdown; None if nothing is known about it."""
    symbol = occurrence.symbol
    if symbol.kind in ("index", "length"):
        what = "a length, known at run time" if symbol.kind == "length" else "an index variable"
        return f"`{symbol.name}`: {what}"
    if grammar is None:
        return f"{symbol.kind} `{symbol.name}`"
    describe = _DESCRIPTIONS.get(symbol.kind)
    try:
        return describe(analysis, symbol, grammar) if describe else None
    except (
        GrammarError,
        LookupError,
        StopIteration,
        AssertionError,
    ):  # it depends on something with an error
        return f"{symbol.kind} `{symbol.name}`"


def _code(text: str) -> str:
    shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + " …"
    return f"```fgg\n{shown}\n```"


def _size(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    from fgg.grammar.domains import size_values

    size = grammar.size[symbol.name]
    value = size_values(grammar)[symbol.name]
    return _code(f"size {size.name} = {size.value}") + (
        "" if str(size.value) == str(value) else f"\n= {value:,}"
    )


def _domain(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    domain = grammar.domain[symbol.name]
    return f"{_code(print_domain(domain))}\n{domain_in_words(grammar, domain)}"


def _factor(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    factor = grammar.factor[symbol.name]
    return f"{_code(print_factor(grammar, factor))}\n{factor_in_words(factor)}"


def _nonterminal(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    lines = [_code(print_nonterminal(grammar.nonterminal[symbol.name]))]
    rules = grammar.rules_of.get(symbol.name, ())
    return "\n".join([*lines, *_equations(grammar, rules)])


def _equations(grammar: Grammar, rules: tuple[Rule, ...]) -> list[str]:
    shown = [equation(grammar, rule) for rule in rules[:MAX_EQUATIONS]]
    more = [f"… and {len(rules) - MAX_EQUATIONS} more"] if len(rules) > MAX_EQUATIONS else []
    return ["```", *shown, *more, "```"] if shown else []


def _rule(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    rules = tuple(rule for rule in grammar.rules if rule.name == symbol.name)
    return "\n".join([_code(print_rule(grammar, rules[0])), *_equations(grammar, rules)])


def _node(analysis: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    start, statement = analysis.statements[int(symbol.owner)]
    assert isinstance(statement, tree.RuleDecl)
    if statement.name:
        rule = next(rule for rule in grammar.rules if rule.name == statement.name.text)
    else:
        place = start + statement.head.span.start
        rule = next(rule for rule in grammar.rules if rule.span and rule.span.start == place)
    return f"node `{symbol.name}: {rule.rhs.by_name[symbol.name].domain}`"


def _value(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    number = value_index(grammar, symbol.owner)[symbol.name]
    return f"value `{symbol.name}` of `{symbol.owner}`, number {number}"


def _query(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    joined = conjoin(grammar, grammar.query[symbol.name])
    return "\n".join([f"query `{symbol.name}`", *_equations(joined, joined.rules)])


def _owner(symbol: Symbol, grammar: Grammar) -> Grammar | Query:
    return grammar.query[symbol.owner] if symbol.owner else grammar


def _input(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    inputs = _owner(symbol, grammar).inputs
    return _code(print_input(next(i for i in inputs if i.name == symbol.name)))


def _input_factor(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    factors = [*grammar.input_factors, *(f for q in grammar.queries for f in q.input_factors)]
    factor = next(f for f in factors if f.name == symbol.name)
    return _code(print_input_factor(factor)) + "\nlog-potentials that are given at run time"


def _table(_: Analysis, symbol: Symbol, grammar: Grammar) -> str:
    tables = _owner(symbol, grammar).tables
    table = next(t for t in tables if t.name == symbol.name)
    return _code(print_table(table)) + "\nintegers for use in indices, given at run time"


_DESCRIPTIONS: dict[str, Callable[[Analysis, Symbol, Grammar], str]] = {
    "size": _size,
    "domain": _domain,
    "factor": _factor,
    "nonterminal": _nonterminal,
    "rule": _rule,
    "node": _node,
    "value": _value,
    "query": _query,
    "input": _input,
    "input factor": _input_factor,
    "table": _table,
}
