"""The processes that train together by torch.distributed, usually just one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """The number `rank` of this process among `world` processes."""

    rank: int = 0
    world: int = 1
    device: torch.device | None = None

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and prints."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, the same in all of them bit for bit."""
        if self.world == 1:
            return tensor
        total = tensor.detach().clone().to(self.device) if self.device else tensor.detach().clone()
        torch.distributed.all_reduce(total)
        return total.to(tensor.device)

    def wait(self) -> None:
        """Wait until all processes get here."""
        if self.world > 1:
            torch.distributed.barrier()

    def any(self, flag: bool) -> bool:
        """Whether the flag is true in any process."""
        return bool(self.sum(torch.tensor(float(flag), dtype=torch.float64)) > 0)


@contextmanager
def joined(device: str = "cpu") -> Iterator[Processes]:
    """The processes that `torchrun` started, or this one alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Processes()
        return
    rank = int(os.environ["RANK"])
    target = torch.device("cpu")
    if device.startswith("cuda"):
        target = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(target)
    torch.distributed.init_process_group("nccl" if target.type == "cuda" else "gloo")
    try:
        yield Processes(rank, world, target if target.type == "cuda" else None)
    finally:
        torch.distributed.destroy_process_group()
