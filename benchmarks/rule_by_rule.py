"""The value of a finite grammar as its definition has it: one contraction for each rule [CR §5]."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import domain_size
from fgg.runtime.program.bind import value_of

ROUNDS = 1000
CLOSE = 1e-13


class Evaluation:
    """A grammar whose equations are written out once; calling it computes its value.

    Without recursion each nonterminal is computed once, after those it needs. With recursion all
    are computed again and again from zero, until nothing changes by more than `CLOSE`.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.start = grammar.start.label
        self.rules: dict[str, list[tuple[str, list[str]]]] = {}
        for rule in grammar.rules:
            self.rules.setdefault(rule.lhs, []).append(equation(rule))
        self.constants = {
            f.name: torch.as_tensor(value_of(grammar, f.name)).double()
            for f in grammar.factors
            if f.value is not None
        }
        self.zeros = {
            n.name: torch.zeros([domain_size(grammar, d) for d in n.domains], dtype=torch.float64)
            for n in grammar.nonterminals
        }
        self.order, self.recursive = self._order()

    def _order(self) -> tuple[list[str], bool]:
        """The nonterminals after those they need, and whether one needs itself."""
        order: list[str] = []
        state: dict[str, int] = {}
        recursive = False
        stack = [(self.start, False)]
        while stack:
            name, done = stack.pop()
            if done:
                order.append(name)
                state[name] = 2
                continue
            if state.get(name):
                continue
            state[name] = 1
            stack.append((name, True))
            for child in {c for _, labels in self.rules[name] for c in labels if c in self.rules}:
                if state.get(child) == 1:
                    recursive = True
                elif child not in state:
                    stack.append((child, False))
        return order, recursive

    def __call__(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The value of the start symbol."""
        values: dict[str, Tensor] = {**self.constants, **weights}
        if not self.recursive:
            for name in self.order:
                values[name] = self._value(name, values)
            return values[self.start]
        values |= {name: self.zeros[name] for name in self.order}
        for _ in range(ROUNDS):
            new = {name: self._value(name, values) for name in self.order}
            change = max(float((new[n] - values[n]).detach().abs().max()) for n in new)
            values |= new
            if change < CLOSE:
                return values[self.start]
        raise AssertionError("the iteration does not converge")

    def _value(self, name: str, values: Mapping[str, Tensor]) -> Tensor:
        terms = [
            torch.einsum(text, *(values[label] for label in labels))
            for text, labels in self.rules[name]
        ]
        return torch.stack(terms).sum(0)


def equation(rule: Rule) -> tuple[str, list[str]]:
    """A rule as an equation of `einsum`, and the labels of its operands."""
    letters = {node.name: chr(ord("a") + i) for i, node in enumerate(rule.rhs.nodes)}
    operands = ["".join(letters[a.node] for a in e.attachments) for e in rule.rhs.edges]
    result = "".join(letters[name] for name in rule.rhs.externals)
    return f"{','.join(operands)}->{result}", [e.label for e in rule.rhs.edges]
