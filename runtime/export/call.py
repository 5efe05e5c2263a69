"""Calling exported programs: arguments by name, checked against the package's metadata.

Compiled code does not look at the extents of what it is given: wrong ones are read past their end.
So everything is checked, and padded to one length, before it is passed on.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import did_you_mean, refuse
from fgg.files import check_regular, unreadable
from fgg.inputs.tokens import IMPOSSIBLE, MISSING

FILL = {"tokens": IMPOSSIBLE, "table": IMPOSSIBLE, "potentials": float("-inf")}


def load_exported(path: Path) -> Exported:
    """An exported program. The file is machine code: load only what you trust."""
    try:
        check_regular(path)
    except OSError as error:
        raise unreadable(path, error) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = torch._inductor.aoti_load_package(str(path))
            described = json.loads(run.get_metadata()["fgg"])
        except (RuntimeError, KeyError, ValueError):
            refuse("F401", f"`{path}` is not an exported program")
    return Exported(run, described)


@dataclass(frozen=True, eq=False)
class Exported:
    """A compiled program and what is known about its arguments."""

    run: Callable[..., Tensor]
    signature: Mapping[str, Any]

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Any] | None = None,
        lengths: Mapping[str, Any] | Sequence[int] | Tensor | None = None,
    ) -> Tensor:
        """log Z of every item, `[batch]`. Raises GrammarError for what does not fit."""
        given = {n: torch.as_tensor(v) for n, v in (inputs or {}).items()}
        own, batch = self.lengths(given, lengths)
        high = {n: max(self.signature["least"], *v.tolist()) for n, v in own.items()}
        for name, length in high.items():
            if length > self.signature["max_length"]:
                limit = self.signature["max_length"]
                refuse("F411", f"length `{name}` is {length}; at most {limit} was compiled")
        if not 1 <= batch <= self.signature["max_batch"]:
            limit = self.signature["max_batch"]
            refuse("F411", f"a batch of {batch} items; 1 to {limit} was compiled")
        known = {argument["name"] for argument in self.signature["arguments"]}
        for name in (*given, *weights):
            if name not in known:
                refuse("F411", f"there is no input `{name}`", did_you_mean(name, known))
        values = {**high, "batch": batch}
        longest = {**{n: int(v.max()) for n, v in own.items()}, "batch": batch}
        arguments = []
        for argument in self.signature["arguments"]:
            shape = [extent_of(e, values) for e in argument["shape"]]
            dtype = getattr(torch, argument["dtype"])
            name, kind = argument["name"], argument["kind"]
            if kind == "lengths":
                arguments.append(own[name])
            elif kind == "room":
                arguments.append(torch.zeros(shape, dtype=dtype))
            elif kind == "weights":
                arguments.append(self.weight(name, weights, shape).to(dtype))
            else:
                needed = [extent_of(e, longest) for e in argument["shape"]]
                value = self.fitted(argument, given, needed, shape)
                arguments.append(value.to(dtype).contiguous())
        with torch.no_grad():
            return self.run(*arguments)

    def lengths(
        self,
        inputs: Mapping[str, Tensor],
        lengths: Mapping[str, Any] | Sequence[int] | Tensor | None,
    ) -> tuple[dict[str, Tensor], int]:
        """The items' lengths: as given, or the extents of inputs that have them."""
        names = self.signature["lengths"]
        if lengths is not None and not isinstance(lengths, Mapping):
            if len(names) != 1:
                refuse("F411", "lengths must be given by name")
            lengths = {names[0]: lengths}
        found = {n: torch.as_tensor(v, dtype=torch.int64) for n, v in (lengths or {}).items()}
        for name in found:
            if name not in names:
                message = f"there is no length `{name}`"
                refuse("F411", message, did_you_mean(name, names))
        sizes = [len(v) for v in found.values()] + [v.shape[0] for v in inputs.values() if v.dim()]
        batch = sizes[0] if sizes else 1
        if any(size != batch for size in sizes):
            refuse("F411", f"inputs and lengths have different numbers of items: {sizes}")
        for argument in self.signature["arguments"]:
            for axis, extent in enumerate(argument["shape"]):
                value = inputs.get(argument["name"])
                if isinstance(extent, int) or value is None or value.dim() <= axis:
                    continue
                if len(extent["of"]) == 1 and 1 in extent["of"].values():
                    (name,) = extent["of"]
                    length = value.shape[axis] - extent["more"]
                    if name in names:
                        found.setdefault(name, torch.full((batch,), length))
        for name in names:
            if name not in found:
                refuse("F301", f"length `{name}` is not known", "give it, or an input with it")
            if bool((found[name] < 0).any()):
                refuse("F411", f"length `{name}` must be whole numbers from 0 up")
        return found, batch

    def weight(self, name: str, weights: Mapping[str, Tensor], shape: Sequence[int]) -> Tensor:
        """The weights of a factor."""
        if name not in weights:
            refuse("F416", f"no weights for `{name}`")
        if list(weights[name].shape) != list(shape):
            have = tuple(weights[name].shape)
            refuse("F417", f"weights for `{name}` have shape {have}, not {tuple(shape)}")
        return weights[name].detach().contiguous()

    def fitted(
        self,
        argument: Mapping[str, Any],
        inputs: Mapping[str, Tensor],
        needed: Sequence[int],
        shape: Sequence[int],
    ) -> Tensor:
        """An input with the extents that the longest item needs, padded to those compiled."""
        name, kind = argument["name"], argument["kind"]
        if name not in inputs:
            if kind != "tokens":
                refuse("F411", f"`{name}` is not given")
            return torch.full(tuple(shape), MISSING)
        value = inputs[name].detach()
        if value.dim() != len(shape):
            refuse("F411", f"`{name}` has {value.dim()} axes; {len(shape)} are expected")
        if (kind == "potentials") != value.is_floating_point():
            expected = "log-potentials" if kind == "potentials" else "whole numbers"
            refuse("F411", f"`{name}`: {expected} are expected")
        for axis, extent in enumerate(argument["shape"]):
            have, least, wanted = value.shape[axis], needed[axis], shape[axis]
            if have < least or (isinstance(extent, int) and have != extent):
                refuse("F411", f"`{name}` has extent {have} on axis {axis}, not {least}")
            if have > wanted:
                value = value.narrow(axis, 0, wanted)
            elif have < wanted:
                rest = list(value.shape)
                rest[axis] = wanted - have
                value = torch.cat([value, value.new_full(rest, FILL[kind])], axis)
        return value


def extent_of(extent: int | Mapping[str, Any], values: Mapping[str, int]) -> int:
    """An extent of an argument, as metadata has it."""
    if isinstance(extent, int):
        return extent
    return int(extent["more"] + sum(c * values[name] for name, c in extent["of"].items()))
