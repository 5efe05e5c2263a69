"""The best derivation, and the k best, in order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.runtime.derive.assemble import build, finish
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.ground_choices import Cell, Expander, start_cells
from fgg.runtime.derive.rejoin import join_parts, small_fragments
from fgg.runtime.program.bind import bind_with_logs
from fgg.runtime.reference.solution import Solution
from fgg.runtime.reference.solve import solve
from fgg.runtime.reference.system import Term, system_of


def best_solution(grammar: Grammar, weights: Mapping[str, Any]) -> Solution:
    """The values of the best derivations. Raises GrammarError if there is none, or no best one."""
    solution = solve(grammar, "max", weights=weights)
    value = np.asarray(solution.value, dtype=float)
    if np.isposinf(value).any():
        refuse("F421", "a cycle of rules has a weight of more than 1, so no derivation is the best")
    if not np.isfinite(value).any():
        refuse("F421", "there is no derivation of weight other than 0")
    return solution


def viterbi(
    grammar: Grammar,
    *,
    weights: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Derivation:
    """The derivation and assignment of the greatest weight; the first one under ties."""
    small = small_fragments(grammar)
    solution = best_solution(small.grammar, bind_with_logs(grammar, weights, seed=seed))
    expander = Expander(solution)
    start = max(start_cells(solution), key=expander.inside)
    best = build(expander, start, lambda cell: _best_choice(expander, cell))
    return join_parts(best, small, grammar)


def _best_choice(expander: Expander, cell: Cell) -> int:
    choices = expander.choices(cell)
    best = float(choices.scores.max())
    name, index = cell
    rounds = expander.solution.rounds.get(name)
    if rounds is None:
        return int(choices.scores.argmax())
    # In a recursion a tie could lead round a cycle of weight 1: take cells of earlier rounds.
    own = int(rounds[index])
    near = np.flatnonzero(choices.scores >= best - 1e-9 * max(1.0, abs(best)))
    for position in near[np.argsort(-choices.scores[near], kind="stable")]:
        term, values = choices.decode(int(position), cell)
        children = expander.children(term, values)
        if all(_round(expander, child, name) < own for child in children):
            return int(position)
    refuse("F421", "the best derivation does not end")


def _round(expander: Expander, cell: Cell, above: str) -> int:
    """The round in which a cell got its value; before all, if it is not of the same recursion."""
    rounds = expander.solution.rounds.get(cell[0])
    component = system_of(expander.solution.grammar).component_of
    if rounds is None or component[cell[0]] != component[above]:
        return -1
    return int(rounds[cell[1]])


@dataclass(frozen=True)
class _Chain:
    """A partial derivation as a linked list of the choices made so far, newest first."""

    cell: Cell
    position: int
    before: _Chain | None


def k_best(
    grammar: Grammar,
    count_: int,
    *,
    weights: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> list[Derivation]:
    """The derivations of greatest weight, at most so many, best first; exact under ties."""
    found: list[Derivation] = []
    if count_ < 1:
        return found
    for derivation in enumerate_best(grammar, weights=weights, seed=seed):
        found.append(derivation)
        if len(found) == count_:
            break
    return found


def enumerate_best(
    grammar: Grammar,
    *,
    weights: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Iterator[Derivation]:
    """All derivations, best first, as far as asked for.

    Lazy, as in Huang & Chiang 2005: a partial derivation is valued at what it has, times the
    best completions of its open cells, which are known; taking a choice puts the next best choice
    for the same cell aside. Works for recursive grammars too, since the value never rises.
    """
    small = small_fragments(grammar)
    solution = best_solution(small.grammar, bind_with_logs(grammar, weights, seed=seed))
    expander = Expander(solution)
    sorted_choices: dict[Cell, np.ndarray[Any, Any]] = {}
    ticket = count()

    def ranked(cell: Cell) -> np.ndarray[Any, Any]:
        if cell not in sorted_choices:
            scores = expander.choices(cell).scores
            order = np.argsort(-scores, kind="stable")
            order = order[np.isfinite(scores[order])]
            if cell[0] in expander.solution.rounds:
                # First a choice that ends: a cycle of weight 1 could go before it for ever.
                first = _best_choice(expander, cell)
                order = np.concatenate([[first], order[order != first]])
            sorted_choices[cell] = order
        return sorted_choices[cell]

    # (minus value, minus depth, ticket, open cells as a linked list, rank of choice, history)
    heap: list[tuple[float, int, int, Any, int, _Chain | None]] = []
    for cell in start_cells(solution):
        if np.isfinite(expander.inside(cell)):
            heapq.heappush(heap, (-expander.inside(cell), 0, next(ticket), (cell, None), 0, None))
    while heap:
        value, depth, _, agenda, rank, chain = heapq.heappop(heap)
        if agenda is None:
            yield join_parts(_unroll(expander, chain), small, grammar)
            continue
        cell, rest = agenda
        order = ranked(cell)
        scores = expander.choices(cell).scores
        position = int(order[rank])
        if rank + 1 < len(order):
            lost = max(float(scores[position] - scores[order[rank + 1]]), 0.0)
            heapq.heappush(heap, (value + lost, depth, next(ticket), agenda, rank + 1, chain))
        term, values = expander.choices(cell).decode(position, cell)
        for child in reversed(expander.children(term, values)):
            rest = (child, rest)
        following = _Chain(cell, position, chain)
        heapq.heappush(heap, (value, depth - 1, next(ticket), rest, 0, following))


def _unroll(expander: Expander, chain: _Chain | None) -> Derivation:
    made = []
    while chain is not None:
        made.append((chain.cell, chain.position))
        chain = chain.before
    made.reverse()
    parts: list[tuple[Term, dict[int, int], int | None]] = []
    children: list[list[int]] = []
    waiting: list[int | None] = [None]
    weight = 0.0
    for cell, position in made:
        parent = waiting.pop()
        number = len(parts)
        if parent is not None:
            children[parent].append(number)
        term, values = expander.choices(cell).decode(position, cell)
        weight += expander.edge_weight(term, values)
        parts.append((term, values, parent))
        children.append([])
        waiting += [number] * len(expander.children(term, values))
    return finish(expander, parts, children, weight)
