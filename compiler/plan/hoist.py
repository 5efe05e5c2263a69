"""Tensors that are prepared before the charts: products, entries at tokens, potentials.

A product of parameters alone is done once for a batch (*hoisted*). Evidence becomes tables over
positions: where a token selects entries of a parameter, by a gather; else as a weight for every
value. Log-potentials become weights with one scale a position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fgg.compiler.plan.affine import bounds
from fgg.compiler.plan.contraction import Tree
from fgg.compiler.plan.rule_operands import RuleOperands
from fgg.factors.maps import is_map
from fgg.grammar import Clamp, Edge, Grammar, Rule
from fgg.grammar.definitions import ProductOf, Slice
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh
from fgg.grammar.ranges import condition_rows, length_rows
from fgg.grammar.slices import steps
from fgg.inputs.clamps import clamp_domain
from fgg.plan import (
    Bound,
    Chart,
    Contract,
    Cut,
    Gather,
    Indicator,
    Loop,
    OneHot,
    Operand,
    Pair,
    PositionTable,
    Potential,
    Preparation,
    TokenAxis,
)

Place = Callable[[Expr], Expr]


class Preparer:
    """Collects the preparations of a plan; equal ones are made once."""

    def __init__(self, grammar: Grammar, lengths: Sequence[str]) -> None:
        self.grammar = grammar
        self.lengths = lengths
        self.sizes = size_values(grammar)
        self.taken: set[str] = {*grammar.factor, *grammar.nonterminal, *grammar.input_factor}
        self.done: dict[object, Preparation] = {}
        self.tables: dict[str, PositionTable] = {}
        self.used: dict[str, None] = {}

    def parameters(self) -> tuple[str, ...]:
        """The factors that something is computed from, in the grammar's order."""
        return tuple(f.name for f in self.grammar.factors if f.name in self.used)

    def operands(
        self,
        rule: Rule,
        parts: RuleOperands,
        tree: Tree | None,
        place: Place,
        charts: Mapping[str, Chart],
    ) -> tuple[list[Operand], tuple[Pair, ...]]:
        """The operands of a rule's step and the order in which they are contracted."""
        operands: list[Operand] = []
        made: list[tuple[Tree, int] | tuple[Tree, Tree, Tree]] = []

        def walk(node: Tree) -> Tree:
            operand = self.operand(rule, parts, node, place, charts)
            if operand is not None:
                made.append((node, len(operands)))
                operands.append(operand)
                return node
            left, right = (walk(child) for child in node.children)
            made.append((node, left, right))
            return node

        if tree is None:
            return [], ()
        walk(tree)
        # Operands come first in the numbering, then results in order.
        number: dict[int, int] = {}
        pairs: list[Pair] = []
        for entry in made:
            if len(entry) == 2:
                number[id(entry[0])] = entry[1]
        for entry in made:
            if len(entry) == 3:
                node, left, right = entry
                number[id(node)] = len(operands) + len(pairs)
                pairs.append(Pair(number[id(left)], number[id(right)], node.keep))
        return operands, tuple(pairs)

    def operand(
        self,
        rule: Rule,
        parts: RuleOperands,
        tree: Tree,
        place: Place,
        charts: Mapping[str, Chart],
    ) -> Operand | None:
        """A subtree as one operand, if it is prepared or a leaf."""
        kinds = {parts.parts[i].kind for i in tree.parts}
        if kinds == {"parameter"}:
            name, axes = self.parameter(parts, tree)
            return Operand(kind="parameter", name=name, axes=axes)
        if kinds <= {"parameter", "clamp"}:
            return self.evidence(parts, tree, place)
        if tree.children:
            return None
        source = parts.sources[tree.leaf]
        if isinstance(source, Clamp):
            table = self.one_hot(source)
            index = tuple(place(i) for i in source.indices)
            return Operand(kind="table", name=table, index=index, axes=(source.attachment.node,))
        axes = tuple(a.node for a in source.attachments)
        if source.label in self.grammar.input_factor:
            table = self.potential(source.label)
            index = tuple(place(i) for i in source.indices)
            return Operand(kind="table", name=table, index=index, axes=axes)
        stored = charts[source.label].stored
        index = tuple(place(source.indices[i]) for i in stored)
        return Operand(kind="chart", name=source.label, index=index, axes=axes)

    def parameter(self, parts: RuleOperands, tree: Tree) -> tuple[str, tuple[str, ...]]:
        """A factor, or a product of factors that is computed once for a batch."""
        if not tree.children:
            edge = parts.sources[tree.leaf]
            assert isinstance(edge, Edge)
            self.factor(edge.label)
            return edge.label, tuple(a.node for a in edge.attachments)
        left, right = (self.parameter(parts, child) for child in tree.children)
        operands, axes = _renumbered([left, right], tree.keep)
        key = ("contract", operands, axes)
        if key not in self.done:
            name = self.name("_".join(o[0] for o in operands))
            self.done[key] = Contract(
                name=name, operands=operands, axes=axes, path=(Pair(0, 1, axes),)
            )
        return self.done[key].name, tree.keep

    def factor(self, label: str) -> None:
        """Record a factor that is used; if it follows from others, also how it is made of them."""
        if label in self.done:
            return
        definition = self.grammar.factor[label].definition
        if isinstance(definition, Slice):
            self.factor(definition.source)
            slicing = steps(self.grammar, definition.axes)
            self.done[label] = Cut(name=label, source=definition.source, steps=slicing)
        elif isinstance(definition, ProductOf):
            self.joined(label, definition)
        elif is_map(self.grammar.factor[label]):
            blocks = domain_size(self.grammar, self.grammar.factor[label].domains[1])
            self.done[label] = Indicator(name=label, blocks=blocks)
        else:
            self.used[label] = None

    def joined(self, label: str, joint: ProductOf) -> None:
        """The product of the parts of a joint factor, one part after the other."""
        operands = []
        pairs: list[Pair] = []
        kept: list[str] = []
        for number, part in enumerate(joint.parts):
            self.factor(part.source)
            axes = tuple(f"x{axis}" for axis in part.axes)
            operands.append((part.source, axes))
            kept += [axis for axis in axes if axis not in kept]
            if number:
                before = 0 if number == 1 else len(joint.parts) + number - 2
                pairs.append(Pair(before, number, tuple(kept)))
        whole = tuple(f"x{axis}" for axis in range(len(kept)))
        pairs[-1] = Pair(pairs[-1].left, pairs[-1].right, whole)
        self.done[label] = Contract(
            name=label, operands=tuple(operands), axes=whole, path=tuple(pairs)
        )

    def evidence(self, parts: RuleOperands, tree: Tree, place: Place) -> Operand | None:
        """Parameters at tokens, as a table over positions.

        None if tokens are read at different positions, so that no one table has the product.
        """
        clamps = [i for i in tree.parts if parts.parts[i].kind == "clamp"]
        if not tree.children:
            return None
        for child, other in (tree.children, tree.children[::-1]):
            if not other.children and other.leaf in clamps:
                return self.gather(parts, tree, child, other, place)
        sides = [child for child in tree.children if child.parts & set(clamps)]
        tables: list[Operand] = []
        for side in sides:
            table = self.evidence(parts, side, place)
            if table is None or (tables and not self.reads_alike(tables[0], table)):
                return None
            tables.append(table)
        first = tables[0]
        marks = tuple(f"#{i}" for i in range(len(first.index)))
        named = [(table.name, (*marks, *table.axes)) for table in tables]
        named += [self.parameter(parts, child) for child in tree.children if child not in sides]
        operands, kept = _renumbered(named, (*marks, *tree.keep))
        key = ("table", operands, kept)
        if key not in self.done:
            new = self.name("_".join(o[0] for o in operands))
            self.done[key] = Contract(
                name=new,
                operands=operands,
                axes=kept,
                path=(Pair(0, 1, kept),),
                tables=frozenset(operand.name for operand in tables),
            )
            self.tables[new] = PositionTable(
                name=new,
                axes=self.tables[first.name].axes,
                states=tuple(parts.sizes[a] for a in tree.keep),
            )
        return Operand(kind="table", name=self.done[key].name, index=first.index, axes=tree.keep)

    def reads_alike(self, one: Operand, two: Operand) -> bool:
        """Whether two tables are read at the same position, so that their product is a table."""
        return one.index == two.index and self.tables[one.name].axes == self.tables[two.name].axes

    def gather(
        self, parts: RuleOperands, tree: Tree, child: Tree, leaf: Tree, place: Place
    ) -> Operand | None:
        """The entries of a parameter at the tokens of one or more clamps."""
        clamps = [leaf.leaf]
        while child.children:
            inner = next(
                (
                    (c, o)
                    for c, o in (child.children, child.children[::-1])
                    if not o.children and parts.parts[o.leaf].kind == "clamp"
                ),
                None,
            )
            if inner is None:
                break
            child, other = inner
            clamps.append(other.leaf)
        if any(parts.parts[i].kind == "clamp" for i in child.parts):
            return None
        source, axes = self.parameter(parts, child)
        tokens: list[TokenAxis] = []
        index: list[Expr] = []
        table_axes: list[Loop] = []
        # Tokens a constant distance apart, `w[i]` and `w[i+1]`, have one index in common.
        firsts: list[Clamp] = []
        for number in sorted(clamps):
            clamp = parts.sources[number]
            assert isinstance(clamp, Clamp)
            axis = axes.index(clamp.attachment.node)
            group, shift = self.group(firsts, clamp)
            tokens.append(
                TokenAxis(axis=axis, input=clamp.input, path=clamp.path, group=group, shift=shift)
            )
            if group == len(firsts):
                firsts.append(clamp)
                index += [place(i) for i in clamp.indices]
                table_axes += self.input_axes(clamp.input)
        key = ("gather", source, tuple(tokens))
        rest = tuple(a for a in axes if a not in {parts.parts[n].tokens for n in clamps})
        if key not in self.done:
            name = self.name("_".join([source, *(t.input for t in tokens)]))
            self.done[key] = Gather(name=name, source=source, tokens=tuple(tokens))
            self.tables[name] = PositionTable(
                name=name,
                axes=tuple(table_axes),
                states=tuple(parts.sizes[a] for a in rest),
            )
        return Operand(kind="table", name=self.done[key].name, index=tuple(index), axes=rest)

    def group(self, firsts: Sequence[Clamp], clamp: Clamp) -> tuple[int, tuple[int, ...]]:
        """The number of an earlier clamp at a fixed distance in the input, and the distance.

        Without such a clamp, returns the number of clamps and no distance.
        """
        shapes = {name: item.shape for name, item in self.grammar.input.items()}
        for number, first in enumerate(firsts):
            if shapes[first.input] == shapes[clamp.input]:
                pairs = zip(clamp.indices, first.indices, strict=True)
                gaps = [(a - b).constant for a, b in pairs]
                shift = tuple(gap for gap in gaps if gap is not None)
                if len(shift) == len(gaps):
                    return number, shift
        return len(firsts), (0,) * len(clamp.indices)

    def one_hot(self, clamp: Clamp) -> str:
        """The table of an input's evidence."""
        path = clamp.path
        key = ("one-hot", clamp.input, path)
        if key not in self.done:
            size = domain_size(self.grammar, clamp_domain(self.grammar, clamp))
            name = self.name(f"{clamp.input}_is")
            self.done[key] = OneHot(name=name, input=clamp.input, size=size, path=path)
            self.tables[name] = PositionTable(
                name=name, axes=tuple(self.input_axes(clamp.input)), states=(size,)
            )
        return self.done[key].name

    def potential(self, label: str) -> str:
        """The table of an input factor's potentials."""
        key = ("potential", label)
        if key not in self.done:
            factor = self.grammar.input_factor[label]
            rows = condition_rows(factor.conditions, self.sizes) + length_rows(self.grammar)
            axes = []
            for index in factor.indices:
                # Positions are counted from 0, whatever the least index is.
                _, high = bounds(rows, index, self.lengths)
                axes.append(Loop(index, Bound(((Expr(), 1),)), high))
            name = self.name(f"{label}_weights")
            cut = factor.definition
            self.done[key] = Potential(
                name=name,
                factor=label,
                source=cut.source if cut else label,
                steps=steps(self.grammar, cut.axes) if cut else (),
            )
            self.tables[name] = PositionTable(
                name=name,
                axes=tuple(axes),
                states=tuple(domain_size(self.grammar, d) for d in factor.domains),
                scaled=True,
            )
        return self.done[key].name

    def input_axes(self, name: str) -> list[Loop]:
        """The positions that an input has in a batch."""
        from fgg.compiler.plan.affine import loosen

        axes = []
        for number, extent in enumerate(self.grammar.input[name].shape):
            last = loosen(extent.substitute(dict(self.sizes)) - 1, self.lengths, up=True)
            axes.append(Loop(f"#{number}", Bound(((Expr(), 1),)), Bound(((last, 1),))))
        return axes

    def name(self, wanted: str) -> str:
        """A new name for a tensor."""
        name = fresh(wanted, self.taken)
        self.taken.add(name)
        return name


def _renumbered(
    operands: Sequence[tuple[str, tuple[str, ...]]], keep: tuple[str, ...]
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]:
    """Axes as numbers, so that a product has one key whatever its nodes are called in a rule."""
    numbers: dict[str, str] = {}
    for _, axes in operands:
        for axis in axes:
            numbers.setdefault(axis, axis if axis.startswith("#") else f"x{len(numbers)}")
    return (
        tuple((name, tuple(numbers[a] for a in axes)) for name, axes in operands),
        tuple(numbers[a] for a in keep),
    )
