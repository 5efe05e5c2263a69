"""Backbones: the part of a derivation's tree that some words depend on [ID App. C.2].

Nodes that lead to no observed word sum to one and go; nodes on the way between two others are
multiplied out. The root, the words and the nodes where their ways part are left, and between them
*paths*, the names of the factors on the way. All derivations with the same backbone have the
same moments, so that it is enough to count them. Children have no order: the words at the leaves
tell them apart, so that a subtree that ends in the projected word is the same on either side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fgg.diagnostics import refuse
from fgg.runtime.unmix.topology import Instance, Template, Topologies

Path = tuple[str, ...]
Marks = tuple[tuple[int, int], ...]
"""Pairs of numbers: a position or a node, and the observed word that is there."""
Memo = dict[tuple[str, Marks], dict[int, int]]


@dataclass(frozen=True, order=True)
class Backbone:
    """A tree: the observed word at its root if there is one, and subtrees with the paths to them.

    `source` names the factor that draws the root of the whole tree. Words are called by their place
    in the list of observed positions, from 1.
    """

    word: int
    children: tuple[tuple[Path, Backbone], ...] = ()
    source: str = ""

    def renamed(self, words: Mapping[int, int]) -> Backbone:
        """The same backbone with other names for its words."""
        children = tuple(sorted((path, tree.renamed(words)) for path, tree in self.children))
        return Backbone(words.get(self.word, self.word), children, self.source)

    def without_stem(self, stationary: Mapping[str, str]) -> Backbone:
        """The backbone of the same moments when root distributions are stationary.

        Steps that leave the distribution of the root as it is are left out at the top.
        """
        step = stationary.get(self.source)
        if self.word or len(self.children) != 1 or step is None:
            return self
        ((path, tree),) = self.children
        steps = 0
        while steps < len(path) and path[steps] == step:
            steps += 1
        if steps < len(path):
            return Backbone(0, ((path[steps:], tree),), self.source)
        return Backbone(tree.word, tree.children, self.source)

    def __str__(self) -> str:
        inside = ", ".join(f"{'.'.join(path)}:{tree}" for path, tree in self.children)
        name = self.source + (f" w{self.word}" if self.word else "")
        return f"{name.strip()}({inside})" if inside else name.strip() or "()"


class Backbones:
    """Counts backbones by dynamic programming over cells, with a memo of joined ones."""

    def __init__(self) -> None:
        self._numbers: dict[_Partial, int] = {}
        self._partials: list[_Partial] = []
        self._joined: dict[tuple[Template, Marks], dict[tuple[int, ...], int]] = {}
        self._whole: dict[int, Backbone] = {}

    def count(self, topologies: Topologies, words: tuple[int, ...]) -> dict[Backbone, int]:
        """How many derivations have each backbone with respect to these positions."""
        (counts,) = self.count_all(topologies, [words])
        return {self.tree(number): count for number, count in counts.items()}

    def count_all(
        self, topologies: Topologies, observed: Iterable[tuple[int, ...]]
    ) -> list[Mapping[int, int]]:
        """The counts for several lists of positions, by the numbers of backbones."""
        memo: Memo = {}  # what they share is computed once
        counts: list[Mapping[int, int]] = []
        for words in observed:
            marks = tuple((position, number) for number, position in enumerate(words, 1))
            counts.append(self._cell(topologies, topologies.start, marks, memo))
        return counts

    def tree(self, number: int) -> Backbone:
        """The backbone of this number as a tree."""
        if number not in self._whole:
            self._whole[number] = self._partials[number].tree()
        return self._whole[number]

    def _cell(
        self,
        topologies: Topologies,
        cell: str,
        marks: Marks,
        memo: Memo,
    ) -> dict[int, int]:
        """The number of derivations of a cell with each partial backbone [ID eq. 22]."""
        key = (cell, marks)
        if key in memo:
            return memo[key]
        counts: dict[int, int] = defaultdict(int)
        for instance in topologies.instances[cell]:
            seen = tuple((n, w) for n, p in instance.observed for q, w in marks if p == q)
            parts = []
            for child in instance.cells:
                covered = topologies.positions[child]
                inside = tuple(mark for mark in marks if mark[0] in covered)
                parts.append(self._cell(topologies, child, inside, memo))
            self._add(counts, instance, seen, parts)
        memo[key] = counts
        return counts

    def _add(
        self,
        counts: dict[int, int],
        instance: Instance,
        seen: Marks,
        parts: list[dict[int, int]],
    ) -> None:
        """Add to `counts` the backbones that a rule makes of the partial backbones of its cells."""
        template = instance.template
        joined = self._joined.setdefault((template, seen), {})
        choices: list[tuple[tuple[int, ...], int]] = [((), 1)]
        for part in parts:
            items = part.items()
            choices = [((*c, s), n * m) for c, n in choices for s, m in items]
        for chosen, count in choices:
            number = joined.get(chosen)
            if number is None:
                number = joined[chosen] = self._number(self._join(template, seen, chosen))
            counts[number] += count

    def _number(self, partial: _Partial) -> int:
        if partial not in self._numbers:
            self._numbers[partial] = len(self._partials)
            self._partials.append(partial)
        return self._numbers[partial]

    def _join(self, template: Template, seen: Marks, chosen: tuple[int, ...]) -> _Partial:
        """The partial backbone of a rule and those of its cells [ID eq. 23]."""
        graph = _Forest()
        for node, word in seen:
            graph.words.setdefault((node,), []).append(word)
        for a, b, label in template.arcs:
            graph.arc((a,), (b,), (label,))
        for node, label in template.roots:
            graph.root((node,), label)
        for slot, (nodes, number) in enumerate(zip(template.children, chosen, strict=True)):
            graph.paste(self._partials[number], nodes, slot)
        inner: list[Vertex] = [(node,) for node in range(template.external, template.nodes)]
        return graph.reduced(template.external, inner)


Vertex = tuple[int, ...]
"""In a graph: `(node,)` of the rule, `(slot, number)` of a cell's own."""


@dataclass(frozen=True)
class _Partial:
    """A partial backbone: vertices by number, the external ones first.

    For each inner vertex: its words. Arcs are sorted; inner vertices are numbered by what is below
    them, so that equal ones compare equal.
    """

    external: int
    words: tuple[tuple[int, ...], ...]
    arcs: tuple[tuple[int, int, Path], ...]
    roots: tuple[tuple[int, str], ...]

    def tree(self) -> Backbone:
        """The backbone as a tree; it has one root and no external nodes."""
        if len(self.roots) != 1:
            refuse("F460", "a derivation has more than one root")
        ((root, label),) = self.roots
        below: dict[int, list[tuple[int, Path]]] = {}
        for a, b, path in self.arcs:
            below.setdefault(a, []).append((b, path))

        def build(vertex: int, source: str) -> Backbone:
            words = self.words[vertex]
            if len(words) > 1:
                refuse("F460", "one node is observed as two words")
            children = tuple(sorted((path, build(b, "")) for b, path in below.get(vertex, ())))
            return Backbone(words[0] if words else 0, children, source)

        return build(root, label)


class _Forest:
    """A directed forest that is put together and then reduced."""

    def __init__(self) -> None:
        self.below: dict[Vertex, dict[Vertex, Path]] = {}
        self.above: dict[Vertex, Vertex] = {}
        self.words: dict[Vertex, list[int]] = {}
        self.roots: dict[Vertex, str] = {}

    def arc(self, a: Vertex, b: Vertex, path: Path) -> None:
        if b in self.above or b in self.roots:
            refuse("F460", "a node is drawn twice", "each node has one factor that draws it")
        self.above[b] = a
        self.below.setdefault(a, {})[b] = path

    def root(self, vertex: Vertex, label: str) -> None:
        if vertex in self.above or vertex in self.roots:
            refuse("F460", "a node is drawn twice", "each node has one factor that draws it")
        self.roots[vertex] = label

    def paste(self, partial: _Partial, nodes: tuple[int, ...], slot: int) -> None:
        """Add a cell's partial backbone; its external vertices are nodes of the rule."""
        count = partial.external
        names: list[Vertex] = [(node,) for node in nodes]
        names += [(slot, number) for number in range(len(partial.words) - count)]
        for vertex, words in zip(names, partial.words, strict=True):
            if words:
                self.words.setdefault(vertex, []).extend(words)
        for a, b, path in partial.arcs:
            self.arc(names[a], names[b], path)
        for number, label in partial.roots:
            self.root(names[number], label)

    def reduced(self, external: int, inner: list[Vertex]) -> _Partial:
        """The partial backbone: inner nodes that lead nowhere, or only onwards, are left out."""
        for vertex in inner:
            if vertex not in self.above and vertex not in self.roots:
                refuse("F460", "a node is drawn by no factor", "each node has one that draws it")
        agenda = list(inner)
        while agenda:
            vertex = agenda.pop()
            if (len(vertex) == 1 and vertex[0] < external) or vertex in self.words:
                continue
            below = self.below.get(vertex, {})
            if not below and vertex in self.above:
                parent = self.above.pop(vertex)
                del self.below[parent][vertex]
                agenda.append(parent)
            elif len(below) == 1 and vertex in self.above:
                ((child, path),) = below.items()
                parent = self.above.pop(vertex)
                del self.below[vertex]
                self.below[parent][child] = self.below[parent].pop(vertex) + path
                self.above[child] = parent
        return self.numbered(external)

    def numbered(self, external: int) -> _Partial:
        """The graph with its vertices numbered by what lies below them."""
        marks: dict[Vertex, tuple[int, ...]] = {}

        def mark(vertex: Vertex) -> tuple[int, ...]:
            # External nodes are told by negative numbers: every leaf that is left has a mark.
            if vertex not in marks:
                numbers = list(self.words.get(vertex, ()))
                if len(vertex) == 1 and vertex[0] < external:
                    numbers.append(-1 - vertex[0])
                for child in self.below.get(vertex, {}):
                    numbers += mark(child)
                marks[vertex] = tuple(sorted(numbers))
            return marks[vertex]

        used = {*self.words, *self.roots, *self.above}
        used |= {v for v, below in self.below.items() if below}
        inner = [v for v in used if len(v) > 1 or v[0] >= external]
        # A root with one child has the marks of that child: it comes first.
        inner.sort(key=lambda v: (mark(v), v not in self.roots))
        order = [(node,) for node in range(external)] + inner
        number = {vertex: i for i, vertex in enumerate(order)}
        return _Partial(
            external,
            tuple(tuple(sorted(self.words.get(v, ()))) for v in order),
            tuple(
                sorted(
                    (number[a], number[b], path)
                    for a, below in self.below.items()
                    for b, path in below.items()
                )
            ),
            tuple(sorted((number[v], label) for v, label in self.roots.items())),
        )
