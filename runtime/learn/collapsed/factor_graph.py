"""The factor graph of an item whose derivations all have one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar.domains import domain_size
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.learn.flat_layout import FlatLayout
from fgg.runtime.learn.item_batches import CheckedItems

Ints = NDArray[np.int64]
Node = tuple[int, str]
"""A node of a rule in the step of a number."""


@dataclass(frozen=True, eq=False)
class Use:
    """A use of a factor: its latent variables, and the entry for each of their values.

    `entries`, with an axis for each variable, are places in the flat layout of learned factors.
    """

    variables: tuple[int, ...]
    entries: Ints


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """The latent variables of an item by their numbers of values, and the uses of factors."""

    sizes: tuple[int, ...]
    uses: tuple[Use, ...]


def factor_graph(
    item: CheckedItems, weights: Mapping[str, Tensor], layout: FlatLayout
) -> FactorGraph:
    """The factor graph of an item. Raises GrammarError (F476) if derivations differ in shape.

    All factors of the item must be learned as whole factors, and all of their entries be possible.
    """
    program, inputs = item.program, item.collated
    lengths = dict(inputs.lengths) or None
    (best,) = program.posterior(weights, inputs.inputs, lengths).best()
    graph = _Reader(best, layout).graph()
    ones = {name: torch.ones_like(weight) for name, weight in weights.items()}
    known = {f.name for f in program.weighted.factors if f.value is not None}
    ones |= {name: weights[name] for name in known & set(weights)}
    log_number = float(program.log_z(ones, inputs.inputs, lengths)[0])
    if abs(log_number - sum(map(log, graph.sizes))) > 1e-6:
        message = f"the derivations of item {item.ids[0]} differ in more than the values of nodes"
        refuse("F476", message, "`cvb` sums over derivations of any shape")
    return graph


class _Reader:
    """Reads the variables and the uses of factors off one derivation."""

    def __init__(self, derivation: Derivation, layout: FlatLayout) -> None:
        self.derivation = derivation
        self.layout = layout
        self.same: dict[Node, Node] = {}
        self.observed: dict[Node, int] = {}

    def graph(self) -> FactorGraph:
        self.join()
        self.read()
        numbers: dict[Node, int] = {}
        sizes: list[int] = []
        uses: list[Use] = []
        for number, step in enumerate(self.derivation.steps):
            for node in step.rule.rhs.nodes:
                key = self.root((number, node.name))
                if key not in self.observed and key not in numbers:
                    numbers[key] = len(sizes)
                    sizes.append(domain_size(self.derivation.grammar, node.domain))
            for edge in step.rule.rhs.edges:
                if edge.label in self.derivation.grammar.nonterminal:
                    continue
                if any(a.path for a in edge.attachments):
                    _refuse_factor(edge.label)
                nodes = [self.root((number, a.node)) for a in edge.attachments]
                uses.append(self.use(edge.label, nodes, numbers))
        return FactorGraph(tuple(sizes), tuple(uses))

    def root(self, node: Node) -> Node:
        """The node that stands for all that are joined."""
        while node in self.same:
            node = self.same[node]
        return node

    def join(self) -> None:
        """Join the external nodes of steps with the nodes that they are attached to."""
        grammar = self.derivation.grammar
        for number, step in enumerate(self.derivation.steps):
            below = [e for e in step.rule.rhs.edges if e.label in grammar.nonterminal]
            for edge, child in zip(below, step.children, strict=True):
                outer = self.derivation.steps[child].rule.rhs.externals
                for attachment, name in zip(edge.attachments, outer, strict=True):
                    if attachment.path:
                        _refuse_factor(edge.label)
                    one, other = self.root((child, name)), self.root((number, attachment.node))
                    if one != other:
                        self.same[one] = other

    def read(self) -> None:
        """Note the values of nodes that are read from inputs."""
        for number, step in enumerate(self.derivation.steps):
            for reading in step.readings:
                at = reading.attachment
                if at is None or at.path or reading.path:
                    _refuse_factor(reading.input)
                self.observed[self.root((number, at.node))] = step.values[at.node]

    def use(self, label: str, nodes: list[Node], numbers: Mapping[Node, int]) -> Use:
        """A use of a factor at some nodes."""
        dists = self.layout.distributions.get(label)
        latent = [numbers[node] for node in nodes if node in numbers]
        if dists is None or len(set(latent)) < len(latent):
            _refuse_factor(label)
        entries = np.arange(dists.rows * dists.entries).reshape(dists.shape)
        at = tuple(self.observed.get(node, slice(None)) for node in nodes)
        return Use(tuple(latent), np.asarray(entries[at] + self.layout.first[label]))


def _refuse_factor(name: str) -> NoReturn:
    message = f"`{name}` is no whole learned factor between different nodes"
    refuse("F476", message, "`variable-cvb` needs factors that it learns, and no parts of values")
