"""Programs: a grammar with its query, ready for inference.

A program holds no numbers. Weights are given with each call (`log_z`, `posterior`), or kept by a
model (`program.model()`). `CompiledProgram` carries out a plan; `ReferenceProgram` solves the
ground grammar of each item.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic
from fgg.grammar import Grammar
from fgg.grammar.provenance import pins_of
from fgg.plan import Plan
from fgg.plan.backend import BackendChoice
from fgg.plan.cpp_source import Native
from fgg.plan.description import PlanDescription
from fgg.plan.sizes import chart_bytes, environment, table_bytes
from fgg.plan.spaces import SpaceWork, cheapest
from fgg.runtime.derive.assemble import Source
from fgg.runtime.entries.factor_reader import FactorReader, whole_weights
from fgg.runtime.layer.traced_log_z import handle_of, is_traced, traced_log_z
from fgg.runtime.program.chart_reader import DerivationModules, covers
from fgg.runtime.program.chart_views import Refinement, refinements
from fgg.runtime.program.compiler import Compiler
from fgg.runtime.program.emitted import load_module
from fgg.runtime.program.inputs import (
    Collated,
    Inputs,
    Lengths,
    check_named,
    check_potentials,
    collate,
)
from fgg.runtime.program.parameters import Parameterised, check_seed
from fgg.runtime.program.range_report import RangeReport

if TYPE_CHECKING:
    from torch import nn

    from fgg.draw.picture import Picture
    from fgg.inputs.written import WrittenWords
    from fgg.runtime.derive.mbr_outline import Outline
    from fgg.runtime.layer.collate import Collate
    from fgg.runtime.model.model import Model
    from fgg.runtime.native.engines import Engines
    from fgg.runtime.posterior.posterior import Posterior

KEPT = 1024
"""Of how many kinds of batches sizes are kept."""

Weights = Mapping[str, object]
"""Weights by factor: tensors, arrays or nested lists of numbers that are not negative."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Program(Parameterised, ABC):
    """A grammar with its query, ready for inference.

    `grammar` is the user's, joined with the query. `decomposed` is the same with pieces in place of
    the factors of declared rank: its factors are the parameters. `compiler` makes other programs of
    the same model.
    """

    grammar: Grammar
    decomposed: Grammar | None = None
    compiler: Compiler
    notes: tuple[Diagnostic, ...] = ()
    handle: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "handle", handle_of(self))

    def __deepcopy__(self, memo: object) -> Program:
        return self  # nothing in it changes

    def __getstate__(self) -> dict[str, object]:
        # What is cached is made again.
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.grammar.name!r}, {list(self.parameter_names)})"

    def _repr_html_(self) -> str:
        """Show the cost, the factors and the plan in a notebook."""
        from fgg.runtime.display.programs import html

        return html(self)

    def draw(self) -> Picture:
        """The cost of the program as a picture. Raises GrammarError (F425) without a plan."""
        from fgg.runtime.display.programs import draw

        return draw(self.compiled)

    @abstractmethod
    def log_z(self, weights: Weights, inputs: Inputs = None, lengths: Lengths = None) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials.

        Weights are values, not logarithms. An item without any derivation has log Z = -inf and
        gradient zero.
        """

    @abstractmethod
    def posterior(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        words: WrittenWords | None = None,
    ) -> Posterior:
        """The distribution over derivations of every item: one value for all questions.

        Answers and pictures show `words`, by input and item, in place of the values that they were
        read as. Words among the `inputs` are shown anyway.
        """

    @property
    @abstractmethod
    def compiled(self) -> CompiledProgram:
        """This program with its plan. Raises GrammarError (F425) if it is not compiled."""

    @cached_property
    def ranges(self) -> RangeReport:
        """How many items of all calls so far needed more range than their numbers have."""
        return RangeReport()

    def model(
        self,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        weights: Weights | None = None,
        nets: Mapping[str, nn.Module] | None = None,
    ) -> Model:
        """A torch module that holds the program's parameters: `fgg.runtime.model.model.Model`.

        Parameters may be bfloat16 or float16: then log Z is computed in float32, and is float32.
        Raises GrammarError for a type (F415) or a device (F437) that cannot be used.
        """
        from fgg.runtime.devices import usable_device
        from fgg.runtime.layer.precision import check_type
        from fgg.runtime.model.model import Model

        check_type(dtype)
        check_seed(seed)
        model = Model(self, seed=seed, dtype=dtype, weights=weights, nets=nets)
        return model if device is None else model.to(usable_device(str(device)))

    @property
    def collate_fn(self) -> Collate:
        """A function that makes a batch of items, for `torch.utils.data.DataLoader`."""
        from fgg.runtime.layer.collate import Collate

        return Collate(self.grammar)

    @cached_property
    def _siblings(self) -> dict[str, Program]:
        """The programs of other queries, at most one for each query of the model."""
        return {}

    def for_query(self, query: str | None) -> Program:
        """The program of another query of the same model. Raises GrammarError (F409)."""
        if query is None or query == self.compiler.query:
            return self
        if query not in self._siblings:
            self._siblings[query] = self.compiler.for_query(query)
        return self._siblings[query]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CompiledProgram(Program):
    """A program with the plan of its inference, and the plan as Python.

    The grammar of `plan` is a rewritten one, whose rules and families carry their sources. In
    rank `space` charts have no states. A `settled` program computes no batch in another space.
    """

    plan: Plan
    source: str
    space: str = "state"
    settled: bool = False

    @property
    def compiled(self) -> CompiledProgram:
        """This program."""
        return self

    @property
    def whole_names(self) -> tuple[str, ...]:
        """The factors that the plan reads, those of declared rank whole or as pieces."""
        return self.plan.parameters

    @property
    def names_if_missing(self) -> set[str]:
        """The further factors that the plan for missing tokens may read."""
        return self.used_names if self.plan.known else set()

    @cached_property
    def module(self) -> ModuleType:
        """The emitted program, loaded."""
        return load_module(self.source)

    @cached_property
    def engines(self) -> Engines:
        """What can carry out the inside and outside passes: tensor operations and machine code."""
        return self._engines(self.plan, self.module)

    @property
    def backend(self) -> BackendChoice:
        """The backend that was last chosen for the passes, and why."""
        return self._in_use[-1].engines.choice

    @cached_property
    def cpp(self) -> Native:
        """The plan as C++."""
        return self.compiler.emit_cpp(self.plan)

    def _engines(self, plan: Plan, module: ModuleType) -> Engines:
        from fgg.runtime.native.engines import Engines

        def emitted() -> Native:
            return self.cpp if plan is self.plan else self.compiler.emit_cpp(plan)

        def kernels() -> str:
            return self.compiler.emit_triton(plan)

        return Engines(plan, module, self.compiler.backend, emitted, kernels)

    # other programs of the same grammar

    @cached_property
    def states(self) -> CompiledProgram:
        """This program in state space."""
        return self.compiler.in_space("state")

    def in_cheapest_space(
        self, collated: Collated, weights: Mapping[str, object] | None = None
    ) -> CompiledProgram:
        """This program in the space with the fewest multiply-adds for a batch.

        It is this program itself if it was asked for in one space, or is settled, and where weights
        are given for a factor as a whole that other spaces need the pieces of.
        """
        if self.settled or any(self.is_whole(name, weights or {}) for name in self.whole_names):
            return self
        longest = tuple((name, max(some)) for name, some in sorted(collated.lengths.items()))
        if longest not in self._works:
            if len(self._works) >= KEPT:
                self._works.clear()
            self._works[longest] = self.compiler.space_works(dict(longest))
        works = self._works[longest]
        space = cheapest(works, collated.size) if works else self.space
        chosen = self if space == self.space else self._spaces(space)
        self._in_use[:] = [chosen]
        return chosen

    def _spaces(self, space: str) -> CompiledProgram:
        if space not in self.in_spaces:
            self.in_spaces[space] = self.compiler.in_space(space)
        return self.in_spaces[space]

    @cached_property
    def in_spaces(self) -> dict[str, CompiledProgram]:
        """This program in other spaces, compiled when a batch first needs them."""
        return {}

    @cached_property
    def _in_use(self) -> list[CompiledProgram]:
        """The program that the last batch was computed with."""
        return [self]

    @cached_property
    def _works(self) -> dict[tuple[tuple[str, int], ...], Mapping[str, SpaceWork]]:
        """The work of each space, by the greatest lengths of a batch."""
        return {}

    @cached_property
    def summing(self) -> CompiledProgram:
        """The program for batches with missing tokens: each is one variable of a rule."""
        return self.compiler.for_missing(self.space)

    # derivations

    @property
    def described(self) -> PlanDescription:
        """What the program costs, for the length and the batch that it was compiled for."""
        return self.compiler.described(self.plan)

    @property
    def origin(self) -> Source:
        """Derivations of the plan in terms of the user's rules."""
        return Source(self.grammar)

    @property
    def refinements(self) -> tuple[Refinement, ...]:
        """The charts of the plan as parts of the user's families."""
        return refinements(self.grammar, self.plan)

    @cached_property
    def trees(self) -> Plan:
        """The plan that derivations are read from; it has no messages."""
        return self.compiler.derivation_plan()

    @cached_property
    def tree_modules(self) -> DerivationModules:
        """The emitted programs of the plan that derivations are read from."""
        return self.modules_of(self.trees)

    @cached_property
    def known_trees(self) -> tuple[Plan, DerivationModules] | None:
        """The same for batches without missing tokens, if the input fixes values of nodes there."""
        plan = self.compiler.derivation_plan(known=True) if self.plan.known else None
        if plan is None or not pins_of(plan.grammar):
            return None
        return plan, self.modules_of(plan)

    def modules_of(self, trees: Plan) -> DerivationModules:
        """The emitted programs of a plan that derivations are read from."""
        # Messages serve maxima as they serve sums; sums over ranks do not.
        whole = self.decomposed is None or self.space == "dense"
        plan = self.plan if whole and covers(self.plan, trees) else trees

        def load(best: bool) -> ModuleType:
            if plan is self.plan and not best:
                return self.module
            return load_module(self.compiler.emit(plan, best=best))

        def engines(module: ModuleType) -> Engines:
            return self.engines if plan is self.plan else self._engines(plan, module)

        return DerivationModules(plan, load, engines)

    @cached_property
    def with_cell_weights(self) -> tuple[CompiledProgram, Mapping[str, str]] | None:
        """The program in which each cell has a log-potential, and the input factor by family."""
        return self.compiler.with_cell_weights()

    @cached_property
    def outline(self) -> Outline | None:
        """The plan of the shapes of derivations, if factors are not multiplied out."""
        from fgg.runtime.derive.mbr_outline import Outline

        if self.decomposed is None or self.space == "dense":
            return None
        plan, emit = self.compiler.outline(), self.compiler.emit
        return Outline(
            plan, DerivationModules(plan, lambda best: load_module(emit(plan, best=best)))
        )

    # computing

    def collate(
        self,
        inputs: Inputs,
        lengths: Lengths = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Collated:
        """The inputs as padded tensors, checked, with their lengths."""
        batch = collate(self.grammar, inputs or {}, lengths, dtype=dtype, device=device)
        check_potentials(self.plan, batch)
        return batch

    def bytes_of(
        self,
        lengths: Mapping[str, Sequence[int]],
        size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> int:
        """The bytes that both passes need for a batch: charts, tables, and their gradients.

        On a GPU, two intermediate results of the largest level come to it. Triton kernels have
        none: they keep them in registers.
        """
        values, width = environment(lengths), 8 if dtype == torch.float64 else 4
        whole = device.type == "cuda" and not self.engines.has_kernels(device, dtype)
        key = (size, width, whole, *values.values())
        if key not in self._bytes:
            if len(self._bytes) >= KEPT:
                self._bytes.clear()
            total = chart_bytes(self.plan, values, size, width)
            total += table_bytes(self.plan, values, size, width)
            if whole:
                longest = {name: max(some) for name, some in lengths.items()}
                total += self.compiler.intermediate_bytes(self.plan, longest, size, width)
            self._bytes[key] = 2 * total
        return self._bytes[key]

    @cached_property
    def reading_programs(self) -> dict[tuple[tuple[str, int], ...], CompiledProgram]:
        """The programs that are given entries of factors, by the number of entries."""
        return {}

    @cached_property
    def _bytes(self) -> dict[tuple[int, ...], int]:
        """Bytes by batch."""
        return {}

    def log_z(self, weights: Weights, inputs: Inputs = None, lengths: Lengths = None) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials.

        Weights are values, not logarithms. An item without any derivation has log Z = -inf and
        gradient zero.
        """
        from fgg.runtime.entries.token_entries import read_log_z
        from fgg.runtime.posterior.compiled_posterior import CompiledPosterior

        check_named(weights, inputs)
        if is_traced():
            return traced_log_z(self, whole_weights(weights), inputs, lengths)
        if any(isinstance(weight, FactorReader) for weight in weights.values()):
            return read_log_z(self, weights, inputs, lengths)
        return CompiledPosterior(self, weights, inputs, lengths, counting=False).log_z

    def posterior(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        words: WrittenWords | None = None,
    ) -> Posterior:
        """The distribution over derivations of every item: one value for all questions."""
        from fgg.runtime.posterior.compiled_posterior import CompiledPosterior

        check_named(weights, inputs)
        return CompiledPosterior(self, whole_weights(weights), inputs, lengths, words=words)
