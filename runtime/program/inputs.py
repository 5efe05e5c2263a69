"""Inputs of a batch as programs take them: padded tensors and a list of lengths.

Users give tensors, arrays or lists; words or numbers; items of one length or of many. Whatever is
wrong is reported with the input, the item and what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.grammar import Grammar, Input, InputFactor, InputTable
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.index import Expr
from fgg.grammar.memo import per_grammar
from fgg.inputs.given import table_entry
from fgg.inputs.tokens import IMPOSSIBLE, MISSING, token_id, why_unread
from fgg.plan import Plan, Potential
from fgg.plan.sizes import environment, extents
from fgg.runtime.memory import require

Lengths = Mapping[str, Sequence[int] | Tensor | int] | Sequence[int] | Tensor | int | None
"""Lengths by name, or those of the only length: one number, or one for each item."""
Inputs = Mapping[str, object] | None
"""Inputs by name: words or numbers as nested lists, arrays or tensors; log-potentials too."""
MAX_LENGTH = 2**31 - 1
NO_ENTRY = -(2**40)
"""Far outside every range, whatever is added to it."""


@dataclass(frozen=True)
class Collated:
    """A batch: tensors `[batch, …]` by input, lengths, and whether tokens are missing.

    `shapes` are those of each item's log-potentials, where they were given item by item.
    """

    size: int
    inputs: Mapping[str, Tensor]
    lengths: Mapping[str, list[int]]
    missing: bool
    shapes: Mapping[str, Sequence[torch.Size]] = field(default_factory=dict)

    def items(self, places: Sequence[int]) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
        """The inputs and lengths of some items, to be collated as a batch of their own."""
        inputs = {name: tensor.detach()[places] for name, tensor in self.inputs.items()}
        return inputs, {name: [values[i] for i in places] for name, values in self.lengths.items()}


def collate(
    grammar: Grammar,
    inputs: Mapping[str, object],
    lengths: Lengths = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Collated:
    """Check and pad the inputs, and infer the lengths. Raises GrammarError."""
    check_named({}, inputs)
    return _Collator(grammar, dict(inputs), lengths, dtype, device).run()


def check_named(weights: object, inputs: object) -> None:
    """Raise GrammarError for weights (F417) or inputs (F411) that are not given by name."""
    if not isinstance(weights, Mapping):
        refuse("F417", "weights are given by name", "`program.weights(seed=0)` makes random ones")
    if inputs is not None and not isinstance(inputs, Mapping):
        refuse("F411", "inputs are given by name: `{'w': [[0, 1]]}`")


@per_grammar
def _length_names(grammar: Grammar) -> list[str]:
    """The lengths, in order."""
    return sorted(length_names(grammar))


class _Collator:
    def __init__(
        self,
        grammar: Grammar,
        inputs: dict[str, Any],
        lengths: Lengths,
        dtype: torch.dtype,
        device: torch.device | str | None,
    ) -> None:
        self.grammar = grammar
        self.given = inputs
        self.dtype = dtype
        self.device = device
        self.sizes = size_values(grammar)
        self.wanted = _length_names(grammar)
        self.count: int | None = None
        # The inputs in which some tokens may be missing.
        self.doubtful: set[str] = set()
        self.lengths = self.read_lengths(lengths)
        self.shapes: dict[str, list[torch.Size]] = {}

    def fail(self, message: str, help: str = "", code: str = "F411") -> GrammarError:
        return GrammarError([Diagnostic(code=code, message=message, help=help)])

    def run(self) -> Collated:
        grammar = self.grammar
        known = {*grammar.input, *grammar.table, *grammar.input_factor}
        for name in self.given:
            if name not in known:
                raise self.fail(f"there is no input `{name}`", did_you_mean(name, known))
        tensors: dict[str, Tensor] = {}
        for item in grammar.observed:
            if item.name in self.given:
                tensors[item.name] = self.tensor(item)
        for factor in grammar.input_factors:
            if factor.name not in self.given:
                raise self.fail(f"log-potentials `{factor.name}` are not given")
            tensors[factor.name] = self.tensor(factor)
        for table in grammar.tables:
            if table.name not in tensors:
                raise self.fail(
                    f"table `{table.name}` is not given", "indices depend on its entries", "F301"
                )
        for name in self.wanted:
            if name not in self.lengths:
                raise self.fail(
                    f"length `{name}` is not known",
                    f"give it: `lengths={{'{name}': [3, 5]}}`, or an input that has it",
                    "F301",
                )
        size = 1 if self.count is None else self.count
        for source in grammar.inputs:
            if source.name not in tensors:
                extents = [max(self.extents(e)) for e in source.shape]
                require(8 * size * prod(extents), torch.device("cpu"), f"input `{source.name}`")
                # A position of an input that is not given is missing: it is summed out.
                tensors[source.name] = torch.full((size, *extents), MISSING, device=self.device)
        for item in grammar.observed:
            tensors[item.name] = self.fit(item, tensors[item.name])
        missing = any(bool((tensors[name] == MISSING).any()) for name in self.doubtful)
        return Collated(size, tensors, self.lengths, missing, self.shapes)

    # lengths

    def read_lengths(self, given: Lengths) -> dict[str, list[int]]:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            if len(self.wanted) != 1:
                names = ", ".join(f"`{n}`" for n in self.wanted) or "none"
                raise self.fail(f"lengths must be given by name; the lengths are {names}")
            given = {self.wanted[0]: given}
        lengths: dict[str, list[int]] = {}
        for name, values in given.items():
            if name not in self.wanted:
                raise self.fail(f"there is no length `{name}`", did_you_mean(name, self.wanted))
            plain: Any = values.tolist() if hasattr(values, "tolist") else values
            try:
                listed = [plain] if type(plain) is int else list(plain)
                numbers = [int(v) for v in listed]
            except (TypeError, ValueError):
                raise self.fail(f"length `{name}` must be a list of whole numbers") from None
            if any(not 0 <= v <= MAX_LENGTH for v in numbers) or listed != numbers:
                raise self.fail(f"length `{name}` must be a list of whole numbers from 0 up")
            if not numbers:
                raise self.fail("a batch has at least one item")
            lengths[name] = numbers
            self.batch(f"length `{name}`", len(numbers))
        return lengths

    def batch(self, what: str, count: int) -> None:
        """Check that something has as many items as the rest of the batch."""
        if count < 1:
            raise self.fail("a batch has at least one item")
        if self.count is None:
            self.count = count
        elif self.count != count:
            raise self.fail(f"{what} has {count} items, the rest of the batch {self.count}")

    def extents(self, expr: Expr) -> list[int]:
        """An extent for each item."""
        if not self.lengths:
            return [self.value(expr, ())] * (1 if self.count is None else self.count)
        rows = self.rows()
        values = {row: self.value(expr, row) for row in set(rows)}
        return [values[row] for row in rows]

    def rows(self) -> list[tuple[int, ...]]:
        """The lengths that are known of each item."""
        return list(zip(*self.lengths.values(), strict=True))

    def value(self, expr: Expr, row: tuple[int, ...], more: Mapping[str, int] | None = None) -> int:
        """The value of an expression for an item of such lengths."""
        lengths = zip(self.lengths, row, strict=True)
        value = expr.evaluate({**self.sizes, **dict(lengths), **(more or {})})
        assert value is not None
        return value

    def set_length(self, expr: Expr, extents: Sequence[int]) -> None:
        """Learn a length from the extents of the items, if it is the only unknown."""
        unknown = [n for n in expr.names() if n not in self.sizes and n not in self.lengths]
        if len(unknown) != 1:
            return
        name = unknown[0]
        rows = self.rows() if self.lengths else [()] * len(extents)
        rests: dict[tuple[int, ...], int] = {}
        for row in set(rows):
            rests[row] = self.value(expr, row, {name: 0})
            if self.value(expr, row, {name: 1}) - rests[row] != 1:
                return
        values = [extent - rests[row] for row, extent in zip(rows, extents, strict=True)]
        if any(v < 0 for v in values):
            return
        self.lengths[name] = values

    # tensors

    def tensor(self, item: Input | InputTable | InputFactor) -> Tensor:
        value = self.given[item.name]
        if isinstance(item, InputFactor):
            return self.potentials(item, value)
        rank = len(item.shape)
        if not isinstance(value, Tensor) and not _is_array(value):
            value = self.listed(item, value)
        tensor = torch.as_tensor(value, device=self.device)
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise self.fail(f"`{item.name}`: whole numbers (token ids) are expected")
        if tensor.dim() != rank + 1:
            raise self.fail(
                f"`{item.name}` has {tensor.dim()} axes; {rank + 1} are expected",
                "the first axis is the batch",
            )
        self.batch(f"`{item.name}`", tensor.shape[0])
        for expr, extent in zip(item.shape, tensor.shape[1:], strict=True):
            self.set_length(expr, [extent] * tensor.shape[0])
        return tensor.long()

    def listed(self, item: Input | InputTable, value: Any) -> Tensor:
        """Nested lists, words or numbers, of one length or many, as a padded tensor."""
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self.fail(f"`{item.name}`: a list of items is expected, one for each of a batch")
        self.batch(f"`{item.name}`", len(value))
        rank = len(item.shape)
        rows = [self.row(item, entry, rank, number, ()) for number, entry in enumerate(value)]
        shapes = [_shape(row, rank) for row in rows]
        for number, shape in enumerate(shapes):
            if shape is None:
                raise self.fail(f"`{item.name}`: item {number} is not a full array")
        for axis, expr in enumerate(item.shape):
            self.set_length(expr, [shape[axis] for shape in shapes if shape is not None])
        widest = [max(s[axis] for s in shapes if s is not None) for axis in range(rank)]
        known = [
            (axis, self.extents(expr))
            for axis, expr in enumerate(item.shape)
            if all(n in self.sizes or n in self.lengths for n in expr.names())
        ]
        padded = torch.full((len(rows), *widest), IMPOSSIBLE)
        for number, (row, shape) in enumerate(zip(rows, shapes, strict=True)):
            assert shape is not None
            if all(shape):
                place = padded[number]
                for axis, extent in enumerate(shape):
                    place = place.narrow(axis, 0, extent)
                place.copy_(torch.tensor(row))
            for axis, wanted in known:
                if wanted[number] != shape[axis]:
                    raise self.fail(
                        f"`{item.name}`: item {number} has {shape[axis]} entries, "
                        f"{wanted[number]} are expected"
                    )
        return padded

    def row(
        self,
        item: Input | InputTable,
        entry: Any,
        depth: int,
        number: int,
        position: tuple[int, ...],
    ) -> Any:
        """An item's entries as numbers."""
        if depth:
            if isinstance(entry, str) and depth == 1:
                entry = entry.split()
            if hasattr(entry, "tolist"):
                entry = entry.tolist()
            if isinstance(entry, str) or not isinstance(entry, Sequence):
                raise self.fail(f"`{item.name}`: item {number} must be a list")
            return [
                self.row(item, inner, depth - 1, number, (*position, place))
                for place, inner in enumerate(entry)
            ]
        where = f"`{item.name}{list(position)}` of item {number}"
        if isinstance(item, InputTable):
            value = table_entry(entry)
            if value is None:
                raise self.fail(f"{where} is {entry!r}, which is not a whole number")
        else:
            value = token_id(self.grammar, item.domain, entry)
            if value is None:
                reason, help = why_unread(self.grammar, item.domain, entry)
                raise self.fail(f"{reason}: {where}", help)
        # Larger ones are out of every range anyway, and too large for a tensor.
        return max(min(value, MAX_LENGTH), -MAX_LENGTH)

    def potentials(self, item: InputFactor, value: Any) -> Tensor:
        try:
            if isinstance(value, list | tuple):
                rows = [torch.as_tensor(row, device=self.device) for row in value]
                tensor = _padded(rows)
                shapes = [row.shape for row in rows]
                if len(set(shapes)) > 1:
                    self.shapes[item.name] = shapes
            else:
                tensor = torch.as_tensor(value, device=self.device)
                shapes = [tensor.shape[1:]] * (len(tensor) if tensor.dim() else 0)
        except (TypeError, ValueError, RuntimeError):
            raise self.fail(
                f"`{item.name}`: a tensor of log-potentials is expected, the batch first, "
                "or one for each item"
            ) from None
        states = [domain_size(self.grammar, d) for d in item.domains]
        rank = 1 + len(item.indices) + len(states)
        if tensor.dim() != rank or list(tensor.shape[rank - len(states) :]) != states:
            text = ", ".join(["batch", *item.indices, *map(str, states)])
            raise self.fail(f"`{item.name}` has shape {tuple(tensor.shape)}; [{text}] is expected")
        self.batch(f"`{item.name}`", tensor.shape[0])
        # The greatest is no number where any is none.
        if tensor.is_floating_point() and tensor.numel() and not float(tensor.detach().max()) < inf:
            number = next(i for i, row in enumerate(tensor.detach()) if not float(row.max()) < inf)
            where = f": item {number}" if len(tensor) > 1 else ""
            raise self.fail(f"`{item.name}`{where} has log-potentials that are NaN or +inf")
        if len(self.lengths) < len(self.wanted):
            for position, expr in _extents(self.grammar, item.name):
                self.set_length(expr, [shape[position] for shape in shapes])
        return tensor.to(self.dtype)

    def fit(self, item: Input | InputTable, tensor: Tensor) -> Tensor:
        """A tensor of just the extents that the longest item has, its tokens in range."""
        for axis, expr in enumerate(item.shape):
            extents = self.extents(expr)
            wanted, have = max(extents), tensor.shape[axis + 1]
            if have < wanted:
                raise self.fail(f"`{item.name}` has {have} positions; the lengths need {wanted}")
            if have > wanted:
                tensor = tensor.narrow(axis + 1, 0, max(wanted, 0))
            if isinstance(item, InputTable) or min(extents) < wanted:
                # Nothing is beyond an item's ends lengths: no entry, and no token that is missing.
                nothing = NO_ENTRY if isinstance(item, InputTable) else IMPOSSIBLE
                ends = torch.tensor(extents, device=tensor.device)
                ends = ends.reshape(-1, *(1,) * len(item.shape))
                here = torch.arange(max(wanted, 0), device=tensor.device)
                here = here.reshape(-1, *(1,) * (len(item.shape) - axis - 1))
                tensor = tensor.masked_fill(here >= ends, nothing)
        if isinstance(item, Input) and tensor.numel():
            size = domain_size(self.grammar, item.domain)
            low, high = (int(x) for x in torch.aminmax(tensor))
            if low < IMPOSSIBLE or high >= size:
                bad = low if low < IMPOSSIBLE else high
                raise self.fail(
                    f"`{item.name}`: {bad} is not a value of `{item.domain}` (0 to {size - 1}, "
                    "-1 for missing, -2 for impossible)"
                )
            if low < 0:
                self.doubtful.add(item.name)
        return tensor


@per_grammar
def _extents(grammar: Grammar, name: str) -> tuple[tuple[int, Expr], ...]:
    """Axes of an input factor's indices, with the extents that conditions like `i < n` allow."""
    item, sizes = grammar.input_factor[name], size_values(grammar)
    axes = []
    for position, index in enumerate(item.indices):
        for expr in (e for c in item.conditions for e in c.inequalities()):
            names = set(expr.names())
            if index in names and not names & (set(item.indices) - {index}):
                high = (expr + Expr.of(index)).substitute(dict(sizes))
                if index not in high.names() and high.constant is None:
                    axes.append((position, high + 1))
    return tuple(axes)


def check_potentials(plan: Plan, batch: Collated) -> None:
    """Raise GrammarError where log-potentials do not reach as far as the lengths need.

    Those that were given item by item have to reach as far as the lengths of the item.
    """
    whole = environment(batch.lengths)
    for step in plan.preparations:
        if not isinstance(step, Potential):
            continue
        table = plan.table[step.name]
        wanted = extents(table, whole)
        have = tuple(batch.inputs[step.source].shape[1 : 1 + len(wanted)])
        if _is_short(have, wanted):
            refuse("F411", f"`{step.source}` has {have} positions; the lengths need {wanted}")
        for number, shape in enumerate(batch.shapes.get(step.source, ())):
            have = tuple(shape[: len(wanted)])
            if _is_short(have, wanted):
                own = {name: [values[number]] for name, values in batch.lengths.items()}
                needed = extents(table, environment(own))
                if _is_short(have, needed):
                    message = f"item {number} has {have} positions; its lengths need {needed}"
                    refuse("F411", f"`{step.source}`: {message}")


def _is_short(have: Sequence[int], wanted: Sequence[int]) -> bool:
    return any(h < w for h, w in zip(have, wanted, strict=True))


def _padded(rows: Sequence[Tensor]) -> Tensor:
    """Tensors of items, the batch first; those of shorter ones end with zeros."""
    if len({row.dim() for row in rows}) != 1:
        raise ValueError("they have different numbers of axes")
    shape = [max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True)]
    if all(list(row.shape) == shape for row in rows):
        return torch.stack(tuple(rows))
    padded = rows[0].new_zeros((len(rows), *shape))
    for number, row in enumerate(rows):  # not through views, which derivatives do not pass
        place = (slice(number, number + 1), *(slice(0, size) for size in row.shape))
        padded[place] = row
    return padded


def _is_array(value: Any) -> bool:
    numeric = getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u", "f", "b", "c")
    return hasattr(value, "__array__") and numeric


def _shape(nest: Any, depth: int) -> tuple[int, ...] | None:
    """The shape of nested lists, or None if they are not full."""
    if not depth:
        return ()
    inner = {_shape(entry, depth - 1) for entry in nest}
    if not inner:
        return (0,) * depth
    if len(inner) > 1 or None in inner:
        return None
    (shape,) = inner
    assert shape is not None
    return (len(nest), *shape)
