"""A program's interface on the reference engine: for grammars that have no schedule.

Each item is grounded and solved separately. This is slow, but works for every finite grammar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar import Grammar, Nonterminal
from fgg.grammar.definitions import ProductOf, Slice
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Expr
from fgg.grammar.ranges import index_extents, regions
from fgg.inputs.written import WrittenWords
from fgg.rewrite.ground import ground_with_origin
from fgg.runtime.derive.align import with_readings
from fgg.runtime.derive.completed import Observed
from fgg.runtime.derive.decode_ground import k_best, sample
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.entries.factor_reader import whole_weights
from fgg.runtime.layer.traced_log_z import is_traced, traced_log_z
from fgg.runtime.posterior.posterior import Posterior, check_number
from fgg.runtime.program.bind import Logs
from fgg.runtime.program.inputs import Inputs, Lengths, check_named, collate
from fgg.runtime.program.parameters import as_weight
from fgg.runtime.program.program import Program, Weights
from fgg.runtime.reference.posterior import GroundPosterior, differentiable_log_z, posterior

if TYPE_CHECKING:
    from fgg.runtime.interpret.charts import AnyCharts
    from fgg.runtime.posterior.moments import Keep
    from fgg.runtime.posterior.rule_marginals import RuleMarginals


@dataclass(frozen=True, eq=False)
class Item:
    """The ground grammar of an item, its inputs, and log-potentials by the factors they became."""

    grammar: Grammar
    observed: Observed
    logs: Mapping[str, Logs]

    @property
    def lengths(self) -> Mapping[str, int]:
        """The lengths."""
        return self.observed.lengths

    def placed(self, derivation: Derivation) -> Derivation:
        """A derivation of the ground grammar as one of the item, which has inputs."""
        return with_readings(derivation, self.observed)

    def weights(self, numbers: Mapping[str, Tensor]) -> dict[str, Tensor | Logs]:
        """The weights of the ground grammar's factors, given those of the program."""
        return {n: w for n, w in numbers.items() if n in self.grammar.factor} | dict(self.logs)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReferenceProgram(Program):
    """A program that solves the ground grammar of each item; `notes` say why it is not compiled."""

    @property
    def whole_names(self) -> tuple[str, ...]:
        """The factors that a computation takes, those of declared rank whole or as pieces."""
        used = {e.label for rule in self.grammar.rules for e in rule.rhs.edges}
        for factor in self.grammar.factors:
            if factor.name in used and isinstance(factor.definition, Slice):
                used.add(factor.definition.source)
        made: set[str] = set()
        for factor in self.grammar.factors:
            if factor.name in used and isinstance(factor.definition, ProductOf):
                made.add(factor.name)
                used.update(factor.definition.sources)
        kept = [f for f in self.grammar.factors if f.name in used - made]
        return tuple(f.name for f in kept if not isinstance(f.definition, Slice))

    def items(self, inputs: Inputs, lengths: Lengths) -> list[Item]:
        """The ground grammar of each item of a batch, and its log-potentials in float64."""
        batch = collate(self.grammar, inputs or {}, lengths, dtype=torch.float64, device="cpu")
        items = []
        for number in range(batch.size):
            sizes = {name: values[number] for name, values in batch.lengths.items()}
            tensors = {}
            for name, tensor in batch.inputs.items():
                item = tensor[number]
                for axis, extent in enumerate(self.extents(name, sizes)):
                    item = item.narrow(axis, 0, min(extent, item.shape[axis]))
                tensors[name] = item
            given = {name: tensor.tolist() for name, tensor in tensors.items()}
            flat, origins = ground_with_origin(self.grammar, lengths=sizes, inputs=given)
            logs = {label: Logs(tensors[name][index]) for label, (name, index) in origins.items()}
            arrays = {item.name: tensors[item.name].numpy() for item in self.grammar.observed}
            items.append(Item(flat, Observed(self.grammar, sizes, arrays), logs))
        return items

    def extents(self, name: str, lengths: Mapping[str, int]) -> list[int]:
        """The extents of an input for an item's lengths; log-potentials are not cut."""
        shapes = {item.name: item.shape for item in self.grammar.observed}
        shape = shapes.get(name, ())
        known = {**size_values(self.grammar), **lengths}
        return [expr.evaluate(known) or 0 for expr in shape]

    def ends(self, family: str, lengths: Mapping[str, int]) -> list[int]:
        """How far a family's indices may go for an item's lengths; 0 where that is not known."""
        region = regions(self.grammar).get(family)
        if region is None:
            return [0] * len(self.grammar.nonterminal[family].indices)
        rows = region.rows([Expr.of(name) for name in region.indices], size_values(self.grammar))
        return [end or 0 for end in index_extents(self.grammar, region.indices, rows, lengths)]

    def refuse_charts(self) -> NoReturn:
        """Refuse (F425) what needs the plan of a compiled program."""
        reasons = "; ".join(note.message for note in self.notes)
        refuse("F425", f"this needs a compiled program; `{self.grammar.name}` has none", reasons)

    @property
    def compiled(self) -> NoReturn:
        """Refused (F425): a program on the reference engine has no plan."""
        self.refuse_charts()

    def log_z(self, weights: Weights, inputs: Inputs = None, lengths: Lengths = None) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials.

        It is computed in float64, and given as the weights are, or else the log-potentials.
        """
        check_named(weights, inputs)
        if is_traced():
            return traced_log_z(self, whole_weights(weights), inputs, lengths)
        return self.posterior(weights, inputs, lengths).log_z

    def posterior(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        words: WrittenWords | None = None,
    ) -> ReferencePosterior:
        """The distribution over derivations of every item: one value for all questions."""
        check_named(weights, inputs)
        return ReferencePosterior(self, whole_weights(weights), inputs, lengths, words)


@dataclass(frozen=True, eq=False, repr=False)
class ReferencePosterior(Posterior):
    """The posterior of a batch on the reference engine.

    Questions that are answered from charts (MBR, divergence, moments, marginals of rules) are
    refused (F425).
    """

    program: ReferenceProgram
    weights: Weights
    inputs: Inputs = None
    lengths: Lengths = None
    words: WrittenWords | None = None

    def __repr__(self) -> str:
        return f"Posterior({self.program.grammar.name!r}, items={len(self._items)})"

    @cached_property
    def _items(self) -> list[Item]:
        return self.program.items(self.inputs, self.lengths)

    @cached_property
    def _numbers(self) -> dict[str, Tensor]:
        """Weights of whole factors as plain numbers in float64."""
        return {name: w.detach() for name, w in self._tensors.items()}

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        """Weights of whole factors in float64 on the CPU, in the graph of derivatives."""
        checked = self.program.check_weights(self.weights)
        return {n: w.to(dtype=torch.float64, device="cpu") for n, w in checked.items()}

    @property
    def _like(self) -> Tensor:
        """A tensor of the type and the place that results have."""
        given = (*self.weights.values(), *(self.inputs or {}).values())
        floats = (x for x in given if isinstance(x, Tensor) and x.is_floating_point())
        return next(floats, torch.zeros((), dtype=torch.float64))

    @cached_property
    def log_z(self) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials."""
        each = [differentiable_log_z(x.grammar, x.weights(self._tensors)) for x in self._items]
        return torch.stack(each).to(dtype=self._like.dtype, device=self._like.device)

    @cached_property
    def counts(self) -> dict[str, Tensor]:
        """How often each entry of each factor is expected to be used, over the whole batch.

        Counts of input factors are for each item, `[batch, …]`. It is the gradient of log Z in
        log-weights.
        """
        names = self.program.grammar.input_factor
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: as_weight(n, w).clone().detach() for n, w in self.weights.items()}
            given = dict(self.inputs or {})
            logs = {n: torch.as_tensor(given[n]).detach().clone() for n in names if n in given}
            for leaf in (*leaves.values(), *logs.values()):
                leaf.requires_grad_()
            log_z = self.program.log_z(leaves, {**given, **logs}, self.lengths)
            if log_z.requires_grad:  # there are parameters or log-potentials
                torch.autograd.backward(log_z[torch.isfinite(log_z)].sum())
        counts = {n: x.grad for n, x in logs.items()}
        for name, w in leaves.items():
            counts[name] = None if w.grad is None else torch.where(w > 0, w.grad * w, 0.0)
        return {
            name: torch.zeros_like({**leaves, **logs}[name]) if x is None else x.detach()
            for name, x in counts.items()
        }

    @cached_property
    def _posteriors(self) -> list[GroundPosterior | None]:
        """The results of the reference engine for each item; None for one without derivations."""
        posteriors: list[GroundPosterior | None] = []
        for item, log_z in zip(self._items, self.log_z.tolist(), strict=True):
            weights = item.weights(self._numbers)
            posteriors.append(posterior(item.grammar, weights=weights) if log_z > -inf else None)
        return posteriors

    @cached_property
    def marginals(self) -> dict[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell and state.

        `[batch, *indices, *states]`; an index counts from 0. Items without derivations have 0.
        """
        uses = [{} if p is None else p.nonterminals for p in self._posteriors]
        return {
            family.name: self._chart(family, uses).to(self._like)
            for family in self.program.grammar.nonterminals
        }

    def _chart(self, family: Nonterminal, uses: Sequence[Mapping[str, Tensor]]) -> Tensor:
        """The expected counts of a family's cells, `[batch, *indices, *states]`."""
        cells = [
            (number, (cell.origin or (family.name, ()))[1], counts[cell.name])
            for number, (item, counts) in enumerate(zip(self._items, uses, strict=True))
            for cell in item.grammar.nonterminals
            if (cell.origin or (cell.name, ()))[0] == family.name and cell.name in counts
        ]
        cells = [cell for cell in cells if min(cell[1], default=0) >= 0]
        program = self.program
        ends = [program.ends(family.name, item.lengths) for item in self._items]
        ends += [[i + 1 for i in index] for _, index, _ in cells]
        extents = [max(axis) for axis in zip(*ends, strict=True)]
        states = [domain_size(program.grammar, domain) for domain in family.domains]
        table = torch.zeros((len(self._items), *extents, *states), dtype=torch.float64)
        for number, index, counts in cells:
            table[(number, *index)] = counts
        return table

    def k_best(self, number: int) -> list[list[Derivation]]:
        """The derivations of greatest weight of each item, at most `number`, best first."""
        check_number(number)
        return self._with_words(
            [x.placed(d) for d in k_best(x.grammar, number, weights=x.weights(self._numbers))]
            for x in self._items
        )

    def sample(
        self, number: int = 1, *, seed: int | torch.Generator | None = None
    ) -> list[list[Derivation]]:
        """Independent exact draws of derivations of each item."""
        check_number(number)
        if isinstance(seed, torch.Generator):
            seed = seed.initial_seed()
        generator = np.random.default_rng(seed)
        return self._with_words(
            [x.placed(d) for d in sample(x.grammar, number, weights=w, generator=generator)]
            for x, w in ((x, x.weights(self._numbers)) for x in self._items)
        )

    def entropy(self) -> Tensor:
        """The entropy of the derivations of each item, in nats, `[batch]`."""
        entropies = []
        for number, ground in enumerate(self._posteriors):
            if ground is None:
                refuse("F421", f"item {number} has no derivation of weight other than 0")
            entropies.append(ground.entropy)
        return torch.tensor(entropies, dtype=torch.float64).to(self._like)

    def _refuse_charts(self) -> NoReturn:
        self.program.refuse_charts()

    def mbr(
        self,
        *,
        families: Sequence[str] | None = None,
        states: bool | None = None,
        values: bool = True,
    ) -> list[Derivation]:
        """Refused (F425): it is read off the charts of a compiled program."""
        self._refuse_charts()

    def kl(self, other: Posterior) -> Tensor:
        """Refused (F425): it is read off the charts of a compiled program."""
        self._refuse_charts()

    def moments(self, keep: Keep, *, semiring: str = "real") -> Tensor:
        """Refused (F425): it is read off the charts of a compiled program."""
        self._refuse_charts()

    def rule_marginals(self, rule: str, nodes: Sequence[str] | None = None) -> RuleMarginals:
        """Refused (F425): it is read off the charts of a compiled program."""
        self._refuse_charts()

    def max_marginals(self) -> dict[str, Tensor]:
        """Refused (F425): it is read off the charts of a compiled program."""
        self._refuse_charts()

    def charts(self, semiring: str = "log") -> AnyCharts:
        """Refused (F425): there is no plan that has charts."""
        self._refuse_charts()
