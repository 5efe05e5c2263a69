"""Random grammars that read positions of inputs more than once, and what missing tokens mean there.

Rules read tokens whole, by parts, by components and through maps, at positions that may be the
same, into nodes of their own and into external ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from fgg.compiler import loads
from fgg.grammar import Fragment, Grammar, Rule
from fgg.grammar.domains import domain_size
from fgg.inputs.tokens import MISSING
from fgg.rewrite.ground import ground
from tests.generators.indexed import Choose

DOMAINS = """
domain A = 2
domain B = {b}
domain M = 2
domain C = A + B
domain L = A * B
domain E = L + A
domain P = C * A
factor one(A -> M) = map({one})
factor two(A -> M) = map({two})
factor most(B -> C) = map({most})
"""

# What can be read of a token of each domain, and the domain that it has.
READINGS = {
    "A": {"": "A", ".one": "M", ".two": "M"},
    "B": {"": "B", ".most": "C", ".most.A": "A"},
    "C": {"": "C", ".A": "A", ".B": "B", ".A.one": "M", ".B.most": "C"},
    "L": {"": "L", ".A": "A", ".B": "B", ".A.one": "M", ".A.two": "M"},
    "E": {"": "E", ".L": "L", ".L.A": "A", ".L.B": "B", ".A": "A", ".A.two": "M"},
    "P": {"": "P", ".C": "C", ".A": "A", ".C.A": "A", ".A.one": "M"},
}
POSITIONS = {
    "begin": ("0", "n-1", "p", "q"),
    "step": ("i", "i", "i+1", "p", "0"),
    "last": ("i", "i", "p", "0"),
    "pair": ("i", "i", "j", "p", "0"),
    "two": ("i", "j", "p"),
}


class Writer:
    """Writes one grammar."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.token = choose(list(READINGS))
        self.factors: dict[str, tuple[str, ...]] = {}

    def rule(self, name: str, head: str, below: str, conditions: list[str]) -> str:
        """A rule that reads up to four times and goes on with `below`."""
        body, nodes = [below] if below else [], {"a": "A", "b": self.state}
        outer = [node for node in nodes if f"{node}, " in head or f"{node})" in head]
        for number in range(self.choose([1, 2, 2, 3, 4])):
            where = self.choose(POSITIONS[name])
            path = self.choose(list(READINGS[self.token]))
            domain = READINGS[self.token][path]
            node = f"v{number}"
            if not path and self.maybe():
                body.append(f"{self.factor(domain)}(x[{where}])")
                continue
            fitting = [name for name in outer if nodes[name] == domain]
            if fitting and self.maybe():
                node = self.choose(fitting)
            else:
                body.append(f"({node}: {domain}) {self.factor(domain)}({node})")
            body.append(f"{node} = x[{where}]{path}")
            if self.choose([True, False, False]):
                body.append(f"{self.factor(domain, 'A')}({node}, w[{self.choose(['0', 'n-1'])}])")
        shown = " ".join(body)
        conditions = conditions + [f"0 <= {v} < n" for v in "pq" if f"x[{v}]" in shown]
        tail = f" for {', '.join(conditions)}" if conditions else ""
        return f"rule {name}: {head} -> {shown}{tail}"

    def maybe(self) -> bool:
        return self.choose([True, False])

    def factor(self, *domains: str) -> str:
        name = "_".join(("f", *domains))
        self.factors[name] = domains
        return name

    def text(self) -> str:
        self.state = self.choose(["M", "A", "C", "L"])
        ones = self.choose(["0, 1", "1, 1", "0, 0"])
        b = self.choose([1, 2, 3])
        most = ", ".join(str(self.choose([0, 1, 2])) for _ in range(b))
        rules = [
            self.rule("begin", "S", "X[0](a, b)", ["n >= 1"]),
            self.rule("step", "X[i](a, b)", "X[i+1](a, c)", ["0 <= i < n-1"]),
            self.rule("last", "X[i](a, b)", "", ["i == n-1"]),
            self.rule("pair", "X[i](a, b)", "Y[i, j](b, a)", ["i <= j < n"]),
            self.rule("two", "Y[i, j](b, a)", "", ["0 <= i <= j < n"]),
        ]
        factors = [f"factor {name}({', '.join(d)})" for name, d in self.factors.items()]
        return "\n".join(
            [
                DOMAINS.format(b=b, one=ones, two=self.choose(["0, 1", "1, 0"]), most=most),
                f"input x: {self.token}[n]",
                "input w: A[n]",
                *factors,
                "nonterminal S()",
                f"nonterminal X[i](A, {self.state}) for 0 <= i < n",
                f"nonterminal Y[i, j]({self.state}, A) for 0 <= i <= j < n",
                "start S",
                *rules,
            ]
        )


def write_reading_grammar(choose: Choose) -> Grammar:
    """A grammar that reads positions more than once."""
    return loads(Writer(choose).text())


def written_out(grammar: Grammar, lengths: Mapping[str, int], inputs: Mapping[str, Any]) -> Grammar:
    """The ground grammar that missing tokens stand for: a rule for each way to read them.

    Every missing token gets every value, and of the rules of all these ground grammars those are
    kept that differ in what they say of the tokens that they read.
    """
    places = [
        (name, place)
        for name in grammar.input
        for place, token in enumerate(inputs[name])
        if token == MISSING
    ]
    sizes = [domain_size(grammar, grammar.input[name].domain) for name, _ in places]
    rules: dict[Any, Rule] = {}
    flat = ground(grammar, lengths=lengths, inputs=inputs)
    factors = {factor.name: factor for factor in flat.factors}
    nonterminals = {x.name: x for x in flat.nonterminals}
    for tokens in product(*map(range, sizes)):
        filled = {name: list(inputs[name]) for name in inputs}
        for (name, place), token in zip(places, tokens, strict=True):
            filled[name][place] = token
        known = ground(grammar, lengths=lengths, inputs=filled)
        nonterminals |= {x.name: x for x in known.nonterminals}
        for rule in known.rules:
            edges = []
            for edge in rule.rhs.edges:
                factor = known.factor.get(edge.label)
                if factor is not None and factor.name not in grammar.factor:
                    label = f"{edge.label} {factor.value}"
                    factors[label] = replace(factor, name=label)
                    edge = replace(edge, label=label)
                edges.append(edge)
            rhs = Fragment.make(rule.rhs.nodes, tuple(edges), (), rule.rhs.externals)
            new = replace(rule, name=f"rule {len(rules)}", rhs=rhs)
            rules.setdefault((rule.lhs, rule.origin, rhs), new)
    return replace(
        flat,
        factors=tuple(factors.values()),
        nonterminals=tuple(nonterminals.values()),
        rules=tuple(rules.values()),
    )
