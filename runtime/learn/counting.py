"""Expected counts: the gradient of log Z in log-weights, one inside and one outside pass.

Weights come as logarithms, because those of variational methods may be too small for a number:
exp(ψ(1e-5)) is 0 in float64. The emitted program computes with numbers, in float64 if the range of
float32 may not do; where what is too small may still matter, the plan is carried out in logarithms
(`log_counts.py`), which takes several times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.prelude import NEGATIVE, spread
from fgg.runtime.learn.items import Ready
from fgg.runtime.program import Program
from fgg.runtime.reference_program import ReferenceProgram
from fgg.runtime.run import Run
from fgg.runtime.support import support

FLOORS = {torch.float64: (-700.0, -150.0), torch.float32: (-80.0, -18.0)}
"""What is less, in nats, is left out: no number of this type; or products of a few are none."""
MODEST = {torch.float64: -115.0, torch.float32: -15.0}
"""If no weight is less, states of one cell differ by less than the range of numbers."""
SMALL = {torch.float64: 1e-80, torch.float32: 1e-10}
"""A state that is less, relative to the greatest of its cell, may be lost in later products."""
MARGIN = 60.0
"""What is so much less, in nats, does not change a sum."""


@dataclass(frozen=True)
class Counted:
    """log Z of each item, `[batch]`, and how often each entry of each factor is expected."""

    log_z: Tensor
    counts: Mapping[str, Tensor]
    # Whether numbers vanished that are not zero in truth; if nobody can say, they may have.
    vanished: Callable[[], bool] = lambda: True


@dataclass(frozen=True)
class Level:
    """Weights as numbers, and the greatest logarithm of those that were left out."""

    weights: Mapping[str, Tensor]
    lost: float

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers."""
        return next((w.dtype for w in self.weights.values()), torch.float64)


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
        self.plain = False
        wide = device is None or device.type in ("cpu", "cuda")
        self.types = (dtype, torch.float64) if wide and dtype != torch.float64 else (dtype,)

    def needed(self, given: Mapping[str, Tensor]) -> list[str]:
        """The factors whose weights the program is given, whole or as pieces."""
        program = self.program
        if isinstance(program, ReferenceProgram):
            found = list(program.parameter_names)
        else:
            found = [
                piece
                for name in program.plan.parameters
                for piece in ((name,) if name in given else program.pieces(name))
            ]
            # The emitted program takes these very factors, and no products of pieces.
            self.plain = set(found) == set(program.plan.parameters)
        missing = [name for name in found if name not in given]
        if missing:
            message = f"this query needs `{missing[0]}`, which the model's own does not"
            help = "make the model from a query that needs all factors"
            raise GrammarError([Diagnostic(code="F476", message=message, help=help)])
        return found

    def set(self, logs: Mapping[str, Tensor]) -> None:
        """Take log-weights by name; those that the program does not need are passed over."""
        self.logs = {name: logs[name] for name in self.needed(logs)}
        ends = [_ends(x) for x in self.logs.values()]
        self.least = min((low for low, _ in ends), default=0.0)
        high = max((high for _, high in ends), default=0.0)
        self.bounded = high < 1e-6 and not self.program.grammar.input_factors
        self.levels: dict[tuple[torch.dtype, float], Level] = {}

    def level(self, dtype: torch.dtype, floor: float) -> Level:
        """The weights as numbers of a type, without those below a floor."""
        if (dtype, floor) not in self.levels:
            lost = NEGATIVE
            if self.least < floor:
                lost = max(_greatest(x, floor) for x in self.logs.values())
            weights = {
                name: torch.where(x < floor, NEGATIVE, x).exp().to(dtype).to(self.device)
                for name, x in self.logs.items()
            }
            self.levels[dtype, floor] = Level(weights, lost)
        return self.levels[dtype, floor]

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take weights, in float64, that are known to be at most 1 and not extremely small."""
        own = {name: weights[name] for name in self.needed(weights)}
        self.logs, self.least, self.bounded = {}, 0.0, True
        self.levels = {
            (dtype, FLOORS[dtype][0]): Level(
                {name: w.to(dtype).to(self.device) for name, w in own.items()}, NEGATIVE
            )
            for dtype in self.types
        }

    def count(self, batch: Ready) -> Counted:
        """log Z and expected counts of a batch, in float64; items without derivations give none.

        With numbers of the type that was asked for, with wider ones if its range may not do, and
        if that of none may, in logarithms.
        """
        if isinstance(self.program, ReferenceProgram):
            dtype = self.types[0]
            return self.differentiated(batch, self.level(dtype, FLOORS[dtype][0]))
        for dtype in self.types:
            if dtype == self.types[-1] or self.least >= MODEST[dtype]:
                found = self.in_numbers(batch, dtype)
                if found is not None:
                    return found
        return self.in_logarithms(batch)

    def in_numbers(self, batch: Ready, dtype: torch.dtype) -> Counted | None:
        """The same with numbers of a type, or None if their range may not do.

        With extreme weights it is done with those that are numbers, and again, if what was left
        out may matter, with those whose products are numbers.
        """
        run = self.emitted if self.plain else self.differentiated
        floor, higher = FLOORS[dtype]
        level = self.level(dtype, floor)
        found = run(batch, level)
        if bool((found.log_z == NEGATIVE).any()):
            return None  # what seems impossible may only be too unlikely for the range
        if self.least >= MODEST[dtype]:
            return found
        if not self.below(found, max(level.lost, floor)):
            return found
        level = self.level(dtype, higher)
        found = run(batch, level)
        if not self.below(found, level.lost) and not found.vanished():
            return found
        return None

    def in_logarithms(self, batch: Ready) -> Counted:
        """The same in logarithms throughout, which have no range."""
        from fgg.runtime.learn.log_counts import log_counts

        logs = self.logs
        if not logs:  # the weights came as numbers
            dtype = self.types[-1]
            given = self.level(dtype, FLOORS[dtype][0]).weights
            logs = {name: w.cpu().double().log() for name, w in given.items()}
        return log_counts(self.program.suited(batch.collated), logs, batch)

    def below(self, found: Counted, edge: float) -> bool:
        """Whether derivations of weights up to an edge may be a part of log Z that matters.

        If weights are at most 1, a derivation that was lost weighs at most as much as what lost
        it: an entry below the floor, or a state at the end of a cell's range.
        """
        if any(not bool(torch.isfinite(counts).all()) for counts in found.counts.values()):
            return True
        if edge == NEGATIVE:
            return False
        return not self.bounded or bool((found.log_z < edge + MARGIN).any())

    def emitted(self, batch: Ready, level: Level) -> Counted:
        """By the emitted programs of inside and outside passes."""
        program, own = self.program.suited(batch.collated), batch.collated
        engine = program.engine
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: w.detach().requires_grad_() for n, w in level.weights.items()}
            run: Run = program.prepared(leaves, own, level.dtype, self.device)
        run.batch.spare = True  # nobody needs the charts after the outside pass
        with torch.inference_mode():
            values, scales = engine.inside(run.leaves, run.scales, run.batch)
            log_z = engine.result(scales, run.batch)
            ones = torch.isfinite(log_z).to(log_z.dtype)
            slopes, _ = engine.outside(run.leaves, run.scales, values, scales, run.batch, ones)
        names = [n for n in slopes if run.leaves[n].requires_grad]
        sources = list(level.weights)
        grads = torch.autograd.grad(
            [run.leaves[n] for n in names],
            [run.tensors[n] for n in sources],
            [slopes[n].clone() for n in names],
            allow_unused=True,
        )
        counts = {
            name: torch.zeros(w.shape, dtype=torch.float64)
            if grad is None
            else (grad * w).cpu().to(torch.float64)
            for (name, w), grad in zip(level.weights.items(), grads, strict=True)
        }
        return Counted(
            log_z.clone().cpu().to(torch.float64), counts, lambda: vanished(run, values, scales)
        )

    def differentiated(self, batch: Ready, level: Level) -> Counted:
        """By automatic differentiation around the program: products of pieces, references."""
        own = batch.collated
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: w.detach().clone().requires_grad_() for n, w in level.weights.items()}
            log_z = self.program.log_z(leaves, own.inputs, dict(own.lengths) or None)
            torch.autograd.backward(log_z[torch.isfinite(log_z)].sum())
        counts = {
            name: torch.zeros(w.shape, dtype=torch.float64)
            if w.grad is None
            else (w.grad * w.detach()).cpu().to(torch.float64)
            for name, w in leaves.items()
        }
        return Counted(log_z.detach().cpu().to(torch.float64), counts)


def vanished(run: Run, values: Mapping[str, Tensor], scales: Mapping[str, Tensor]) -> bool:
    """Whether a cell or a state is zero, or nearly, that is not zero in truth."""
    own = run.collated
    found = support(run.program.module, run.weights, own.inputs, run.batch, own.missing)
    tiny = SMALL[run.batch.dtype]
    return any(
        bool(
            (
                (found.values[name] > 0) & (x < tiny) & (spread(found.scales[name], x) > NEGATIVE)
            ).any()
        )
        for name, x in values.items()
    ) or any(
        bool(((x > NEGATIVE) != (scales[n] > NEGATIVE)).any()) for n, x in found.scales.items()
    )


def _ends(logs: Tensor) -> tuple[float, float]:
    """The least and the greatest finite number."""
    live = logs[logs > NEGATIVE]
    if not live.numel():
        return 0.0, 0.0
    low, high = torch.aminmax(live)
    return float(low), float(high)


def _greatest(logs: Tensor, floor: float) -> float:
    """The greatest finite number below a floor, or -inf."""
    small = logs[(logs < floor) & (logs > NEGATIVE)]
    return float(small.max()) if small.numel() else NEGATIVE
