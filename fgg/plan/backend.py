"""Backends: what carries out the passes of a plan, and which one `auto` chooses.

Machine code does the work of tensor operations without the calls between them. What it saves grows
with the number of calls (a product of two tensors on one level is a handful of them) and with the
numbers in charts, which every call reads and writes; matrix products take as long either way.
Building takes longer the more products there are. Where all work is known beforehand, `auto`
chooses machine code if that saves what building it costs. Where nobody knows how much work is to
come, it waits until `PATIENCE` times as much would have been saved: a loop that ends just then has
lost a small part of its time, and one that goes on loses little of what it saves.

A new backend is a name in `BACKENDS` and a case of `choose`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil, inf

from fgg.diagnostics import refuse
from fgg.plan import Plan, PlanStage
from fgg.plan.sizes import chart_bytes, high_end, low_end

AUTO, TORCH, CPP, TRITON = "auto", "torch", "cpp", "triton"
BACKENDS = (TORCH, CPP, TRITON)
"""Tensor operations, machine code made by a C++ compiler, and Triton kernels for GPUs."""
ASKED = (AUTO, *BACKENDS)
"""What may be asked for."""
WIDTHS = {"float32": 4, "float64": 8}
"""The types of numbers that machine code computes in, and how many bytes a number has."""

SAVED_A_CALL = 400e-6
"""Seconds that machine code saves in an inside and an outside pass, however small, and before."""
SAVED_A_PRODUCT = 35e-6
"""Seconds that it saves on one product of a level, in both passes."""
SAVED_A_BYTE = 2e-9
"""Seconds that it saves for each byte of charts, in both passes."""
# These are rounded from what `python -m benchmarks.calibrate` prints: least squares, relative to
# what is saved, over calls of eight grammars at lengths 5 to 64 and batches 1 to 16, in float32 on
# one thread. Grammars differ by a factor of two either way: numbers for each would fit no better.
INSIDE = 1 / 3
"""The part of both passes that the inside pass is."""
BUILDING, BUILDING_A_PRODUCT = 0.9, 0.12
"""Seconds that a compiler takes for any plan, and for each product of its steps: a line through the
times that the same command prints for the library's grammars."""
PATIENCE = 3
"""How many times the building must have been saved already where nobody knows what is to come."""
LOOKING = 0.1
"""Seconds to be saved before it is worth looking for machine code that is there already."""


@dataclass(frozen=True)
class BackendChoice:
    """A backend, and why it was chosen, in a sentence."""

    backend: str
    reason: str

    def __str__(self) -> str:
        return f"{self.backend}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that the choice of a backend depends on.

    `no_compiler` says why there is no C++ compiler, and is empty if there is one; `no_triton` says
    why a GPU cannot have Triton kernels. `cached`: machine
    code is there already. `saving` are the seconds that machine code would save on all work that is
    known of, `building` those that it takes to build it. `open_ended`: this work is done already,
    and nobody knows how much is to come.
    """

    device: str = "cpu"
    dtype: str = "float32"
    no_compiler: str = ""
    no_triton: str = ""
    cached: bool = False
    saving: float = 0.0
    building: float = 0.0
    open_ended: bool = False


def choose(at: Situation) -> BackendChoice:
    """The backend that `auto` stands for in a situation."""
    if at.device != "cpu":
        if at.no_triton:
            return BackendChoice(TORCH, at.no_triton)
        return BackendChoice(TRITON, f"the numbers are on `{at.device}`")
    if at.dtype not in WIDTHS:
        return BackendChoice(TORCH, f"machine code has no numbers of type {at.dtype}")
    if at.no_compiler:
        return BackendChoice(TORCH, at.no_compiler)
    saved, building = duration(at.saving), duration(at.building)
    if at.saving < threshold(at):
        if at.cached:
            return BackendChoice(TORCH, f"machine code is there, but would save only about {saved}")
        reason = f"machine code would save about {saved} and take about {building} to build"
        if at.open_ended:
            reason = f"machine code would have saved {saved} so far; building it takes {building}"
        return BackendChoice(TORCH, reason)
    if at.cached:
        return BackendChoice(CPP, "machine code is there already")
    reason = f"machine code saves at least {saved} and takes about {building} to build"
    return BackendChoice(CPP, reason)


def threshold(at: Situation) -> float:
    """The seconds to be saved from which on machine code is chosen."""
    if at.cached:
        return LOOKING
    return max(PATIENCE * at.building if at.open_ended else at.building, LOOKING)


def batches_until(at: Situation) -> int | None:
    """After how many batches, each like that of a situation, `auto` chooses machine code.

    None if it never does.
    """
    if not at.saving or choose(replace(at, saving=inf)).backend != CPP:
        return None
    return max(ceil(threshold(at) / at.saving), 1)


def saved_by_passes(plan: Plan, values: Mapping[str, int], batch: int, width: int = 4) -> float:
    """The seconds that machine code saves in an inside and an outside pass over a batch.

    `values` are the least and greatest lengths, as `fgg.plan.sizes.environment` gives them.
    """
    products = products_in(plan, values)
    charts = chart_bytes(plan, values, batch, width)
    return SAVED_A_CALL + SAVED_A_PRODUCT * products + SAVED_A_BYTE * charts


def products_in(plan: Plan, values: Mapping[str, int]) -> int:
    """How many products of two tensors an inside pass carries out."""
    return sum(_levels(stage, values) * _products(stage) for stage in plan.stages)


def _products(stage: PlanStage) -> int:
    """How many products of two tensors the steps of a stage are, on one level."""
    return sum(len(step.path) for step in stage.steps)


def _levels(stage: PlanStage, values: Mapping[str, int]) -> int:
    """How many times the steps of a stage are carried out."""
    if not stage.has_levels:
        return 1
    first = min(low_end(bound, values) for bound in stage.first)
    last = max(high_end(bound, values) for bound in stage.last)
    return max(last - first + 1, 0)


def building_seconds(plan: Plan) -> float:
    """The seconds that it takes to build the machine code of a plan."""
    return BUILDING + BUILDING_A_PRODUCT * products_of_steps(plan)


def products_of_steps(plan: Plan) -> int:
    """How many products of two tensors the steps of a plan are."""
    return sum(map(_products, plan.stages))


def duration(seconds: float) -> str:
    """A time with two significant digits: `2.5 ms`, `12 s`, `340 s`."""
    number, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    return f"{number:.2g} {unit}" if number < 99.5 else f"{number:.0f} {unit}"


@dataclass(eq=False)
class Backend:
    """The backend that all programs of a model share: as asked for, or settled for a while.

    Programs that were asked for `auto` choose by themselves, each time that they are called, unless
    a choice is settled: a job such as training has one backend from beginning to end. With
    `cuda_graph`, passes on a GPU are captured in CUDA graphs.
    """

    asked: str = AUTO
    cuda_graph: bool = False
    settled: BackendChoice | None = None

    @property
    def choice(self) -> BackendChoice | None:
        """The backend that is asked for or settled, or None if programs are to choose."""
        if self.asked != AUTO:
            return BackendChoice(self.asked, "it was asked for")
        return self.settled

    @contextmanager
    def on(self, choice: BackendChoice) -> Iterator[None]:
        """Within this context the choice is settled, unless another one is already."""
        before = self.settled
        self.settled = before or choice
        try:
            yield
        finally:
            self.settled = before


def check_backend(name: str, *, cuda_graph: bool = False) -> None:
    """Raise GrammarError (F415) for what is no backend, and for one that has no CUDA graphs."""
    if name not in ASKED:
        known = ", ".join(f"`{known}`" for known in ASKED[:-1])
        refuse("F415", f"there is no backend `{name}`", f"there are {known} and `{ASKED[-1]}`")
    if cuda_graph and name == CPP:
        message = "machine code for the CPU has no launches that CUDA graphs could capture"
        refuse("F415", message, f"leave `cuda_graph` out, or use `{AUTO}`, `{TORCH}` or `{TRITON}`")
