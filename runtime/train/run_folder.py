"""The folder of a training run: settings, feed, metrics, the best model, and checkpoints.

A checkpoint is the whole state of a run, and is on disk completely or not at all. It is a folder of
safetensors files, with the model and the method's state of each process. Once they are written, the
file `checkpoint.json` is replaced, which names the folder that counts. So there is a complete
checkpoint whenever a run is killed; the one before is removed only afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fgg.data import BatchPosition, load_vocabulary
from fgg.diagnostics import refuse
from fgg.files import check_regular, read_limited, reason_of, unreadable, write_whole
from fgg.plan.backend import AUTO
from fgg.runtime.train.feed import Changes, Feed
from fgg.runtime.train.processes import Processes

SETTINGS = "settings.json"
FEED = "feed.json"
METRICS = "metrics.jsonl"
MODEL = "model.safetensors"
POINTER = "checkpoint.json"
MAX_SETTINGS = 1 << 24  # bytes


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The choices of a run. Equal settings, grammar and data give the same run.

    `options` are those of the method; `fields` says which field of an example each input is.
    `backend` is `auto` only until the run begins: then it is what was chosen, and
    `backend_reason` says why.
    """

    grammar: str  # its text, with the sizes that the run uses
    name: str = "run"  # that of the grammar
    query: str | None = None
    method: str = "em"
    epochs: int = 10
    seed: int = 0
    dtype: str = "float32"
    space: str = "auto"
    backend: str = AUTO
    backend_reason: str = ""
    budget: int = 4096
    options: Mapping[str, object] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    format: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    skip: bool = False
    patience: int = 0
    world: int = 1

    def save(self, folder: Path) -> None:
        """Write the settings into the folder of a run."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        write_whole(folder / SETTINGS, text.encode() + b"\n")

    def differences(self, other: RunSettings) -> list[str]:
        """The names of the settings that differ.

        Those that only say when to stop are free, and `auto` may be any backend.
        """
        ours, theirs = asdict(self), asdict(other)
        free = ["name", "epochs", "patience", "backend_reason"]
        free += ["backend"] if AUTO in (self.backend, other.backend) else []
        return [name for name in ours if name not in free and ours[name] != theirs[name]]


def load_settings(folder: Path) -> RunSettings:
    """The settings of a run. Raises GrammarError (F479) if the folder holds none."""
    try:
        data = json.loads(read_limited(folder / SETTINGS, MAX_SETTINGS))
        known = {item.name for item in fields(RunSettings)}
        if not isinstance(data, dict) or {"name", *data} != known:
            raise ValueError("it has other entries")
        lists = {name: tuple(data[name]) for name in ("data", "valid")}
        return RunSettings(**{**data, **lists})
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        refuse("F479", f"`{folder}` holds no training run: {SETTINGS}: {reason}")


def make_folder(folder: Path) -> None:
    """Make the folder of a run. Raises GrammarError (F413)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse("F413", f"`{folder}` cannot be made: {reason_of(error)}")


def save_feed(folder: Path, feed: Feed) -> None:
    """Write the feed of a run: the fields of inputs, and the vocabularies of domains."""
    names = {domain: f"vocabulary-{domain}.json" for domain in feed.vocabularies}
    for domain, vocabulary in feed.vocabularies.items():
        vocabulary.save(folder / names[domain])
    data = {"fields": feed.fields, "domains": feed.domains, "vocabularies": names}
    write_whole(folder / FEED, json.dumps(data, indent=1).encode() + b"\n")


def load_feed(folder: Path) -> Feed:
    """The feed of a run. Raises GrammarError (F479)."""
    try:
        data = json.loads(read_limited(folder / FEED))
        names: Mapping[str, str] = data["vocabularies"]
        vocabularies = {domain: load_vocabulary(folder / name) for domain, name in names.items()}
        return Feed(data["fields"], data["domains"], vocabularies)
    except (OSError, ValueError, KeyError, TypeError) as error:
        refuse("F479", f"`{folder}` holds no training run: {FEED}: {error}")


def history(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one entry an epoch; a line that was cut off is ignored."""
    path = folder / METRICS
    try:
        lines = read_limited(path).decode().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    epochs = []
    for line in lines:
        try:
            epochs.append(json.loads(line))
        except ValueError:
            break
    return epochs


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The progress of a run: the next batch, how much of the metrics counts, and the best score."""

    number: int = 0
    position: BatchPosition = field(default_factory=BatchPosition)
    begun: bool = False  # whether the sweep at `position` has begun
    metrics: int = 0  # bytes
    best: float | None = None
    waited: int = 0
    finished: bool = False
    tokens: int = 0
    wider: int = 0  # items that needed more range than their numbers have
    seconds: float = 0.0
    world: int = 1


def save_checkpoint(
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
        refuse("F413", f"`{place}` cannot be written: {reason_of(error)}")
    processes.wait()
    if processes.first:
        text = json.dumps(asdict(checkpoint), indent=1)
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


def load_checkpoint(
    folder: Path, processes: Processes
) -> tuple[Checkpoint, dict[str, Tensor], dict[str, Tensor]] | None:
    """The checkpoint of a run, with the states of model and method; None if there is none yet.

    Raises GrammarError (F479) if it cannot be read, or is of another number of processes.
    """
    if not (folder / POINTER).exists():
        return None
    try:
        data = json.loads(read_limited(folder / POINTER, 1 << 20))
        checkpoint = Checkpoint(**{**data, "position": BatchPosition(**data["position"])})
        world = checkpoint.world
        if world != processes.world:
            refuse("F479", f"the run in `{folder}` has {world} processes, not {processes.world}")
        place = folder / f"checkpoint-{checkpoint.number}"
        files = (place / "model.safetensors", place / f"method-{processes.rank}.safetensors")
        for file in files:
            check_regular(file)
        model, method = map(load_file, files)
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        refuse("F479", f"the checkpoint in `{folder}` cannot be read: {error}")
    return checkpoint, model, method


def same_state(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> bool:
    """Whether two states are equal bit for bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
