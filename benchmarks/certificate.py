"""What the range certificate costs: programs beside themselves without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from benchmarks import dependency, hmm, pcfg, rank_pcfg
from benchmarks.measure import OURS, Call, Goal, Point, Suite, as_machine_code
from fgg.plan.backend import CPP, TORCH
from fgg.runtime.program import item_groups

WITHOUT, CPP_WITHOUT = "without it", "cpp without it"


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The program of the suite that has such points."""
    if "states" in point:
        return hmm.ours(point, backend=backend)
    if "phrases" in point:
        return pcfg.ours(point, backend=backend)
    if "r" in point:
        return rank_pcfg.ours(point, backend=backend)
    return dependency.ours(point, backend=backend)


@contextmanager
def switched_off() -> Iterator[None]:
    """Passes without the checks that make up the certificate."""
    kept = item_groups.certificate, item_groups.all_finite
    item_groups.certificate = lambda run, leaves, charts, log_z: torch.ones(
        run.batch.size, dtype=torch.bool
    )
    item_groups.all_finite = lambda tensors: True
    try:
        yield
    finally:
        item_groups.certificate, item_groups.all_finite = kept


def without(point: Point, *, backend: str = TORCH) -> Call:
    """The same program with the certificate switched off."""
    call = ours(point, backend=backend)

    def unchecked() -> Mapping[str, Tensor]:
        with switched_off():
            return call()

    return unchecked


SUITE = Suite(
    name="certificate",
    title="The range certificate: programs with it, and without",
    makers={
        OURS: ours,
        WITHOUT: without,
        CPP: as_machine_code(ours),
        CPP_WITHOUT: as_machine_code(without),
    },
    points=[
        *({"batch": 16, "n": 64, "states": k} for k in (16, 64, 256, 1024)),
        *({"batch": 4, "n": n, "phrases": 30, "tags": 60} for n in (20, 40)),
        {"batch": 4, "n": 20, "r": 300, "m": 1500},
        {"batch": 4, "n": 40, "r": 300, "m": 1500},
        *({"batch": 16, "n": n} for n in (20, 40)),
    ],
    goals=[Goal(peer=WITHOUT, least=0.95)],
    own=(CPP, CPP_WITHOUT),
)
