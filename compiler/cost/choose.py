"""The space in which a grammar's plan has the fewest multiply-adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from fgg.compiler.cost.cost import Cost, cost
from fgg.compiler.driver import SPACES, Done, Expected, plan_of
from fgg.compiler.passes.cpd import cpd
from fgg.compiler.plan.lower import CannotCompile
from fgg.compiler.rank.uses import NotRankSpace
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size, lengths, size_values
from fgg.plan import Plan
from fgg.plan.spaces import SpaceWork, turns


@dataclass(frozen=True)
class SpaceChoice:
    """The cheapest space and its plan, and the cost of every space that was tried.

    `refused` says, for each other space, why the grammar cannot or should not be compiled in it.
    """

    space: str
    plan: Plan
    costs: Mapping[str, Cost]
    refused: Mapping[str, str]
    products: int = 0

    def works(self, lengths: Mapping[str, int] | None = None) -> dict[str, SpaceWork]:
        """The work of each space on items of these lengths, or of those expected."""
        works = {}
        for space, known in self.costs.items():
            at = known if lengths is None else cost(known.plan, lengths, batch=known.batch)
            once = sum(item.multiply_adds for item in at.items if item.kind == "weights")
            each = (at.multiply_adds - once) // at.batch
            works[space] = SpaceWork(once + (self.products if space == "dense" else 0), each)
        return works

    @property
    def turning_points(self) -> str:
        """For how many items each space is the cheapest, in a sentence; empty if one always is."""
        points = turns(self.works())
        if len(points) < 2:
            return ""
        at = next(iter(self.costs.values()))
        sizes = ", ".join(f"{name} = {value}" for name, value in at.lengths.items())
        first, *others = points
        parts = [f"{first[1]} space below {others[0][0]:,} items of {sizes}"]
        parts += [f"{space} space from {items:,} on" for items, space in others]
        return f"by batch: {', '.join(parts)}"

    def work(self, space: str) -> int:
        """The multiply-adds of a space; in dense space, factors are made from their pieces."""
        return self.costs[space].multiply_adds + (self.products if space == "dense" else 0)

    @property
    def reason(self) -> str:
        """Why this space, in a sentence; empty if there was nothing to choose."""
        if len(self.costs) + len(self.refused) < 2:
            return ""
        at = next(iter(self.costs.values()))
        sizes = ", ".join(f"{name} = {value}" for name, value in at.lengths.items())
        numbers = [f"{name} {self.work(name):.3g}" for name in self.costs]
        numbers += [f"{name} none ({why})" for name, why in self.refused.items()]
        reason = (
            f"{self.space} space is the cheapest; multiply-adds"
            f"{f' at {sizes}' if sizes else ''}, batch {at.batch}: {', '.join(numbers)}"
        )
        return "; ".join(filter(None, (reason, self.turning_points)))


def choose(grammar: Grammar, expected: Expected, *, pinned: bool = True) -> SpaceChoice:
    """The cheapest space for a grammar without queries.

    Raises CannotCompile or SplitImpossible if the grammar cannot be compiled in any.
    """
    if cpd(grammar) is grammar and not any(domain.rank for domain in grammar.domains):
        # There are no rank nodes: all spaces are one.
        only = plan_of(grammar, expected, "state", pinned=pinned)
        return SpaceChoice("state", only, {}, {})
    plans: dict[str, Plan] = {}
    costs: dict[str, Cost] = {}
    refused: dict[str, str] = {}
    failure: CannotCompile | None = None
    products = _products(grammar)
    done: Done = {}
    for space in reversed(SPACES):
        if space == "dense" and costs and products > min(c.multiply_adds for c in costs.values()):
            refused[space] = f"multiplying the factors out alone takes {products:.3g}"
            continue
        try:
            plans[space] = plan_of(grammar, expected, space, pinned=pinned, done=done)
        except NotRankSpace as error:
            refused[space] = str(error)
            continue
        except CannotCompile as error:
            failure = error
            refused[space] = str(error)
            continue
        at = dict.fromkeys(lengths(grammar), expected.length)
        costs[space] = cost(plans[space], at, batch=expected.batch)
    if not plans:
        assert failure is not None
        raise failure
    any_ = next(iter(plans))
    choice = SpaceChoice(any_, plans[any_], costs, refused, products)
    best = min(costs, key=choice.work)
    choice = replace(choice, space=best)
    return replace(choice, plan=replace(plans[best], notes=(choice.reason,)))


def _products(grammar: Grammar) -> int:
    """The multiply-adds of making each factor of declared rank from its pieces."""
    used = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    total = 0
    for factor in grammar.factors:
        if factor.name in used and factor.rank is not None and factor.value is None:
            entries = prod(domain_size(grammar, domain) for domain in factor.domains)
            total += entries * (factor.rank.evaluate(size_values(grammar)) or 0)
    return total
