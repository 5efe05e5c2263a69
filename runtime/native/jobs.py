"""Jobs over many batches: their backend is chosen once, at the beginning, by all of their work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import torch

from fgg.plan.backend import CPP, INSIDE, BackendChoice, Situation, choose, threshold
from fgg.runtime.native.engine import dtype_name
from fgg.runtime.native.triton_engine import no_place
from fgg.runtime.program.program import CompiledProgram

if TYPE_CHECKING:
    from fgg.runtime.program.inputs import Collated
    from fgg.runtime.program.program import Program


@dataclass(frozen=True, kw_only=True)
class Job:
    """Batches, each with the program that is to compute it, and how often they are computed.

    Without `look` the choice of a backend does not depend on machine code that is kept from
    earlier: the same job on the same machine has the same backend whenever it runs.
    """

    batches: Iterable[tuple[Program, Collated]]
    dtype: torch.dtype
    device: torch.device | None = None
    times: int = 1
    derivatives: bool = True
    look: bool = False

    @contextmanager
    def on_one_backend(self, program: Program) -> Iterator[None]:
        """Within this context, all programs of a model have the backend of the job.

        Nothing changes if a backend was asked for, or if this job is a part of another one.
        """
        backend = program.compiler.backend
        if backend.choice is not None:
            yield
            return
        with backend.on(self.choice()):
            yield

    def choice(self) -> BackendChoice:
        """The backend for all batches; no more of them are looked at than needed."""
        dtype = dtype_name(self.dtype)
        device = self.device or torch.device("cpu")
        on_gpu = device.type != "cpu"
        no_triton = no_place(device, self.dtype) if on_gpu else ""
        whole = Situation(device=device.type, dtype=dtype, no_triton=no_triton)
        passes = self.times * (1.0 if self.derivatives else INSIDE)
        if not passes or choose(replace(whole, saving=inf)).backend != CPP:
            return choose(whole)
        savings: dict[CompiledProgram, float] = {}
        for program, batch in self.batches:
            if isinstance(program, CompiledProgram):
                saved = passes * program.engines.saved_on(batch.lengths, batch.size, dtype)
                before = savings.get(program, program.engines.saved_so_far)
                savings[program] = before + saved
                whole = self._whole(whole, savings)
                if whole.no_compiler or whole.saving >= threshold(whole):
                    break
        return choose(whole)

    def _whole(self, at: Situation, savings: dict[CompiledProgram, float]) -> Situation:
        """The situation of all programs together."""
        parts = [
            program.engines.situation(at.device, at.dtype, saving, look=self.look)
            for program, saving in savings.items()
        ]
        return replace(
            at,
            no_compiler=next((part.no_compiler for part in parts if part.no_compiler), ""),
            cached=all(part.cached for part in parts),
            saving=sum(part.saving for part in parts),
            building=sum(part.building for part in parts),
        )
