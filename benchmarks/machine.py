"""What is measured, and on what."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from importlib import metadata
from pathlib import Path

import torch

PEERS = ("torch", "triton", "numpy", "hmmlearn", "torch-struct", "supar", "dynamax", "jax")


def about(device: str = "cpu") -> dict[str, str]:
    """The commit, the day, the machine, how many threads, and versions of what is there."""
    found = {
        "commit": commit(),
        "date": date.today().isoformat(),
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
    }
    if device != "cpu":
        found["gpu"] = torch.cuda.get_device_name(device)
        found["cuda"] = str(torch.version.cuda)
    for name in PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit that is measured, if that can be told."""
    folder = str(Path(__file__).parent)
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def processor() -> str:
    """The name of the processor, as far as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
