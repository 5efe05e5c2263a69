"""The pipeline of compiling: which pass comes when, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fgg.compiler.lower import plan
from fgg.compiler.passes.close import close
from fgg.compiler.passes.cpd import cpd
from fgg.compiler.passes.fold import fold
from fgg.compiler.passes.narrow import narrow
from fgg.compiler.passes.rank_space import rank_space
from fgg.compiler.passes.split import split
from fgg.grammar import Grammar
from fgg.plan import Plan


@dataclass(frozen=True)
class Expected:
    """What the cost model expects of inputs; a program takes any."""

    length: int = 32
    batch: int = 16


@dataclass(frozen=True)
class Pass:
    """A step of the pipeline: from a grammar to a grammar of the same value."""

    name: str
    run: Callable[[Grammar, Expected], Grammar]


# log Z is a number for each item: a start symbol with nodes is summed over them.
CLOSE = Pass("close", lambda grammar, _: close(grammar)[0])
# Charts are dense tensors over atomic domains, so unions and products go first.
SPLIT = Pass("split", lambda grammar, _: split(grammar))
# Splitting shows which variables are fixed (a preterminal spans one word), and folding counts
# the variables of a product to find out what is worth a message.
NARROW = Pass("narrow", lambda grammar, _: narrow(grammar))
# Last: messages are products of what the other passes leave.
FOLD = Pass("fold", lambda grammar, e: fold(grammar, length=e.length, batch=e.batch))

PASSES = (CLOSE, SPLIT, NARROW, FOLD)

RANK_PASSES = (
    CLOSE,
    # Before unions are split: the pieces of a factor are those of the whole, and then are sliced.
    Pass("cpd", lambda grammar, _: cpd(grammar)),
    SPLIT,
    NARROW,
    # After splitting, when each family has one kind of state; before folding, which then finds
    # that a product of two parameters can be hoisted.
    Pass("rank_space", lambda grammar, _: rank_space(grammar)),
    FOLD,
)

PIPELINES = {"state": PASSES, "rank": RANK_PASSES}

CONJOIN = "conjoin"
PASS_NAMES = (CONJOIN, *(item.name for item in PASSES))
RANK_PASS_NAMES = (CONJOIN, *(item.name for item in RANK_PASSES))


def passed(
    grammar: Grammar, expected: Expected, space: str = "state"
) -> Iterator[tuple[str, Grammar]]:
    """A grammar without queries, then as it is after each pass, with the pass's name.

    Raises SplitImpossible, and NotRankSpace where the space is `rank`.
    """
    yield CONJOIN, grammar
    for item in PIPELINES[space]:
        grammar = item.run(grammar, expected)
        yield item.name, grammar


def plan_of(grammar: Grammar, expected: Expected, space: str = "state") -> Plan:
    """The plan of a grammar without queries, after all passes.

    Raises CannotCompile, SplitImpossible or NotRankSpace.
    """
    found = after(grammar, PIPELINES[space][-1].name, expected, space)
    return plan(found, length=expected.length, batch=expected.batch)


def after(grammar: Grammar, name: str, expected: Expected, space: str = "state") -> Grammar:
    """A grammar without queries as it is after a pass. Raises SplitImpossible or NotRankSpace."""
    return next(found for done, found in passed(grammar, expected, space) if done == name)
