"""Hypothesis strategies for grammars with families, inputs, tables and queries.

They are made from templates: texts in which `<<a|b>>` stands for one of several ways to go on, all
of them valid. Every name is replaced by a random one, and nodes are renamed once more in the
grammar itself, so that all kinds of names meet all kinds of places.
"""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fgg.compiler import load_text
from fgg.diagnostics import render_all
from fgg.grammar import Attachment, Clamp, Fragment, Grammar, Rule
from fgg.grammar.index import RESERVED, quote_name
from tests.generators.values import Namer, names

KEYWORDS = RESERVED | {
    *("table", "uniform", "eye", "dirichlet", "prior", "frozen", "yes", "no", "net", "residual"),
    *("dim", "tied", "stationary", "blocks", "init"),
}

CHAIN = """
size k = <<1|2|3>>
domain T = <<k|2|k + 1|{a, b}>>
domain W = <<3|{x, y, "the z"}>>
input w: W[<<n|n + 1|2*n>>]
factor first(-> T)<<| = uniform| with tied = stationary(trans)>>
factor trans(T -> T)<<| = uniform| = eye| rank k| with prior = dirichlet(0.5), frozen = no>>
factor emit(T -> W)<<| = uniform| with net = residual(dim=256)>>
nonterminal S()
nonterminal X[i](T)<<| for 0 <= i <= n| for i >= 0, n >= i| for -1 < i < n + 1>>
start S
rule begin: S -> first(t) X[0](t)
rule step: X[i](t) -> trans(t, u) <<emit(u, w[i])|emit(u, o) o = w[i]|
  emit(u, o) emit(u, w[i]) o = w[i]|emit(u, w[i]) emit(t, w[i])|>> X[i+1](u)
  for <<0 <= i < n|i < n, i >= 0|-1 < i <= n - 1|n > i >= 0>>
<<rule skip: X[i](t) -> X[i+2](t) for 0 <= i, <<i + 2 <= n|i < n - 1|2*i + 4 <= 2*n>>
|>>rule end: X[n](t) -> <<|(v: W)|emit(t, v)>>
"""

SPANS = """
size a = 2
size b = <<1|2>>
domain N = a
domain P = b
domain C = N + P
domain W = <<3|{x, y}>>
input w: W[n]
factor root(-> N)
factor binary(N -> C, C)<<| rank a| = uniform>>
factor emit(P -> W)
nonterminal S()
nonterminal X[i, j](C)<<| for 0 <= i < j <= n| for i < j, 0 <= i, j <= n>>
start S
rule root: S -> root(s.N) X[0, n](s)
rule binary: X[i, j](s) -> binary(s.N, c, d) X[i, m](c) X[m, j](d) for i < m < j
rule word: X[i, i+1](s) -> emit(s.P, <<w[i])|o) o = w[i]>> <<|for 0 <= i < n>>
"""

PAIRS = """
domain Q = <<1|2|3>>
domain A = 2
input x: A[n]
input y: A[m]
factor both(Q -> A, A)
factor one(Q -> A)
factor next(Q -> Q)
nonterminal X[i, j](Q) for 0 <= i <= n, 0 <= j <= m
nonterminal S()
start S
rule begin: S -> X[0, 0](q)
rule match: X[i, j](q) -> both(q, <<x[i], y[j])|o, p) o = x[i] p = y[j]|o, y[j]) o = x[i]>>
  next(q, r) X[i+1, j+1](r) for i < n, j < m
rule left: X[i, j](q) -> one(q, x[i]) X[i+1, j](q) for i < n
rule right: X[i, j](q) -> one(q, y[j]) X[i, j+1](q) for <<m > j|j <= m - 1>>
rule end: X[n, m](q) ->
"""

TREES = """
domain T = <<1|2>>
domain W = 3
input w: W[m]
input table left[m]
input table right[<<m|m + 1>>]
factor binary(T -> T, T)
factor emit(T -> W)
nonterminal X[v](T) for 0 <= v < m
nonterminal S()
start S
rule top: S -> X[<<0|m - 1>>](t)
rule inner: X[v](t) -> binary(t, c, d) X[left[v]](c) X[right[v]](d)
  for left[v] > <<v, right[v] > v|v, v < right[v]>>
rule leaf: X[v](t) -> emit(t, w[v]) for <<left[v] < 0|left[v] == -1>>
"""

FIELD = """
size k = 2
domain T = <<2|{a, b, c}>>
domain W = 2
input w: W[n, n + <<1|k>>]
input factor phi[i](T, T) for <<0 <= i < n|n > i, i >= 0>>
input factor bias() <<|>>
nonterminal X[i](T) for 0 <= i <= n
start X[<<0|n|0*n>>]
rule step: X[i](t) -> phi[i](t, u) <<|bias()>> X[i+1](u) <<o = w[i, i]|(p: W) p = w[i, i+1]|>>
  <<(o: W)|(p: W)|(o: W) (p: W)>> for i < n
rule stop: X[n](t) ->
"""

QUERY = """
domain T = <<2|3>>
domain W = 3
domain L = T * W
factor first(-> T)
factor trans(T -> T)
factor emit(T -> W)
factor join(L)
nonterminal S()
nonterminal X(T)
nonterminal Z(L)
start S
rule begin: S -> first(t) X(t)
rule step: X(t) -> emit(t, o) trans(t, u) X(u)
rule last: X(t) -> emit(t, o) <<|join(l)|join(l) emit(l.T, l.W)>>
rule pair: Z(l) -> <<|(o: W)|emit(l.T, l.W)>>
query string(w: W[n]<<|, v: T[n]|, v: T[n + 1]>>) {
  <<|input table next[n]|input factor psi[i](T) for 0 <= i <= n>>
  <<|nonterminal X[i] for 0 <= i < n|nonterminal X[i] for i < n, i >= 0>>
  rule begin: S -> X[0]
  rule step: X[i] -> X[i+1] <<o = w[i]|>> for 0 <= i < n - 1
  rule last: X[n-1] -> <<o = w[n-1]>>
}
query <<prefix|all>> {
  input factor phi[i](T, T) for 0 <= i < n
  input x: W[n]
  nonterminal S[i] for 0 <= i <= <<n|1>>
  start S[0]
  rule begin: S[i] -> X for i < <<1|n>>
  rule step: X -> X phi[0](t, u)
  rule last: X -> o = x[n-1]
}
query nothing { rule begin: S -> X }
"""

_TEMPLATES = (CHAIN, SPANS, PAIRS, TREES, FIELD, QUERY)
_CHOICE = re.compile(r"<<((?:(?!<<|>>).)*)>>", re.DOTALL)
_NAME = re.compile(r'"[^"]*"|[^\W\d]\w*')


def _choose(draw: DrawFn, template: str) -> str:
    """The template with its alternatives decided, innermost first."""
    while (found := _CHOICE.search(template)) is not None:
        chosen = draw(st.sampled_from(found.group(1).split("|")))
        template = template[: found.start()] + chosen + template[found.end() :]
    return template


def _rename(draw: DrawFn, text: str) -> str:
    """The text with every name replaced by another one, different names by different ones."""
    namer = Namer(draw)
    new: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        name = match.group()
        if name in KEYWORDS or name.startswith('"'):
            return name
        if name not in new:
            new[name] = namer(name)
        return quote_name(new[name])

    return _NAME.sub(replaced, text)


@st.composite
def indexed_grammars(draw: DrawFn) -> Grammar:
    """Grammars with families, inputs, input factors, tables, conditions and queries."""
    text = _rename(draw, _choose(draw, draw(st.sampled_from(_TEMPLATES))))
    grammar, diagnostics, source = load_text(text)
    assert grammar is not None, text + render_all(diagnostics, source)
    if grammar.queries:  # they speak of the rules' nodes by name
        return grammar
    rules = tuple(
        draw(_renamed_nodes(rule, tuple(item.name for item in grammar.inputs)))
        for rule in grammar.rules
    )
    return replace(grammar, rules=rules)


@st.composite
def _renamed_nodes(draw: DrawFn, rule: Rule, inputs: tuple[str, ...]) -> Rule:
    """The rule with some nodes renamed, now and then as positions of inputs are called."""
    if draw(st.booleans()):
        return rule
    likely: SearchStrategy[str] = st.sampled_from(
        [f"{name}{number}" for name in (*inputs, "u") for number in ("", "2", "3")]
    )
    fresh = draw(
        st.lists(
            st.one_of(likely, names()),
            min_size=len(rule.rhs.nodes),
            max_size=len(rule.rhs.nodes),
            unique=True,
        )
    )
    new = {node.name: name for node, name in zip(rule.rhs.nodes, fresh, strict=True)}

    def touch(attachment: Attachment) -> Attachment:
        return replace(attachment, node=new[attachment.node])

    edges = tuple(
        replace(edge, attachments=tuple(map(touch, edge.attachments))) for edge in rule.rhs.edges
    )
    clamps: list[Clamp] = [replace(c, attachment=touch(c.attachment)) for c in rule.rhs.clamps]
    rhs = Fragment.make(
        tuple(replace(node, name=new[node.name]) for node in rule.rhs.nodes),
        edges,
        tuple(draw(st.permutations(clamps))),
        tuple(new[name] for name in rule.rhs.externals),
    )
    return replace(rule, rhs=rhs)
