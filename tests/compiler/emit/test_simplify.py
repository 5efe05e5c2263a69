"""Simplified kernels do the same work as before, with fewer bounds, guards and levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from fgg.api.compile import selected
from fgg.compiler import load
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.simplify import passes, simplify
from fgg.grammar.index import Expr
from fgg.plan import HIGH, LEVEL, LOW, Bound, Plan
from fgg.plan.kernel import Block, Keep, Kernel, Levels, Put
from fgg.plan.kernelise import kernelise
from fgg.plan.sizes import high_end, low_end
from tests.helpers.compiled import programs

Cell = tuple[str, tuple[int | None, ...]]
Point = tuple[str, tuple[Cell, ...]]
"""A rule, and the cells that it reads; the last is the one that it fills."""


def plan(name: str, space: str = "dense", query: str | None = None) -> Plan:
    return plan_of(selected(load(name), query), Expected(), space)


def levels_of(levels: Levels | None, values: Mapping[str, int]) -> list[int]:
    if levels is None:
        return [0]
    first = min(low_end(bound, values) for bound in levels.first)
    last = max(high_end(bound, values) for bound in levels.last)
    return list(range(first, last + 1))[:: -1 if levels.reverse else 1]


def points(kernel: Kernel, values: Mapping[str, int]) -> Iterator[Point]:
    """What is read at every point of every block, in the order in which it is done."""
    for stage in kernel.stages:
        for level in levels_of(stage.levels, values):
            for block in stage.blocks:
                yield from block_points(block, {**values, LEVEL: level})


def block_points(block: Block, values: Mapping[str, int]) -> Iterator[Point]:
    if any(number(guard, values) < 0 for guard in block.guards):
        return
    ranges = [
        range(low_end(loop.low, values), high_end(loop.high, values) + 1) for loop in block.loops
    ]
    for chosen in product(*ranges):
        known = {**values, **{loop.name: x for loop, x in zip(block.loops, chosen, strict=True)}}
        put = block.body[-1]
        assert isinstance(put, Put | Keep)
        cells = [*block.operands, put.cells]
        yield (
            block.rule.name,
            tuple((item.name, tuple(index(expr, known) for expr in item.index)) for item in cells),
        )


def number(expr: Expr, values: Mapping[str, int]) -> int:
    value = expr.evaluate(values)
    assert value is not None
    return value


def index(expr: Expr, values: Mapping[str, int]) -> int | None:
    """The value of an index, or None where a table decides."""
    return None if any(True for _ in expr.lookups()) else expr.evaluate(values)


@pytest.mark.parametrize("name", programs())
def test_simplified_kernels_visit_the_same_points(name: str) -> None:
    grammar, _, query = name.partition(":")
    source = plan(grammar, "state", query or None)
    before = kernelise(source, scaled=True)
    after = simplify(before)
    for length in (0, 1, 2, 5):
        for other in (0, 3):
            lengths = dict(zip(source.lengths, (length, length + other), strict=False))
            values = {n + end: x for n, x in lengths.items() for end in (LOW, HIGH)} | lengths
            one, two = list(points(before, values)), list(points(after, values))
            assert sorted(one, key=repr) == sorted(two, key=repr)


@pytest.mark.parametrize("name", ["hmm", "eisner", "pcfg_dense", "dmv", "rna"])
def test_cells_are_read_after_they_are_filled(name: str) -> None:
    inside = simplify(kernelise(plan(name), scaled=True))
    work = list(points(inside, {"n": 5, "n.lo": 5, "n.hi": 5}))
    filled = {cells[-1] for _, cells in work}
    done: set[Cell] = set()
    for rule, cells in work:
        assert all(cell in done for cell in cells[:-1] if cell in filled), rule
        done.add(cells[-1])
    assert len(done) > 5


def test_the_outside_pass_has_the_blocks_in_reverse() -> None:
    inside, outside = passes(plan("pcfg", "rank"))
    names = [block.rule.name for block in inside.blocks]
    assert [block.rule.name for block in outside.blocks] == names[::-1]


def test_a_span_grammar_has_the_loops_that_people_write() -> None:
    inside, _ = passes(plan("pcfg", "rank"))
    words, spans, root = inside.stages
    assert words.levels is None and root.levels is None and spans.levels is not None
    assert spans.levels.first == (Bound(((Expr.of(2), 1),)),)
    assert spans.levels.last == (Bound(((Expr.of("n.hi"), 1),)),)
    binary = next(block for block in spans.blocks if block.rule.name == "binary")
    assert not binary.guards
    (split,) = binary.splits
    assert split.low == Bound(((Expr.of(1), 1),))
    assert split.high == Bound(((Expr.of(LEVEL) - 1, 1),))


def test_a_chain_runs_backwards_along_its_index() -> None:
    inside, outside = passes(plan("hmm"))
    assert inside.stages[0].levels is not None and outside.stages[1].levels is not None
    assert inside.stages[0].levels.reverse and not outside.stages[1].levels.reverse
    assert {str(form) for form in inside.stages[0].levels.forms.values()} == {"i"}
