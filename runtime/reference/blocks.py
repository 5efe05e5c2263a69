"""The cells of a component in blocks that can be solved one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from fgg.runtime.interpret.semirings.base import Numbers
from fgg.runtime.interpret.semirings.boolean import Boolean
from fgg.runtime.program.bind import Logs
from fgg.runtime.reference.chart import ValueChart, Weights
from fgg.runtime.reference.problem import AnyProblem, Problem


@dataclass(frozen=True)
class Block:
    """Cells that depend on each other, or a single cell.

    `needs` are the numbers of the blocks it depends on.
    """

    cells: NDArray[np.intp]
    cyclic: bool
    needs: tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """Which cells of a problem are not zero, and how they depend on each other.

    `levels` lists the blocks in stages: a block needs blocks of earlier stages only.
    """

    active: NDArray[np.bool_]
    blocks: tuple[Block, ...]
    levels: tuple[tuple[int, ...], ...]


def structure(problem: AnyProblem) -> Structure:
    """The support of the least solution, and the strongly connected blocks of its cells."""
    active = support(problem)
    rows, columns = _pattern(boolean_shadow(problem, {}), active)
    return Structure(active, *_blocks(active, rows, columns))


def support(
    problem: AnyProblem, infinite: Mapping[str, NDArray[np.bool_]] | None = None
) -> NDArray[np.bool_]:
    """A mask `[cells]` of the cells whose least solution is not zero.

    `infinite` masks the infinite cells of nonterminals from below; these are not zero either.
    """
    shadow = boolean_shadow(problem, infinite or {})
    active = np.zeros(problem.size, dtype=bool)
    while True:
        following = np.asarray(shadow.apply(active), dtype=bool)
        if bool((following == active).all()):
            return active
        active = following


def boolean_shadow(
    problem: AnyProblem, infinite: Mapping[str, NDArray[np.bool_]]
) -> Problem[NDArray[np.bool_]]:
    """The same problem over the booleans: true stands for what is not zero.

    `infinite` masks the infinite cells of nonterminals from below; the chart has zeros there.
    """
    boolean = Boolean()
    real: dict[str, Numbers | Logs] = {
        name: problem.semiring.nonzero(problem.weights.converted(name))
        for name in problem.weights.real
    }
    chart = ValueChart(boolean)
    for term in problem.terms:
        for child in term.children:
            if child not in problem.offsets and child not in chart.place:
                value = problem.semiring.nonzero(problem.chart.get(child))
                if child in infinite:
                    value = value | infinite[child]
                chart.add([child], value.reshape((1, *value.shape)))
    weights = Weights(problem.system.grammar, boolean, real)
    return Problem(problem.system, problem.component, weights, chart)


def _pattern(
    shadow: Problem[NDArray[np.bool_]], active: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs (row, column) of active cells such that the row depends on the column."""
    rows, columns = [], []
    for r, c, value in shadow.derivative(active):
        keep = np.asarray(value, dtype=bool) & active[c]
        rows.append(r[keep])
        columns.append(c[keep])
    if not rows:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    pairs = np.unique(np.stack([np.concatenate(rows), np.concatenate(columns)]), axis=1)
    return pairs[0], pairs[1]


def _blocks(
    active: NDArray[np.bool_], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> tuple[tuple[Block, ...], tuple[tuple[int, ...], ...]]:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    size = len(active)
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    _, labels = connected_components(graph, directed=True, connection="strong")
    cells = np.flatnonzero(active)
    names = {label: i for i, label in enumerate(dict.fromkeys(labels[cells].tolist()))}
    members: list[list[int]] = [[] for _ in names]
    for cell in cells.tolist():
        members[names[labels[cell]]].append(cell)
    needs: list[set[int]] = [set() for _ in names]
    cyclic = [len(m) > 1 for m in members]
    heads = labels[rows]
    tails = labels[columns]
    for head, tail in {*zip(heads.tolist(), tails.tolist(), strict=True)}:
        if head != tail:
            needs[names[head]].add(names[tail])
    for cell in rows[rows == columns].tolist():
        cyclic[names[labels[cell]]] = True
    sorter = TopologicalSorter({i: needs[i] for i in range(len(members))})
    sorter.prepare()
    levels = []
    while sorter.is_active():
        ready = tuple(sorted(sorter.get_ready()))
        levels.append(ready)
        sorter.done(*ready)
    blocks = tuple(
        Block(np.array(m, dtype=np.intp), cyclic[i], tuple(sorted(needs[i])))
        for i, m in enumerate(members)
    )
    return blocks, tuple(levels)
