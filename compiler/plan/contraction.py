"""The order in which a rule's operands are multiplied and summed.

An operand has axes (nodes) and index forms. A split variable is an index like any other: a product
costs as many multiplications as there are points of the index forms that occur in it, times the
values of its axes, times the batch if anything in it depends on the input. So one search pulls
parameters out of sums over splits, finds messages, and finds what can be computed before any
input is seen. (Cohen et al. 2013; Yang et al. 2022, Eq. 10.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from fgg.grammar.index import Expr

MAX_EXACT = 9
FORBIDDEN = float("inf")
MEMORY = 4.0
"""The cost of moving a number, in multiplications."""


@dataclass(frozen=True)
class RuleOperand:
    """An operand of a rule: its axes, the index forms of its cell, and what it depends on.

    `kind`: "parameter", "clamp" (the value of a node is a token), "table" or "chart".
    """

    kind: str
    axes: tuple[str, ...]
    forms: tuple[Expr, ...] = ()
    tokens: str = ""  # the axis that a clamp fixes


@dataclass(frozen=True)
class Tree:
    """A leaf (the number of an operand), or the product of two trees summed to the axes `keep`."""

    parts: frozenset[int]
    keep: tuple[str, ...]
    left: Tree | None = None
    right: Tree | None = None

    @property
    def leaf(self) -> int:
        """The number of the operand that a leaf is."""
        (number,) = self.parts
        return number

    @cached_property
    def children(self) -> tuple[Tree, ...]:
        """The two factors, or nothing for a leaf."""
        return () if self.left is None or self.right is None else (self.left, self.right)


@dataclass(frozen=True)
class Costs:
    """The assumptions of the search: sizes of axes, a length, a batch.

    `closed` axes are summed before a chart takes part, whatever it costs.
    """

    sizes: Mapping[str, int]
    length: int = 32
    batch: int = 16
    closed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """What the search knows of a product: the axes and the index forms of its result, numbered.

    `volume` is how many values the axes have together, `written` what it costs to write them.
    """

    axes: frozenset[str]
    forms: frozenset[int]
    depends: bool
    volume: float
    written: float


class Optimiser:
    """Finds the cheapest tree for the operands of one rule."""

    def __init__(
        self,
        parts: Sequence[RuleOperand],
        output: Sequence[str],
        head: Sequence[Expr],
        costs: Costs,
    ) -> None:
        self.parts = parts
        self.head = head
        self.output = tuple(dict.fromkeys(output))
        self.costs = costs
        self.everything = frozenset(range(len(parts)))
        self.parameters = frozenset(i for i, p in enumerate(parts) if p.kind == "parameter")
        self.head_names = frozenset(n for form in head for n in form.names())
        self.names = [frozenset(n for f in part.forms for n in f.names()) for part in parts]
        self._keeps: dict[frozenset[int], tuple[str, ...]] = {}
        self._facts: dict[frozenset[int], Facts] = {}
        # The search asks the same of the same few forms again and again: they are numbered.
        self._numbers: dict[Expr, int] = {}
        self._ranks: dict[frozenset[int], int] = {}

    def run(self) -> Tree:
        """The cheapest tree. The search is exhaustive, after `fewer` if there are many operands."""
        trees = [Tree(frozenset([i]), self.keep(frozenset([i]))) for i in range(len(self.parts))]
        return self.exact(trees if len(trees) <= MAX_EXACT else self.fewer(trees))

    def exact(self, leaves: Sequence[Tree]) -> Tree:
        """The cheapest product of all trees given, by a search over all subsets, as bits."""
        best = {1 << i: (0.0, leaf) for i, leaf in enumerate(leaves)}
        for whole in sorted(range(1, 1 << len(leaves)), key=int.bit_count):
            if whole in best:
                continue
            cheapest: tuple[float, Tree] | None = None
            first = whole & -whole
            others = whole ^ first
            members = [leaf.parts for i, leaf in enumerate(leaves) if whole >> i & 1]
            written = self.facts(frozenset[int]().union(*members)).written
            half = 0
            while half != others:  # every way to halve a set, once: the first one is on the left
                one, two = best.get(half | first), best.get(others ^ half)
                half = (half - others) & others
                if one is None or two is None:
                    continue
                least = one[0] + two[0]
                if cheapest is None or least + written < cheapest[0]:
                    cost = least + self.cost(one[1].parts, two[1].parts)
                    if cost < FORBIDDEN and (cheapest is None or cost < cheapest[0]):
                        parts = one[1].parts | two[1].parts
                        cheapest = (cost, Tree(parts, self.keep(parts), one[1], two[1]))
            if cheapest is not None:
                best[whole] = cheapest
        return best[(1 << len(leaves)) - 1][1]

    def fewer(self, trees: Sequence[Tree]) -> list[Tree]:
        """At most `MAX_EXACT` trees: the cheapest pair is multiplied until so few are left."""
        trees = list(trees)
        for clamp in [t for t in trees if self.parts[t.leaf].kind == "clamp"]:
            # Tokens select entries of a parameter before anything else is done with it.
            source = next(t for t in trees if t != clamp and self.gathers(clamp.parts, t.parts))
            whole = clamp.parts | source.parts
            trees = [t for t in trees if t not in (clamp, source)]
            trees.append(Tree(whole, self.keep(whole), source, clamp))
        while len(trees) > MAX_EXACT:
            choices = [
                (self.cost(a.parts, b.parts), i, j)
                for i, a in enumerate(trees)
                for j, b in enumerate(trees)
                if i < j
            ]
            _, i, j = min(choices)
            whole = trees[i].parts | trees[j].parts
            joined = Tree(whole, self.keep(whole), trees[i], trees[j])
            trees = [t for k, t in enumerate(trees) if k not in (i, j)] + [joined]
        return trees

    def keep(self, parts: frozenset[int]) -> tuple[str, ...]:
        """The axes of these operands that another operand or the head still needs."""
        if parts not in self._keeps:
            outside = {a for i in self.everything - parts for a in self.parts[i].axes}
            outside.update(self.output)
            touched = dict.fromkeys(a for i in sorted(parts) for a in self.parts[i].axes)
            self._keeps[parts] = tuple(axis for axis in touched if axis in outside)
        return self._keeps[parts]

    def facts(self, parts: frozenset[int]) -> Facts:
        """The axes and index forms of the product of some operands."""
        if parts not in self._facts:
            axes = frozenset(self.keep(parts))
            forms = self.kept_forms(parts) if self.is_apart(parts) else self.all_forms
            depends = not parts <= self.parameters
            volume = self.volume(axes)
            written = MEMORY * volume * self.points(forms, depends)
            self._facts[parts] = Facts(axes, forms, depends, volume, written)
        return self._facts[parts]

    def has_chart(self, parts: frozenset[int]) -> bool:
        """Whether a product contains a nonterminal."""
        return any(self.parts[i].kind == "chart" for i in parts)

    def cost(self, left: frozenset[int], right: frozenset[int]) -> float:
        """The cost of a product: its multiplications, and moving its result to memory."""
        one, two, both = self.facts(left), self.facts(right), self.facts(left | right)
        axes = one.axes | two.axes
        for half, other in ((left, right), (right, left)):
            gathered = self.gathers(half, other)
            if gathered is None:
                return FORBIDDEN
            if gathered:
                axes -= {gathered}
        if self.costs.closed & (axes | both.axes) and self.has_chart(left | right):
            return FORBIDDEN
        # Parameters are read once for many points; what differs from cell to cell is read at each.
        forms = one.forms | two.forms if self.is_apart(left | right) else both.forms
        points = self.points(forms, both.depends)
        read = sum(half.volume for half in (one, two) if half.depends)
        return points * (self.volume(axes) + MEMORY * read) + both.written

    def is_apart(self, parts: frozenset[int]) -> bool:
        """Whether a product can be computed apart from the step: as a table, or as a message.

        Parameters at tokens are a table if all tokens are read at the same position. A chart times
        tables is a message if it is summed over an index. Else the step computes the product, at
        every point of the rule.
        """
        kinds = [self.parts[i].kind for i in parts]
        if "chart" in kinds:
            is_mixed = kinds.count("chart") == 1 and ("table" in kinds or "clamp" in kinds)
            return not is_mixed or bool(self.summed_names(parts))
        if "table" in kinds:
            return True
        clamps = [self.parts[i] for i in sorted(parts) if self.parts[i].kind == "clamp"]
        reads = {
            tuple(clamp.forms for clamp in clamps if clamp.tokens in self.parts[i].axes)
            for i in parts & self.parameters
        }
        return len(reads - {()}) < 2

    @cached_property
    def all_forms(self) -> frozenset[int]:
        """The index forms of all operands and of the head, numbered."""
        forms = [*self.head, *(form for part in self.parts for form in part.forms)]
        return frozenset(self._numbers.setdefault(f, len(self._numbers)) for f in forms)

    def points(self, forms: frozenset[int], depends: bool) -> float:
        """The number of index points, times the batch if anything depends on the input."""
        if forms not in self._ranks:
            known = list(self._numbers)
            self._ranks[forms] = rank_of([known[i] for i in sorted(forms)])
        points = float(self.costs.length ** self._ranks[forms])
        return points * self.costs.batch if depends else points

    def kept_forms(self, parts: frozenset[int]) -> frozenset[int]:
        """The index forms of a result: split variables that nothing else needs are summed."""
        forms = [f for i in sorted(parts) for f in self.parts[i].forms]
        if len(parts) > 1:
            gone = dict.fromkeys(self.summed_names(parts), 0)
            forms = [form.substitute(gone) for form in forms]
        numbers = self._numbers
        return frozenset(numbers.setdefault(f, len(numbers)) for f in forms)

    def summed_names(self, parts: frozenset[int]) -> frozenset[str]:
        """The index variables that only these operands depend on."""
        needed = self.head_names.union(*(self.names[i] for i in self.everything - parts))
        return frozenset().union(*(self.names[i] for i in parts)) - needed

    def gathers(self, clamp: frozenset[int], other: frozenset[int]) -> str | None:
        """The axis of a parameter that a clamp selects from; empty: no clamp; None: it cannot."""
        if len(clamp) != 1 or self.parts[min(clamp)].kind != "clamp":
            return ""
        axis = self.parts[min(clamp)].tokens
        kinds = {self.parts[i].kind for i in other}
        if not kinds <= {"parameter", "clamp"}:
            return None
        # What is left after gathering is a table: the rest of its parts come in later.
        if "clamp" in kinds and len(other) > 1 + sum(self.parts[i].kind == "clamp" for i in other):
            return None
        touching = [i for i in other if axis in self.parts[i].axes]
        return axis if touching else None

    def volume(self, axes: frozenset[str]) -> float:
        """The number of values that axes have together."""
        total = 1.0
        for axis in axes:
            # An axis of one value is work, too: of orders that cost the same, fewer axes are best.
            total *= max(self.costs.sizes[axis], 2)
        return total


def rank_of(forms: Sequence[Expr]) -> int:
    """The rank of the linear parts of affine forms."""
    rows = []
    names = sorted({str(a) for form in forms for a in form.atoms()})
    for form in forms:
        line = dict.fromkeys(names, Fraction(0))
        for monomial, coefficient in form.terms:
            for atom in monomial:
                line[str(atom)] += coefficient
        rows.append([line[name] for name in names])
    rank = 0
    for column in range(len(names)):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            scale = rows[i][column] / rows[rank][column]
            rows[i] = [a - scale * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank
