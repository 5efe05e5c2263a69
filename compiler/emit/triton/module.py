"""From a plan to a Python module whose passes are Triton kernels.

It is the module of tensor operations with launches in place of statements. Where a block has no
launches (`fgg.compiler.emit.triton.launches.Unfit`), its statements stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fgg.compiler.emit.python.block import BlockPrinter
from fgg.compiler.emit.python.layout import indented
from fgg.compiler.emit.python.module import About, Module
from fgg.compiler.emit.python.names import identifier
from fgg.compiler.emit.python.prelude import GPU
from fgg.compiler.emit.readable import Linked, belongs
from fgg.compiler.emit.triton.cells import CellsPrinter
from fgg.compiler.emit.triton.frame import Host
from fgg.compiler.emit.triton.kernels import KernelPrinter
from fgg.compiler.emit.triton.launches import Launch, Unfit, launches
from fgg.compiler.emit.triton.matrices import ProductPrinter, WeightsPrinter
from fgg.plan import LEVEL, Plan
from fgg.plan.kernel import Block, Kernel, Put, Stage

LEGEND = (
    "In kernels, a chart or table X comes as v_X (its values), e_X (its scales) and d_X (its "
    "adjoints), a parameter X as w_X. B is the number of items and b an item of each point, R what "
    "the range certificate keeps, T the type of numbers."
)
PRINTERS: dict[str, Callable[..., KernelPrinter]] = {
    "cells": CellsPrinter,
    "product": ProductPrinter,
    "weights": WeightsPrinter,
}
NAMES = ("triton", "tl", "points", "marks", "T")


def emit(plan: Plan, *, about: About | None = None) -> str:
    """The program of a plan, as a Python module with Triton kernels."""
    return linked(plan, about=about).text


def linked(plan: Plan, *, about: About | None = None) -> Linked:
    """The same with lines that know their rules."""
    about = about or About()
    about = replace(about, notes=(*about.notes, LEGEND))
    return _Module(plan, best=False).linked(standalone=False, about=about)


def refused(plan: Plan) -> dict[str, str]:
    """The rules that tensor operations carry out, and why."""
    module = _Module(plan, best=False)
    module.linked(standalone=False, about=About())
    return module.refused


class _Module(Module):
    """Writes a module with kernels."""

    imports = ("import triton", "import triton.language as tl")
    preludes = (GPU,)
    zeros = "zeros_of"

    def __init__(self, plan: Plan, *, best: bool) -> None:
        super().__init__(plan, best=best)
        for name in NAMES:
            self.names.taken.add(name)
        self.functions: list[str] = []
        self.refused: dict[str, str] = {}
        self.used: dict[bool, set[str]] = {}
        chart = {c.family: self.program.chart(c.family) for c in plan.charts}
        leaf = {name: self.program.leaf(name) for name in self.leaf_names()}
        self.host = Host(plan, self.scope, self.names, chart, leaf)

    def declarations(self) -> Iterator[str]:
        """The shapes of factors, and the kernels."""
        yield from super().declarations()
        # The passes are printed first: they say which kernels there are.
        self.printed = {
            False: list(self.pass_lines(self.inside_kernel)),
            True: list(self.pass_lines(self.outside_kernel)),
        }
        yield from self.functions

    def kernel(self, kernel: Kernel) -> Iterator[str]:
        """The statements of a pass."""
        self.scope.used |= self.used[kernel.outside]
        yield from self.printed[kernel.outside]

    def pass_lines(self, kernel: Kernel) -> Iterator[str]:
        """The statements of a pass, with the tensors that kernels take before them."""
        self.host.views, self.host.uses_range = {}, False
        self.scope.used.clear()
        body = list(super().kernel(kernel))
        self.used[kernel.outside] = set(self.scope.used)
        self.scope.used.clear()
        yield from (f"{name} = {code}" for name, code in self.host.views.items())
        if self.host.uses_range:
            yield f"marks = Range(batch, {self.plan.greatest_depth + 1})"
        yield from body
        if self.host.uses_range:
            yield "marks.tell()"

    def groups(self, stage: Stage, depth: int) -> Iterator[str]:
        """The statements of all groups."""
        self.host.level = self.scope.names.get(LEVEL, "")
        for group in stage.groups:
            try:
                divided = [
                    launches(self.plan, _added(block, first=number == 0))
                    for number, block in enumerate(group)
                ]
            except Unfit as reason:
                self.refused[group[0].rule.name] = str(reason)
                yield from super().groups(replace(stage, groups=(group,)), depth)
                continue
            for block, some in zip(group, divided, strict=True):
                yield from self.started(block, some, depth)

    def started(self, block: Block, some: tuple[Launch, ...], depth: int) -> Iterator[str]:
        """The statements that start the launches of a block."""
        printer = BlockPrinter(self.program, block, inline=2, terms=False)
        condition = printer.condition()
        lines = []
        known = {name: launch for launch in some for name in launch.kept}
        for launch in some:
            ending = "outside" if self.is_outside(block) else "inside"
            title = self.names.fresh(identifier(f"{block.rule.name}_{ending}"))
            kernel = PRINTERS[launch.kind](self.host, launch, known, title, printer.variables)
            text = kernel.kernel()
            lines_of_kernel = [*self.comment(block, 0), *text]
            self.functions += ["", "", *belongs(block.rule.name, lines_of_kernel)]
            for loop in block.loops:
                name = kernel.scope.names[loop.name]
                line = f"{name} = {self.scope.range(loop)}"
                if line not in lines and any(name in code for code in kernel.call()):
                    lines.append(line)
            if launch.only_erases:
                lines.append("if batch.mixed:")
            lines += indented(kernel.call()) if launch.only_erases else kernel.call()
        if condition:
            lines = [f"if {condition}:", *indented(lines)]
        yield from belongs(block.rule.name, [*self.comment(block, depth), *lines])

    def is_outside(self, block: Block) -> bool:
        """Whether a block is one of the outside pass."""
        return any(block is other for other in self.outside_kernel.blocks)


def _added(block: Block, *, first: bool) -> Block:
    """A block of a group: what the first one puts is there when the others come."""
    if first:
        return block
    body = tuple(replace(op, mode="add") if isinstance(op, Put) else op for op in block.body)
    return replace(block, body=body)
