"""How much may be allocated, and refusing what would not fit before anything is tried."""

from __future__ import annotations

import torch

from fgg.diagnostics import refuse
from fgg.plan.sizes import in_units


def available_bytes(device: torch.device) -> int | None:
    """The bytes that are free on a device, or None where it does not say."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
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
"""Bytes that are there anyway: for so few nobody is asked."""


def require(needed: int, device: torch.device, what: str) -> None:
    """Raise GrammarError if a computation needs more memory than there is."""
    if needed < SMALL:
        return
    free = available_bytes(device)
    if free is not None and needed > free:
        refuse(
            "F420",
            f"{what} needs about {in_units(needed)}; {in_units(free)} are free",
            "use smaller batches, shorter inputs or smaller sizes",
        )
