"""Programs compared with the reference engine in float64: log Z, gradients, counts, marginals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.definitions import Piece, ProductOf, Slice
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.program.bind import bind
from fgg.runtime.program.program import Program
from fgg.runtime.reference.posterior import posterior
from fgg.runtime.reference.solve import solve
from fgg.runtime.verify.compared_sides import GroundSide
from fgg.runtime.verify.confirm import SecondEvaluation
from fgg.runtime.verify.items import Item, batch_of_items
from fgg.runtime.verify.points import FreeWeights, Key, WeightPoint

TOLERANCE = 1e-9
SINGLE = 1e-6
"""The tolerance for programs without weights and log-potentials, which compute in float32."""
QUANTITIES = ("log Z", "gradients", "expected counts", "marginals")


@dataclass(frozen=True, eq=False)
class Answer:
    """The reference engine's numbers for an item.

    `counts` are the expected counts of factors and log-potentials, `cells` those of families. Both
    are empty where Z is 0 or infinite, or a recursion is critical. Where a recursion does not
    converge, log Z is NaN.
    """

    log_z: float
    counts: Mapping[str, NumpyArray] = field(default_factory=dict)
    cells: Mapping[tuple[str, tuple[int, ...]], NumpyArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Gap:
    """The distance of a number from the reference's, relative to the greatest of its kind.

    `name` is that of a factor or a family, and `place` the index of the entry.
    """

    quantity: str
    name: str
    number: int | None  # of the item; None where it is a sum over all
    wanted: float
    found: float
    error: float
    place: tuple[int, ...] = ()

    @property
    def where(self) -> str:
        """The number in words."""
        return f"{self.name}[{', '.join(map(str, self.place))}]" if self.place else self.name


def answer(source: GroundSide, item: Item, point: WeightPoint) -> Answer:
    """The reference engine's numbers for an item, with given weights."""
    flat = source.flat(item)
    assert flat is not None
    try:
        expected = posterior(flat, weights=point.weights(flat))
    except GrammarError as error:
        if error.diagnostics[0].code == "F418":
            return Answer(float("nan"))
        if error.diagnostics[0].code != "F423":
            raise
        # Z is 0, or infinite; or a recursion is critical, and so its gradient infinite.
        solution = solve(flat, "log", weights=point.weights(flat))
        return Answer(float(torch.logsumexp(solution.value.reshape(-1), 0)))
    cells = {}
    for nonterminal in flat.nonterminals:
        assert nonterminal.origin is not None or not nonterminal.indices
        key = nonterminal.origin or (nonterminal.name, ())
        cells[key] = expected.nonterminals[nonterminal.name].numpy()
    counts = {name: tensor.numpy() for name, tensor in expected.counts.items()}
    if any(isinstance(f.definition, ProductOf | Slice) for f in flat.factors if f.name in counts):
        counts |= followed(flat, point)
    return Answer(expected.log_z, counts, cells)


def followed(flat: Grammar, point: WeightPoint) -> dict[str, NumpyArray]:
    """The expected counts of free factors of which others are slices or products."""
    leaves = {
        name: torch.tensor(np.asarray(array, dtype=float), requires_grad=True)
        for name, array in point.weights(flat).items()
    }
    log_z = torch.logsumexp(solve(flat, "log", weights=leaves).value.reshape(-1), 0)
    grads = torch.autograd.grad(log_z, list(leaves.values()), allow_unused=True)
    return {
        name: np.asarray((leaf * grad).detach().numpy())
        for (name, leaf), grad in zip(leaves.items(), grads, strict=True)
        if grad is not None
    }


class FloatCheck:
    """A program and the reference's answers on a batch of items, with the same weights."""

    def __init__(
        self,
        program: Program,
        items: Sequence[Item],
        answers: Sequence[Answer],
        point: WeightPoint,
        free: FreeWeights,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.program = program
        self.items = items
        self.answers = answers
        self.point = point
        self.free = free
        grammar = program.weighted
        bound = bind(grammar, point.weights(grammar))
        self.weights = {
            name: torch.tensor(np.asarray(bound[name], dtype=float), dtype=dtype)
            for name in program.parameter_names
        }
        inputs, self.lengths = batch_of_items(items)
        self.inputs = {n: x.to(dtype) if x.is_floating_point() else x for n, x in inputs.items()}
        counts = not program.parameter_names and not program.grammar.input_factors
        self.tolerance = SINGLE if counts else TOLERANCE
        self.note = ""

    def gaps(self, quantity: str) -> Iterator[Gap]:
        """The gaps between the program's numbers of one kind and the reference's."""
        kinds = {
            "log Z": self.log_z,
            "gradients": self.gradients,
            "expected counts": self.counts,
            "marginals": self.marginals,
        }
        yield from kinds[quantity]()

    def log_z(self) -> Iterator[Gap]:
        """log Z of each item."""
        log_z = self.program.log_z(self.weights, self.inputs, self.lengths).double()
        for number, want in enumerate(self.answers):
            yield gap("log Z", "log Z", number, want.log_z, float(log_z[number]))

    def gradients(self) -> Iterator[Gap]:
        """The gradient of the items' log Z, each times another number, in weights and potentials.

        Where a weight is zero, a cell that is zero because of it passes no gradient on, so those
        are left out.
        """
        leaves = {n: w.clone().requires_grad_() for n, w in self.weights.items()}
        inputs = {
            n: x.clone().requires_grad_() if x.is_floating_point() else x
            for n, x in self.inputs.items()
        }
        log_z = self.program.log_z(leaves, inputs, self.lengths)
        scale = torch.arange(1, len(self.items) + 1, dtype=log_z.dtype)
        if log_z.requires_grad:
            live = torch.where(torch.isfinite(log_z), log_z, 0.0)
            torch.autograd.backward(live.mul(scale).sum())
        for name, leaf in leaves.items():
            want = self.gradient_of(name)
            if want is not None:
                some = np.asarray(leaf.detach() > 0)
                got = _gradient(leaf)
                yield from spread("gradients", name, None, want * some, got * some)
        for name, tensor in inputs.items():
            if tensor.is_floating_point():
                got = _gradient(tensor)
                want = self.potentials(name, got.shape, scaled=True)
                yield from spread("gradients", name, None, want, got)

    def counts(self) -> Iterator[Gap]:
        """The expected counts of factors, over all items."""
        counts = self.program.posterior(self.weights, self.inputs, self.lengths).counts
        for name in self.weights:
            want = self.gradient_of(name, scaled=False)
            if want is not None:
                got = counts[name].double().numpy()
                want = want * self.weights[name].numpy()
                yield from spread("expected counts", name, None, want, got)
        for name in self.program.grammar.input_factor:
            if name in counts:
                got = counts[name].double().numpy()
                want = self.potentials(name, got.shape, scaled=False)
                yield from spread("expected counts", name, None, want, got)

    def marginals(self) -> Iterator[Gap]:
        """The expected counts of the cells of every family that the program reports."""
        marginals = self.program.posterior(self.weights, self.inputs, self.lengths).marginals
        families = self.program.grammar.nonterminal
        used = {family for item in self.answers for family, _ in item.cells}
        missing = sorted(used - set(marginals))
        if missing:
            self.note = "it has no " + ", ".join(f"`{name}`" for name in missing)
        for name, tensor in marginals.items():
            if name not in families:
                continue
            rank = len(families[name].indices)
            for number, want in enumerate(self.answers):
                got = tensor[number].double().numpy()
                whole = np.zeros(got.shape)
                missed = []
                for (family, index), values in want.cells.items():
                    if family != name or not values.any() or min(index, default=0) < 0:
                        continue  # indices are counted from 0
                    if all(i < n for i, n in zip(index, got.shape[:rank], strict=True)):
                        whole[index] = values
                    else:
                        missed.append(float(values.max()))
                yield from spread("marginals", name, number, whole, got)
                for value in missed:
                    yield gap("marginals", name, number, value, 0.0)

    def second(self, gap: Gap, source: GroundSide) -> float | None:
        """The number that a gap is about, evaluated a second time; None where that is too hard."""
        other = SecondEvaluation(source, self.free, self.point)
        if gap.quantity == "log Z":
            return other.log_z(self.items[gap.number or 0])
        grammar = self.program.grammar
        if gap.quantity == "marginals":
            rank = len(grammar.nonterminal[gap.name].indices)
            item = self.items[gap.number or 0]
            return other.cell(item, gap.name, gap.place[:rank], gap.place[rank:])
        scaled = gap.quantity == "gradients"
        if gap.name in grammar.input_factor:
            number, *rest = gap.place
            rank = len(grammar.input_factor[gap.name].indices)
            index, state = tuple(rest[:rank]), tuple(rest[rank:])
            logs = self.items[number].inputs[gap.name]
            if any(i >= n for i, n in zip(index, logs.shape, strict=False)):
                return 0.0  # padding
            label = "_".join([gap.name, *map(str, index)])
            uses = other.potential(self.items[number], label, logs[index], state)
            return uses if uses is None else uses * (number + 1 if scaled else 1)
        total = 0.0
        for number, item in enumerate(self.items):
            if self.answers[number].log_z > float("-inf"):
                uses = other.uses(item, self.program.weighted.factor[gap.name], gap.place)
                if uses is None:
                    return None
                total += uses * (number + 1 if scaled else 1)
        return total / float(self.weights[gap.name][gap.place]) if scaled else total

    # the reference's numbers in the shapes of the program

    def gradient_of(self, name: str, scaled: bool = True) -> NumpyArray | None:
        """The gradient in a factor's weights; None if its weights are not free."""
        piece = self.program.weighted.factor[name].definition
        if isinstance(piece, Piece):
            return self.pieces((piece.source, piece.number), scaled)
        if (name, None) in self.point.leaves:
            return self.whole(name, self.point.leaves[(name, None)], scaled)
        if name in self.point.wholes:
            return self.whole(name, self.point.wholes[name], scaled)
        return None

    def whole(self, name: str, weights: NumpyArray, scaled: bool) -> NumpyArray:
        """The gradient in a factor of the source: its expected counts over its weights."""
        total = np.zeros(weights.shape)
        for number, item in enumerate(self.answers):
            if name in item.counts:
                total += (number + 1 if scaled else 1) * item.counts[name]
        return np.divide(total, weights, out=np.zeros(weights.shape), where=weights > 0)

    def pieces(self, key: Key, scaled: bool) -> NumpyArray:
        """The gradient in a piece, from that in the factor that it is a piece of.

        An entry of the factor is zero only if all products in it are; then the cofactors of all
        pieces that are not zero are zero, too.
        """
        name, number = key
        outer = torch.tensor(self.whole(name, self.point.wholes[name], scaled))
        factors = {
            k: torch.tensor(np.asarray(a, dtype=float), requires_grad=True)
            for k, a in self.point.leaves.items()
            if k[0] == name
        }
        left = self.free.left[name]
        count = left + len(factors) - 1
        letters = [[*range(left), count], *([count, axis] for axis in range(left, count))]
        operands: list[Tensor | list[int]] = []
        for tensor, axes in zip(factors.values(), letters, strict=True):
            operands += [tensor, axes]
        whole = torch.einsum(*operands, list(range(count)))
        grads = torch.autograd.grad(whole, list(factors.values()), outer)
        return np.asarray(dict(zip(factors, grads, strict=True))[(name, number)].numpy())

    def potentials(self, name: str, shape: Sequence[int], *, scaled: bool) -> NumpyArray:
        """The gradient in log-potentials: expected counts, item by item."""
        rank = len(self.program.grammar.input_factor[name].indices)
        total = np.zeros(tuple(shape))
        for number, (item, want) in enumerate(zip(self.items, self.answers, strict=True)):
            array = item.inputs[name]
            for index in product(*(range(n) for n in array.shape[:rank])):
                label = "_".join([name, *map(str, index)])
                if label in want.counts:
                    total[(number, *index)] = (number + 1 if scaled else 1) * want.counts[label]
        return total


def _gradient(tensor: Tensor) -> NumpyArray:
    return np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.double().numpy()


def gap(quantity: str, where: str, number: int | None, wanted: float, found: float) -> Gap:
    """The gap between two numbers, relative to the wanted one, or to one."""
    if wanted == found:
        error = 0.0
    elif not (np.isfinite(wanted) and np.isfinite(found)):
        error = float("inf")
    else:
        error = abs(wanted - found) / max(1.0, abs(wanted))
    return Gap(quantity, where, number, wanted, found, error)


def spread(
    quantity: str, where: str, number: int | None, wanted: NumpyArray, found: NumpyArray
) -> Iterator[Gap]:
    """The greatest gap between two arrays, relative to the greatest entry."""
    if wanted.shape != found.shape:
        yield Gap(quantity, where, number, float("nan"), float("nan"), float("inf"))
        return
    if not wanted.size:
        return
    gaps = np.abs(wanted - found)
    place = tuple(int(i) for i in np.unravel_index(np.argmax(gaps), gaps.shape))
    size = max(1.0, float(np.abs(wanted).max()))
    error = float(gaps[place]) / size if np.isfinite(gaps).all() else float("inf")
    yield Gap(quantity, where, number, float(wanted[place]), float(found[place]), error, place)
