"""Every kernel that is made has no problems, and the checker finds those that are planted."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from fgg.compiler import loads
from fgg.compiler.emit.simplify import passes
from fgg.compiler.plan.check_kernel import problems
from fgg.grammar.index import Expr
from fgg.plan import LEVEL, Bound, Loop, Mask, Operand, Plan
from fgg.plan.kernel import (
    BATCH,
    Block,
    Erase,
    Give,
    Greatest,
    Keep,
    Kernel,
    Load,
    Multiply,
    Operation,
    Presence,
    Put,
    Relative,
    Scale,
    Stage,
    Weigh,
)
from tests.generators.indexed import write_grammar
from tests.helpers.compiled import programs
from tests.helpers.found_grammars import FOUND, HEAD, STEPPED
from tests.helpers.kernels import kernels_of, library_plans, plans_of, spaces_of
from tests.helpers.plans import OWN


def found_in(*plans: Plan) -> list[str]:
    kernels = (kernel for plan in plans for kernel in kernels_of(plan))
    return [problem for kernel in kernels for problem in problems(kernel)]


@pytest.mark.parametrize("name", programs())
def test_kernels_of_the_library_have_no_problems(name: str) -> None:
    assert found_in(*library_plans(name)) == []


ODD = {**OWN, **{claim: HEAD + rules for claim, rules in (FOUND | STEPPED).items()}}


@pytest.mark.parametrize("claim", ODD)
def test_kernels_of_odd_grammars_have_no_problems(claim: str) -> None:
    assert found_in(*plans_of(loads(ODD[claim]), ("dense",))) == []


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 1000), marks=pytest.mark.slow)]
)
def test_kernels_of_random_grammars_have_no_problems(seeds: range) -> None:
    for seed in seeds:
        made = write_grammar(random.Random(seed).choice)
        if made is not None:
            spaces = spaces_of(made[0])
            plans = plans_of(made[0], (spaces[seed % len(spaces)],))
            assert found_in(*plans) == [], f"seed {seed}\n{made[1]}"


# Planted faults

TREES = """
domain T = 2
domain W = 3
input w: W[n]
input factor link[i]() for 0 <= i < n
factor rule_(T, T, T)
factor word(T, W)
factor turn(T, T)
nonterminal S()
nonterminal X[i, j](T) for 0 <= i < j <= n
nonterminal Y[i, j](T) for 0 <= i < j <= n
nonterminal V[i](W) for 0 <= i < n
start S
rule top:   S            -> Y[0, n](t)
rule last:  X[i, i+1](t) -> word(t, o) V[i](o) link[i]()
rule seen:  V[i](o)      -> o = w[i]
rule split: X[i, j](a)   -> rule_(a, b, c) X[i, k](b) X[k, j](c) for i < k < j
rule map:   Y[i, j](a)   -> turn(a, b) X[i, j](b)
"""
Change = Callable[[Block], Block]
AT, K, STEP, N = (Expr.of(name) for name in ("i", "k'", LEVEL, "n"))
HEAD_CELLS = Operand(kind="chart", name="X", index=(AT, AT + STEP), axes=("a",))


@cache
def kernel_of(kind: str) -> Kernel:
    """The simplified kernel of the trees: `plain inside`, `scaled outside`, …"""
    kernel = passes(next(plans_of(loads(TREES))), scaled="scaled" in kind)["outside" in kind]
    assert problems(kernel) == []
    return kernel


def planted(kind: str, rule: str, change: Change) -> list[str]:
    """The problems of a kernel in which the block of one rule has been changed."""
    kernel = kernel_of(kind)

    def block(item: Block) -> Block:
        return change(item) if item.rule.name == rule else item

    def stage(item: Stage) -> Stage:
        return replace(item, groups=tuple(tuple(map(block, group)) for group in item.groups))

    changed = replace(kernel, stages=tuple(map(stage, kernel.stages)))
    assert changed != kernel
    return problems(changed)


def each(kind: type[Any], **changes: object) -> Change:
    """Changes all operations of a kind."""

    def operation(op: Operation) -> Operation:
        return replace(op, **changes) if isinstance(op, kind) else op

    return lambda block: replace(block, body=tuple(map(operation, block.body)))


def cells(operation: type[Any], number: int, **changes: Any) -> Change:
    """Changes the cells of one of the operations of a kind."""

    def changed(block: Block) -> Block:
        body: list[Any] = list(block.body)
        place = [i for i, op in enumerate(body) if isinstance(op, operation)][number]
        body[place] = replace(body[place], cells=replace(body[place].cells, **changes))
        return replace(block, body=tuple(body))

    return changed


def inserted(operation: Operation) -> Change:
    """Adds an operation at the beginning."""
    return lambda block: replace(block, body=(operation, *block.body))


def with_block(**changes: Any) -> Change:
    """Changes a block."""
    return lambda block: replace(block, **changes)


def loop(name: str, high: Expr) -> Loop:
    return Loop(name, Bound(((Expr(), 1),)), Bound(((high, 1),)))


def presence(*masks: Mask) -> Presence:
    return Presence(name="w99", masks=masks, count=1, dims=("i",))


def table(name: str, *axes: str) -> Operand:
    return Operand(kind="table", name=name, index=(AT,), axes=axes)


NAMES = [
    ("split", each(Multiply, left="v99"), "`v99` is taken before it is given"),
    ("split", each(Load, name="v1"), "`v1` is given twice"),
    ("split", each(Put, value="e4"), "`e4` is scales where Put takes numbers"),
    ("split", each(Put, scale="v9"), "`v9` is numbers where Put takes scales"),
    ("split", each(Greatest, scale="v1"), "`v1` is numbers where Greatest takes scales"),
]
AXES = [
    ("split", each(Multiply, dims=("i", "z")), "`v9`: `z` is no loop and no node"),
    ("split", each(Multiply, dims=("a", "i")), "`v9` has its axes out of order: (a, i)"),
    ("split", each(Multiply, dims=("i", "a", "a")), "`v9` has an axis twice: (i, a, a)"),
    (
        "split",
        each(Multiply, dims=("k'", "a")),
        "`v7` has the axes (k', a), made of (*, b, i, k')",
    ),
    ("split", each(Load, dims=("i", BATCH)), "`v2` has the axes (i, *), made of (*, b, i, k')"),
    ("split", each(Greatest, dims=("i", "a")), "`top5` has the axes (i, a), made of (*, i, k')"),
    ("split", each(Weigh, dims=("i", BATCH)), "`w6` has the axes (i, *), made of (*, i, k')"),
    ("split", each(Scale, dims=(BATCH,)), "`e4` lacks a place for (i, k')"),
    ("split", each(Put, value="v8"), "`v8` lacks a place for (b, c)"),
    ("split", each(Put, scale="e4"), "`e4` lacks a place for (k')"),
]
STORED = [
    ("split", cells(Load, 1, name="Z"), "there is no chart `Z`"),
    ("split", cells(Load, 1, index=(AT,)), "`X[i]` has 1 indices, not 2"),
    ("split", with_block(sizes={"a": 2, "b": 2, "c": 3}), "has states (2,), read as (3)"),
    ("map", cells(Load, 0, axes=("a",)), "`turn` has states (2, 2), read as (2)"),
    ("last", each(Scale, cells=(table("V"),)), "there is no table `V`"),
    ("last", each(Scale, cells=(Operand(kind="parameter", name="turn"),)), "`turn` has no scale"),
    ("last", each(Load, cells=table("link_weights")), "has no values to read"),
    ("map", each(Keep, source=HEAD_CELLS), "`Y[i, j]` shares its scales"),
    ("split", each(Put, depth=1), "it multiplies 2 charts with states, not 1"),
    ("split", each(Put, mode="twice"), "there is no mode `twice`"),
]
PASSES = [
    ("scaled inside", "split", inserted(presence()), "Presence in a scaled kernel"),
    ("plain inside", "split", each(Put, scale="v1"), "adds numbers, without scales"),
    ("plain inside", "map", inserted(Erase(cells=HEAD_CELLS, masks=())), "Erase in a plain kernel"),
    ("scaled inside", "split", each(Load, adjoint=True), "is read in an inside pass"),
    ("scaled inside", "split", inserted(Give(cells=HEAD_CELLS, value="v1")), "Give in an inside"),
    ("scaled outside", "split", inserted(Put(cells=HEAD_CELLS, value=None)), "Put in an outside"),
    ("scaled outside", "split", cells(Give, 1, index=(AT, AT + STEP)), "is changed"),
    ("scaled outside", "last", each(Give, cells=table("w_is", "o")), "is constant"),
    ("scaled outside", "split", each(Relative, dims=("k'", BATCH)), "`w6` lacks a place for (i)"),
    ("scaled outside", "split", each(Give, value="v13"), "`v13` lacks a place for (i, k', *)"),
    ("plain inside", "split", inserted(presence(Mask(K, mixed=False))), "none of its axes"),
    ("plain inside", "split", inserted(presence(Mask(N - AT, mixed=True))), "no axis for them"),
    ("scaled inside", "split", lambda b: replace(b, body=b.body[:-1]), "does not fill cells"),
]
FRAMES = [
    ("split", with_block(splits=(loop("i", AT),)), "two loops over `i`"),
    ("split", with_block(splits=(loop("k'", AT),)), "the loop over `k'` depends on `i`"),
    ("split", with_block(splits=(loop("a", STEP),)), "`a` is a loop and a node"),
    ("split", with_block(splits=(loop("k'", STEP - 1), loop("j", N))), "are not counted"),
    ("split", with_block(guards=(K,)), "a guard depends on `k'`"),
    ("split", with_block(sure=("j",)), "`j`, which is said not to be empty, is no loop"),
    ("last", with_block(guards=()), "the loop over `i` may be empty though all guards hold"),
]
RANGES = [
    ("split", cells(Load, 1, index=(AT, AT + K - 1)), "`i + `k'` - 1` may lie below"),
    ("split", cells(Load, 2, index=(AT + K, AT + K + STEP)), "may lie beyond"),
    ("split", cells(Put, 0, index=(AT + STEP, AT + STEP)), "may lie beyond"),
    ("split", with_block(splits=(loop("k'", STEP),)), "may lie beyond"),
    ("top", cells(Load, 0, view=True), "`Y[0, n]` depends on `n`"),
    ("split", cells(Load, 1, index=(AT, AT + STEP)), "is changed"),
    ("split", cells(Load, 1, index=(Expr.of(0), AT + K)), "may be one cell at several points"),
]
FAULTS = [
    *(
        ("scaled inside", *fault)
        for part in (NAMES, AXES, STORED, FRAMES, RANGES)
        for fault in part
    ),
    *PASSES,
]


@pytest.mark.parametrize(("kind", "rule", "change", "problem"), FAULTS)
def test_planted_faults_are_found(kind: str, rule: str, change: Change, problem: str) -> None:
    found = planted(kind, rule, change)
    assert any(problem in text for text in found), found
    assert problem, found
