"""Library grammars with their plans, and random inputs for them, of one length or of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgg.compiler.passes.fold import fold
from fgg.compiler.passes.split import split
from fgg.compiler.plan.lower import plan
from fgg.compiler.resolve.load import load, loads
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size, lengths, size_values
from fgg.grammar.provenance import traced
from fgg.library import library_names
from fgg.plan import Plan
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.ground import ground
from fgg.runtime.derive.assemble import Source
from fgg.runtime.program.bind import bind

# Nodes that are external twice, or touched twice by an edge, or by none; a variable of no use.
ODD = """
size k = 3
domain T = k
factor f(T, T)
factor g(T)
nonterminal S()
nonterminal X[i](T, T) for 0 <= i <= n
input w: T[n]
start S
rule all:    S         -> X[n](a, b)
rule first:  X[0](a, a) -> g(a)
rule twice:  X[i](a, b) -> X[i-1](c, c) f(a, b)                 for 0 < i <= n
rule free:   X[i](a, b) -> (v: T) X[i-1](a, b) g(a)              for 0 < i <= n
rule turned: X[i](a, b) -> X[i-1](b, a) f(a, a) g(o) o = w[i-1]  for 0 <= k < i <= n
"""

# Positions and conditions that a table decides.
TABLED = """
domain T = 2
domain W = 3
factor init(-> T)
factor trans(T -> T)
factor emit(T -> W)
nonterminal S()
nonterminal X[i](T) for 0 <= i < n
input w: W[n]
input table back[n]
start S
rule end:   S       -> X[n-1](t)
rule first: X[0](t) -> init(t) emit(t, o) o = w[0]
rule step:  X[i](u) -> X[i-1](t) trans(t, u) emit(u, o) o = w[i]        for 0 < i < n
rule jump:  X[i](u) -> X[i-2](t) trans(t, u) emit(u, o) o = w[back[i]]  for 1 < i < n, back[i] >= 1
"""

OWN = {"odd": ODD, "tabled": TABLED}
SIZES = {"k": 2, "d": 3, "nt": 2, "pt": 2, "words": 3, "r": 2, "labels": 2, "tags": 2, "dmax": 3}
SIZES |= {"lmax": 2, "substrings": 4, "h": 2, "letters": 2}

CASES: list[tuple[str, str | None]] = [
    (name, query)
    for name in library_names()
    for query in ([q.name for q in load(name).queries] or (None,))
    if name != "branching" and (name, query) != ("pcfg_la", "tree")  # these have no schedule
] + [(name, None) for name in OWN]


@dataclass(frozen=True)
class Case:
    """A grammar as users see it, its plans, and random weights."""

    name: str
    grammar: Grammar
    plan: Plan
    folded: Plan
    source: Source
    grounded: dict[int, Grammar] = field(default_factory=dict)

    def weights(self, *, seed: int = 1, exactly: bool = False) -> dict[str, Any]:
        return bind(self.grammar, seed=seed, exactly=exactly)

    def item(self, n: int) -> tuple[dict[str, int], dict[str, Any]]:
        """Lengths and inputs of one item; some tokens are missing."""
        rng = np.random.default_rng(n)
        grammar = self.grammar
        names = sorted(lengths(grammar), reverse=True)
        own = {name: max(1, n - number) for number, name in enumerate(names)}
        inputs: dict[str, Any] = {}
        values = {**size_values(grammar), **own}
        for item in grammar.inputs:
            shape = [item_extent.evaluate(values) or 0 for item_extent in item.shape]
            tokens = rng.integers(0, domain_size(grammar, item.domain), size=shape)
            inputs[item.name] = np.where(rng.random(shape) < 0.15, -1, tokens)
        for table in grammar.tables:
            shape = [extent.evaluate(values) or 0 for extent in table.shape]
            inputs[table.name] = rng.integers(0, 3, size=shape)
        extents: dict[str, tuple[int, ...]] = {"score": (n,), "root": (n,), "arc": (n, n)}
        extents["allowed"] = (n, n + 1)
        if self.name in ("semicrf", "ctc"):
            extents["score"] = (n, n + 1 if self.name == "semicrf" else 3)
        for factor in grammar.input_factors:
            states = [domain_size(grammar, d) for d in factor.domains]
            inputs[factor.name] = rng.normal(size=(*extents[factor.name], *states))
        return own, inputs

    def ground(self, n: int) -> Grammar:
        """The ground grammar of one item, made once."""
        if n not in self.grounded:
            own, inputs = self.item(n)
            listed = {name: value.tolist() for name, value in inputs.items()}
            self.grounded[n] = ground(self.grammar, lengths=own, inputs=listed)
        return self.grounded[n]

    def batch(self, sizes: Sequence[int]) -> tuple[dict[str, Any], dict[str, list[int]]]:
        """Inputs and lengths of several items."""
        items = [self.item(n) for n in sizes]
        inputs = {name: padded([i[name] for _, i in items]) for name in items[0][1]}
        return inputs, {name: [own[name] for own, _ in items] for name in items[0][0]}


def padded(arrays: Sequence[NDArray[Any]]) -> torch.Tensor:
    """Arrays of different extents as one, padded with 0."""
    shape = [max(a.shape[axis] for a in arrays) for axis in range(arrays[0].ndim)]
    found = np.zeros((len(arrays), *shape), dtype=arrays[0].dtype)
    for number, array in enumerate(arrays):
        place: Any = (number, *(slice(0, extent) for extent in array.shape))
        found[place] = array
    return torch.from_numpy(found)


@cache
def case(name: str, query: str | None) -> Case:
    """A case by name, with sizes of two or three."""
    grammar = loads(OWN[name]) if name in OWN else load(name)
    if name not in OWN:
        sizes = {k: v for k, v in SIZES.items() if k in grammar.size}
        grammar = load(name, sizes=sizes)
    if query is not None:
        grammar = conjoin(grammar, grammar.query[query])
    atomic = split(traced(grammar))
    return Case(name, grammar, plan(atomic), plan(fold(atomic)), Source(grammar))


def needed(weights: Mapping[str, Any], grammar: Grammar) -> dict[str, Any]:
    """The weights of the factors that a ground grammar still has."""
    return {name: w for name, w in weights.items() if name in grammar.factor}
