"""The pipelines of compiling: which pass comes when, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fgg.compiler.passes.close_start import close
from fgg.compiler.passes.cpd import cpd
from fgg.compiler.passes.fold import fold
from fgg.compiler.passes.narrow import narrow
from fgg.compiler.passes.pin import pin
from fgg.compiler.passes.shared_heads import heads
from fgg.compiler.passes.split import split
from fgg.compiler.passes.tie import tie
from fgg.compiler.plan.lower import plan
from fgg.compiler.rank.rank_space import rank_space
from fgg.grammar import Grammar
from fgg.grammar.provenance import traced
from fgg.grammar.unequal import split_unequal
from fgg.inputs.readings import known_inputs
from fgg.plan import Plan


@dataclass(frozen=True)
class Expected:
    """The length and batch size that the cost model assumes; a program takes any others too."""

    length: int = 32
    batch: int = 16


@dataclass(frozen=True)
class Pass:
    """A step of the pipeline: a named function from a grammar to a grammar of the same value."""

    name: str
    run: Callable[[Grammar, Expected], Grammar]


# First, so that all other passes reckon with inequalities only.
UNEQUAL = Pass("unequal", lambda grammar, _: split_unequal(grammar))
# log Z is a number for each item: a start symbol with nodes is summed over them.
CLOSE = Pass("close", lambda grammar, _: close(grammar))
# Before unions are split: the pieces of a factor are those of the whole, and then are sliced.
CPD = Pass("cpd", lambda grammar, _: cpd(grammar))
# Charts are dense tensors over atomic domains, so unions and products go first.
SPLIT = Pass("split", lambda grammar, _: split(grammar))
# Splitting makes the block of a state a node of its own; what an observed value fixes is then no
# node of a chart, which all later passes should know.
PIN = Pass("pin", lambda grammar, _: pin(grammar))
# In place of `pin` where tokens may be missing: later passes make several rules of one, which then
# would read a token that is to be one variable in several rules.
TIE = Pass("tie", lambda grammar, _: tie(grammar))
# Splitting shows which variables are fixed (a preterminal spans one word), and folding counts
# the variables of a product to find out what is worth a message.
NARROW = Pass("narrow", lambda grammar, _: narrow(grammar))
# After splitting, when each family has one kind of state; before folding, which then leaves
# products of parameters to be hoisted.
RANK_SPACE = Pass("rank_space", lambda grammar, _: rank_space(grammar))
# After narrowing, which may tell rules apart; before folding, which looks at rules one by one.
HEADS = Pass("heads", lambda grammar, _: heads(grammar))
# Last: messages are products of what the other passes leave.
FOLD = Pass("fold", lambda grammar, e: fold(grammar, length=e.length, batch=e.batch))
FOLD_RANKS = Pass(
    "fold", lambda grammar, e: fold(grammar, length=e.length, batch=e.batch, hoist=True)
)

# A factor of low rank is taken as it is, or as its pieces, or its states are summed beforehand.
PIPELINES: Mapping[str, tuple[Pass, ...]] = {
    "dense": (UNEQUAL, CLOSE, SPLIT, PIN, NARROW, FOLD),
    "state": (UNEQUAL, CLOSE, CPD, SPLIT, PIN, NARROW, HEADS, FOLD),
    "rank": (UNEQUAL, CLOSE, CPD, SPLIT, PIN, NARROW, RANK_SPACE, FOLD_RANKS),
}
SPACES = tuple(PIPELINES)

CONJOIN = "conjoin"


def pass_names(space: str) -> tuple[str, ...]:
    """The names of a pipeline's passes in order; the first is that of joining a query."""
    return (CONJOIN, *(item.name for item in PIPELINES[space]))


Done = dict[tuple[Pass, ...], Grammar]
"""One grammar as it is after the passes that several pipelines begin with."""


def passed(
    grammar: Grammar,
    expected: Expected,
    space: str,
    *,
    pinned: bool = True,
    done: Done | None = None,
    pipeline: Sequence[Pass] | None = None,
) -> Iterator[tuple[str, Grammar]]:
    """A grammar without queries, then as it is after each pass, with the pass's name.

    Every rule and family carries its source (`fgg.grammar.provenance`). Without `pinned`, `tie`
    takes the place of `pin`. `done` caches passes that several spaces share: pass the same mapping
    for each space of the same grammar. With `pipeline`, these passes take the place of the space's.
    Raises SplitImpossible, and NotRankSpace where the space is `rank`.
    """
    done = {} if done is None else done
    grammar = done.setdefault((), traced(grammar))
    yield CONJOIN, grammar
    own = PIPELINES[space] if pipeline is None else pipeline
    passes = tuple(TIE if item is PIN and not pinned else item for item in own)
    for number, item in enumerate(passes, 1):
        so_far = passes[:number]
        if so_far not in done:
            done[so_far] = item.run(grammar, expected)
        grammar = done[so_far]
        yield item.name, grammar


def after(grammar: Grammar, name: str, expected: Expected, space: str) -> Grammar:
    """A grammar without queries as it is after a pass. Raises SplitImpossible or NotRankSpace."""
    return next(result for done, result in passed(grammar, expected, space) if done == name)


def plan_of(
    grammar: Grammar,
    expected: Expected,
    space: str,
    *,
    pinned: bool = True,
    done: Done | None = None,
) -> Plan:
    """The plan of a grammar without queries, after all passes.

    A `pinned` plan is for batches in which no token is missing of the inputs that it lists as
    `known`; any other plan takes missing tokens everywhere. `done` is that of `passed`. Raises
    CannotCompile, SplitImpossible or NotRankSpace.
    """
    known: tuple[str, ...] = ()
    for name, result in passed(grammar, expected, space, pinned=pinned, done=done):
        if name == PIN.name:
            known = known_inputs(result)
    made = plan(result, length=expected.length, batch=expected.batch, hoist=space == "rank")
    return replace(made, known=known)
