"""Forests grown from the plan that derivations are read from.

Cells of the plan become nodes, and the choices of a cell its alternatives. Where the plan pins
nodes to tokens and nothing else depends on them, items of one shape share a forest: entries are
then linear in tokens. Otherwise each item has a forest of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fgg.grammar import Clamp, Edge, Grammar, Rule
from fgg.grammar.domains import domain_size, parts
from fgg.grammar.index import Expr
from fgg.grammar.values import Map
from fgg.inputs.tokens import MISSING
from fgg.plan import Plan
from fgg.runtime.derive.assemble import Source
from fgg.runtime.derive.cell_index import LooksUp, StepIndex, function_of
from fgg.runtime.derive.choices import Cell, Choice, RuleChoices
from fgg.runtime.derive.plan_choices import BatchSteps, PlanChoices
from fgg.runtime.forest.engine import PackedForest
from fgg.runtime.forest.forest import Alternative, Forest, Slot
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.prepare import tokens as tokens_of
from fgg.runtime.program.chart_reader import DerivationModules, log_charts
from fgg.runtime.program.inputs import Collated
from fgg.runtime.program.prepared_batch import suited_to
from fgg.runtime.program.program import CompiledProgram

Ints = NDArray[np.int64]
Key = tuple[str, tuple[str, ...]]
"""An input, and the path of the part of its tokens that is read."""


class NoForest(Exception):
    """A forest would have more alternatives than allowed, or weights that are no entries."""


class NotShared(Exception):
    """The shape of the forest depends on the tokens."""


@dataclass(frozen=True)
class Entries:
    """The flat weights: each factor's first entry, and its extents."""

    first: Mapping[str, int]
    shape: Mapping[str, tuple[int, ...]]

    @staticmethod
    def of(shapes: Mapping[str, tuple[int, ...]]) -> Entries:
        """Factors one after the other."""
        first, size = {}, 0
        for name, shape in shapes.items():
            first[name] = size
            size += int(np.prod(shape, dtype=np.int64))
        return Entries(first, dict(shapes))


@dataclass(frozen=True)
class Linear:
    """A number at each alternative: `base` plus strides times tokens, by their places."""

    base: Ints
    terms: tuple[tuple[int, Ints], ...] = ()

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, Linear):
            return Linear(self.base + other.base, (*self.terms, *other.terms))
        return Linear(self.base + other, self.terms)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Linear:
        return Linear(self.base * factor, tuple((factor * s, at) for s, at in self.terms))

    __rmul__ = __mul__

    def part(self, grammar: Grammar, domain: str, path: Sequence[str]) -> Linear:
        """The value of the part that a path names. Raises NotShared if that is not linear."""
        value = self
        for name in path:
            part = parts(grammar, domain)[name]
            if not value.terms:
                value = Linear(value.base // part.stride % part.period - part.offset)
            elif part.stride == 1 and part.period >= domain_size(grammar, domain):
                value = value + -part.offset
            else:
                raise NotShared
            domain = part.domain
        return value

    def rows(self, count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The base and the places of the tokens at each alternative."""
        base = np.broadcast_to(self.base, (count,)).tolist()
        places = [np.broadcast_to(at, (count,)).tolist() for _, at in self.terms]
        return zip(base, zip(*places, strict=True) if places else iter([()] * count), strict=True)

    def values(self, count: int) -> Sequence[int | TokenAt]:
        """The value at each alternative. Raises NotShared if it is neither a number nor a token."""
        if not self.terms:
            return list(np.broadcast_to(self.base, (count,)).tolist())
        if len(self.terms) > 1 or self.terms[0][0] != 1 or np.any(self.base != 0):
            raise NotShared
        return [TokenAt(place) for _, (place,) in self.rows(count)]

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of each term."""
        return tuple(stride for stride, _ in self.terms)


@dataclass(frozen=True, eq=False)
class ItemForest:
    """The forest of an item, and the tokens that its slots depend on."""

    packed: PackedForest
    tokens: Ints


class Forests:
    """The forests of a program's items.

    `support` has a weight for each factor that the program takes: 0 where an entry is impossible.
    `limit` is the most alternatives of a forest.
    """

    def __init__(
        self,
        program: CompiledProgram,
        entries: Entries,
        support: Mapping[str, Tensor],
        limit: int,
    ) -> None:
        self.program = program
        self.entries = entries
        self.support = support
        self.limit = limit
        self.with_zeros = {n for n, weight in support.items() if bool((weight == 0).any())}
        self.decided: dict[int, bool] = {}
        self.unshared: set[Hashable] = set()  # shapes whose items need forests of their own
        self.forests: dict[Hashable, PackedForest | None] = {}

    def of(self, collated: Collated) -> ItemForest | None:
        """The forest of a batch of one item, or None if it would be too large."""
        suited = suited_to(self.program, collated)
        known = suited.known_trees if suited is self.program else None
        plan, modules = known or (suited.trees, suited.tree_modules)
        if least_alternatives(self.program, plan) > self.limit:
            return None
        batch = batch_of(plan, collated.inputs, dict(collated.lengths) or None)
        missing = any(bool((array == MISSING).any()) for array in batch.tokens.values())
        if not missing and not batch.potentials:
            places = TokenPlaces(plan.grammar, batch)
            key = (id(plan), *_shape(batch), (places.tokens < 0).tobytes())
            if key not in self.unshared and not self.tokens_decide(plan):
                try:
                    packed = self._grown(key, plan, modules, places.alike(batch), places)
                except NotShared:
                    self.unshared.add(key)
                else:
                    return None if packed is None else ItemForest(packed, places.tokens)
        tokens = tuple(array.tobytes() for array in batch.tokens.values())
        packed = self._grown((id(plan), *_shape(batch), tokens), plan, modules, batch, None)
        return None if packed is None else ItemForest(packed, NO_TOKENS)

    def tokens_decide(self, plan: Plan) -> bool:
        """Whether a token may decide that a weight is 0, so that choices are live by tokens."""
        if id(plan) not in self.decided:
            tokens = token_nodes(plan.grammar)
            self.decided[id(plan)] = any(
                not tokens[rule.name].isdisjoint(self.picky_nodes(rule))
                for rule in plan.grammar.rules
            )
        return self.decided[id(plan)]

    def picky_nodes(self, rule: Rule) -> set[str]:
        """The nodes of a rule whose values decide whether a weight is 0."""
        source = self.program.origin
        origin = source.origin(rule)
        picky = set()
        for used in source.factor_uses.get(origin.rule, ()):
            pieces = self.program.pieces(used.label)
            is_given = used.label not in self.entries.first and pieces == (used.label,)
            if is_given or not self.with_zeros.isdisjoint(pieces):
                picky |= {name for node, _, _ in used.nodes for name in origin.nodes[node].nodes}
        return picky

    def _grown(
        self,
        key: Hashable,
        plan: Plan,
        modules: DerivationModules,
        batch: Batch,
        places: TokenPlaces | None,
    ) -> PackedForest | None:
        """The forest of a shape; it is kept."""
        if key not in self.forests:
            weights = self.program.whole(self.support, plan.parameters)
            charts = log_charts(plan, modules, weights, batch)
            growth = _Growth(self, PlanChoices(BatchSteps(charts), 0), places)
            try:
                self.forests[key] = PackedForest(growth.forest())
            except NoForest:
                self.forests[key] = None
        return self.forests[key]


def least_alternatives(program: CompiledProgram, plan: Plan) -> int:
    """The most assignments of one rule: a forest that uses the rule has no fewer alternatives."""
    grammar, uses = plan.grammar, program.origin.factor_uses
    most = 0
    for rule in grammar.rules:
        read = {clamp.attachment.node for clamp in rule.rhs.clamps}
        free = (node for node in rule.rhs.nodes if node.name not in read)
        ranks = [1]
        for used in uses.get(program.origin.origin(rule).rule, ()):
            first, *others = program.pieces(used.label)
            ranks.append(program.shape(first)[-1] if others else 1)
        count = prod(domain_size(grammar, node.domain) for node in free)
        most = max(most, count * max(ranks))
    return most


def token_nodes(grammar: Grammar) -> dict[str, set[str]]:
    """The nodes of each rule that may have the value of a token, through other rules, too."""
    heads: set[tuple[str, int]] = set()  # families, and the numbers of their external nodes
    while True:
        nodes = {
            rule.name: {clamp.attachment.node for clamp in rule.rhs.clamps}
            | {name for i, name in enumerate(rule.rhs.externals) if (rule.lhs, i) in heads}
            for rule in grammar.rules
        }
        more = {
            (edge.label, i)
            for rule in grammar.rules
            for edge in rule.rhs.edges
            if edge.label in grammar.nonterminal
            for i, attachment in enumerate(edge.attachments)
            if attachment.node in nodes[rule.name]
        }
        if more <= heads:
            return nodes
        heads |= more


NO_TOKENS: Ints = np.zeros(1, dtype=np.int64)


def _shape(batch: Batch) -> tuple[Hashable, ...]:
    """What a forest depends on besides tokens: lengths, extents, tables, log-potentials."""
    return (
        tuple(int(values[0]) for values in batch.lengths.values()),
        tuple(array.shape for array in batch.tokens.values()),
        tuple(table.tobytes() for table in batch.tables.values()),
        tuple(potentials.detach().numpy().tobytes() for potentials in batch.potentials.values()),
    )


class TokenPlaces:
    """The tokens of an item that clamps read, one after the other, as forests number them."""

    def __init__(self, grammar: Grammar, batch: Batch) -> None:
        self.first: dict[Key, int] = {}
        self.shape: dict[Key, tuple[int, ...]] = {}
        arrays: list[Ints] = []
        size = 0
        for rule in grammar.rules:
            for clamp in rule.rhs.clamps:
                key = (clamp.input, clamp.path)
                if key in self.first:
                    continue
                values = tokens_of(grammar, batch, *key)[0]
                self.first[key], self.shape[key] = size, values.shape
                arrays.append(values.reshape(-1))
                size += values.size
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *arrays])
        self.tokens: Ints = np.ascontiguousarray(flat, dtype=np.int64)

    def of(self, clamp: Clamp, indices: Sequence[Any]) -> Any:
        """The places of the tokens that a clamp reads, by the values of its indices."""
        key = (clamp.input, clamp.path)
        place: Any = 0
        for index, extent in zip(indices, self.shape[key], strict=True):
            place = place * extent + index
        return self.first[key] + place

    def alike(self, batch: Batch) -> Batch:
        """The item with all its tokens equal: whatever is live for any item is live in it.

        Raises NotShared if tokens are read in parts: two parts have no equal tokens.
        """
        if any(path for _, path in self.first):
            raise NotShared
        tokens = {name: np.minimum(array, 0) for name, array in batch.tokens.items()}
        return replace(batch, tokens=tokens)


@dataclass(frozen=True)
class TokenAt:
    """A value that is the token at a place, whatever that is."""

    place: int


class CellNode(NamedTuple):
    """The node of a cell, whose external nodes have values that may be tokens."""

    family: str
    indices: tuple[int, ...]
    values: tuple[int | TokenAt, ...]


@dataclass(frozen=True)
class _Part:
    """The live choices of a cell by one rule: index variables by point, values of nodes."""

    choices: RuleChoices
    step: StepIndex
    point: Ints
    values: Mapping[str, Linear]

    @property
    def count(self) -> int:
        """The number of live choices."""
        return len(self.point)


class _Growth:
    """A forest that grows from the start cells of an item."""

    def __init__(self, forests: Forests, choices: PlanChoices, places: TokenPlaces | None) -> None:
        self.entries_of = forests.entries
        self.program = forests.program
        self.source: Source = forests.program.origin
        self.limit = forests.limit
        self.with_zeros = forests.with_zeros
        self.choices = choices
        self.places = places
        self.number = 0
        self.referred: set[_WholeEntry] = set()
        self.has_potentials = bool(choices.grammar.input_factors)

    def forest(self) -> Forest:
        """The nodes below a root that is the sum of the start cells."""
        root: Hashable = ("root",)
        starts = [cell for cell in self.choices.start if self.choices.inside(cell) > -np.inf]
        grown: dict[Hashable, list[Alternative]] = {}
        nodes: list[tuple[Hashable, list[Alternative]]] = []
        agenda: list[tuple[Hashable, bool]] = [(root, False)]
        while agenda:
            key, done = agenda.pop()
            if done:
                nodes.append((key, grown[key]))
                continue
            if key in grown:
                continue
            grown[key] = (
                [Alternative((), (CellNode(*cell),)) for cell in starts]
                if key == root
                else list(self.alternatives(key))
            )
            agenda.append((key, True))
            below = {child for a in grown[key] for child in a.children}
            agenda += [(child, False) for child in below if child not in grown]
        return Forest.of(nodes)

    def alternatives(self, key: Hashable) -> Iterator[Alternative]:
        """The alternatives of a cell, or of an entry of a factor of declared rank."""
        if isinstance(key, CellNode):
            if self.places is not None:
                self.check_clamps(key, self.places)
            for choices in self.choices.at(self.cell(key)).rules:
                part = self.part(choices, key)
                self.grew(part.count)
                yield from self.of_part(part)
        else:
            assert isinstance(key, _WholeEntry)
            yield from self.of_entry(key)

    def grew(self, count: int) -> None:
        self.number += count
        if self.number > self.limit:
            raise NoForest

    def cell(self, key: CellNode) -> Cell:
        """The cell of a node in the item at hand."""
        values = [0 if isinstance(value, TokenAt) else value for value in key.values]
        return Cell(key.family, key.indices, tuple(values))

    def check_clamps(self, key: CellNode, places: TokenPlaces) -> None:
        """Raise NotShared if a rule for a cell needs two tokens, or a token and a value, to agree.

        The item at hand has equal tokens only, so no cell that others have is missing.
        """
        for step in self.choices.steps.of_family.get(key.family, ()):
            heads = zip(step.step.head_axes, key.values, strict=True)
            if not step.clamps:
                continue
            points = step.points(self.choices.known, key.indices) if step.is_fast else None
            if points is None:
                if not step.is_fast:
                    raise NotShared
                continue
            read: dict[str, Any] = {
                name: value.place if isinstance(value, TokenAt) else None for name, value in heads
            }
            for clamp in step.clamps:
                place = places.of(clamp.clamp, [points.at(i) for i in clamp.place.indices])
                name = clamp.clamp.attachment.node
                if name in read and (read[name] is None or np.any(read[name] != place)):
                    raise NotShared
                read[name] = place

    def part(self, choices: RuleChoices, key: CellNode) -> _Part:
        """The live choices of one rule."""
        step = self.choices.steps.of_rule[choices.rule.name]
        numbers = np.flatnonzero(np.isfinite(choices.scores.reshape(-1)))
        point, *inner = np.unravel_index(numbers, choices.scores.shape)
        values = {name: Linear(np.asarray(value)) for name, value in choices.fixed.items()}
        values |= {n: Linear(v) for n, v in zip(choices.inner, inner, strict=True)}
        read: dict[str, Linear] = {}
        if self.places is None:
            values |= {n: Linear(at_points[point]) for n, at_points in choices.seen.items()}
        else:
            for name, value in zip(step.step.head_axes, key.values, strict=True):
                if isinstance(value, TokenAt):
                    read[name] = _token(np.array([value.place]))
            for clamp in step.clamps:
                at = [self.index(choices, i, point) for i in clamp.clamp.indices]
                read[clamp.clamp.attachment.node] = _token(self.places.of(clamp.clamp, at))
            values |= read
        return _Part(choices, step, point, values)

    def index(self, choices: RuleChoices, expr: Expr, point: Ints) -> Ints:
        """An index expression of a rule at each choice."""
        known = {**self.choices.known, **choices.points}
        try:
            values = np.asarray(function_of(expr)(known), dtype=np.int64)
        except LooksUp:
            values = np.array(
                [
                    self.choices.evaluate(Choice(choices.rule, variables, {}), expr)
                    for variables in _settings(choices)
                ]
            )
        return values[point] if values.ndim else np.broadcast_to(values, point.shape)

    def of_part(self, part: _Part) -> Iterator[Alternative]:
        """The alternatives of the live choices of one rule."""
        children: list[Sequence[Hashable]] = [
            self.cells(part, edge, nodes) for edge, nodes in part.step.children
        ]
        slots: list[Sequence[Slot]] = []
        source = self.source
        origin = source.origin(part.choices.rule)
        values = origin.values(source.grammar, part.values)  # type: ignore[arg-type]
        for used in source.factor_uses[origin.rule]:
            place = [
                values[node].part(source.grammar, domain, path)  # type: ignore[attr-defined]
                for node, domain, path in used.nodes
            ]
            pieces = self.program.pieces(used.label)
            if used.label in self.entries_of.first:
                slots.append(self.slots(used.label, place, part.count))
            elif pieces == (used.label,):
                # A map: its weights are 1 and 0, and choices of weight 0 are not live.
                if not isinstance(source.grammar.factor[used.label].value, Map):
                    raise NoForest
            else:
                children.append(self.entries(used.label, place, part.count))
        logs = self.coefficients(part) if self.has_potentials else [0.0] * part.count
        for number in range(part.count):
            yield Alternative(
                tuple(column[number] for column in slots),
                tuple(column[number] for column in children),
                logs[number],
            )

    def cells(self, part: _Part, edge: Edge, nodes: Sequence[str]) -> Sequence[CellNode]:
        """The cell that an edge goes on with, at each choice."""
        indices = [self.index(part.choices, index, part.point).tolist() for index in edge.indices]
        columns = [part.values[name].values(part.count) for name in nodes]
        at = list(zip(*indices, strict=True)) if indices else [()] * part.count
        states = list(zip(*columns, strict=True)) if columns else [()] * part.count
        return [CellNode(edge.label, i, v) for i, v in zip(at, states, strict=True)]

    def flat(self, label: str, place: Sequence[Linear]) -> Linear:
        """The flat index of an entry of a factor."""
        entry = Linear(np.zeros(1, dtype=np.int64))
        for value, extent in zip(place, self.entries_of.shape[label], strict=True):
            entry = entry * extent + value
        return entry + self.entries_of.first[label]

    def slots(self, label: str, place: Sequence[Linear], count: int) -> Sequence[Slot]:
        """The slot of a factor's entry at each choice."""
        entry = self.flat(label, place)
        strides = entry.strides
        return [Slot(base, tokens, strides) for base, tokens in entry.rows(count)]

    def entries(self, label: str, place: Sequence[Linear], count: int) -> Sequence[_WholeEntry]:
        """The node of an entry of a factor of declared rank, at each choice."""
        rows = [list(value.rows(count)) for value in place]
        strides = tuple(value.strides for value in place)
        entries = [
            _WholeEntry(label, tuple(row[number] for row in rows), strides)
            for number in range(count)
        ]
        new = set(entries) - self.referred
        self.referred |= new
        self.grew(len(new) * self.ranks(label))
        return entries

    def ranks(self, label: str) -> int:
        """The rank of a factor."""
        return self.entries_of.shape[self.program.pieces(label)[0]][-1]

    def of_entry(self, key: _WholeEntry) -> Iterator[Alternative]:
        """The entry of a product of pieces: a sum over its rank [TD]."""
        names = self.program.pieces(key.label)
        given = self.program.weighted.factor[key.label].given or 0
        place = [
            Linear(np.array([base]), tuple((s, np.array([t])) for s, t in zip(by, at, strict=True)))
            for (base, at), by in zip(key.place, key.strides, strict=True)
        ]
        ranks = self.ranks(key.label)
        rank = Linear(np.arange(ranks))
        columns = [self.slots(names[0], [*place[:given], rank], ranks)]
        for name, value in zip(names[1:], place[given:], strict=True):
            columns.append(self.slots(name, [rank, value], ranks))
        for slots in zip(*columns, strict=True):
            yield Alternative(slots, ())

    def coefficients(self, part: _Part) -> list[float]:
        """The log-potentials at each choice."""
        total = np.zeros(part.count)
        for edge in part.step.edges:
            if edge.edge.label in self.choices.grammar.input_factor:
                array = self.choices.steps.array(edge.array)
                at = [self.index(part.choices, i, part.point) for i in edge.edge.indices]
                states = [part.values[name].base for name in edge.nodes]
                total = total + array[(*at, self.choices.item, *states)]
        return list(total.tolist())


@dataclass(frozen=True)
class _WholeEntry:
    """The node of an entry of a factor of declared rank: its place, linear in tokens."""

    label: str
    place: tuple[tuple[int, tuple[int, ...]], ...]
    strides: tuple[tuple[int, ...], ...]


def _token(places: Ints) -> Linear:
    """The tokens at places."""
    return Linear(np.zeros(1, dtype=np.int64), ((1, np.asarray(places)),))


def _settings(choices: RuleChoices) -> Iterator[dict[str, int]]:
    """The values of a rule's index variables at each point."""
    for point in range(choices.scores.shape[0]):
        yield {
            name: int(value[point] if isinstance(value, np.ndarray) else value)
            for name, value in choices.points.items()
        }
