"""The trainer: sweeps of a method over batches, with checkpoints, metrics and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, isfinite
from time import monotonic

import torch

from fgg.data import Batches, BatchPosition, Corpus, Example, ExampleBatch
from fgg.diagnostics import GrammarError
from fgg.runtime.learn import Adam, CheckedItems, Items, Method
from fgg.runtime.model.model import Model
from fgg.runtime.train.feed import BatchSource, Feed
from fgg.runtime.train.run_folder import (
    MODEL,
    Checkpoint,
    RunFolder,
    SavedState,
)

PASSING = ("F413", "F479")
"""Errors that may be gone when a run is resumed: a full disk, and data that have changed."""
KEPT_TOKENS = 1 << 20
"""The most tokens of checked batches that are kept from sweep to sweep, if these are equal."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The results of a sweep over the data. `perplexity` is per token, without ends of items.

    `valid` is the perplexity of held-out data, infinite if an item is impossible, and `checks` are
    those before it within the epoch. `impossible` is the number of such items, `wider` that of
    items that needed more range than their numbers have.
    """

    epoch: int
    kind: str
    objective: float
    items: int
    tokens: int
    perplexity: float
    valid: float | None
    checks: tuple[float, ...]
    impossible: int
    wider: int
    seconds: float
    tokens_per_second: float
    details: dict[str, float]


@dataclass(frozen=True)
class InOrder:
    """Batches of one example, in the order of the corpus: for collapsed methods.

    Process `rank` of `world` has every `world`-th example.
    """

    corpus: Corpus
    rank: int = 0
    world: int = 1

    def start(self, position: BatchPosition) -> Iterator[ExampleBatch]:
        """The batches of an epoch from a position on."""
        group: list[tuple[int, Example]] = []
        for number, example in enumerate(self.corpus):
            group.append((number, example))
            if len(group) == self.world:
                yield from self._one(group, position)
                group = []
        if group:
            yield from self._one(group, position)

    def _one(
        self, group: list[tuple[int, Example]], position: BatchPosition
    ) -> Iterator[ExampleBatch]:
        index = group[0][0] // self.world
        if index < position.batch:
            return
        share = group[self.rank : self.rank + 1]
        yield ExampleBatch(
            examples=tuple(example for _, example in share),
            numbers=tuple(number for number, _ in share),
            whole=len(group),
            after=BatchPosition(epoch=position.epoch, window=0, batch=index + 1),
        )


class Trainer:
    """A training run in a folder: after `begin` or `resume`, `run` trains to the end.

    `batches` are the training data, `valid` the held-out data. `report` is called after each epoch
    and `tick` after each batch; the run stops after a batch if `stopping` returns true. A
    checkpoint is written after every epoch, and within one every `every` seconds.

    Held-out data are looked at `checks` times an epoch, the last time at its end. After each check
    Adam may lower its rate, the model is kept if it is the best so far, and the run ends after
    `patience` checks without progress.
    """

    def __init__(
        self,
        folder: RunFolder,
        model: Model,
        method: Method,
        feed: Feed,
        batches: BatchSource,
        *,
        epochs: int,
        valid: Batches | None = None,
        patience: int = 0,
        checks: int = 1,
        every: float = 60.0,
        report: Callable[[Epoch], None] | None = None,
        tick: Callable[[ExampleBatch], None] | None = None,
        stopping: Callable[[], bool] | None = None,
    ) -> None:
        self.folder, self.model, self.method, self.feed = folder, model, method, feed
        self.batches, self.valid = batches, valid
        self.epochs, self.patience, self.every = epochs, patience, every
        self.checks = checks
        self.size = sum(1 for _ in batches.corpus) if checks > 1 else 0
        self.processes = folder.processes
        self.report = report or (lambda _: None)
        self.tick = tick or (lambda _: None)
        self.stopping = stopping or (lambda: False)
        self.at = Checkpoint(world=self.processes.world)
        self.kept: dict[tuple[int, int], Items | CheckedItems | None] = {}
        self.kept_tokens = 0
        self.is_new = False

    def begin(self) -> None:
        """Write checkpoint 0, which a new run starts from."""
        self.is_new = True
        self.folder.save(self.at, self.model.state_dict(), self.method.state_dict())

    def resume(self, saved: SavedState) -> None:
        """Continue from a checkpoint, whose model has been loaded already."""
        # More epochs may be asked for than before.
        at = saved.checkpoint
        self.folder.forget_epochs(at.metrics)
        self.at = replace(at, finished=self.is_over(at.position.epoch, at.waited))
        assert saved.method is not None, "a run with as many processes has their states"
        self.method.load_state_dict(saved.method)

    def migrate(self, saved: SavedState, *, counts: bool) -> None:
        """Continue from a checkpoint of other data or options, and write one of these.

        Scores of held-out data are not compared with earlier ones. Without `counts`, the method
        starts anew, at the beginning of the epoch.
        """
        at = replace(saved.checkpoint, best=None, waited=0)
        self.folder.forget_epochs(at.metrics)
        if counts and saved.method is not None:
            self.method.load_state_dict(saved.method)
        else:
            at = replace(at, position=BatchPosition(epoch=at.position.epoch), begun=False)
        finished = self.is_over(at.position.epoch, 0)
        self.at = replace(at, finished=finished, world=self.processes.world)
        self.save()

    def run(self) -> Checkpoint:
        """Train to the end, or until asked to stop; the state on disk is always complete.

        A new run that fails before its next checkpoint leaves nothing behind: it would fail again.
        """
        try:
            while not self.at.finished and self.at.position.epoch < self.epochs:
                if not self.sweep():
                    break
            if not self.epochs and self.processes.first:  # the initial model is the result
                self.save_model()
        except GrammarError as error:
            passing = any(each.code in PASSING for each in error.diagnostics)
            if self.is_new and not self.at.number and not passing and self.processes.first:
                self.folder.remove_run(self.feed)
            raise
        finally:
            self.folder.release()
        return self.at

    def sweep(self) -> bool:
        """Train for the rest of an epoch; returns False if it was stopped within."""
        begin, saved = monotonic(), monotonic()
        if not self.at.begun:
            self.method.begin()
            self.at = replace(
                self.at, begun=True, tokens=0, items=0, checks=(), wider=0, seconds=0.0
            )
        ranges = self.model.program.ranges
        for batch in self.batches.start(self.at.position):
            before = ranges.wider
            self.method.step(self.ready(batch))
            self.at = replace(
                self.at,
                position=batch.after,
                tokens=self.at.tokens + sum(batch.lengths),
                items=self.at.items + batch.whole,
                wider=self.at.wider + ranges.wider - before,
            )
            self.tick(batch)
            if self.is_time() and self.check():
                break
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

    def ready(self, batch: ExampleBatch) -> Items | CheckedItems | None:
        """The items of a batch; the first batches are kept checked if the order stays the same."""
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

    def is_time(self) -> bool:
        """Whether held-out data are to be looked at within the epoch, before its end."""
        due = self.at.items * self.checks // self.size if self.size else 0
        return len(self.at.checks) < min(due, self.checks - 1)

    def check(self) -> bool:
        """Look at held-out data within an epoch; returns whether the run ends here."""
        assert self.valid is not None
        valid = self.held_out(self.valid)
        self.at = replace(self.at, checks=(*self.at.checks, valid.perplexity))
        if isfinite(valid.perplexity):
            self.compare(-valid.perplexity, kept=True)
        return self.is_over(self.at.position.epoch, self.at.waited)

    def compare(self, score: float, *, kept: bool) -> None:
        """Note a score, greater is better: lower Adam's rate on a plateau, save the best model.

        Without `kept`, scores cannot be compared, and the last model counts as the best.
        """
        if isinstance(self.method, Adam):
            self.method.plateau(score)
        better = not kept or self.at.best is None or score > self.at.best
        if better and self.processes.first:
            self.save_model()
        self.at = replace(
            self.at,
            best=score if better and kept else self.at.best,
            waited=0 if better else self.at.waited + 1,
        )

    def finish(self) -> None:
        """End an epoch: measure perplexities, save the best model, and write a checkpoint."""
        self.folder.check_data()
        epoch, tokens = self.at.position.epoch, self.total(self.at.tokens)
        sweep = self.method.end()
        valid = None if self.valid is None else self.held_out(self.valid)
        impossible = 0 if valid is None else valid.impossible
        # If a held-out item is impossible, epochs cannot be compared: the last model is kept.
        compared = valid is not None and isfinite(valid.perplexity)
        if not self.is_over(epoch, self.at.waited):  # a check within the epoch has not ended it
            score = -valid.perplexity if valid is not None and compared else sweep.objective
            self.compare(score, kept=compared)
        seconds = max(self.at.seconds, 1e-9)
        result = Epoch(
            epoch=epoch,
            kind=sweep.kind,
            objective=sweep.objective,
            items=sweep.items,
            tokens=tokens,
            perplexity=_exp(-sweep.log_z / max(tokens, 1)),
            valid=None if valid is None else valid.perplexity,
            checks=self.at.checks,
            impossible=impossible,
            wider=self.total(self.at.wider),
            seconds=self.at.seconds,
            tokens_per_second=tokens / seconds,
            details=dict(sweep.details),
        )
        self.at = replace(
            self.at,
            position=BatchPosition(epoch=epoch + 1),
            begun=False,
            finished=self.is_over(epoch + 1, self.at.waited),
            metrics=self.record(result),
        )
        self.save()
        self.report(result)

    def is_over(self, epochs: int, waited: int) -> bool:
        """Whether a run ends after `epochs` epochs, the last `waited` of them without progress."""
        return epochs >= self.epochs or bool(self.patience and waited >= self.patience)

    def total(self, number: int) -> int:
        """A number summed over processes."""
        return int(self.processes.sum(torch.tensor(float(number), dtype=torch.float64)))

    def record(self, epoch: Epoch) -> int:
        """Append an epoch to the metrics; returns their size in bytes."""
        return self.folder.record(_plain(epoch)) if self.processes.first else 0

    def save(self) -> None:
        """Write a checkpoint."""
        self.at = replace(self.at, number=self.at.number + 1)
        self.folder.save(self.at, self.model.state_dict(), self.method.state_dict())

    def save_model(self) -> None:
        """Write the model that is the result so far."""
        self.model.save(self.folder.path / MODEL)

    def held_out(self, batches: Batches) -> HeldOut:
        """The perplexity of held-out batches under the present model."""
        numbers = log_likelihood(self.model, self.feed, batches)
        sums = self.processes.sum(torch.tensor(numbers, dtype=torch.float64))
        log_z, tokens, impossible = map(float, sums)
        return HeldOut(_exp(-log_z / max(tokens, 1.0)), int(impossible))


@dataclass(frozen=True)
class HeldOut:
    """The perplexity per token of held-out data, and the number of items of probability 0."""

    perplexity: float
    impossible: int


def log_likelihood(model: Model, feed: Feed, batches: Batches) -> tuple[float, int, int]:
    """The sum of log Z over batches, their tokens, and the number of items of probability 0."""
    total, tokens, impossible = 0.0, 0, 0
    was = model.training
    model.eval()
    with torch.no_grad():
        weights = model.readers()
        for batch in batches.epoch(0):
            items = feed.items(batch)
            if items is not None:
                log_z = model.program.log_z(weights, items.inputs, items.lengths).double()
                total += float(log_z.sum())
                tokens += sum(batch.lengths)
                impossible += int((log_z == -torch.inf).sum())
    model.train(was)
    return total, tokens, impossible


def _exp(value: float) -> float:
    return exp(value) if value < 700 else float("inf")


def _plain(epoch: Epoch) -> dict[str, object]:
    """One epoch as JSON; NaN and infinities become null."""
    entries: dict[str, object] = {}
    for name, value in vars(epoch).items():
        several = [_number(x) for x in value] if isinstance(value, tuple) else None
        entries[name] = _number(value) if several is None else several
    return entries


def _number(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value
