"""log Z where torch traces a program (`torch.compile`) or transforms it (`torch.func`).

Both work on tensors that have no numbers yet, so the passes must be closed to them: under
`torch.compile` they are the operator `fgg::log_z`, and under `torch.func` autograd functions whose
bodies see plain numbers. Either way it is `program.log_z` that computes, and its derivatives are
the outside pass. A backward pass repeats the inside pass, as nothing but tensors can be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.program.inputs import Inputs, Lengths
from fgg.runtime.program.parameters import as_weight

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program, Weights

_programs: WeakValueDictionary[str, Program] = WeakValueDictionary()
_numbers = count()
KINDS = ("weights", "inputs", "lengths")


def handle_of(program: Program) -> str:
    """A name that operators know a program by, while it lives."""
    handle = f"program {next(_numbers)}"
    _programs[handle] = program
    return handle


def is_traced() -> bool:
    """Whether torch traces or transforms what is computed now."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


class Call(NamedTuple):
    """A call of `program.log_z`: the tensors of weights, inputs and lengths, and their names."""

    handle: str
    names: str  # such as `weights trans`, one a line; the only length may have none
    tensors: list[Tensor]

    @classmethod
    def of(cls, program: Program, weights: Weights, inputs: Inputs, lengths: Lengths) -> Call:
        """The call with these arguments, all of which become tensors."""
        named = {f"weights {name}": as_weight(name, value) for name, value in weights.items()}
        for name, value in (inputs or {}).items():
            named[f"inputs {name}"] = _tensor(f"`{name}`", value)
        if lengths is not None:
            given = lengths if isinstance(lengths, Mapping) else {"": lengths}
            for name, value in given.items():
                named[f"lengths {name}"] = _tensor(f"length `{name}`", value).reshape(-1)
        return cls(program.handle, "\n".join(named), list(named.values()))

    def by_kind(self) -> dict[str, dict[str, Tensor]]:
        """The tensors by kind and name."""
        given: dict[str, dict[str, Tensor]] = {kind: {} for kind in KINDS}
        for line, tensor in zip(self.names.split("\n"), self.tensors, strict=True):
            kind, _, name = line.partition(" ")
            given[kind][name] = tensor
        return given

    def log_z(self) -> Tensor:
        """log Z of every item."""
        given = self.by_kind()
        lengths: Lengths = given["lengths"] or None
        if "" in given["lengths"]:
            lengths = given["lengths"][""]
        return _programs[self.handle].log_z(given["weights"], given["inputs"], lengths)

    def shape_like(self) -> Tensor:
        """A tensor without numbers that is like log Z."""
        lines = self.names.split("\n")
        real = next((x for x in self.tensors if x.is_floating_point()), None)
        batch = next(
            (x for line, x in zip(lines, self.tensors, strict=True) if not line.startswith("w")),
            None,
        )
        dtype = torch.float64 if real is None else result_type(real.dtype)
        size = 1 if batch is None else batch.shape[0]
        source = self.tensors[0] if real is None else real
        return source.new_empty((size,), dtype=dtype)

    def leaves(self, wanted: Sequence[bool]) -> Call:
        """The call with tensors of its own, of which the wanted ones can be differentiated."""
        pairs = zip(self.tensors, wanted, strict=True)
        return self._replace(tensors=[x.detach().requires_grad_(asked) for x, asked in pairs])

    def slopes(
        self, wanted: Sequence[bool], gradient: Tensor, *, twice: bool = False
    ) -> list[Tensor]:
        """The derivatives in the wanted tensors; with `twice`, differentiable again."""
        real = [x for x, asked in zip(self.tensors, wanted, strict=True) if asked]
        with torch.enable_grad():
            slopes = torch.autograd.grad(
                self.log_z(), real, gradient, allow_unused=True, create_graph=twice
            )
        return _filled(slopes, real)


def _filled(slopes: Sequence[Tensor | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Derivatives with zeros in place of those that do not exist."""
    pairs = zip(slopes, tensors, strict=True)
    return [torch.zeros_like(x) if slope is None else slope for slope, x in pairs]


def result_type(dtype: torch.dtype) -> torch.dtype:
    """The type of log Z for weights of a type."""
    return dtype if dtype == torch.float64 else torch.float32


def _tensor(what: str, value: object) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        help = "collate the batch beforehand: `program.collate_fn`"
        refuse("F411", f"{what} must be a tensor where it is traced or transformed", help)


def traced_log_z(program: Program, weights: Weights, inputs: Inputs, lengths: Lengths) -> Tensor:
    """log Z of every item, `[batch]`, under `torch.compile`, `torch.export` or `torch.func`."""
    call = Call.of(program, weights, inputs, lengths)
    if torch.compiler.is_exporting():
        from fgg.runtime.layer.exported_log_z import exported_log_z

        return exported_log_z(program, **call.by_kind())
    if torch.compiler.is_compiling():
        log_z: Tensor = log_z_operator(call.handle, call.names, call.tensors)
        return log_z
    transformed: Tensor = TransformedLogZ.apply(call.handle, call.names, *call.tensors)  # type: ignore[no-untyped-call]
    return transformed


# torch.compile: two operators


@torch.library.custom_op("fgg::log_z", mutates_args=())
def log_z_operator(handle: str, names: str, tensors: Sequence[Tensor]) -> Tensor:
    """log Z of every item of a call."""
    return Call(handle, names, list(tensors)).log_z()


@log_z_operator.register_fake
def _(handle: str, names: str, tensors: Sequence[Tensor]) -> Tensor:
    return Call(handle, names, list(tensors)).shape_like()


def _slopes(
    handle: str, names: str, wanted: Sequence[bool], gradient: Tensor, tensors: Sequence[Tensor]
) -> list[Tensor]:
    slopes = Call(handle, names, list(tensors)).leaves(wanted).slopes(wanted, gradient)
    # No two results may share memory, nor be laid out in other ways than is said beforehand.
    return [slope.clone(memory_format=torch.contiguous_format) for slope in slopes]


def _slopes_like(
    handle: str, names: str, wanted: Sequence[bool], gradient: Tensor, tensors: Sequence[Tensor]
) -> list[Tensor]:
    return [x.new_empty(x.shape) for x, asked in zip(tensors, wanted, strict=True) if asked]


# Inside an operator of `custom_op` there are no derivatives, and slopes are made of such.
SLOPES = "(str handle, str names, bool[] wanted, Tensor gradient, Tensor[] tensors) -> Tensor[]"
torch.library.define("fgg::slopes", SLOPES)
torch.library.impl("fgg::slopes", "default", _slopes)
torch.library.register_fake("fgg::slopes", _slopes_like)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.handle, ctx.names, tensors = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradient: Tensor) -> tuple[None, None, list[Tensor | None]]:
    wanted = list(ctx.needs_input_grad[2])
    tensors = list(ctx.saved_tensors)
    slopes = iter(torch.ops.fgg.slopes(ctx.handle, ctx.names, wanted, gradient, tensors))
    return None, None, [next(slopes) if asked else None for asked in wanted]


log_z_operator.register_autograd(_backward, setup_context=_keep)


# torch.func: functions that see plain numbers


class TransformedLogZ(torch.autograd.Function):
    """log Z of a call whose tensors are transformed."""

    @staticmethod
    def forward(handle: str, names: str, *tensors: Tensor) -> Tensor:
        """log Z of every item."""
        return Call(handle, names, list(tensors)).log_z()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the call."""
        ctx.handle, ctx.names, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """The derivatives in all tensors of real numbers."""
        wanted = list(ctx.needs_input_grad[2:])
        arguments = (ctx.handle, ctx.names, wanted, gradient, *ctx.saved_tensors)
        slopes = iter(TransformedSlopes.apply(*arguments))  # type: ignore[no-untyped-call]
        return None, None, *(next(slopes) if asked else None for asked in wanted)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Tensor, int]:
        """One call for each of the batches."""
        return torch.stack(list(_each(TransformedLogZ, info, dims, arguments))), 0

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Refuse (F497): only reverse derivatives are there."""
        _no_forward()


class TransformedSlopes(torch.autograd.Function):
    """The derivatives of log Z in the wanted tensors of a call."""

    @staticmethod
    def forward(
        handle: str, names: str, wanted: list[bool], gradient: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """The derivatives, weighted by the gradient of each item's log Z."""
        return tuple(_slopes(handle, names, wanted, gradient, tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep the call."""
        ctx.handle, ctx.names, ctx.wanted, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The second derivatives."""
        further = list(ctx.needs_input_grad[4:])
        arguments = (ctx.handle, ctx.names, ctx.wanted, further, *ctx.saved_tensors, *gradients)
        first, *more = TransformedCurvature.apply(*arguments)  # type: ignore[no-untyped-call]
        curved = iter(more)
        return None, None, None, first, *(next(curved) if asked else None for asked in further)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        """One call for each of the batches."""
        return _stacked(TransformedSlopes, info, dims, arguments)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Refuse (F497): only reverse derivatives are there."""
        _no_forward()


class TransformedCurvature(torch.autograd.Function):
    """The derivatives of slopes: in the gradient of log Z, and in all tensors of real numbers."""

    @staticmethod
    def forward(
        handle: str,
        names: str,
        wanted: list[bool],
        further: list[bool],
        gradient: Tensor,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        """The derivatives of `wanted` slopes, in the gradient and in `further` tensors.

        Tensors of the call come first, then the gradients of its slopes.
        """
        rest, seeds = tensors[: len(wanted)], tensors[len(wanted) :]
        either = [one or two for one, two in zip(wanted, further, strict=True)]
        call = Call(handle, names, list(rest)).leaves(either)
        start = gradient.detach().requires_grad_()
        slopes = call.slopes(wanted, start, twice=True)
        leaves = [start, *(x for x, asked in zip(call.tensors, further, strict=True) if asked)]
        pairs = [(s, seed) for s, seed in zip(slopes, seeds, strict=True) if s.requires_grad]
        curved: Sequence[Tensor | None] = [None] * len(leaves)
        if pairs:
            outputs, given = zip(*pairs, strict=True)
            curved = torch.autograd.grad(outputs, leaves, given, allow_unused=True)
        return tuple(_filled(curved, leaves))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Refuse (F497): there is no third derivative."""
        help = "outside of transformations, derivatives of log Z have any order"
        refuse("F497", "third derivatives of log Z cannot be transformed", help)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        """One call for each of the batches."""
        return _stacked(TransformedCurvature, info, dims, arguments)


def _each(
    function: type[torch.autograd.Function],
    info: Any,
    dims: tuple[Any, ...],
    arguments: tuple[Any, ...],
) -> Any:
    """The results of a function for each of the batches that `vmap` maps over."""
    for place in range(info.batch_size):
        yield function.apply(  # type: ignore[no-untyped-call]
            *(
                value.select(dim, place) if isinstance(dim, int) else value
                for value, dim in zip(arguments, dims, strict=True)
            )
        )


def _stacked(
    function: type[torch.autograd.Function],
    info: Any,
    dims: tuple[Any, ...],
    arguments: tuple[Any, ...],
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The same for functions with several results, each stacked, and the axes of the batches."""
    columns = zip(*_each(function, info, dims, arguments), strict=True)
    stacked = tuple(torch.stack(column) for column in columns)
    return stacked, (0,) * len(stacked)


def _no_forward() -> None:
    help = "use reverse derivatives: `grad`, `vjp`, `jacrev`; a Hessian is `jacrev(jacrev(f))`"
    refuse("F497", "log Z has no forward derivatives under transformations", help)
