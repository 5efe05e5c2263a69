"""Checkpoints: the whole state of a run, on disk at once or not at all.

A checkpoint is a folder of safetensors files, the model and the method's state of each process,
written first; then the file `checkpoint.json` is replaced, which says which folder counts. So there
is a whole one whenever a run is killed, and the one before is removed only afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fgg.data import Position
from fgg.diagnostics import refuse
from fgg.files import check_regular, read_limited, write_whole
from fgg.runtime.train.processes import Processes

POINTER = "checkpoint.json"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run is: the next batch, how much of the metrics file counts, and the best so far."""

    number: int = 0
    position: Position = field(default_factory=Position)
    begun: bool = False  # whether the sweep at `position` has begun
    metrics: int = 0  # bytes
    best: float | None = None
    waited: int = 0
    finished: bool = False
    tokens: int = 0
    wider: int = 0  # items that needed more range than their numbers have
    seconds: float = 0.0
    world: int = 1

    def as_json(self) -> dict[str, Any]:
        """The checkpoint as JSON."""
        return asdict(self)


def save(
    folder: Path,
    checkpoint: Checkpoint,
    model: Mapping[str, Tensor],
    method: Mapping[str, Tensor],
    processes: Processes,
) -> None:
    """Write a checkpoint; all processes call it. Raises GrammarError (F413)."""
    place = folder / f"checkpoint-{checkpoint.number}"
    try:
        place.mkdir(exist_ok=True)
        _write(place / f"method-{processes.rank}.safetensors", method)
        if processes.first:
            _write(place / "model.safetensors", model)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"`{place}` cannot be written: {reason}"
        refuse("F413", message)
    processes.wait()
    if processes.first:
        text = json.dumps(checkpoint.as_json(), indent=1)
        write_whole(folder / POINTER, text.encode() + b"\n")
        for other in folder.glob("checkpoint-*"):
            if other != place and other.is_dir():
                shutil.rmtree(other, ignore_errors=True)
    processes.wait()


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    plain = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
    hidden = path.with_suffix(".part")
    save_file(plain, hidden)
    with open(hidden, "rb") as file:
        os.fsync(file.fileno())
    os.replace(hidden, path)


def load(
    folder: Path, processes: Processes
) -> tuple[Checkpoint, dict[str, Tensor], dict[str, Tensor]] | None:
    """The checkpoint of a run, the model's state and the method's; None if there is none yet.

    Raises GrammarError (F479) if it cannot be read, or is of another number of processes.
    """
    if not (folder / POINTER).exists():
        return None
    try:
        data = json.loads(read_limited(folder / POINTER, 1 << 20))
        found = Checkpoint(**{**data, "position": Position(**data["position"])})
        if found.world != processes.world:
            message = f"the run in `{folder}` has {found.world} processes, not {processes.world}"
            refuse("F479", message)
        place = folder / f"checkpoint-{found.number}"
        files = (place / "model.safetensors", place / f"method-{processes.rank}.safetensors")
        for file in files:
            check_regular(file)
        model, method = map(load_file, files)
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        message = f"the checkpoint in `{folder}` cannot be read: {error}"
        refuse("F479", message)
    return found, model, method


def same(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> bool:
    """Whether two states are equal bit for bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
