"""A program's interface on the reference engine: for grammars that have no schedule.

Each item is grounded and solved on its own. Slow, but every finite grammar can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, refuse
from fgg.factors.product_factors import joint_of
from fgg.grammar import Grammar, Nonterminal
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Expr
from fgg.grammar.ranges import index_extents, regions
from fgg.grammar.slices import slice_of
from fgg.rewrite.ground import ground_with_origin
from fgg.runtime.derive.decode_ground import k_best, sample
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.program.bind import Logs
from fgg.runtime.program.inputs import Lengths, collate
from fgg.runtime.program.program import Asked, Program
from fgg.runtime.reference.posterior import differentiable_log_z, posterior

Inputs = Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Item:
    """The ground grammar of an item, its lengths, and log-potentials by the factors they became."""

    grammar: Grammar
    lengths: Mapping[str, int]
    logs: Mapping[str, Logs]

    def weights(self, numbers: Mapping[str, Tensor]) -> dict[str, Any]:
        """The weights of the ground grammar's factors, given those of the program."""
        return {n: w for n, w in numbers.items() if n in self.grammar.factor} | dict(self.logs)


class ReferenceProgram(Program):
    """A grammar with its query, solved item by item; `notes` say why it is not compiled.

    Log Z, gradients, expected counts, marginals of families, best derivations and draws are as
    those of a compiled program. What needs charts (MBR, entropy, moments) raises GrammarError
    (F425).
    """

    def __init__(
        self,
        grammar: Grammar,
        notes: tuple[Diagnostic, ...],
        asked: Asked | None = None,
        *,
        decomposed: Grammar | None = None,
    ) -> None:
        object.__setattr__(self, "grammar", grammar)
        object.__setattr__(self, "notes", notes)
        object.__setattr__(self, "asked", asked)
        object.__setattr__(self, "decomposed", decomposed)
        object.__setattr__(self, "pins", {})

    def __getattr__(self, name: str) -> Any:
        if name in ("plan", "tree_plan", "origins", "source", "module"):
            refuse(
                "F425",
                f"this needs a compiled program; `{self.grammar.name}` has none",
                "; ".join(note.message for note in self.notes),
            )
        raise AttributeError(name)

    def __reduce__(self) -> Any:
        make = partial(ReferenceProgram, decomposed=self.decomposed)
        return make, (self.grammar, self.notes, self.asked)

    def __repr__(self) -> str:
        return f"ReferenceProgram({self.grammar.name!r})"

    @property
    def names_if_missing(self) -> set[str]:
        """None: all factors are taken anyway."""
        return set()

    @property
    def whole_names(self) -> tuple[str, ...]:
        """The factors that a computation takes, those of declared rank whole or as pieces."""
        used = {e.label for rule in self.grammar.rules for e in rule.rhs.edges}
        for factor in self.grammar.factors:
            cut = slice_of(factor)
            if factor.name in used and cut is not None:
                used.add(cut.source)
        made: set[str] = set()
        for factor in self.grammar.factors:
            joint = joint_of(factor)
            if factor.name in used and joint is not None:
                made.add(factor.name)
                used |= {part.source for part in joint.parts}
        kept = [f for f in self.grammar.factors if f.name in used - made and slice_of(f) is None]
        return tuple(f.name for f in kept)

    def numbers(self, weights: Mapping[str, Any]) -> dict[str, Tensor]:
        """Weights of whole factors as plain numbers in float64, checked."""
        found = self.check_weights(weights)
        return {n: w.detach().to(dtype=torch.float64, device="cpu") for n, w in found.items()}

    def items(self, inputs: Inputs, lengths: Lengths) -> list[Item]:
        """The ground grammar of each item of a batch, and its log-potentials in float64."""
        batch = collate(self.grammar, inputs or {}, lengths, dtype=torch.float64, device="cpu")
        found = []
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
            found.append(Item(flat, sizes, logs))
        return found

    def extents(self, name: str, lengths: Mapping[str, int]) -> list[int]:
        """The extents of an input for an item's lengths; log-potentials are not cut."""
        shapes = {item.name: item.shape for item in self.grammar.observed}
        shape = shapes.get(name, ())
        known = {**size_values(self.grammar), **lengths}
        return [expr.evaluate(known) or 0 for expr in shape]

    def log_z(
        self, weights: Mapping[str, Tensor], inputs: Inputs = None, lengths: Lengths = None
    ) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials.

        It is computed in float64, and given as the weights are, or else the log-potentials.
        """
        weights = self.check_weights(weights)
        given = [*weights.values(), *(inputs or {}).values()]
        floats = (x for x in given if isinstance(x, Tensor) and x.is_floating_point())
        like = next(floats, torch.zeros((), dtype=torch.float64))
        numbers = {name: w.to(dtype=torch.float64, device="cpu") for name, w in weights.items()}
        found = [
            differentiable_log_z(item.grammar, item.weights(numbers))
            for item in self.items(inputs, lengths)
        ]
        return torch.stack(found).to(dtype=like.dtype, device=like.device)

    def expected_counts(
        self, weights: Mapping[str, Tensor], inputs: Inputs = None, lengths: Lengths = None
    ) -> dict[str, Tensor]:
        """How often each entry of each factor is expected to be used, over the whole batch.

        Input factors too, item by item. It is the gradient of log Z in log-weights.
        """
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
            potentials = {
                name: torch.as_tensor(value).detach().clone().requires_grad_()
                if name in self.grammar.input_factor
                else value
                for name, value in (inputs or {}).items()
            }
            log_z = self.log_z(leaves, potentials, lengths)
            if log_z.requires_grad:  # there are parameters or log-potentials
                torch.autograd.backward(log_z[torch.isfinite(log_z)].sum())
        counts = {
            name: torch.zeros_like(w) if w.grad is None else torch.where(w > 0, w.grad * w, 0.0)
            for name, w in leaves.items()
        }
        for name in self.grammar.input_factor:
            value = potentials[name]
            counts[name] = torch.zeros_like(value) if value.grad is None else value.grad
        return {name: count.detach() for name, count in counts.items()}

    def marginals(
        self, weights: Mapping[str, Tensor], inputs: Inputs = None, lengths: Lengths = None
    ) -> dict[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell and state.

        `[batch, *indices, *states]`; an index counts from 0. Items without derivations have 0.
        """
        numbers = self.numbers(weights)
        items = self.items(inputs, lengths)
        counted: list[Mapping[str, Tensor]] = []
        for item in items:
            own = item.weights(numbers)
            log_z = differentiable_log_z(item.grammar, own)
            some = bool(log_z > -inf)
            counted.append(posterior(item.grammar, weights=own).nonterminals if some else {})
        like = next(iter(weights.values()), torch.zeros((), dtype=torch.float64))
        return {
            family.name: self.chart(family, items, counted).to(like)
            for family in self.grammar.nonterminals
        }

    def chart(
        self, family: Nonterminal, items: Sequence[Item], counted: Sequence[Mapping[str, Tensor]]
    ) -> Tensor:
        """The expected counts of a family's cells, `[batch, *indices, *states]`."""
        cells = [
            (number, (cell.origin or (family.name, ()))[1], counts[cell.name])
            for number, (item, counts) in enumerate(zip(items, counted, strict=True))
            for cell in item.grammar.nonterminals
            if (cell.origin or (cell.name, ()))[0] == family.name and cell.name in counts
        ]
        cells = [cell for cell in cells if min(cell[1], default=0) >= 0]
        ends = [self.ends(family.name, item.lengths) for item in items]
        ends += [[i + 1 for i in index] for _, index, _ in cells]
        extents = [max(axis) for axis in zip(*ends, strict=True)]
        states = [domain_size(self.grammar, domain) for domain in family.domains]
        found = torch.zeros((len(items), *extents, *states), dtype=torch.float64)
        for number, index, counts in cells:
            found[(number, *index)] = counts
        return found

    def ends(self, family: str, lengths: Mapping[str, int]) -> list[int]:
        """How far a family's indices may go for an item's lengths; 0 where that is not known."""
        region = regions(self.grammar).get(family)
        if region is None:
            return [0] * len(self.grammar.nonterminal[family].indices)
        rows = region.rows([Expr.of(name) for name in region.indices], size_values(self.grammar))
        return [end or 0 for end in index_extents(self.grammar, region.indices, rows, lengths)]

    def decode(
        self,
        weights: Mapping[str, Any],
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        method: str = "viterbi",
        families: Sequence[str] | None = None,
        states: bool | None = None,
    ) -> list[Derivation]:
        """The derivation of greatest weight of each item; `mbr` needs charts."""
        if method != "viterbi":
            return super().decode(
                weights, inputs, lengths, method=method, families=families, states=states
            )
        return [found[0] for found in self.k_best(weights, inputs, lengths, number=1)]

    def k_best(
        self,
        weights: Mapping[str, Any],
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        number: int,
    ) -> list[list[Derivation]]:
        """The derivations of greatest weight of each item, best first."""
        numbers = self.numbers(weights)
        return [
            k_best(item.grammar, number, weights=item.weights(numbers))
            for item in self.items(inputs, lengths)
        ]

    def sample(
        self,
        weights: Mapping[str, Any],
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        number: int = 1,
        seed: int | torch.Generator | None = None,
    ) -> list[list[Derivation]]:
        """Independent draws from the posterior of each item, exact."""
        if isinstance(seed, torch.Generator):
            seed = seed.initial_seed()
        generator = np.random.default_rng(seed)
        numbers = self.numbers(weights)
        return [
            sample(item.grammar, number, weights=item.weights(numbers), generator=generator)
            for item in self.items(inputs, lengths)
        ]
