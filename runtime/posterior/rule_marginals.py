"""How often a rule is used, at each of its index points and with each value of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import did_you_mean, refuse
from fgg.grammar import Rule
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.grammar.slices import source_value
from fgg.plan import Plan, Potential, Step
from fgg.runtime.derive.assemble import Source
from fgg.runtime.interpret.algebra import Named
from fgg.runtime.interpret.batch import batch_of
from fgg.runtime.interpret.charts import Charts
from fgg.runtime.interpret.frame import Frame
from fgg.runtime.interpret.interpret import inside, outside
from fgg.runtime.interpret.prepare import checked_weights, tokens
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.program.inputs import Lengths
from fgg.runtime.reference.contract import contract

MAX_ENTRIES = 2**27
"""The most numbers that marginals of rules may be."""


@dataclass(frozen=True, repr=False)
class RuleMarginals:
    """How often a rule is used at each of its index points with each value of some nodes.

    `points` is `[number, variables]`, `values` is `[batch, number, *values of nodes]`.
    """

    rule: str
    variables: tuple[str, ...]
    nodes: tuple[str, ...]
    points: Tensor
    values: Tensor

    def __repr__(self) -> str:
        items, points = self.values.shape[:2]
        nodes = ", ".join(self.nodes)
        return f"RuleMarginals({self.rule!r}, nodes=({nodes}), {items} items, {points} points)"

    def at(self, **variables: int) -> Tensor:
        """The marginals at one point, `[batch, *values of nodes]`; 0 where the rule is not used."""
        if set(variables) != set(self.variables):
            message = f"rule `{self.rule}` has the index variables {', '.join(self.variables)}"
            refuse("F415", message)
        wanted = torch.tensor([variables[name] for name in self.variables], dtype=torch.long)
        here = (self.points == wanted).all(-1)
        return self.values[:, here].sum(1)


def rule_marginals(
    plan: Plan,
    weights: Mapping[str, Any],
    inputs: Mapping[str, Any],
    lengths: Lengths = None,
    *,
    rule: str,
    nodes: Sequence[str] | None = None,
    source: Source | None = None,
) -> RuleMarginals:
    """The expected uses of one of the user's rules, by index point and values of its nodes.

    `nodes` are the nodes whose values the result distinguishes; by default, all that are not
    clamped. In an HMM, the rule that goes from state to state has the pairwise marginals of
    neighbours.
    """
    source = source or Source.of(plan.grammar)
    if rule not in source.rule:
        help = did_you_mean(rule, source.rule)
        message = f"there is no rule `{rule}`"
        refuse("F415", message, help)
    asked = source.rule[rule]
    clamped = {clamp.attachment.node for clamp in asked.rhs.clamps}
    if nodes is None:
        nodes = [n.name for n in asked.rhs.nodes if n.name not in clamped]
    for name in nodes:
        if name not in asked.rhs.by_name:
            help = did_you_mean(name, asked.rhs.by_name)
            message = f"rule `{rule}` has no node `{name}`"
            refuse("F415", message, help)
    with torch.no_grad():
        real = checked_weights(plan, weights)
        charts = inside(plan, real, batch_of(plan, inputs, lengths), "log")
        return _Uses(charts, source, asked, tuple(nodes)).run()


class _Uses:
    """Collects the marginals of a rule from all rules of a plan that come from it."""

    def __init__(
        self, charts: Charts[Tensor], source: Source, rule: Rule, nodes: tuple[str, ...]
    ) -> None:
        self.charts = charts
        self.source = source
        self.rule = rule
        self.nodes = nodes
        self.outside = outside(charts)
        self.potentials = {
            p.factor: p.name for p in charts.plan.preparations if isinstance(p, Potential)
        }
        grammar = source.grammar
        self.sizes = [domain_size(grammar, rule.rhs.by_name[n].domain) for n in nodes]
        self.variables: tuple[str, ...] = ()
        self.rows: list[Any] = []
        self.items: list[Any] = []
        self.values: list[Any] = []

    def run(self) -> RuleMarginals:
        scope = self.charts.scope
        for stage in self.charts.plan.stages:
            for level in scope.levels(stage):
                for step in stage.steps:
                    frame = scope.frame(step, level)
                    if frame is not None and self.source.origin(step.rule).rule == self.rule.name:
                        self.variables = tuple(step.variables)
                        self.add(step, frame)
        size = self.charts.batch.size
        rank = len(self.variables)
        rows = np.concatenate(self.rows) if self.rows else np.zeros((0, rank), dtype=np.int64)
        unique, inverse = np.unique(rows, axis=0, return_inverse=True)
        if len(rows) and not rank:
            unique, inverse = np.zeros((1, 0), dtype=np.int64), np.zeros(len(rows), dtype=int)
        whole = np.zeros((size, len(unique), *self.sizes))
        if len(rows):
            place = (np.concatenate(self.items), inverse.reshape(-1))
            np.add.at(whole, place, np.concatenate(self.values))
        return RuleMarginals(
            self.rule.name,
            self.variables,
            self.nodes,
            torch.from_numpy(unique.astype(np.int64)),
            torch.from_numpy(whole),
        )

    def add(self, step: Step, frame: Frame) -> None:
        """Add the uses of one rule of the plan on one level."""
        origin = self.source.origin(step.rule)
        # A node of the plan can stand for several: those that read one missing token.
        leaves = (leaf for name in self.nodes for leaf in origin.nodes[name].nodes)
        kept = tuple(dict.fromkeys(leaves))
        logs = self.joint(step, frame, kept)
        shape = [frame.sizes[d] for d in frame.order]
        z = self.charts.z.reshape(self.charts.batch.size, -1).logsumexp(-1)
        safe = torch.where(torch.isfinite(z), z, float("inf"))
        uses = to_numpy((logs - safe.reshape((-1, *(1,) * len(kept)))).exp())
        uses = uses.reshape((prod(shape[:-1]), shape[-1], -1))
        live = np.argwhere(uses.any(-1))
        if not len(live):
            return
        used = uses[live[:, 0], live[:, 1]]
        grids = [np.broadcast_to(frame.evaluate(e)[0], shape) for e in step.variables.values()]
        flat = [grid.reshape(-1, shape[-1])[live[:, 0], live[:, 1]] for grid in grids]
        self.rows.append(np.stack(flat, 1) if flat else np.zeros((len(live), 0), dtype=np.int64))
        self.items.append(live[:, 1])
        whole = np.zeros((len(live), prod(self.sizes)))
        whole[:, self.entries(step, kept)] = used
        self.values.append(whole.reshape((-1, *self.sizes)))

    def entries(self, step: Step, kept: Sequence[str]) -> Any:
        """The flat place of each assignment of the plan's nodes among those of the user's."""
        grammar = self.source.grammar
        origin = self.source.origin(step.rule)
        sizes = [domain_size(grammar, step.rule.rhs.by_name[name].domain) for name in kept]
        places: list[int] = []
        for assignment in product(*map(range, sizes)):
            values = dict(zip(kept, assignment, strict=True))
            place = 0
            for name, size in zip(self.nodes, self.sizes, strict=True):
                node = origin.nodes[name]
                value = source_value(grammar, node.variant, [values[leaf] for leaf in node.nodes])
                place = place * size + value
            places.append(place)
        return places

    def joint(self, step: Step, frame: Frame, kept: Sequence[str]) -> Tensor:
        """The log-weight of all derivations by point, item and values of nodes."""
        charts, algebra = self.charts, self.charts.algebra
        grammar = charts.plan.grammar
        operands = []
        for edge in step.rule.rhs.edges:
            names = tuple(a.node for a in edge.attachments)
            if edge.label in grammar.factor:
                operands.append(algebra.named(charts.prepared.arrays[edge.label], _axes(names)))
                continue
            indices = [index.substitute(step.variables) for index in edge.indices]
            if edge.label in self.potentials:
                array = charts.prepared.arrays[self.potentials[edge.label]]
                low = (0,) * len(indices)
            else:
                array, low = charts.arrays[edge.label], charts.low[edge.label]
                indices = [indices[i] for i in charts.plan.chart[edge.label].stored]
            operands.append(self.read(frame, array, indices, low, names))
        for clamp in step.rule.rhs.clamps:
            token_ids = tokens(grammar, charts.batch, clamp.input, clamp.path)
            values = np.moveaxis(token_ids, 0, -1)[..., None]
            name = clamp.attachment.node
            size = domain_size(grammar, step.rule.rhs.by_name[name].domain)
            array = algebra.ones((values == np.arange(size)) | (values == -1))
            indices = [index.substitute(step.variables) for index in clamp.indices]
            operands.append(self.read(frame, array, indices, (0,) * len(indices), (name,)))
        above = self.outside.arrays[step.head]
        operands.append(
            self.read(frame, above, step.head_index, charts.low[step.head], step.head_axes)
        )
        masks = [mask.expr for mask in step.masks]
        operands.append(Named(algebra.ones(frame.holds(masks)), frame.dims(masks)))
        nodes = step.rule.rhs.nodes
        states = [domain_size(grammar, node.domain) for node in nodes]
        sizes = dict(zip(_axes(node.name for node in nodes), states, strict=True)) | frame.sizes
        out = (*frame.order, *_axes(kept))
        entries = prod(sizes[d] for d in out)
        if entries > MAX_ENTRIES:
            message = f"the marginals of rule `{self.rule.name}` would be {entries:,} numbers"
            help = "ask for fewer nodes"
            refuse("F420", message, help)
        result: Tensor = contract(
            algebra.semiring,
            [(x.array, algebra.letters(x.dims)) for x in operands],
            algebra.letters(out),
            dict(zip(algebra.letters(sizes), sizes.values(), strict=True)),
        )
        return result

    def read(
        self,
        frame: Frame,
        array: Any,
        index: Sequence[Expr],
        low: Sequence[int],
        names: Sequence[str],
    ) -> Named[Tensor]:
        """The cells of a chart or a table, over the loops, the batch and nodes."""
        algebra = self.charts.algebra
        place = frame.place(tuple(index), tuple(low), array.shape[: len(index)])
        return algebra.named(algebra.take(array, place), (*place.dims, *_axes(names)))


def _axes(nodes: Iterable[str]) -> tuple[str, ...]:
    """Nodes as axes, apart from loops of the same names."""
    return tuple(f".{name}" for name in nodes)
