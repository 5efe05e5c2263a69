"""Grammars for tests of the engine: from short texts, and random ones that are recursive."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fgg.compiler.resolve.load import loads
from fgg.grammar import Factor, Grammar, Nonterminal, Reference, Rule
from tests.generators.grammars import finite_grammars, fragment, some_nonterminals
from tests.generators.values import Namer, domains, factor, small_weights


def scalars(rules: str, **weights: float) -> Grammar:
    """A grammar without nodes: rules as `"S -> p S; S -> q"`, weights of factors by name.

    The heads are the nonterminals, the first one the start symbol.
    """
    bodies = [tuple(part.strip() for part in rule.split("->")) for rule in rules.split(";")]
    heads = dict.fromkeys(head for head, _ in bodies)
    lines = [f"factor {name}() = {weight!r}" for name, weight in weights.items()]
    lines += [f"nonterminal {name}()" for name in heads]
    lines += [f"start {next(iter(heads))}"]
    lines += [f"rule r{i}: {head} -> {body}" for i, (head, body) in enumerate(bodies)]
    return loads("\n".join(lines))


@st.composite
def started_anywhere(draw: DrawFn) -> Grammar:
    """Finite grammars whose start symbol may have external nodes."""
    grammar = draw(finite_grammars())
    start = draw(st.sampled_from(grammar.nonterminals))
    return replace(grammar, start=Reference(label=start.name))


@st.composite
def recursive_grammars(draw: DrawFn) -> Grammar:
    """Small grammars whose rules may use any nonterminal, with weights for everything."""
    namer = Namer(draw)
    base = Grammar(start=Reference(label=""), domains=domains(draw, namer, (), limit=3))
    factors = tuple(
        factor(draw, namer("f", "label"), base, weight=small_weights(), valued=True)
        for _ in range(draw(st.sampled_from((2, 3))))
    )
    found = some_nonterminals(draw, namer, base.domains, draw(st.sampled_from((1, 2, 3))))
    nonterminals = tuple(replace(n, domains=n.domains[:2]) for n in found)
    rules: list[Rule] = []
    labels: list[Factor | Nonterminal] = [*factors, *factors, *nonterminals]
    for nonterminal in nonterminals:
        for _ in range(draw(st.sampled_from((1, 2, 3)))):
            rhs = fragment(draw, base, nonterminal.domains, labels, max_edges=3, max_nodes=3)
            rules.append(Rule(name=namer("r", "rule"), lhs=nonterminal.name, rhs=rhs))
    return Grammar(
        start=Reference(label=draw(st.sampled_from(nonterminals)).name),
        domains=base.domains,
        factors=factors,
        nonterminals=nonterminals,
        rules=tuple(rules),
    )
