"""Factors that a plan reads at tokens only, and plans that are given just these entries.

A plan that gathers `emit` at the words of a batch, and nothing else of it, needs the columns of
these words. A plan that gathers `trans` at the blocks of two neighbours needs the transitions
between the pairs of blocks that are neighbours. If each such tuple of tokens has a number, the plan
can read a tensor of the entries at each number in place of the factor. This is how factors that are
too large to be written down are computed with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fgg.grammar import Domain, Factor, Grammar, Input, Sized
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh
from fgg.grammar.slices import Narrow, Unfold
from fgg.plan.plan import Cut, Gather, Plan, TokenAxis


@dataclass(frozen=True)
class TokenReading:
    """Where a plan reads a factor at tokens: the table `gather`, of the part that `steps` cut out.

    `rest` are the sizes of the axes that no token decides.
    """

    factor: str
    steps: tuple[Narrow | Unfold, ...]
    gather: Gather
    rest: tuple[int, ...]


@dataclass(frozen=True)
class EntryNames:
    """The names of what stands for a reading: its entries, and the input of their numbers."""

    factor: str
    input: str


def token_readings(plan: Plan) -> Mapping[str, tuple[TokenReading, ...]]:
    """The readings of each factor that the plan reads at tokens only, by factor.

    All tokens of a reading belong to one position: there is a number for each position.
    """
    read: dict[str, list[TokenReading]] = {}
    cuts = {step.name: step for step in plan.preparations if isinstance(step, Cut)}
    whole = {*plan.leaves}
    for step in plan.preparations:
        if isinstance(step, Gather) and len({token.group for token in step.tokens}) == 1:
            cut = cuts.get(step.source)
            factor, steps = (step.source, ()) if cut is None else (cut.source, cut.steps)
            reading = TokenReading(factor, steps, step, plan.table[step.name].states)
            read.setdefault(factor, []).append(reading)
            if cut is not None:
                read.setdefault(cut.name, [])
        elif not isinstance(step, Cut):
            operands = getattr(step, "operands", ())
            whole |= {name for name, _ in operands} | {getattr(step, "source", "")}
    for cut in reversed(cuts.values()):
        if cut.name in whole or cut.name not in read:
            whole.add(cut.source)
    return {n: tuple(r) for n, r in read.items() if n in plan.parameters and n not in whole}


def entry_names(plan: Plan, readings: tuple[TokenReading, ...]) -> dict[str, EntryNames]:
    """New names for readings, by the name of the table."""
    grammar = plan.grammar
    taken = {*grammar.factor, *grammar.input, *grammar.input_factor, *grammar.table}
    taken |= {*grammar.domain, *grammar.size, *grammar.nonterminal}
    taken |= {step.name for step in plan.preparations}
    names = {}
    for reading in readings:
        table = reading.gather.name
        names[table] = EntryNames(fresh(f"{table}_entries", taken), fresh(f"{table}_number", taken))
        taken |= {names[table].factor, names[table].input}
    return names


def with_entries(plan: Plan, readings: tuple[TokenReading, ...], counts: Mapping[str, int]) -> Plan:
    """The plan with the entries at `counts` tuples of tokens in place of each reading's factor.

    `counts` are by the name of the table. The entries are a factor over numbers and the axes that
    are left; the number at each position is an input.
    """
    names = entry_names(plan, readings)
    by_table = {reading.gather.name: reading for reading in readings}
    gone = {reading.factor for reading in readings}
    preparations = []
    for step in plan.preparations:
        if isinstance(step, Cut) and step.source in gone:
            continue
        if step.name in by_table:
            first = by_table[step.name].gather.tokens[0]
            name = names[step.name]
            none = (0,) * len(first.shift)
            token = TokenAxis(axis=0, input=name.input, path=(), group=0, shift=none)
            step = Gather(name=step.name, source=name.factor, tokens=(token,))
        preparations.append(step)
    return replace(
        plan,
        grammar=grammar_with_entries(plan.grammar, plan, readings, counts),
        parameters=(
            *(name for name in plan.parameters if name not in gone),
            *(name.factor for name in names.values()),
        ),
        preparations=tuple(preparations),
    )


def grammar_with_entries(
    grammar: Grammar, plan: Plan, readings: tuple[TokenReading, ...], counts: Mapping[str, int]
) -> Grammar:
    """A grammar of the plan with the factors and inputs that `with_entries` adds."""
    domains, factors, inputs = [], [], []
    names = entry_names(plan, readings)
    for reading in readings:
        table, new = reading.gather.name, names[reading.gather.name]
        sizes = (counts[table], *reading.rest)
        axes = tuple(f"{new.factor}_{axis}" for axis in range(len(sizes)))
        domains += [
            Domain(name=name, shape=Sized(Expr.of(size)))
            for name, size in zip(axes, sizes, strict=True)
        ]
        factors.append(Factor(name=new.factor, domains=axes))
        shape = grammar.input[reading.gather.tokens[0].input].shape
        inputs.append(Input(name=new.input, domain=axes[0], shape=shape))
    return replace(
        grammar,
        domains=(*grammar.domains, *domains),
        factors=(*grammar.factors, *factors),
        inputs=(*grammar.inputs, *inputs),
    )
