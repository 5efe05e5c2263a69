"""Compiled programs held against the reference engine, on the same random items."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.api.compile import compile
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar, InputFactor
from fgg.grammar.definitions import Piece, Slice
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, project
from fgg.grammar.ranges import condition_rows, length_rows
from fgg.grammar.values import Exp
from fgg.rewrite.ground import ground
from fgg.runtime.derive.decode_ground import k_best
from fgg.runtime.prelude.cells import Cells, Index
from fgg.runtime.program.program import Program
from fgg.runtime.reference.posterior import gradients, posterior
from fgg.runtime.reference.solve import solve

Array = NDArray[Any]
Weights = Mapping[str, Array]


@dataclass(frozen=True)
class Item:
    """One item of a batch: its lengths, and its inputs as arrays without a batch axis."""

    lengths: Mapping[str, int]
    inputs: Mapping[str, Array]


@dataclass(frozen=True)
class Answer:
    """What the reference says of an item: log Z; gradients of log Z in weights and potentials."""

    log_z: float
    weights: Mapping[str, Array]
    potentials: Mapping[str, Array]


def extents(grammar: Grammar, factor: InputFactor, lengths: Mapping[str, int]) -> list[int]:
    """How many positions log-potentials have on each axis: up to the greatest index in range."""
    rows = condition_rows(factor.conditions, size_values(grammar)) + length_rows(grammar)
    rows += [Row.make({n: sign}, -sign * x) for n, x in lengths.items() for sign in (1, -1)]
    found = []
    for index in factor.indices:
        system = project(rows, {index})
        found.append(max(0, 1 + min(r.constant for r in system if r.coefficient(index) < 0)))
    return found


def random_item(
    grammar: Grammar,
    lengths: Mapping[str, int],
    rng: random.Random,
    *,
    missing: float = 0.15,
    impossible: float = 0.03,
    spread: float = 1.0,
) -> Item:
    """An item with random tokens, tables and log-potentials."""
    known = {**size_values(grammar), **lengths}

    def shape(exprs: Sequence[Expr]) -> list[int]:
        found = [e.evaluate(known) for e in exprs]
        return [x for x in found if x is not None]

    def token(size: int) -> int:
        chance = rng.random()
        if chance < missing:
            return -1
        return -2 if chance < missing + impossible else rng.randrange(size)

    inputs: dict[str, Array] = {}
    for item in grammar.inputs:
        size, where = domain_size(grammar, item.domain), shape(item.shape)
        inputs[item.name] = np.array([token(size) for _ in range(prod(where))], int).reshape(where)
    top = max(lengths.values(), default=1)
    for table in grammar.tables:
        where = shape(table.shape)
        entries = [rng.randint(-1, top + 1) for _ in range(prod(where))]
        inputs[table.name] = np.array(entries, int).reshape(where)
    for factor in grammar.input_factors:
        where = extents(grammar, factor, lengths)
        where += [domain_size(grammar, d) for d in factor.domains]
        logs = [
            rng.gauss(0, spread) if rng.random() > impossible else -np.inf
            for _ in range(prod(where))
        ]
        inputs[factor.name] = np.array(logs, float).reshape(where)
    return Item(dict(lengths), inputs)


def random_weights(grammar: Grammar, rng: random.Random, *, zero: float = 0.0) -> dict[str, Array]:
    """Weights for every factor without a value, some of them zero; for pieces, not for wholes."""
    found = {}
    wholes = {f.definition.source for f in grammar.factors if isinstance(f.definition, Piece)}
    for factor in grammar.factors:
        if factor.name in wholes:
            continue
        if factor.value is None and not isinstance(factor.definition, Slice):
            shape = [domain_size(grammar, d) for d in factor.domains]
            numbers = [
                rng.uniform(0.05, 1.5) if rng.random() >= zero else 0.0 for _ in range(prod(shape))
            ]
            array = np.array(numbers).reshape(shape)
            if factor.given is not None:
                axes = tuple(range(factor.given, len(shape)))
                array = array + 1e-3
                array = array / array.sum(axes, keepdims=True)
            found[factor.name] = array
    return found


def peaked(grammar: Grammar, weights: Weights, power: float) -> dict[str, Array]:
    """Weights raised to a power; distributions normalised again."""
    found = {}
    for name, array in weights.items():
        given = grammar.factor[name].given
        array = array**power
        if given is not None:
            array = array / array.sum(tuple(range(given, array.ndim)), keepdims=True)
        found[name] = array
    return found


def reference(grammar: Grammar, item: Item, weights: Weights) -> Answer | None:
    """What the reference engine says; None where it needs positions that do not exist."""
    inputs = {name: array.tolist() for name, array in item.inputs.items()}
    try:
        flat = ground(grammar, lengths=item.lengths, inputs=inputs)
    except GrammarError as error:
        if {d.code for d in error.diagnostics} == {"F411"}:
            return None
        raise
    own = {name: array for name, array in weights.items() if name in flat.factor}
    log_z = float(torch.logsumexp(solve(flat, "log", weights=own).value.detach().reshape(-1), 0))
    found: dict[str, Array] = {}
    logs: dict[str, Array] = {
        f.name: np.zeros(item.inputs[f.name].shape) for f in grammar.input_factors
    }
    if np.isfinite(log_z):
        for name, gradient in gradients(flat, weights=own).items():
            found[name] = gradient.numpy()
        for factor in grammar.input_factors:
            array = item.inputs[factor.name]
            rank = len(factor.indices)
            for index in product(*(range(n) for n in array.shape[:rank])):
                label = "_".join([factor.name, *map(str, index)])
                if label in found:
                    slope, value = found[label], flat.factor[label].value
                    own_logs = isinstance(value, Exp)  # then it is the slope in these already
                    logs[factor.name][index] = slope if own_logs else slope * np.exp(array[index])
    whole = {n: found.get(n, np.zeros(np.shape(w))) for n, w in weights.items()}
    return Answer(log_z, whole, logs)


def corner(array: Array) -> tuple[slice, ...]:
    """Where in a larger array another one lies."""
    return tuple(slice(0, size) for size in array.shape)


def collated(items: Sequence[Item], dtype: torch.dtype) -> tuple[dict[str, Tensor], Any]:
    """Items as padded tensors; what is padding is nonsense that nobody may read."""
    tensors: dict[str, Tensor] = {}
    for name in items[0].inputs:
        arrays = [item.inputs[name] for item in items]
        shape = tuple(max(a.shape[d] for a in arrays) for d in range(arrays[0].ndim))
        filler = 0 if arrays[0].dtype.kind == "i" else 7.5
        whole = np.full((len(items), *shape), filler, dtype=arrays[0].dtype)
        for number, array in enumerate(arrays):
            whole[number, ...][corner(array)] = array
        tensors[name] = torch.tensor(whole)
        if tensors[name].is_floating_point():
            tensors[name] = tensors[name].to(dtype).requires_grad_()
    return tensors, {n: [item.lengths[n] for item in items] for n in items[0].lengths}


def counts(program: Program, items: Sequence[Item]) -> bool:
    """Whether a program has no number to begin with: it counts, in float32."""
    given = any(array.dtype.kind == "f" for array in items[0].inputs.values())
    return not given and not program.parameter_names


def compare(
    program: Program,
    items: Sequence[Item],
    answers: Sequence[Answer],
    weights: Weights,
    *,
    dtype: torch.dtype = torch.float64,
    tolerance: float = 1e-9,
) -> None:
    """Assert that a program agrees with the reference on a batch."""
    if counts(program, items):
        tolerance = 1e-6
    leaves = {
        n: torch.tensor(np.asarray(w), dtype=dtype, requires_grad=n in weights)
        for n, w in program.weights(dict(weights), dtype=torch.float64).items()
    }
    inputs, lengths = collated(items, dtype)
    log_z = program.log_z(leaves, inputs, lengths or None)
    wanted = np.array([a.log_z for a in answers])
    np.testing.assert_allclose(
        log_z.detach().double().numpy(), wanted, rtol=tolerance, atol=tolerance, err_msg="log Z"
    )
    # An item without derivations has gradient zero, whatever it is multiplied with.
    scale = torch.arange(1, len(items) + 1, dtype=dtype)
    if log_z.requires_grad:
        torch.autograd.backward(torch.where(torch.isfinite(log_z), log_z, 0.0).mul(scale).sum())
    for name, leaf in leaves.items():
        if name not in weights:
            continue
        got = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.double().numpy()
        want = sum(((i + 1) * a.weights[name] for i, a in enumerate(answers)), np.zeros(got.shape))
        size = max(1.0, float(np.abs(want).max(initial=0.0)))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * size, err_msg=name)
    for name, tensor in inputs.items():
        if not tensor.is_floating_point():
            continue
        got = np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.double().numpy()
        want = np.zeros(tensor.shape)
        for i, answer in enumerate(answers):
            part = answer.potentials[name]
            want[i, ...][corner(part)] = (i + 1) * part
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=name)


def compare_marginals(
    program: Program, items: Sequence[Item], weights: Weights, tolerance: float = 1e-9
) -> None:
    """Assert that a program's marginals are the reference's expected counts of cells."""
    if counts(program, items):
        tolerance = 1e-6
    leaves = program.weights(dict(weights), dtype=torch.float64)
    inputs, lengths = collated(items, torch.float64)
    inputs = {n: x.detach() for n, x in inputs.items()}
    found = program.posterior(leaves, inputs, lengths or None).marginals
    for number, item in enumerate(items):
        given = {name: array.tolist() for name, array in item.inputs.items()}
        flat = ground(program.grammar, lengths=item.lengths, inputs=given)
        own = {name: array for name, array in weights.items() if name in flat.factor}
        try:
            wanted = posterior(flat, weights=own)
        except GrammarError:
            for tensor in found.values():
                assert not tensor[number].any()
            continue
        total = {name: 0.0 for name in found}
        for nonterminal in flat.nonterminals:
            assert nonterminal.origin is not None
            name, index = nonterminal.origin
            want = wanted.nonterminals[nonterminal.name].numpy()
            if not np.any(want) or min(index, default=0) < 0:  # indices are counted from 0
                continue
            got = found[name][(number, *index)].numpy()
            np.testing.assert_allclose(
                got, want, rtol=tolerance, atol=tolerance, err_msg=f"{name}{index}"
            )
            total[name] += float(want.sum())
        for name, tensor in found.items():  # and nothing anywhere else
            np.testing.assert_allclose(
                float(tensor[number].sum()), total[name], atol=100 * tolerance
            )


def compare_derivations(
    program: Program, item: Item, weights: Weights, *, number: int = 40
) -> None:
    """Assert that best derivations, samples and the entropy are those of the reference's list."""
    leaves = program.weights(dict(weights), dtype=torch.float64)
    inputs, lengths = collated([item], torch.float64)
    arguments = (leaves, {n: x.detach() for n, x in inputs.items()}, lengths or None)
    given = {name: array.tolist() for name, array in item.inputs.items()}
    flat = ground(program.grammar, lengths=item.lengths, inputs=given)
    known = {name: array for name, array in weights.items() if name in flat.factor}
    if not np.isfinite(np.asarray(solve(flat, "max", weights=known).value, float)).any():
        with pytest.raises(GrammarError):
            program.posterior(*arguments).best()
        return
    wanted = k_best(flat, number, weights=known)
    (best,) = program.posterior(*arguments).k_best(number)
    logs = np.array([d.log_weight for d in wanted])
    np.testing.assert_allclose([d.log_weight for d in best], logs, atol=1e-9)
    (first,) = program.posterior(*arguments).best()
    assert abs(first.log_weight - logs[0]) < 1e-9
    (samples,) = program.posterior(*arguments).sample(5, seed=0)
    (likely,) = program.posterior(*arguments).mbr()
    if len(wanted) == number:
        return
    keys = {d.key for d in wanted}
    assert {d.key for d in best} == keys
    assert {d.key for d in (*samples, likely)} <= keys
    chances = np.exp(logs - np.logaddexp.reduce(logs))
    entropy = -float((chances * np.log(chances)).sum())
    assert abs(float(program.posterior(*arguments).entropy()[0]) - entropy) < 1e-8


def compile_checked(grammar: Grammar, space: str = "dense") -> Program:
    """A program in which a view that leaves its chart is an error; torch sees the storage only."""
    Cells.__getitem__ = checked_view  # type: ignore[method-assign]
    return compile(grammar, space=space, fallback=False)


_view = Cells.__getitem__


def checked_view(cells: Cells, index: Index) -> Tensor:
    """A view of cells, all of which must be there."""
    # A form is a tuple, too.
    forms: Any = index if index.__class__ is tuple else (index,)
    extents = cells.all.shape[: len(cells.low)]
    for form, low, extent in zip(forms, cells.low, extents, strict=True):
        first = last = form if isinstance(form, int) else form.constant
        for _, count, coefficient in () if isinstance(form, int) else form.terms:
            assert count > 0, "a view has no cells"
            first += min(0, coefficient * (count - 1))
            last += max(0, coefficient * (count - 1))
        assert low <= first and last < low + extent, (first, last, low, extent)
    return _view(cells, index)


def lengths_of(grammar: Grammar) -> list[str]:
    """The lengths of a grammar, by name."""
    return sorted(length_names(grammar))
