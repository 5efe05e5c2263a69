"""The trainer: sweeps of a method over batches, with checkpoints, metrics and early stopping."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, isfinite
from pathlib import Path
from time import monotonic
from typing import Protocol

import torch

from fgg.data import Batch, Batches, Corpus, Position
from fgg.runtime.learn import Adam, Items, Method, Ready
from fgg.runtime.model.model import Model
from fgg.runtime.train.checkpoint import Checkpoint, load, save
from fgg.runtime.train.feeding import Feed
from fgg.runtime.train.processes import Processes

METRICS = "metrics.jsonl"
MODEL = "model.safetensors"
KEPT_TOKENS = 1 << 20
"""How many tokens of batches are kept ready from sweep to sweep, where they are the same."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What a sweep over the data came to. `perplexity` is per token, ends of items not counted.

    `valid` is that of held-out data, which is infinite if some items of them are impossible.
    `wider` is how many items needed more range than their numbers have.
    """

    epoch: int
    kind: str
    objective: float
    items: int
    tokens: int
    perplexity: float
    valid: float | None
    impossible: int
    wider: int
    seconds: float
    tokens_per_second: float
    details: dict[str, float]


class Source(Protocol):
    """Batches that can be taken up anywhere."""

    def start(self, position: Position) -> Iterator[Batch]:
        """What is left of an epoch, from a position on."""


@dataclass(frozen=True)
class InOrder:
    """Examples one by one, as the corpus has them: what collapsed methods go through.

    Of several processes each has every `world`-th example.
    """

    corpus: Corpus
    rank: int = 0
    world: int = 1

    def start(self, position: Position) -> Iterator[Batch]:
        """What is left of an epoch."""
        group: list[tuple[int, object]] = []
        for number, example in enumerate(self.corpus):
            group.append((number, example))
            if len(group) == self.world:
                yield from self._one(group, position)
                group = []
        if group:
            yield from self._one(group, position)

    def _one(self, group: list[tuple[int, object]], position: Position) -> Iterator[Batch]:
        index = group[0][0] // self.world
        if index < position.batch:
            return
        own = group[self.rank : self.rank + 1]
        yield Batch(
            examples=tuple(e for _, e in own),  # type: ignore[misc]
            numbers=tuple(n for n, _ in own),
            whole=len(group),
            after=Position(epoch=position.epoch, window=0, batch=index + 1),
        )


class Trainer:
    """A run in a folder. `run` goes on from the folder's checkpoint if there is one.

    `batches` are those of training, `valid` those that perplexity is measured on. `report` is
    called after each epoch, `tick` after each batch with its tokens. A checkpoint is written after
    every epoch, and within one when `every` seconds have passed.
    """

    def __init__(
        self,
        folder: Path,
        model: Model,
        method: Method,
        feed: Feed,
        batches: Source,
        *,
        epochs: int,
        valid: Batches | None = None,
        patience: int = 0,
        every: float = 60.0,
        processes: Processes | None = None,
        report: Callable[[Epoch], None] | None = None,
        tick: Callable[[Batch], None] | None = None,
        stopping: Callable[[], bool] | None = None,
    ) -> None:
        self.folder, self.model, self.method, self.feed = folder, model, method, feed
        self.batches, self.valid = batches, valid
        self.epochs, self.patience, self.every = epochs, patience, every
        self.processes = processes or Processes()
        self.report = report or (lambda _: None)
        self.tick = tick or (lambda _: None)
        self.stopping = stopping or (lambda: False)
        self.at = Checkpoint(world=self.processes.world)
        self.kept: dict[tuple[int, int], Items | Ready | None] = {}
        self.kept_tokens = 0

    def resume(self) -> bool:
        """Take up the folder's checkpoint; whether there is one."""
        found = load(self.folder, self.processes)
        if found is None:
            return False
        at, state, method = found
        # More epochs may be asked for than before.
        self.at = replace(at, finished=self.is_over(at.position.epoch, at.waited))
        self.model.load_state_dict(state)
        self.method.load_state_dict(method)
        path = self.folder / METRICS
        if self.processes.first and path.exists() and path.stat().st_size > self.at.metrics:
            os.truncate(path, self.at.metrics)  # what came after the checkpoint comes again
        return True

    def run(self) -> Checkpoint:
        """Train to the end, or until asked to stop; the state on disk is whole at any moment."""
        while not self.at.finished and self.at.position.epoch < self.epochs:
            if not self.sweep():
                break
        if not self.epochs and self.processes.first:  # the start is what was asked for
            self.model.save(self.folder / MODEL, vocabulary=vocabulary_of(self.feed))
        return self.at

    def sweep(self) -> bool:
        """What is left of an epoch; False if it was stopped within."""
        begin, saved = monotonic(), monotonic()
        if not self.at.begun:
            self.method.begin()
            self.at = replace(self.at, begun=True, tokens=0, wider=0, seconds=0.0)
        ranges = self.model.program.ranges
        for batch in self.batches.start(self.at.position):
            before = ranges.wider
            self.method.step(self.ready(batch))
            self.at = replace(
                self.at,
                position=batch.after,
                tokens=self.at.tokens + sum(batch.lengths),
                wider=self.at.wider + ranges.wider - before,
            )
            self.tick(batch)
            asked = self.stopping()
            late = monotonic() - saved > self.every
            if self.processes.world > 1:
                asked, late = self.processes.any(asked), self.processes.any(late)
            if asked or late:
                now = monotonic()
                self.at = replace(self.at, seconds=self.at.seconds + now - begin)
                begin = saved = now
                self.save()
            if asked:
                return False
        self.at = replace(self.at, seconds=self.at.seconds + monotonic() - begin)
        self.finish()
        return True

    def ready(self, batch: Batch) -> Items | Ready | None:
        """A batch as the method takes it; where the order stays, the first ones are kept."""
        stays = not getattr(self.batches, "shuffle", False)
        key = (batch.after.window, batch.after.batch)
        if stays and key in self.kept:
            return self.kept[key]
        items = self.feed.items(batch)
        if stays and self.kept_tokens < KEPT_TOKENS:
            self.kept_tokens += sum(batch.lengths)
            self.kept[key] = None if items is None else self.method.ready(items)
            return self.kept[key]
        return items

    def finish(self) -> None:
        """The end of an epoch: the method's own, perplexities, the best model, a checkpoint."""
        epoch, tokens = self.at.position.epoch, self.total(self.at.tokens)
        progress = self.method.end()
        valid = None if self.valid is None else self.held_out(self.valid)
        impossible = 0 if valid is None else valid.impossible
        # With a held-out item that is impossible nothing can be compared: the last model is kept.
        compared = valid is not None and isfinite(valid.perplexity)
        score = -valid.perplexity if valid is not None and compared else progress.objective
        if isinstance(self.method, Adam):
            self.method.plateau(score)
        better = not compared or self.at.best is None or score > self.at.best
        waited = 0 if better else self.at.waited + 1
        if better and self.processes.first:
            self.model.save(self.folder / MODEL, vocabulary=vocabulary_of(self.feed))
        seconds = max(self.at.seconds, 1e-9)
        found = Epoch(
            epoch=epoch,
            kind=progress.kind,
            objective=progress.objective,
            items=progress.items,
            tokens=tokens,
            perplexity=_exp(-progress.log_z / max(tokens, 1)),
            valid=None if valid is None else valid.perplexity,
            impossible=impossible,
            wider=self.total(self.at.wider),
            seconds=self.at.seconds,
            tokens_per_second=tokens / seconds,
            details=dict(progress.details),
        )
        self.at = replace(
            self.at,
            position=Position(epoch=epoch + 1),
            begun=False,
            best=score if better and compared else self.at.best,
            waited=waited,
            finished=self.is_over(epoch + 1, waited),
            metrics=self.record(found),
        )
        self.save()
        self.report(found)

    def is_over(self, epochs: int, waited: int) -> bool:
        """Whether a run ends after so many epochs, so many of them without progress."""
        return epochs >= self.epochs or bool(self.patience and waited >= self.patience)

    def total(self, number: int) -> int:
        """A number summed over processes."""
        return int(self.processes.sum(torch.tensor(float(number), dtype=torch.float64)))

    def record(self, epoch: Epoch) -> int:
        """Append an epoch to the metrics; how many bytes they have then."""
        if not self.processes.first:
            return 0
        path = self.folder / METRICS
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(_plain(epoch)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return path.stat().st_size

    def save(self) -> None:
        """Write a checkpoint."""
        self.at = replace(self.at, number=self.at.number + 1)
        save(
            self.folder,
            self.at,
            self.model.state_dict(),
            self.method.state_dict(),
            self.processes,
        )

    def held_out(self, batches: Batches) -> HeldOut:
        """What held-out batches come to, with the model as it is."""
        found = log_likelihood(self.model, self.feed, batches)
        sums = self.processes.sum(torch.tensor(found, dtype=torch.float64))
        log_z, tokens, impossible = map(float, sums)
        return HeldOut(_exp(-log_z / max(tokens, 1.0)), int(impossible))


@dataclass(frozen=True)
class HeldOut:
    """The perplexity per token of held-out data, and how many items have probability 0."""

    perplexity: float
    impossible: int


def log_likelihood(model: Model, feed: Feed, batches: Batches) -> tuple[float, int, int]:
    """The sum of log Z over batches, their tokens, and how many items have probability 0."""
    total, tokens, impossible = 0.0, 0, 0
    was = model.training
    model.eval()
    with torch.no_grad():
        weights = model.weights()
        for batch in batches.epoch(0):
            items = feed.items(batch)
            if items is not None:
                log_z = model.program.log_z(weights, items.inputs).double()
                total += float(log_z.sum())
                tokens += sum(batch.lengths)
                impossible += int((log_z == -torch.inf).sum())
    model.train(was)
    return total, tokens, impossible


def vocabulary_of(feed: Feed) -> dict[str, tuple[str, ...]]:
    """The values of the domains, as a saved model names them."""
    return {domain: found.values for domain, found in feed.vocabularies.items()}


def _exp(value: float) -> float:
    return exp(value) if value < 700 else float("inf")


def _plain(epoch: Epoch) -> dict[str, object]:
    """An epoch as JSON, which has no numbers that are none."""
    found: dict[str, object] = {}
    for name, value in vars(epoch).items():
        bad = isinstance(value, float) and not isfinite(value)
        found[name] = None if bad else value
    return found
