"""Loading texts in tests of the front end: the grammar, or what is wrong with it."""

from __future__ import annotations

from fgg.compiler import load_text
from fgg.diagnostics import Diagnostic, render
from fgg.grammar import Grammar, Rule


def grammar_of(text: str, **sizes: int) -> Grammar:
    """Return the grammar of a text without errors."""
    grammar, diagnostics, source = load_text(text, "test.fgg", sizes=sizes)
    assert grammar is not None, "\n\n".join(render(d, source) for d in diagnostics)
    return grammar


def problems(text: str, **sizes: int) -> tuple[Diagnostic, ...]:
    """Return all diagnostics of a text."""
    grammar, diagnostics, _ = load_text(text, "test.fgg", sizes=sizes)
    assert (grammar is None) == any(d.is_error for d in diagnostics)
    return diagnostics


def problem(text: str, **sizes: int) -> Diagnostic:
    """Return the only diagnostic of a text."""
    diagnostics = problems(text, **sizes)
    assert len(diagnostics) == 1, [f"{d.code}: {d.message}" for d in diagnostics]
    return diagnostics[0]


def marked(text: str, diagnostic: Diagnostic) -> str:
    """Return the text that the carets of a message underline."""
    assert diagnostic.span is not None
    return text[diagnostic.span.start : diagnostic.span.end]


def domains(rule: Rule) -> dict[str, str]:
    """Return the domain of each node of a rule."""
    return {node.name: node.domain for node in rule.rhs.nodes}


MODEL = """
size k = 3
domain N = k
domain P = 2 * k
domain C = N + P
domain W = {the, dog, barks}
domain L = N * W
factor root(-> N)
factor binary(N -> C, C)
factor emit(P -> W)
factor head(N, W)
nonterminal S()
nonterminal X(C)
start S
rule root:   S    -> root(a.N) X(a)
rule binary: X(a) -> binary(a.N, b, c) X(b) X(c)
rule word:   X(a) -> emit(a.P, o)
"""

QUERY = """
query string(w: W[n]) {
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,k2] X[k2,j]   for i < k2 < j
  rule word:   X[i,i+1] -> o = w[i]
}
"""

USE_HEAD = "rule lex: X(a) -> head(l.N, l.W) (l: L)\n"
