"""Hypothesis strategies for indexed grammars that a compiler can nearly always schedule.

Families come in groups of one kind: chains, spans, spans with a head, pairs of positions, bounded
durations, single symbols. Within a group references go down (or up) as the kind allows, to later
groups they go anywhere. All else is left to chance: what rules touch, how often, in which order,
under which conditions, with which coefficients in indices. Some start symbols have nodes, some
factors a rank. A grammar is written as text, so that a failing one can be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fgg.compiler import load_text
from fgg.grammar import Grammar
from tests.generators.indexed_tables import (
    DESCENTS,
    DOMAINS,
    FACTORS,
    GUARDS,
    HEADS,
    INPUTS,
    PARTS,
    POTENTIALS,
    RANGES,
    STARTS,
    STEPPED,
    STEPS,
    TABLES,
)

T = TypeVar("T")


class Choose(Protocol):
    """Chooses one of several options, the first one where there is no reason for another."""

    def __call__(self, options: Sequence[T], /) -> T: ...


@dataclass
class Family:
    """A nonterminal family to be."""

    name: str
    kind: str
    states: tuple[str, ...]
    range: tuple[str, ...]
    group: int

    @property
    def indices(self) -> tuple[str, ...]:
        return RANGES[self.kind][0]


@dataclass
class Draft:
    """A rule under construction."""

    name: str
    head: str
    nodes: dict[str, str] = field(default_factory=dict)
    outer: int = 0
    body: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)  # conditions without which it is no rule
    likely: list[str] = field(default_factory=list)  # conditions that others may imply

    def text(self, *, strict: bool) -> str:
        conditions = dict.fromkeys([*self.needed, *(self.likely if strict else [])])
        inner = [f"({n}: {d})" for n, d in list(self.nodes.items())[self.outer :]]
        tail = f" for {', '.join(conditions)}" if conditions else ""
        return f"rule {self.name}: {self.head} -> {' '.join([*inner, *self.body])}{tail}"


def put_in(text: str, values: dict[str, str]) -> str:
    """Index expressions with variables replaced."""
    return re.sub(
        r"[a-z]+", lambda m: f"({values[m.group()]})" if m.group() in values else m.group(), text
    )


class Writer:
    """Writes one grammar."""

    def __init__(self, choose: Choose, lengths: Sequence[str] = ("n", "m")) -> None:
        self.choose = choose
        self.families: list[Family] = []
        self.rules: list[Draft] = []
        self.used: dict[str, None] = {}
        self.up: dict[int, bool] = {}
        self.start: str | None = None  # a family's own cell, if there is no symbol S

    def maybe(self, one_in: int) -> bool:
        return self.choose([False] * (one_in - 1) + [True])

    def states(self) -> tuple[str, ...]:
        return self.choose(
            [("T",), ("U",), (), ("T", "U"), ("C",), ("L",), ("T", "T"), ("E",), ("W", "T")]
        )

    def run(self) -> None:
        groups = self.choose([1, 2, 2, 3])
        for group in range(groups):
            kind = self.choose(
                ["chain", "span", "pair", "duration", "plain", "chain", "span", "headed"]
            )
            self.up[group] = self.maybe(3)
            ranges = RANGES[kind][1]
            for number in range(self.choose([1, 1, 2])):
                name = f"{'XYZ'[group]}{'' if not number else number}"
                family = Family(name, kind, self.states(), self.choose(ranges), group)
                self.families.append(family)
        first = self.families[0]
        if self.maybe(6):
            where = ", ".join(self.choose(STARTS[first.kind]))
            self.start = f"{first.name}[{where}]" if where else first.name
        for number in range(self.choose([1, 1, 2])):
            draft = Draft(f"start{number}", "S")
            indices = {
                "i": self.choose(["0", "0", "p", "n", "1"]),
                "j": self.choose(["n", "n", "m", "p"]),
                "h": self.choose(["0", "p", "n-1"]),
                "c": self.choose(["0", "p", "1", "dmax"]),
            }
            if first.kind == "chain" and self.up[first.group]:
                indices["i"] = self.choose(["n", "n-1", "p"])
            self.refer(draft, first, [indices[i] for i in first.indices])
            self.finish(draft, [])
        for family in self.families:
            for number in range(self.choose([2, 2, 3, 1])):
                self.rule(family, number)
            self.base(family)

    def base(self, family: Family) -> None:
        """A rule with which the recursion can end."""
        draft, variables = self.headed(family, "end", self.head(family))
        if self.maybe(2):
            self.factor(draft, evidence=variables if self.maybe(2) else None)
        self.bounded(draft, variables)

    def rule(self, family: Family, number: int) -> None:
        head = self.head(family) if number else HEADS[family.kind][0]
        draft, variables = self.headed(family, str(number), head)
        at = dict(zip(family.indices, head, strict=True))
        if not number or self.maybe(2):
            self.descend(draft, family, at)
        later = [f for f in self.families if f.group > family.group]
        for _ in range(self.choose([0, 0, 1, 1, 2])):
            if later:
                target = self.choose(later)
                self.refer(draft, target, [self.index(variables) for _ in target.indices])
        peers = [f for f in self.families if f.group == family.group and f.name > family.name]
        if peers and self.maybe(2):
            self.refer(draft, self.choose(peers), list(head))
        self.finish(draft, variables)

    def head(self, family: Family) -> Sequence[str]:
        """The indices of a head."""
        stepped = STEPPED[family.kind]
        return self.choose(stepped if stepped and self.maybe(4) else HEADS[family.kind])

    def headed(self, family: Family, name: str, head: Sequence[str]) -> tuple[Draft, Sequence[str]]:
        """A rule with a head, and the variables in it."""
        draft = Draft(f"{family.name}_{name}", "")
        outer = []
        for state in family.states:
            same = [n for n, d in draft.nodes.items() if d == state]
            if same and self.maybe(3):
                outer.append(same[0])
            else:
                name = f"a{len(draft.nodes)}"
                draft.nodes[name] = state
                outer.append(name)
        draft.outer = len(draft.nodes)
        draft.head = family.name
        if head:
            draft.head += f"[{', '.join(head)}]"
        draft.head += f"({', '.join(outer)})"
        variables = [v for v in dict.fromkeys(re.findall(r"[a-z]+", " ".join(head)))]
        variables = [v for v in variables if v not in ("n", "m", "k", "dmax")]
        return draft, variables

    def finish(self, draft: Draft, variables: Sequence[str]) -> None:
        """Add factors, evidence, conditions; bound what has no bounds yet."""
        for _ in range(self.choose([1, 0, 1, 2, 2, 3])):
            if len(draft.body) > 5:
                break
            kind = self.choose(["factor", "factor", "clamp", "potential", "evidence"])
            if kind == "factor":
                self.factor(draft)
            elif kind == "clamp":
                self.clamp(draft, variables)
            elif kind == "potential":
                name = self.choose(list(POTENTIALS))
                indices, states, range_ = POTENTIALS[name]
                self.use(draft, name, [self.index(variables) for _ in indices], states)
                self.inside(draft, indices, draft.last, range_)
            else:
                self.factor(draft, evidence=variables)
        if self.maybe(6):
            draft.nodes[f"u{len(draft.nodes)}"] = self.choose(["T", "W", "C"])
        for _ in range(self.choose([0, 0, 0, 1, 2])):
            guard = self.choose(GUARDS)
            if self.maybe(8):
                self.used["left"] = None
                guard = self.choose(["left[i] > i", "left[i] == 1", "left[i] <= n", "left[0] < 2"])
            names = set(re.findall(r"[a-z]+", guard)) - {"n", "m", "k", "dmax", "left"}
            if names <= set(variables):
                draft.needed.append(guard)
        self.bounded(draft, variables)

    def bounded(self, draft: Draft, variables: Sequence[str]) -> None:
        """Add a rule, its variables bounded."""
        shown = " ".join([draft.head, *draft.body])
        shown = " ".join(re.findall(r"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]", shown))
        for name in ("p", "q"):
            if name in re.findall(r"[a-z]+", shown) and not any(
                name in re.findall(r"[a-z]+", c) for c in draft.needed
            ):
                low = self.choose(["0", *variables, *(f"{v}+1" for v in variables)])
                high = self.choose(["n", "m", *variables, "dmax", *(f"{v}+2" for v in variables)])
                draft.needed += [f"{low} <= {name}", f"{name} <= {high}"]
        self.rules.append(draft)

    def descend(self, draft: Draft, family: Family, at: dict[str, str]) -> None:
        options = DESCENTS[family.kind]
        if not options:
            return
        references, conditions = self.choose(options)
        if self.up[family.group]:
            turned = self.turned(family.kind, references, conditions)
            if turned is not None:
                references, conditions = turned
        draft.needed += [put_in(c, at) for c in conditions]
        mates = [f for f in self.families if f.group == family.group]
        for reference in references:
            target = self.choose([family, *mates])
            self.refer(draft, target, [put_in(i, at) for i in reference])

    def turned(
        self, kind: str, references: Sequence[tuple[str, ...]], conditions: Sequence[str]
    ) -> tuple[list[tuple[str, ...]], list[str]] | None:
        """The same references the other way round."""
        if kind == "chain":
            if conditions:
                return [tuple("p" for _ in r) for r in references], ["0 <= p", "p < i"]
            return [tuple(x.replace("+", "-") for x in r) for r in references], []
        if kind == "pair":
            if conditions:
                return [("p", "j")], ["0 <= p", "p < i"]
            return [tuple(x.replace("+", "-") for x in r) for r in references], []
        if kind == "span" and not conditions and len(references) == 1:
            swap = {"i+1": "i-1", "j-1": "j+1"}
            return [tuple(swap.get(x, x) for x in r) for r in references], []
        return None

    def index(self, variables: Sequence[str]) -> str:
        """Any index expression."""
        options = [*variables, *variables, "0", "n", "p"]
        options += [f"{v}+1" for v in variables] + [f"{v}-1" for v in variables]
        options += ["n-1", "1", "m", "q"]
        if len(variables) > 1:
            options.append(f"{variables[1]}-{variables[0]}")
        if variables and self.maybe(8):
            return self.choose(STEPS).replace("i", self.choose(variables))
        if variables and self.maybe(12):
            self.used["left"] = None
            return f"left[{variables[0]}]"
        return self.choose(options)

    def refer(self, draft: Draft, target: Family, indices: Sequence[str]) -> None:
        self.use(draft, target.name, indices, target.states)
        self.inside(draft, target.indices, indices, target.range)

    def inside(
        self, draft: Draft, names: Sequence[str], indices: Sequence[str], range_: Sequence[str]
    ) -> None:
        """The conditions under which a reference lies in a range."""
        if any("[" in i for i in indices) and self.maybe(2):
            return  # known at run time only
        values = dict(zip(names, indices, strict=True))
        for condition in range_:
            (draft.likely if not any("[" in i for i in indices) else draft.needed).append(
                put_in(condition, values)
            )

    def use(self, draft: Draft, name: str, indices: Sequence[str], states: Sequence[str]) -> None:
        places = [self.touch(draft, state) for state in states]
        text = name + (f"[{', '.join(indices)}]" if indices else "")
        draft.body.append(f"{text}({', '.join(places)})")
        draft.last = list(indices)
        self.used[name] = None

    def touch(self, draft: Draft, domain: str) -> str:
        """A place for a domain: an old node, a part of one, or a new node."""
        places = [
            node + PARTS[own][domain] for node, own in draft.nodes.items() if domain in PARTS[own]
        ]
        if places and (len(draft.nodes) > 5 or not self.maybe(3)):
            return self.choose(places)
        owners = [d for d in PARTS if domain in PARTS[d]]
        owner = domain if not self.maybe(4) else self.choose(owners)
        name = f"u{len(draft.nodes)}"
        draft.nodes[name] = owner
        return name + PARTS[owner][domain]

    def factor(self, draft: Draft, evidence: Sequence[str] | None = None) -> None:
        names = list(FACTORS)
        if evidence is not None:
            names = [n for n in names if "W" in FACTORS[n]]
        name = self.choose(names)
        self.used[name] = None
        places = []
        for domain in FACTORS[name]:
            if evidence is not None and domain == "W" and not self.maybe(4):
                places.append(self.position("w" if not self.maybe(4) else "y", evidence))
            else:
                places.append(self.touch(draft, domain))
        draft.body.append(f"{name}({', '.join(places)})")

    def position(self, name: str, variables: Sequence[str]) -> str:
        self.used[name] = None
        indices = [self.index(variables) for _ in INPUTS[name][1]]
        return f"{name}[{', '.join(indices)}]"

    def clamp(self, draft: Draft, variables: Sequence[str]) -> None:
        name = self.choose(list(INPUTS))
        place = self.touch(draft, INPUTS[name][0])
        draft.body.append(f"{place} = {self.position(name, variables)}")

    def text(self, *, strict: bool, declared: bool, without: frozenset[str]) -> str:
        k, dmax, w = self.choose([2, 1, 3]), self.choose([1, 2]), self.choose([2, 3])
        lines = [DOMAINS.format(k=k, dmax=dmax, w=w)]
        rules = [
            r.text(strict=strict)
            for r in self.rules
            if r.name not in without and not (self.start and r.head == "S")
        ]
        words = set(re.findall(r"[a-z]+", " ".join(rules)))
        lines += [f"input {n}: {d}[{', '.join(s)}]" for n, (d, s) in INPUTS.items() if n in words]
        if not words & {"w", "v", "x", "z"}:
            lines.append("input w: W[n]")
        if not words & {"y", "g"}:
            lines.append("input y: W[m]")
        lines += [f"input table {n}[{', '.join(s)}]" for n, s in TABLES.items() if n in words]
        for name, (indices, states, range_) in POTENTIALS.items():
            if name in words:
                tail = f" for {', '.join(range_)}" if range_ else ""
                shown = f"[{', '.join(indices)}]" if indices else ""
                lines.append(f"input factor {name}{shown}({', '.join(states)}){tail}")
        for name, states in FACTORS.items():
            if name in words:
                rank = f" rank {self.choose([1, 2])}" if len(states) > 1 and self.maybe(6) else ""
                lines.append(f"factor {name}({', '.join(states)}){rank}")
        if self.start is None:
            lines.append("nonterminal S()")
        for family in self.families:
            shown = f"[{', '.join(family.indices)}]" if family.indices else ""
            tail = f" for {', '.join(family.range)}" if family.range and declared else ""
            lines.append(f"nonterminal {family.name}{shown}({', '.join(family.states)}){tail}")
        return "\n".join([*lines, f"start {self.start or 'S'}", *rules]) + "\n"


def write_grammar(choose: Choose) -> tuple[Grammar, str] | None:
    """A grammar and its text; None if chance made none."""
    writer = Writer(choose)
    writer.run()
    without: frozenset[str] = frozenset()
    strict, declared = writer.maybe(2), not writer.maybe(4)
    for _ in range(6):
        text = writer.text(strict=strict, declared=declared, without=without)
        grammar, diagnostics, _ = load_text(text)
        errors = [d for d in diagnostics if d.is_error]
        if grammar is not None and not errors:
            return grammar, text
        if any(d.code.startswith("F0") for d in errors):
            raise AssertionError(text + "".join(d.message for d in errors))
        known = {rule.name for rule in writer.rules}
        wrong = {
            name for d in errors for name in re.findall(r"rule `(\w+)`", d.message) if name in known
        }
        if not strict or not declared:
            strict = declared = True
        elif wrong - without:
            without |= wrong
        elif writer.start is not None:
            writer.start = None
        else:
            return None
    return None


@st.composite
def schedulable_grammars(draw: DrawFn) -> Grammar:
    """Indexed grammars of many kinds whose recursion goes down (or up) along the indices."""
    from hypothesis import assume

    found = write_grammar(lambda options: draw(st.sampled_from(options)))
    assume(found is not None)
    assert found is not None
    return found[0]
