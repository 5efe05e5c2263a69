"""Free memory, and refusing work that would not fit before it starts."""

from __future__ import annotations

import torch

from fgg.diagnostics import refuse
from fgg.plan.sizes import in_units


def available_bytes(device: torch.device) -> int | None:
    """The free bytes of a device; None if they are unknown.

    On a GPU, torch keeps memory that it has freed for itself: it is free for programs.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free) + kept
    if device.type != "cpu":
        return None
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


SMALL = 2**22
"""Needs below this many bytes are not checked."""


def require(needed: int, device: torch.device, what: str) -> None:
    """Raise GrammarError (F420) if `what` needs more bytes than are free on a device."""
    if needed < SMALL:
        return
    free = available_bytes(device)
    if free is not None and needed > free:
        there = f"{in_units(free)} are free"
        if device.type == "cuda":
            _, whole = torch.cuda.mem_get_info(device)
            there = f"of {in_units(whole)} on `{device}`, {there}"
        refuse(
            "F420",
            f"{what} needs about {in_units(needed)}; {there}",
            "use smaller batches, shorter inputs or smaller sizes",
        )
