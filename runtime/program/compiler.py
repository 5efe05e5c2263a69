"""The protocol by which a program asks its compiler for other programs and plans of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from fgg.grammar import Grammar
from fgg.plan import Plan
from fgg.plan.backend import Backend
from fgg.plan.cpp_source import Native
from fgg.plan.description import PlanDescription
from fgg.plan.spaces import SpaceWork

if TYPE_CHECKING:
    from fgg.runtime.program.program import CompiledProgram, Program


class Compiler(Protocol):
    """One model, one query, and the options it was compiled with.

    `fgg.api.compile.Compilation` is the implementation; the runtime never imports the compiler.
    """

    @property
    def model(self) -> Grammar:
        """The user's grammar with its sizes, before any query is joined to it."""
        ...

    @property
    def query(self) -> str | None:
        """The query that was asked for, or the model's only one."""
        ...

    @property
    def space(self) -> str:
        """The space that was asked for: `auto`, `dense`, `state` or `rank`."""
        ...

    @property
    def backend(self) -> Backend:
        """The backend that was asked for, shared by all programs of the model."""
        ...

    def for_query(self, query: str) -> Program:
        """Return the program of another query of the model. Raises GrammarError (F409)."""
        ...

    def for_model(self, model: Grammar) -> Program:
        """Return the program of the same query of another model."""
        ...

    def resized(self, domain: str, size: int) -> Program:
        """Return the program of the model with another number of values in a domain."""
        ...

    def in_space(self, space: str) -> CompiledProgram:
        """Return the program of the same query in another space."""
        ...

    def space_works(self, lengths: Mapping[str, int]) -> Mapping[str, SpaceWork]:
        """Return the work of each space that `auto` may choose, on items of these lengths.

        Empty if a space was asked for, or if all are one.
        """
        ...

    def for_missing(self, space: str) -> CompiledProgram:
        """Return the program for batches with missing tokens, in a space if that can be."""
        ...

    def derivation_plan(self, *, known: bool = False) -> Plan:
        """Return a plan without messages, whose derivations are the user's.

        With `known`, it is for batches in which no token is missing.
        """
        ...

    def with_cell_weights(self) -> tuple[CompiledProgram, Mapping[str, str]] | None:
        """Return the program in which each cell has a log-potential, with their input factors.

        The factors are given by family. None if a family has cells with negative indices.
        """
        ...

    def outline(self) -> Plan:
        """Return the plan of the shapes of derivations, without states."""
        ...

    def described(self, plan: Plan) -> PlanDescription:
        """Return what a plan costs, for the length and the batch that are expected."""
        ...

    def intermediate_bytes(
        self, plan: Plan, lengths: Mapping[str, int], size: int, width: int
    ) -> int:
        """Return the bytes of the largest intermediate result of tensor operations on a level."""
        ...

    def emit(self, plan: Plan, *, best: bool = False) -> str:
        """Return a plan as Python; with `best`, maxima stand in place of sums."""
        ...

    def emit_cpp(self, plan: Plan) -> Native:
        """Return a plan as C++."""
        ...

    def emit_triton(self, plan: Plan) -> str:
        """Return a plan as Python with Triton kernels."""
        ...
