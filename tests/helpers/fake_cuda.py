"""Tensors of a CUDA device that is not here: they have shapes and no numbers."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from fgg.grammar.domains import domain_size, size_values
from fgg.plan import Potential
from fgg.plan.sizes import environment, extents
from fgg.runtime.prelude.batch import Batch
from fgg.runtime.program.program import Program

CUDA = torch.device("cuda")


class WithoutGuards(TorchFunctionMode):
    """Carries out indexing and copying, which torch built without CUDA refuses even when fake."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.copy_:
            target, source = args
            assert target.device == source.device
            source.expand(target.shape)
            return target
        if func is torch.Tensor.__getitem__:
            return indexed(*args)
        if func is torch.Tensor.__invert__:
            return torch.logical_not(*args)
        if func is torch.Tensor.contiguous:
            return args[0].clone(memory_format=torch.contiguous_format)
        return func(*args, **(kwargs or {}))


def indexed(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """`tensor[index]` by operations that need no device."""
    parts = index if isinstance(index, tuple) else (index,)
    tensors: list[torch.Tensor | None] = []
    axis = 0
    for part in parts:
        if part is ...:
            axis = tensor.dim() - sum(p is not None for p in parts[parts.index(...) + 1 :])
        elif isinstance(part, int):
            tensor = tensor.select(axis, part)
        elif part is None:
            tensor = tensor.unsqueeze(axis)
            axis += 1
        elif isinstance(part, torch.Tensor):
            assert part.device == tensor.device
            tensors += [None] * (axis - len(tensors)) + [part]
            axis += 1
        else:
            start, stop, step = part.indices(tensor.shape[axis])
            assert step == 1
            tensor = tensor.narrow(axis, start, stop - start)
            axis += 1
    return torch.ops.aten.index(tensor, tensors) if tensors else tensor


def inputs_of(program: Program, lengths: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """Empty inputs of the right shapes on the device."""
    grammar = program.grammar
    longest = {name: max(values) for name, values in lengths.items()}
    size = len(next(iter(lengths.values())))
    found = {}
    for item in grammar.observed:
        extent = [e.evaluate({**size_values(grammar), **longest}) or 0 for e in item.shape]
        found[item.name] = torch.zeros((size, *extent), dtype=torch.long, device=CUDA)
    for step in program.compiled.plan.preparations:
        if isinstance(step, Potential):
            table, name = program.compiled.plan.table[step.name], step.source
            factor = grammar.input_factor[name]
            states = [domain_size(grammar, d) for d in factor.domains]
            shape = (size, *extents(table, environment(lengths)), *states)
            found[name] = torch.zeros(shape, device=CUDA)
    return found


@torch.no_grad()
def stays_on_the_device(program: Program, module: ModuleType, lengths: list[int]) -> None:
    """Run both passes of a module on fake CUDA tensors; assert that all results are there."""
    by_name = dict.fromkeys(program.compiled.plan.lengths, lengths)
    missing = lengths[0] != lengths[1]
    with FakeTensorMode(allow_non_fake_inputs=False), WithoutGuards():
        weights = {
            n: torch.ones(program.shape(n), device=CUDA) for n in program.compiled.plan.parameters
        }
        inputs = inputs_of(program, by_name)
        tables = {t.name: inputs[t.name] for t in program.grammar.tables}
        batch = Batch(len(lengths), by_name, tables, torch.float32, CUDA)
        batch.watched = True
        leaves, scales = module.prepare(weights, inputs, batch, missing)
        # The autograd engine has no thread for a device that torch was built without, so the
        # outside program is called as the engine would call it.
        values, charts = module.inside(leaves, scales, batch)
        log_z = module.result(charts, batch)
        found, cells = module.outside(leaves, scales, values, charts, batch, torch.ones_like(log_z))
        tensors = [log_z, *values.values(), *charts.values(), *found.values(), *cells.values()]
        assert {tensor.device.type for tensor in tensors} == {"cuda"}
        for leaf, gradient in found.items():
            assert gradient.shape == leaves[leaf].shape
