"""The folder of a training run: settings, feed, metrics, the best model, and checkpoints.

A checkpoint is the whole state of a run, and is on disk completely or not at all. It is a folder of
safetensors files, with the model and the method's state of each process. Once they are written, the
file `checkpoint.json` is replaced, which names the folder that counts. So there is a complete
checkpoint whenever a run is killed; the one before is removed only afterwards.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fgg.data import BatchPosition, load_vocabulary
from fgg.diagnostics import GrammarError, refuse
from fgg.files import (
    digest_of,
    read_limited,
    reason_of,
    remove_temporaries,
    unreadable,
    write_whole,
)
from fgg.runtime.train.digests import RunDigests, WatchedFiles, digest
from fgg.runtime.train.feed import Feed
from fgg.runtime.train.folder_lock import FolderLock
from fgg.runtime.train.processes import Processes
from fgg.runtime.train.run_settings import SETTINGS

FEED = "feed.json"
METRICS = "metrics.jsonl"
MODEL = "model.safetensors"
POINTER = "checkpoint.json"
CURVES = "curves.svg"
CHECKPOINT_FILE = re.compile(r"model\.safetensors|method-\d+\.safetensors|\.tmp\w*")
"""The files of a checkpoint, and those that the safetensors library writes and then renames."""
MAX_POINTER = 1 << 24  # bytes


def save_feed(folder: Path, feed: Feed) -> None:
    """Write the feed of a run: the fields of inputs, and the vocabularies of domains."""
    names = _vocabulary_files(feed)
    for domain, vocabulary in feed.vocabularies.items():
        vocabulary.save(folder / names[domain])
    data = {"fields": feed.fields, "domains": feed.domains, "vocabularies": names}
    write_whole(folder / FEED, json.dumps(data, indent=1).encode() + b"\n")


def _files(feed: Feed) -> list[str]:
    """The names of the files in the folder of a run."""
    return [SETTINGS, FEED, METRICS, MODEL, POINTER, CURVES, *_vocabulary_files(feed).values()]


def _vocabulary_files(feed: Feed) -> dict[str, str]:
    """The name of the file of each domain's vocabulary."""
    return {domain: f"vocabulary-{domain}.json" for domain in feed.vocabularies}


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
    items: int = 0
    checks: tuple[float, ...] = ()  # held-out perplexities within the epoch
    wider: int = 0  # items that needed more range than their numbers have
    seconds: float = 0.0
    world: int = 1


@dataclass(frozen=True)
class SavedState:
    """A checkpoint as it is on disk: the progress, the states, and what the run began with.

    There is no state of the method if the checkpoint is of another number of processes.
    """

    checkpoint: Checkpoint
    digests: RunDigests
    model: dict[str, Tensor]
    method: dict[str, Tensor] | None


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run that this process writes into.

    `digests` say what the run began with, and `watched` are the data files that they belong to.
    """

    path: Path
    lock: FolderLock | None
    digests: RunDigests
    watched: tuple[WatchedFiles, ...]
    processes: Processes

    def save(
        self, checkpoint: Checkpoint, model: Mapping[str, Tensor], method: Mapping[str, Tensor]
    ) -> None:
        """Write a checkpoint; all processes call it. Raises GrammarError (F413)."""
        place = self.path / f"checkpoint-{checkpoint.number}"
        try:
            place.mkdir(exist_ok=True)
            _write(place / f"method-{self.processes.rank}.safetensors", method)
            if self.processes.first:
                _write(place / MODEL, model)
            self.processes.wait()
            if self.processes.first:
                files = [MODEL, *(f"method-{i}.safetensors" for i in range(checkpoint.world))]
                checksums = {name: digest_of(place / name) for name in files}
                self._point_to(place, checkpoint, checksums)
        except (OSError, SafetensorError, GrammarError) as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, GrammarError):
                raise
            refuse("F413", f"`{place}` cannot be written: {reason_of(error)}")
        self.processes.wait()

    def _point_to(self, place: Path, checkpoint: Checkpoint, checksums: Mapping[str, str]) -> None:
        """Make a checkpoint the one that counts, and remove the one before."""
        digests = asdict(self.digests)
        entries = {**asdict(checkpoint), "digests": digests, "files": checksums}
        text = json.dumps({**entries, "checksum": digest(entries)}, indent=1)
        write_whole(self.path / POINTER, text.encode() + b"\n")
        self.remove_checkpoints(place)

    def remove_leftovers(self, feed: Feed, number: int | None) -> None:
        """Remove what killed processes have left; checkpoint `number` is the one that counts."""
        remove_temporaries(self.path, _files(feed))
        self.remove_checkpoints(None if number is None else self.path / f"checkpoint-{number}")

    def remove_run(self, feed: Feed) -> None:
        """Remove all that the run has written. The lock removes the folder, if it made it."""
        for name in _files(feed):  # the settings first: without them the folder holds no run
            (self.path / name).unlink(missing_ok=True)
        self.remove_leftovers(feed, None)

    def remove_checkpoints(self, kept: Path | None) -> None:
        """Remove all checkpoints but one. Folders with other files are none."""
        for place in self.path.glob("checkpoint-*"):
            if place != kept and place.is_dir():
                names = [path.name for path in place.iterdir()]
                if all(CHECKPOINT_FILE.fullmatch(name) for name in names):
                    shutil.rmtree(place, ignore_errors=True)

    def record(self, epoch: Mapping[str, object]) -> int:
        """Append an epoch to the metrics; returns their size. Raises GrammarError (F413)."""
        path = self.path / METRICS
        try:
            with open(path, "ab") as file:
                size = file.tell()
                try:
                    file.write(json.dumps(epoch).encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.truncate(path, size)
                    raise
                return file.tell()
        except OSError as error:
            refuse("F413", f"`{path}` cannot be written: {reason_of(error)}")

    def forget_epochs(self, size: int) -> None:
        """Cut the metrics to their first `size` bytes: the epochs behind them are done again.

        Raises GrammarError (F413).
        """
        path = self.path / METRICS
        try:
            if self.processes.first and path.exists() and path.stat().st_size > size:
                os.truncate(path, size)
        except OSError as error:
            refuse("F413", f"`{path}` cannot be written: {reason_of(error)}")

    def check_data(self) -> None:
        """Raise GrammarError (F479) if a data file has changed since the run began."""
        for files in self.watched:
            files.check()

    def release(self) -> None:
        """Let other processes write into the folder."""
        if self.lock is not None:
            self.lock.release()


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    plain = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
    save_file(plain, path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def load_checkpoint(folder: Path, processes: Processes, *, migrate: bool = False) -> SavedState:
    """The checkpoint of a run, with the states of model and method.

    Raises GrammarError (F479) if it cannot be read or is damaged, or without `migrate` if it is of
    another number of processes.
    """
    try:
        entries = json.loads(read_limited(folder / POINTER, MAX_POINTER))
        if entries.pop("checksum") != digest(entries):
            raise ValueError(f"{POINTER} is damaged: its checksum does not fit")
        checksums, digests = entries.pop("files"), RunDigests.from_json(entries.pop("digests"))
        position, checks = BatchPosition(**entries["position"]), tuple(entries["checks"])
        checkpoint = Checkpoint(**{**entries, "position": position, "checks": checks})
        world = checkpoint.world
        if world != processes.world and not migrate:
            message = f"the run in `{folder}` belongs to {world} processes, not {processes.world}"
            message = message.replace(" 1 processes", " one process")
            refuse("F479", message, "start as many, or add `--migrate`: it drops all counts")
        place = folder / f"checkpoint-{checkpoint.number}"
        files = [place / MODEL]
        files += (
            [place / f"method-{processes.rank}.safetensors"] if world == processes.world else []
        )
        for file in files:
            if digest_of(file) != checksums[file.name]:
                raise ValueError(f"{place.name}/{file.name} is damaged: its checksum does not fit")
        states = list(map(load_file, files))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, SafetensorError) as error:
        refuse("F479", f"the checkpoint in `{folder}` cannot be read: {reason_of(error)}")
    return SavedState(checkpoint, digests, states[0], states[1] if len(states) > 1 else None)


def same_state(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> bool:
    """Whether two states are equal bit for bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
