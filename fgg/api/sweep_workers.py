"""Computing the entries of a sweep, here or in processes side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Thread

from fgg.api.identify import IdentificationModel, Number, model_of
from fgg.api.sweep_results import Sizes
from fgg.api.sweep_table import Entry
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar


@dataclass(frozen=True)
class Task:
    """Lengths of one grammar with one choice of sizes."""

    grammar: int
    sizes: Sizes
    lengths: tuple[int, ...]
    moments: tuple[str, ...]
    seed: int
    direction: tuple[Number, ...] | int | None
    cost: int


def computed(
    grammars: Sequence[Grammar], query: str | None, tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, list[Entry]]]:
    """The entries of tasks, in the order in which they are done."""
    if jobs == 1 or len(tasks) < 2:
        worker = _Worker(grammars, query)
        for task in tasks:
            yield task, worker.run(task)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import active_children, get_context

    others = set(active_children())
    with ProcessPoolExecutor(
        min(jobs, len(tasks)),
        mp_context=get_context("spawn"),
        initializer=_start,
        initargs=(tuple(grammars), query),
    ) as pool:
        waiting = {pool.submit(_run, task): task for task in tasks}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            # Nobody waits for entries that nobody will see.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()
            raise


class _Worker:
    """Computes tasks; keeps the plan of the sizes that were asked for last."""

    def __init__(self, grammars: Sequence[Grammar], query: str | None) -> None:
        self.grammars = grammars
        self.query = query
        self.key: tuple[int, Sizes] | None = None
        self.model: IdentificationModel | None = None

    def run(self, task: Task) -> list[Entry]:
        """The entries of a task."""
        if self.key != (task.grammar, task.sizes) or self.model is None:
            self.model = model_of(self.grammars[task.grammar], self.query, dict(task.sizes))
            self.key = (task.grammar, task.sizes)
        found = []
        for length in task.lengths:
            found += self.at(self.model, task, length)
        return found

    def at(self, model: IdentificationModel, task: Task, length: int) -> list[Entry]:
        """The entries at one length; undefined where there are no strings of it."""
        try:
            results = model.identify(
                length,
                task.moments,
                direction=task.direction,
                seed=task.seed,
                second=False,
                null=False,
            )
        except GrammarError as error:
            if error.diagnostics[0].code != "F455":
                raise
            count = model.parameters.count
            return [
                Entry(model.name, dict(task.sizes), length, name, count, 0, None, "undefined")
                for name in task.moments
            ]
        return [
            Entry(
                model.name,
                dict(task.sizes),
                length,
                name,
                own.parameters,
                own.moments,
                own.rank,
                own.verdict,
                own.error,
                model.query,
            )
            for name, own in results.items()
        ]


_worker: _Worker | None = None


def _start(grammars: Sequence[Grammar], query: str | None) -> None:
    """Begin a process of a pool."""
    global _worker
    _worker = _Worker(grammars, query)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that began it is gone, killed perhaps: no task will come."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _run(task: Task) -> list[Entry]:
    assert _worker is not None
    return _worker.run(task)
