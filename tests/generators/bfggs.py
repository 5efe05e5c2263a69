"""Random grammars of the kind that rank space is for: B-FGGs of many shapes, and their neighbours.

Families over spans, chains, spans aligned to a second input and spans with a head, at times of two
kinds in one grammar; their nodes of atomic, union and product domains, now and then two of them.
Rules are leaves (words, input factors, nothing), steps, splits into two or three, and unary ones to
later families; some heads have an index that is a multiple of a variable. Some start symbols have
nodes. What joins a rule's nodes is one factor, several, or an explicit rank node; most of them have
a rank, many are used again elsewhere. Some nodes are touched by two nonterminals, some by input
factors. A grammar is written as text, so that a failing one can be read.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fgg.compiler import loads
from fgg.grammar import Grammar

T = TypeVar("T")

DOMAINS = (
    "domain T = 2\ndomain U = 3\ndomain A = 2\ndomain W = 2\ndomain C = T + U\ndomain L = T * A\n"
)
INPUTS = """input w: W[n]
input s: A[m]
input factor score[i](T) for 0 <= i <= n
input factor span[i, j]() for 0 <= i < j <= n
input factor bias[v](U) for 0 <= v < m
"""
# The indices of a family, its range, and the parts of a union or product that a factor may touch.
KINDS = {
    "span": ("i, j", "0 <= i < j <= n"),
    "chain": ("i", "0 <= i <= n"),
    "aligned": ("i, j, v", "0 <= i < j <= n, 0 <= v < m"),
    "headed": ("i, h, j", "0 <= i <= h < j <= n"),
}
LEAVES = {
    "span": ("i, i+1", "w[i]", ""),
    "chain": ("n", "", ""),
    "aligned": ("i, i+1, v", "w[i]", "s[v]"),
    "headed": ("i, i, i+1", "w[i]", ""),
}
# References of a rule, what may be observed in it, and its conditions.
STEPS = {
    "span": (
        (("i, k", "k, j"), "", "i < k < j"),
        (("i, k", "k, j"), "", "i < k < j"),
        (("i, k", "k, l", "l, j"), "", "i < k < l < j"),
        (("i+1, j"), "w[i]", "i + 1 < j"),
        (("i, j-1",), "", "i + 1 < j"),
    ),
    "chain": (
        (("i+1",), "w[i]", "i < n"),
        (("i+1",), "w[i]", "i < n"),
        (("i+1", "n"), "", "i < n"),
        (("j",), "", "i < j <= n"),
    ),
    "aligned": (
        (("i, k, u", "k, j, t"), "s[v]", "i < k < j, 0 <= u < m, 0 <= t < m"),
        (("i, k, v", "k, j, t"), "s[v]", "i < k < j, 0 <= t < m"),
        (("i, k, u", "k, j, t"), "", "i < k < j, 0 <= u < m, u <= t < m"),
        (("i+1, j, u"), "s[u]", "i + 1 < j, 0 <= u < m"),
    ),
    "headed": (
        (("i, h, k", "k, l, j"), "w[l]", "h < k <= l < j"),
        (("i, l, k", "k, h, j"), "w[h]", "i <= l < k <= h"),
        (("i, h, j-1",), "", "h < j - 1"),
    ),
}
# Rules of heads in which an index is a multiple of a variable: the head comes first.
STEPPED = {
    "span": (
        ("i, 2*k", ("i, k", "k, 2*k"), "", "i < k"),
        ("i, 2*i+1", ("i, i+1",), "w[i]", "0 < i"),
    ),
    "chain": (
        ("2*i", ("2*i+1",), "w[i]", "2*i < n"),
        ("2*i", ("3*i",), "w[i]", "0 < i, 3*i <= n"),
        ("n-2*i", ("n", "n-i"), "", "0 < i"),
    ),
    "aligned": (("i, j, 2*v", ("i, k, v", "k, j, 2*v"), "s[v]", "i < k < j, 0 <= v"),),
    "headed": (("i, 2*h, j", ("i, 2*h, j-1",), "", "2*h < j - 1"),),
}
# Cells of another kind that a rule of a head `i`, `i, j` and so on can use.
OTHERS = {
    ("span", "chain"): ("i", "j", "n"),
    ("aligned", "span"): ("i, j",),
    ("aligned", "chain"): ("i", "j"),
    ("headed", "span"): ("i, j", "h, j"),
    ("headed", "chain"): ("h", "i"),
}
TOPS = {
    "span": ("0, n", ""),
    "chain": ("0", ""),
    "aligned": ("0, n, v", "0 <= v < m"),
    "headed": ("0, h, n", "0 <= h < n"),
}


class Choose(Protocol):
    """Chooses one of several options."""

    def __call__(self, options: Sequence[T], /) -> T: ...


@dataclass
class Family:
    """A family: its name, its kind and the domains of its nodes."""

    name: str
    kind: str
    domains: tuple[str, ...]


@dataclass
class Writer:
    """Writes the declarations and rules of one grammar."""

    choose: Choose
    factors: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    families: list[Family] = field(default_factory=list)

    def maybe(self, one_in: int) -> bool:
        """Whether something happens that does one time in so many."""
        return self.choose([False] * (one_in - 1) + [True])

    def text(self) -> str:
        """The text of a grammar."""
        kinds = ["span", "span", "chain", "aligned", "headed"]
        for number in range(self.choose([1, 1, 2, 2, 3])):
            domains = self.choose([("T",), ("T",), ("U",), ("C",), ("L",), ("T", "U")])
            kind = self.choose(kinds) if not number else self.families[0].kind
            if number and self.maybe(4):
                kind = self.choose(["chain", "span"])
            self.families.append(Family(f"X{number}", kind, domains))
        for number, family in enumerate(self.families):
            self.leaf(family)
            for _ in range(self.choose([1, 2, 2, 3])):
                references, seen, conditions = self.choose(STEPS[family.kind])
                if isinstance(references, str):
                    references = (references,)
                mates = [f for f in self.families if f.kind == family.kind]
                children = [(self.choose(mates), at) for at in references]
                others = [
                    (later, at)
                    for later in self.families[number + 1 :]
                    for at in OTHERS.get((family.kind, later.kind), ())
                ]
                if others and self.maybe(2):
                    children.append(self.choose(others))
                self.rule(family, KINDS[family.kind][0], children, seen, conditions)
            if self.maybe(4):
                head, references, seen, conditions = self.choose(STEPPED[family.kind])
                mates = [f for f in self.families if f.kind == family.kind]
                self.rule(
                    family, head, [(self.choose(mates), at) for at in references], seen, conditions
                )
            mates = [f for f in self.families[number + 1 :] if f.kind == family.kind]
            if mates and self.maybe(2):
                at = KINDS[family.kind][0]
                self.rule(family, at, [(self.choose(mates), at)], "", "")
        first = self.families[0]
        start = f"{first.name}[{TOPS[first.kind][0]}]"
        if first.kind in ("span", "chain") and self.maybe(6):
            symbol = [f"start {start}"]
        else:
            symbol = ["nonterminal S()", "start S"]
            for _ in range(self.choose([1, 1, 2])):
                self.top(self.choose(self.families))
        lines = [DOMAINS, INPUTS, "rank R = 2", *(text for _, text in self.factors.values())]
        lines += symbol
        for f in self.families:
            indices, range_ = KINDS[f.kind]
            lines.append(f"nonterminal {f.name}[{indices}]({', '.join(f.domains)}) for {range_}")
        return "\n".join([*lines, *self.rules]) + "\n"

    def leaf(self, family: Family) -> None:
        """A rule without nonterminals: a word, an input factor, or nothing."""
        at, word, label = LEAVES[family.kind]
        nodes = {f"a{i}": d for i, d in enumerate(family.domains)}
        body = []
        for node in nodes:
            seen = [x for x in (word, label) if x and not self.maybe(4)]
            body.append(self.edge({node: nodes[node]}, seen, low=4))
            if nodes[node] in "TC" and self.maybe(4):
                body.append(f"score[i]({node}{'.T' if nodes[node] == 'C' else ''})")
        if "score[i]" in " ".join(body) and "i" not in at:
            body = [x.replace("score[i]", "score[n]") for x in body]
        self.rules.append(f"rule {family.name}[{at}]({', '.join(nodes)}) -> {' '.join(body)}")

    def top(self, family: Family) -> None:
        """A rule of the start symbol."""
        at, conditions = TOPS[family.kind]
        nodes = {f"a{i}": d for i, d in enumerate(family.domains)}
        body = [] if self.maybe(3) else [self.edge(nodes, [], low=3)]
        if family.kind == "headed" and self.maybe(2):
            body.append(self.edge(nodes, ["w[h]"], low=3))
        body.append(f"{family.name}[{at}]({', '.join(nodes)})")
        tail = f"   for {conditions}" if conditions else ""
        self.rules.append(f"rule S -> {' '.join(body)}{tail}")

    def rule(
        self,
        head: Family,
        at: str,
        children: Sequence[tuple[Family, str]],
        seen: str,
        conditions: str,
    ) -> None:
        """A rule with nonterminals."""
        outer = {f"a{i}": d for i, d in enumerate(head.domains)}
        inner: dict[str, str] = {}
        groups: list[dict[str, str]] = []
        edges: list[str] = []
        for number, (child, where) in enumerate(children):
            own: dict[str, str] = {}
            for place, domain in enumerate(child.domains):
                shared = [n for n, d in inner.items() if d == domain and n not in own]
                node = shared[0] if shared and self.maybe(8) else f"b{number}_{place}"
                own[node] = domain
            inner |= own
            groups.append(own)
            edges.append(f"{child.name}[{where}]({', '.join(own)})")
        observed = [seen] if seen and not self.maybe(4) else []
        body = self.joined(outer, inner, groups, observed)
        for node, domain in {**outer, **inner}.items():
            if self.maybe(9):
                body.append(self.edge({node: domain}, [], low=0))
            if domain == "T" and self.maybe(14):
                body.append(f"score[{at.split(',')[0]}]({node})")
            if domain == "U" and head.kind == "aligned" and self.maybe(8):
                body.append(f"bias[v]({node})")
        if head.kind == "span" and self.maybe(6):
            body.append(f"span[{at}]()")
        if self.maybe(12):
            body.append("(free: U)")
        tail = f"   for {conditions}" if conditions else ""
        names = ", ".join(outer)
        self.rules.append(f"rule {head.name}[{at}]({names}) -> {' '.join(body + edges)}{tail}")

    def joined(
        self,
        outer: dict[str, str],
        inner: dict[str, str],
        groups: Sequence[dict[str, str]],
        seen: list[str],
    ) -> list[str]:
        """What joins the nodes of a rule: one factor, several, or a rank node."""
        way = self.choose(["one", "one", "one", "one", "rank", "pairs", "each"])
        if way == "one":
            return [self.edge({**outer, **inner}, seen, low=1)]
        if way == "rank":
            found = [self.edge({**outer, "q": "R"}, seen, low=0)]
            for group in groups:
                found.append(self.edge({"q": "R", **group}, [], low=0))
            return found
        nodes = {**outer, **inner}
        if way == "each":
            first = next(iter(outer))
            found = [self.edge({first: outer[first], **inner}, seen, low=1)]
            return found + [self.edge({x: outer[x]}, [], low=0) for x in outer if x != first]
        found = [
            self.edge({one: nodes[one], two: nodes[two]}, [], low=1) for one, two in pairwise(nodes)
        ]
        first = next(iter(outer))
        return [*found, self.edge({first: outer[first]}, seen, low=0)]

    def edge(self, nodes: dict[str, str], seen: Sequence[str], *, low: int) -> str:
        """An edge of a factor, new or not; `low`: how often it has no rank (0: always)."""
        places, domains = [], []
        for node, domain in nodes.items():
            part = domain
            if domain == "C" and self.maybe(3):
                part = self.choose(["T", "U"])
            elif domain == "L" and self.maybe(4):
                part = self.choose(["T", "A"])
            places.append(node if part == domain else f"{node}.{part}")
            domains.append(part)
        for position in seen:
            places.append(position)
            domains.append("A" if position.startswith("s") else "W")
        return f"{self.factor(tuple(domains), low)}({', '.join(places)})"

    def factor(self, domains: tuple[str, ...], low: int) -> str:
        known = [name for name, (own, _) in self.factors.items() if own == domains]
        if known and self.maybe(3):
            return self.choose(known)
        name = f"f{len(self.factors)}"
        rank = ""
        if (
            len(domains) > 1
            and low
            and "R" not in domains
            and not self.maybe(4 if low == 1 else low)
        ):
            rank = f" rank {self.choose([1, 2, 3])}"
        elif len(domains) > 1 and low > 1 and self.maybe(low):
            rank = " rank 2"
        given = self.choose([1, 1, 1, None, 0]) if len(domains) > 1 else None
        arrow = ", ".join(domains)
        if given is not None:
            arrow = f"{', '.join(domains[:given])} -> {', '.join(domains[given:])}"
        self.factors[name] = (domains, f"factor {name}({arrow}){rank}")
        return name


def write_bfgg(seed: int) -> tuple[Grammar, str]:
    """The grammar that belongs to a number, and its text."""
    text = Writer(random.Random(seed).choice).text()
    return loads(text), text


@st.composite
def bfggs(draw: DrawFn) -> Grammar:
    """Grammars that are B-FGGs, or nearly."""

    def choose(options: Sequence[T]) -> T:
        return options[draw(st.integers(0, len(options) - 1))]

    return loads(Writer(choose).text())
