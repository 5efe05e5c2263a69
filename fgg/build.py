"""Making grammars in Python instead of writing `.fgg` text.

A hidden Markov model and a query that observes a sentence `w` of `n` words:

    >>> from fgg.build import Builder, fix, symbols
    >>> b = Builder("hmm")
    >>> T, W = b.domain("T", 2), b.domain("W", ["the", "dog", "barks"])
    >>> init = b.factor("init", over=[T])
    >>> trans, emit = b.factor("trans", given=[T], over=[T]), b.factor("emit", given=[T], over=[W])
    >>> S, X = b.nonterminal("S"), b.nonterminal("X", [T])
    >>> b.rule("begin", S(), init("t"), X("t"))
    >>> b.rule("step", X("t"), emit("t", "o"), trans("t", "u"), X("u"))
    >>> b.rule("last", X("t"), emit("t", "o"))

    >>> i, n = symbols("i n")
    >>> q = b.query("sentence")
    >>> w = q.input("w", W, n)
    >>> q.rule("begin", S, X[0])
    >>> q.rule("step", X[i], X[i + 1], fix("o", w[i]), where=[i < n - 1])
    >>> q.rule("last", X[n - 1], fix("o", w[n - 1]))

    >>> grammar = b.grammar(start=S)
    >>> [rule.name for rule in grammar.rules]
    ['begin', 'step', 'last']

A node is a string; `"a.N"` is the part `N` of node `a`. `fgg.grammar.printer.print_grammar` writes
the grammar as text.
"""

from fgg.compiler.resolve.builder import (
    Builder,
    EdgeTerm,
    FixedNode,
    InputName,
    InputPosition,
    QueryBuilder,
    TableName,
    fix,
    symbols,
)

__all__ = [
    "Builder",
    "EdgeTerm",
    "FixedNode",
    "InputName",
    "InputPosition",
    "QueryBuilder",
    "TableName",
    "fix",
    "symbols",
]
