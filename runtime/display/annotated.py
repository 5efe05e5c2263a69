"""What a derivation says about a sequence: its words, and trees, arcs, tags or segments over them.

All of it follows from the cells of the derivation and from what its rules read. Cells `[i,j]` that
lie in each other are constituents; two words that one factor joins are an arc; cells `[i]` at every
position are tags, and cells that leave positions out are segments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from fgg.diagnostics import refuse
from fgg.draw.sentence import Arc, Span
from fgg.grammar import Attachment
from fgg.grammar.domains import domain_size, domain_values, path_domain, select
from fgg.runtime.derive.derivation import Derivation, Reading, Step

UNREAD = "·"
"""Stands for a position that no rule of the derivation reads."""


class Annotated:
    """A derivation with its words, and the annotation of these words that its cells amount to."""

    def __init__(self, derivation: Derivation, words: Sequence[str] | None) -> None:
        self.derivation = derivation
        self.given = words

    @property
    def title(self) -> str:
        """The title of the picture."""
        return f"derivation of {self.derivation.grammar.name}"

    @cached_property
    def cells(self) -> list[tuple[str, tuple[int, ...]]]:
        """The family and the indices of the cell that each step rewrites."""
        return [self.derivation.cell(step) for step in self.derivation.steps]

    def value(self, step: Step, attachment: Attachment) -> str:
        """The name of the value that a node, or a component of it, has in a step."""
        grammar = self.derivation.grammar
        domain = step.rule.rhs.by_name[attachment.node].domain
        if attachment.node not in step.values:
            return ""
        if not attachment.path:
            return self.derivation.value_name(step, attachment.node)
        value = select(grammar, domain, attachment.path, step.values[attachment.node])
        part = path_domain(grammar, domain, attachment.path)
        return "" if value is None or part is None else domain_values(grammar, part)[value]

    def written(self, reading: Reading) -> str | None:
        """What the user wrote where a step reads a whole token; None if that is not known."""
        observed = self.derivation.observed
        if observed is None or reading.path:
            return None
        return observed.written(reading.input, reading.position)

    @cached_property
    def sequences(self) -> dict[str, dict[int, str]]:
        """The tokens of each input with one axis, by position; the input most read comes first."""
        tokens: dict[str, dict[int, str]] = {}
        for step in self.derivation.steps:
            for reading in step.readings:
                if len(reading.position) == 1 and reading.attachment is not None:
                    of_input = tokens.setdefault(reading.input, {})
                    word = self.written(reading) or self.value(step, reading.attachment)
                    of_input[reading.position[0]] = word
        return dict(sorted(tokens.items(), key=lambda item: -len(item[1])))

    @cached_property
    def input(self) -> str | None:
        """The input whose tokens are the words."""
        return next(iter(self.sequences), None)

    @cached_property
    def length(self) -> int:
        """The number of positions."""
        tokens = next(iter(self.sequences.values()), {})
        ends = [span[1] for span in self.ends or () if span is not None]
        return max([*(place + 1 for place in tokens), *ends], default=0)

    @cached_property
    def words(self) -> list[str]:
        """The word at each position."""
        if self.given is not None:
            if len(self.given) < self.length:
                message = f"there are {len(self.given)} words for {self.length} positions"
                refuse("F412", message)
            return list(self.given[: self.length])
        tokens = next(iter(self.sequences.values()), None)
        if tokens is None:
            return [str(place) for place in range(self.length)]
        return [tokens.get(place, UNREAD) for place in range(self.length)]

    # cells with two indices or more

    @cached_property
    def ends(self) -> list[tuple[int, int] | None] | None:
        """The span of each step's cell, if cells with two indices or more lie in each other.

        The ends of a span are the first two indices of a cell, or the first and the last one.
        """
        read = [place for tokens in self.sequences.values() for place in tokens]
        for last in (1, -1):
            spans = [(x[0], x[last]) if len(x) > 1 else None for _, x in self.cells]
            known = [span for span in spans if span is not None]
            if not known or any(not 0 <= start <= end for start, end in known):
                continue
            covers = max(end for _, end in known) > max(read, default=-1)
            if covers and all(inner is None or _within(inner, o) for inner, o in self._over(spans)):
                return spans
        return None

    def _over(
        self, spans: Sequence[tuple[int, int] | None]
    ) -> Iterator[tuple[tuple[int, int] | None, tuple[int, int]]]:
        """The span of each step, with that of the nearest step above that has one."""
        above: list[tuple[int, int] | None] = []
        for step, span in zip(self.derivation.steps, spans, strict=True):
            outer = None if step.parent is None else above[step.parent]
            if outer is not None:
                yield span, outer
            above.append(span or outer)

    @cached_property
    def is_tree(self) -> bool:
        """Whether there are spans, and those below a step are side by side, from left to right."""
        if self.ends is None:
            return False
        at: dict[int, int] = {}  # where the last span below a step ends
        for step, span in zip(self.derivation.steps, self.ends, strict=True):
            if span is not None and step.parent is not None:
                if span[0] < at.get(step.parent, 0):
                    return False
                at[step.parent] = span[1]
        return True

    @cached_property
    def spans(self) -> list[Span]:
        """The outermost constituents, without empty ones."""
        made: dict[int, list[Span]] = {}
        steps = self.derivation.steps
        roots: list[Span] = []
        for number in reversed(range(len(steps))):
            step = steps[number]
            below = made.pop(number, [])[::-1]
            span = None if self.ends is None else self.ends[number]
            if span is not None:
                start, end = span
                label = self.derivation.value_label(step) or self.cells[number][0]
                below = [Span(label, start, end, tuple(below))] if start < end else []
            if step.parent is None:
                roots = below
            else:
                made.setdefault(step.parent, []).extend(reversed(below))
        return roots

    # arcs

    @cached_property
    def token_of(self) -> dict[tuple[int, str], int]:
        """The position of the word that a node of a step stands for.

        The node of a nonterminal and the external node of the rule that rewrites it are one.
        """
        steps = self.derivation.steps
        joined: dict[tuple[int, str], tuple[int, str]] = {}

        def first(node: tuple[int, str]) -> tuple[int, str]:
            while node in joined:
                node = joined[node]
            return node

        nonterminals = self.derivation.grammar.nonterminal
        for number, step in enumerate(steps):
            edges = [edge for edge in step.rule.rhs.edges if edge.label in nonterminals]
            for edge, child in zip(edges, step.children, strict=True):
                inner = steps[child].rule.rhs.externals
                for attachment, name in zip(edge.attachments, inner, strict=True):
                    one, two = first((number, attachment.node)), first((child, name))
                    if not attachment.path and one != two:
                        joined[two] = one
        read: dict[tuple[int, str], int] = {}
        for number, step in enumerate(steps):
            for reading in step.readings:
                node = reading.attachment
                if node is not None and reading.input == self.input and not node.path:
                    read[first((number, node.node))] = reading.position[0]
        return {
            (number, name): read[first((number, name))]
            for number, step in enumerate(steps)
            for name in step.rule.rhs.by_name
            if first((number, name)) in read
        }

    @cached_property
    def heads(self) -> list[Arc] | None:
        """An arc from its head to each word, if factors or scores of two words give each one."""
        arcs = [*self._factor_arcs(), *self._score_arcs()]
        dependents = [arc.end for arc in arcs]
        if len(arcs) != self.length - 1 or len(set(dependents)) != len(arcs) or not arcs:
            return None
        return [Arc(None, *({*range(self.length)} - set(dependents))), *arcs]

    def _factor_arcs(self) -> list[Arc]:
        arcs = []
        factors = self.derivation.grammar.factor
        for number, step in enumerate(self.derivation.steps):
            for edge in step.rule.rhs.edges:
                factor = factors.get(edge.label)
                if factor is None or factor.given != 1 or len(edge.attachments) != 2:
                    continue
                ends = [self.token_of.get((number, a.node)) for a in edge.attachments]
                if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
                    arcs.append(Arc(ends[0], ends[1]))
        return arcs

    def _score_arcs(self) -> list[Arc]:
        """The positions of input factors that touch no node, `arc[h,m]`."""
        return [
            Arc(*reading.position)
            for step in self.derivation.steps
            for reading in step.readings
            if reading.attachment is None and len(reading.position) == 2
            if max(reading.position) < self.length and len(set(reading.position)) == 2
        ]

    @cached_property
    def pairs(self) -> list[Arc]:
        """Two positions that one rule reads from one input, for each such rule."""
        arcs = []
        for step in self.derivation.steps:
            places = [r.position[0] for r in step.readings if r.input == self.input]
            if len(places) == 2 and places[0] != places[1]:
                arcs.append(Arc(min(places), max(places)))
        used = Counter(end for arc in arcs for end in arc.ends())
        return arcs if max(used.values(), default=0) == 1 else []

    # chains

    @cached_property
    def tags(self) -> list[str] | None:
        """The values of the cells `[i]`, one at every position, or else of what emits each word.

        A step that emits several words makes a segment of them, not tags.
        """
        if not any(len(indices) == 1 for _, indices in self.cells):
            return None
        by_cell: dict[int, str] = {}
        for step, (_, indices) in zip(self.derivation.steps, self.cells, strict=True):
            label = self.derivation.value_label(step)
            if len(indices) == 1 and label:
                by_cell[indices[0]] = label
        emitting: dict[int, str] = {}
        for step in self.derivation.steps:
            read = [reading for reading in step.readings if reading.input == self.input]
            if len(read) == 1 and read[0].attachment is not None:
                emitting[read[0].position[0]] = self._beside(step, read[0])
        every = list(range(self.length))
        for labels in (by_cell, emitting):
            if every and sorted(labels) == every and any(labels.values()):
                return [labels[place] for place in every]
        return None

    def _beside(self, step: Step, reading: Reading) -> str:
        """The values of the nodes that a factor joins to a token."""
        assert reading.attachment is not None
        names: dict[str, None] = {}
        for edge in step.rule.rhs.edges:
            nodes = [attachment.node for attachment in edge.attachments]
            if edge.label in self.derivation.grammar.factor and reading.attachment.node in nodes:
                names |= {n: None for n in nodes if n != reading.attachment.node}
        values = [self.derivation.value_name(step, name) for name in names if name in step.values]
        return "*".join(values)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """A number for each value of cells, the same in all derivations of a grammar."""
        grammar = self.derivation.grammar
        numbers: dict[str, int] = {}
        for step in self.derivation.steps:
            number = 0
            for node in step.rule.rhs.externals:
                size = domain_size(grammar, step.rule.rhs.by_name[node].domain)
                number = number * size + step.values.get(node, 0)
            numbers[self.derivation.value_label(step)] = number
        return numbers

    @cached_property
    def segments(self) -> list[tuple[list[str], str]] | None:
        """The words and the label of each segment, if tokens or cells leave positions out."""
        if self.ends is not None:
            return None
        read = self._read_segments()
        if read or not any(len(indices) == 1 for _, indices in self.cells):
            return read or None
        starts = {}
        for step, (_, indices) in zip(self.derivation.steps, self.cells, strict=True):
            if len(indices) == 1 and indices[0] < self.length:
                starts[indices[0]] = self.derivation.value_label(step)
        cuts = [*sorted(starts), self.length]
        if cuts[0] != 0 or len(cuts) > self.length:
            return None
        return [(self.words[a:b], starts[a]) for a, b in pairwise(cuts)]

    def _read_segments(self) -> list[tuple[list[str], str]]:
        """The tokens `s[i,j]` of an input with two axes, with the factors that touch them."""
        made: dict[tuple[int, ...], tuple[list[str], str]] = {}
        for step in self.derivation.steps:
            for reading in step.readings:
                node = reading.attachment
                if len(reading.position) == 2 and node is not None:
                    texts = [self.written(reading) or self.value(step, node)]
                    role = self._role(step, node)
                    if self.given is not None:
                        texts = list(self.given[slice(*reading.position)])
                    elif texts == [role]:  # the labels are the input
                        texts = list(map(str, range(*reading.position)))
                    made[reading.position] = texts, role
        return [made[position] for position in sorted(made)]

    def _role(self, step: Step, node: Attachment) -> str:
        """The state of a step, or else the factors that touch a node."""
        label = self.derivation.value_label(step)
        touching = [
            edge.label
            for edge in step.rule.rhs.edges
            if edge.label in self.derivation.grammar.factor
            and any(attachment.node == node.node for attachment in edge.attachments)
        ]
        return label or ", ".join(touching)


def _within(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
