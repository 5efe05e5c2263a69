"""Expected counts: the gradient of log Z in log-weights, one inside and one outside pass.

Weights come as logarithms, because those of variational methods may be too small for a number:
exp(ψ(1e-5)) is 0 in float64. The emitted program computes with numbers, and for items that need it
with more range (`fgg.runtime.program.certified`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.items import Ready
from fgg.runtime.prelude.charts import NEGATIVE
from fgg.runtime.program.certified import Certified, Weights
from fgg.runtime.program.prepared_batch import Run, prepared, suited_to
from fgg.runtime.program.program import Program
from fgg.runtime.program.reference import ReferenceProgram

LEAST = {torch.float64: -690.0, torch.float32: -85.0}
"""What is less, in nats, is no normal number of this type."""

LEAST_PIECE = -200.0
"""Products of pieces that are less, in nats, may be no numbers."""


@dataclass(frozen=True)
class Counted:
    """log Z of each item, `[batch]`, and how often each entry of each factor is expected."""

    log_z: Tensor
    counts: Mapping[str, Tensor]


class Counter:
    """Counts of a program; the weights are set once and serve for many batches."""

    def __init__(
        self,
        program: Program,
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> None:
        self.program = program
        self.device = device
        self.dtype = dtype
        self.plain = False

    def needed(self, given: Mapping[str, Tensor]) -> list[str]:
        """The factors whose weights the program is given, whole or as pieces."""
        program = self.program
        if isinstance(program, ReferenceProgram):
            found = list(program.parameter_names)
        else:
            found = [
                piece
                for name in program.compiled.plan.parameters
                for piece in ((name,) if name in given else program.pieces(name))
            ]
            # The emitted program takes these very factors, and no products of pieces.
            self.plain = set(found) == set(program.compiled.plan.parameters)
        missing = [name for name in found if name not in given]
        if missing:
            message = f"this query needs `{missing[0]}`, which the model's own does not"
            help = "make the model from a query that needs all factors"
            refuse("F476", message, help)
        return found

    def set(self, logs: Mapping[str, Tensor]) -> None:
        """Take log-weights by name; those that the program does not need are passed over."""
        self.logs = {name: logs[name] for name in self.needed(logs)}
        self.numbers: dict[torch.dtype, tuple[Weights, Weights | None]] = {}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take weights, in float64, of which none is too small for that."""
        given = {name: weights[name] for name in self.needed(weights)}
        if self.dtype != torch.float64:
            self.set({name: w.log() for name, w in given.items()})
            return
        self.logs = {}
        self.numbers = {self.dtype: ({n: w.to(self.device) for n, w in given.items()}, None)}

    def weights(self, dtype: torch.dtype) -> tuple[Weights, Weights | None]:
        """The weights as numbers of a type; and, if some are too small for it, with these raised.

        What is too small is 0 in the first: so that one gives a lower bound of log Z and the other
        an upper one.
        """
        if dtype not in self.numbers:
            floor = LEAST[dtype]
            plain, raised, small = {}, {}, False
            for name, x in self.logs.items():
                low = (x < floor) & (x > NEGATIVE)
                small = small or bool(low.any())
                numbers = x.exp().to(dtype).to(self.device)
                low = low.to(numbers.device)
                plain[name] = numbers.masked_fill(low, 0.0)
                raised[name] = numbers.masked_fill(low, exp(floor))
            self.numbers[dtype] = plain, raised if small else None
        return self.numbers[dtype]

    def count(self, batch: Ready) -> Counted:
        """log Z and expected counts of a batch, in float64; items without derivations give none.

        With numbers of the type that was asked for, and for items that need it with more range.
        """
        if isinstance(self.program, ReferenceProgram):
            return self.differentiated(batch)
        if self.plain:
            return self.emitted(batch)
        if self.logs and min(map(_least, self.logs.values()), default=0.0) < LEAST_PIECE:
            from fgg.runtime.learn.log_counts import log_counts

            return log_counts(suited_to(self.program.compiled, batch.collated), self.logs, batch)
        return self.differentiated(batch)

    def emitted(self, batch: Ready) -> Counted:
        """By the emitted programs of inside and outside passes."""
        program, inputs = suited_to(self.program.compiled, batch.collated), batch.collated
        weights, _ = self.weights(self.dtype)
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
            run: Run = prepared(program, leaves, inputs, self.dtype, self.device)
        run.batch.spare = True  # nobody needs the charts after the outside pass
        passes = Certified(run, self.weights, self.logs or None)
        counts = passes.counts()
        found = {
            name: counts[name].cpu() if name in counts else torch.zeros(w.shape, dtype=torch.double)
            for name, w in weights.items()
        }
        return Counted(passes.log_z.cpu().double(), found)

    def differentiated(self, batch: Ready) -> Counted:
        """By automatic differentiation around the program: products of pieces, references."""
        inputs = batch.collated
        plain, raised = self.weights(torch.float64)
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: w.detach().clone().requires_grad_() for n, w in (raised or plain).items()}
            log_z = self.program.log_z(leaves, inputs.inputs, dict(inputs.lengths) or None)
            torch.autograd.backward(log_z[torch.isfinite(log_z)].sum())
        counts = {
            name: torch.zeros(w.shape, dtype=torch.float64)
            if w.grad is None
            else torch.where(w > 0, w.grad * w.detach(), 0.0).cpu().to(torch.float64)
            for name, w in leaves.items()
        }
        return Counted(log_z.detach().cpu().to(torch.float64), counts)


def _least(logs: Tensor) -> float:
    """The least finite logarithm, or 0."""
    live = logs[logs > NEGATIVE]
    return float(live.min()) if live.numel() else 0.0
