"""Plans of grammars in all spaces, and their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import fgg
from fgg.api.compile import compilable, selected
from fgg.compiler.driver import SPACES, Done, Expected, plan_of
from fgg.compiler.emit.simplify import passes
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.plan import Plan
from fgg.plan.adjoint import adjoint
from fgg.plan.kernel import Kernel
from fgg.plan.kernelise import kernelise
from tests.helpers.compiled import SMALL


def spaces_of(grammar: Grammar) -> tuple[str, ...]:
    """The spaces that a grammar can be compiled in: without factors of low rank, only one."""
    return SPACES if cpd(grammar) is not grammar else ("dense",)


def plans_of(grammar: Grammar, spaces: Sequence[str] = SPACES) -> Iterator[Plan]:
    """The plans of a grammar in some spaces, and those for missing tokens where they differ."""
    done: Done = {}
    for space in spaces:
        try:
            with compilable(grammar.name):
                plan = plan_of(grammar, Expected(), space, done=done)
        except GrammarError as error:
            assert [d.code for d in error.diagnostics] == ["F425"]
            continue
        yield plan
        if plan.known:
            yield plan_of(grammar, Expected(), space, pinned=False, done=done)


@cache
def library_plans(name: str) -> tuple[Plan, ...]:
    """The plans of `grammar:query` of the library with small sizes, in all spaces."""
    grammar, _, query = name.partition(":")
    sizes = {k: v for k, v in SMALL.items() if k in fgg.load(grammar).size}
    source = selected(fgg.load(grammar, sizes=sizes), query or None)
    return tuple(plans_of(source, spaces_of(source)))


def kernels_of(plan: Plan) -> Iterator[Kernel]:
    """The kernels of a plan: plain and scaled, inside and outside, as made and simplified."""
    for scaled in (True, False):
        inside = kernelise(plan, scaled=scaled)
        yield from (inside, adjoint(inside), *passes(plan, scaled=scaled))
