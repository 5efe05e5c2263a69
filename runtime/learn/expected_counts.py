"""Expected counts: the gradient of log Z in log-weights, from one inside and one outside pass.

Weights are given as logarithms, because those of variational methods may be too small for a float:
exp(ψ(1e-5)) is 0 in float64. The emitted program computes with floats, and repeats items that need
it with more range (`fgg.runtime.program.range_certificate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.interpret.batch import batch_of
from fgg.runtime.interpret.interpret import inside
from fgg.runtime.interpret.semirings.log import LogWeights
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.prelude.cells import NEGATIVE
from fgg.runtime.program.item_groups import Weights
from fgg.runtime.program.prepared_batch import Run, log_product, prepared, suited_to
from fgg.runtime.program.program import Program
from fgg.runtime.program.range_certificate import Certified
from fgg.runtime.program.reference_program import ReferenceProgram

LEAST = {torch.float64: -690.0, torch.float32: -85.0}
"""The least logarithm of a normal number of each type."""

LEAST_PIECE = -200.0
"""With smaller logarithms, products of pieces may underflow."""


@dataclass(frozen=True)
class ExpectedCounts:
    """log Z of each item, `[batch]`, and expected counts of the batch in each factor's shape."""

    log_z: Tensor
    counts: Mapping[str, Tensor]


class ExpectedCounter:
    """Computes the expected counts of batches under weights that are set once."""

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
        """The factors whose weights the program takes, whole or as pieces."""
        program = self.program
        if isinstance(program, ReferenceProgram):
            names = list(program.parameter_names)
        else:
            names = [
                piece
                for name in program.compiled.plan.parameters
                for piece in ((name,) if name in given else program.pieces(name))
            ]
            # The emitted program takes exactly these factors, and no products of pieces.
            self.plain = set(names) == set(program.compiled.plan.parameters)
        missing = [name for name in names if name not in given]
        if missing:
            message = f"this query needs `{missing[0]}`, which the query of the model does not"
            refuse("F476", message, "make the model from a query that needs all factors")
        return names

    def set(self, logs: Mapping[str, Tensor]) -> None:
        """Set the log-weights by factor; those that the program does not need are ignored."""
        self.logs = {name: logs[name] for name in self.needed(logs)}
        self.numbers: dict[torch.dtype, tuple[Weights, Weights | None]] = {}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the weights by factor, in float64, none of which underflows."""
        given = {name: weights[name] for name in self.needed(weights)}
        if self.dtype != torch.float64:
            self.set({name: w.log() for name, w in given.items()})
            return
        self.logs = {}
        self.numbers = {self.dtype: ({n: w.to(self.device) for n, w in given.items()}, None)}

    def weights(self, dtype: torch.dtype) -> tuple[Weights, Weights | None]:
        """The weights in a float type, and if some underflow, the weights with these raised.

        A weight that underflows is 0 in the first and the least normal number in the second, so the
        first gives a lower bound of log Z and the second an upper bound.
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

    def count(self, batch: CheckedItems) -> ExpectedCounts:
        """log Z and expected counts of a batch, in float64; items without derivations add none.

        The passes run in the counter's type, and with more range for items that need it.
        """
        if isinstance(self.program, ReferenceProgram):
            return self.differentiated(batch)
        if self.plain:
            return self.emitted(batch)
        if self.logs and min(map(_least, self.logs.values()), default=0.0) < LEAST_PIECE:
            return log_counts(suited_to(self.program.compiled, batch.collated), self.logs, batch)
        return self.differentiated(batch)

    def emitted(self, batch: CheckedItems) -> ExpectedCounts:
        """The expected counts, from the emitted inside and outside passes."""
        program, inputs = suited_to(self.program.compiled, batch.collated), batch.collated
        weights, _ = self.weights(self.dtype)
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
            run: Run = prepared(program, leaves, inputs, self.dtype, self.device)
        run.batch.spare = True  # the charts are not needed after the outside pass
        passes = Certified(run, self.weights, self.logs or None)
        known = passes.counts()
        counts = {
            name: known[name].cpu() if name in known else torch.zeros(w.shape, dtype=torch.double)
            for name, w in weights.items()
        }
        return ExpectedCounts(passes.log_z.cpu().double(), counts)

    def differentiated(self, batch: CheckedItems) -> ExpectedCounts:
        """The expected counts by automatic differentiation: products of pieces, references."""
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
        return ExpectedCounts(log_z.detach().cpu().to(torch.float64), counts)


def _least(logs: Tensor) -> float:
    """The least finite logarithm, or 0 if there is none."""
    live = logs[logs > NEGATIVE]
    return float(live.min()) if live.numel() else 0.0


def log_counts(program: Program, logs: Mapping[str, Tensor], batch: CheckedItems) -> ExpectedCounts:
    """log Z and expected counts of a batch, computed in logarithms throughout."""
    plan, collated = program.compiled.plan, batch.collated
    inputs = {name: tensor.cpu() for name, tensor in collated.inputs.items()}
    interpreted = batch_of(plan, inputs, dict(collated.lengths) or None)
    with torch.inference_mode(False), torch.enable_grad():
        leaves = {n: x.detach().clone().requires_grad_() for n, x in logs.items()}
        whole = {name: _whole(program, name, leaves) for name in plan.parameters}
        log_z = inside(plan, whole, interpreted, LogWeights()).z
        total = log_z[torch.isfinite(log_z)].sum()
        if total.requires_grad:
            torch.autograd.backward(total)
    counts = {
        name: torch.zeros_like(x) if x.grad is None else x.grad.nan_to_num(0.0)
        for name, x in leaves.items()
    }
    return ExpectedCounts(log_z.detach(), counts)


def _whole(program: Program, name: str, logs: Mapping[str, Tensor]) -> Tensor:
    """The log-weights of a factor, from those of its pieces if it has some."""
    pieces = program.pieces(name)
    if name in logs or pieces == (name,):
        return logs[name]
    return log_product([logs[piece] for piece in pieces])
