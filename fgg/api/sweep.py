"""Sweeps: identifications for ranges of sizes and lengths, in parallel, that can be resumed."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import NamedTuple, NoReturn

from fgg.api.compile import check_sizes, selected
from fgg.api.identify import (
    MAX_LENGTH,
    IdentificationModel,
    Number,
    check_direction,
    check_inputs,
    check_moments,
    model_of,
    unnormalised,
)
from fgg.api.sweep_table import Entry, Sizes
from fgg.diagnostics import GrammarError, refuse
from fgg.files import read_limited, unreadable
from fgg.grammar import Grammar
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.domains import with_sizes
from fgg.grammar.names import fresh
from fgg.grammar.printer import print_grammar

FIGURE = ("12", "**", "123e1", "123", "***", "***e1")
"""The observation functions of Figure 2 of [ID]."""
LENGTH = "L"
MANY = 150
"""With more parameters than this, each length is a task of its own."""
MAX_POINTS = 1_000_000
MAX_DIGITS = 6
BEGIN = '{"mark": "'
"""How every line of a file of results begins."""

Progress = Callable[[int, int], None]
Direction = Sequence[Number] | int | None


class Key(NamedTuple):
    """Identifies an entry; `mark` is a hash of the grammar, the query and the direction."""

    mark: str
    sizes: Sizes
    length: int
    observed: str
    seed: int


def sweep(
    grammars: Sequence[Grammar],
    ranges: Sequence[Range],
    *,
    moments: Sequence[str] = FIGURE,
    query: str | None = None,
    direction: Direction = None,
    length: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    results: Path | None = None,
    progress: Progress | None = None,
) -> list[Entry]:
    """The identifications of grammars at every point of ranges of sizes and lengths.

    A range named `L`, or like the grammar's own name for the length, gives the lengths. A grammar
    ignores ranges of sizes that it does not have. `results` is a file with one entry on each line:
    entries in it are not computed again, and each new one is appended as soon as it is known. With
    several `jobs`, processes compute in parallel. Raises GrammarError before work begins.
    """
    check_moments(moments)
    grammars = _distinct(grammars)
    marks = [_mark(grammar, query, direction) for grammar in grammars]
    wanted: dict[Key, int] = {}
    for number, sizes, at in _points_of_grammars(grammars, ranges, query, length):
        for name in moments:
            wanted.setdefault(Key(marks[number], sizes, at, name, seed), number)
    # Entries are named as in this sweep: files may have been moved since they were computed.
    entries = {
        key: replace(entry, grammar=grammars[wanted[key]].name)
        for key, entry in ([] if results is None else _read_results(results))
        if key in wanted
    }
    missing = {key: number for key, number in wanted.items() if key not in entries}
    tasks = _tasks(grammars, missing, query, direction)
    _check_memory(tasks, jobs)
    report = progress or (lambda done, total: None)
    report(len(entries), len(wanted))
    with _appending(results) as write:
        for task, computed in _computed(_Worker(grammars, query, direction, seed), tasks, jobs):
            new = {
                Key(marks[task.grammar], task.sizes, entry.length, entry.observed, seed): entry
                for entry in computed
            }
            write(new)
            entries |= new
            report(len(entries), len(wanted))
    return [entries[key] for key in wanted]


def _distinct(grammars: Sequence[Grammar]) -> list[Grammar]:
    """The grammars without repetitions, numbered where different ones have the same name."""
    distinct: list[Grammar] = []
    for grammar in grammars:
        if grammar not in distinct:
            name = fresh(grammar.name, {other.name for other in distinct})
            distinct.append(replace(grammar, name=name))
    return distinct


def _mark(grammar: Grammar, query: str | None, direction: Direction) -> str:
    text = f"{print_grammar(grammar)}\n{query}\n{direction!r}"
    return sha256(text.encode()).hexdigest()[:16]


def _refuse(message: str, help: str = "") -> NoReturn:
    refuse("F457", message, help)


@dataclass(frozen=True)
class End:
    """An end of a range: a number, or an earlier name plus a number."""

    name: str | None
    number: int

    def at(self, point: Mapping[str, int]) -> int:
        """Its value, given those of earlier names."""
        return self.number + (0 if self.name is None else point[self.name])


@dataclass(frozen=True)
class Range:
    """A name with spans of values, both ends included: `k=2..d` or `n=3,5..7`."""

    name: str
    spans: tuple[tuple[End, End], ...]

    def values(self, point: Mapping[str, int]) -> list[int]:
        """Its values in order, given those of earlier names."""
        spans = [range(low.at(point), high.at(point) + 1) for low, high in self.spans]
        return list(dict.fromkeys(value for span in spans for value in span))


def read_ranges(words: Sequence[str]) -> tuple[Range, ...]:
    """The ranges that words like `k=2..d` or `n=3,5` describe. Raises GrammarError (F457)."""
    ranges: list[Range] = []
    for word in words:
        name, equals, text = word.partition("=")
        names = [item.name for item in ranges]
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            _refuse(f"`{word[:60]}` is not a range", "ranges are like `d=2..8`, `k=2..d`")
        if name in names:
            _refuse(f"`{name}` has two ranges")
        spans = []
        for span in text.split(","):
            low, dots, high = span.partition("..")
            start = _read_end(word, low, names)
            spans.append((start, _read_end(word, high, names) if dots else start))
        ranges.append(Range(name, tuple(spans)))
    return tuple(ranges)


def _read_end(word: str, text: str, names: Sequence[str]) -> End:
    match = re.fullmatch(r"([A-Za-z_]\w*)?\s*([+-]?)\s*(\d*)", text.strip())
    name, sign, digits = match.groups() if match else (None, "", "")
    if not (name or digits) or len(text) > 60 or (name and bool(sign) != bool(digits)):
        _refuse(f"`{word[:60]}` is not a range", "ends are numbers or earlier names, `2..d-1`")
    if not name and sign:
        _refuse(f"`{word[:60]}`: numbers are from 0 up")
    if len(digits) > MAX_DIGITS:
        _refuse(f"`{word[:60]}`: a number is too large")
    if name and name not in names:
        _refuse(f"`{word[:60]}`: `{name}` has no earlier range")
    return End(name, int(sign + (digits or "0")))


def points(ranges: Sequence[Range]) -> list[dict[str, int]]:
    """Every combination of values, the first range varying slowest. Raises GrammarError."""
    result: list[dict[str, int]] = [{}]
    for item in ranges:
        longer = ({**point, item.name: value} for point in result for value in item.values(point))
        result = list(islice(longer, MAX_POINTS + 1))
        if len(result) > MAX_POINTS:
            _refuse(f"the ranges have more than {MAX_POINTS:,} points")
    return result


def _points_of_grammars(
    grammars: Sequence[Grammar], ranges: Sequence[Range], query: str | None, length: int | None
) -> list[tuple[int, Sizes, int]]:
    """The number of each grammar with every choice of its sizes and every length."""
    sizes_known = {name for grammar in grammars for name in grammar.size}
    lengths_known = {LENGTH}
    for grammar in grammars:
        source = selected(grammar, query)
        check_inputs(source)
        lengths_known |= length_names(source)
    lengths_known -= sizes_known
    for item in ranges:
        if item.name not in sizes_known | lengths_known:
            _refuse(f"no grammar has a size `{item.name}`", "`L` is the length of strings")
    of_lengths = [item.name for item in ranges if item.name in lengths_known]
    if length is None and not of_lengths:
        _refuse("the sweep has no lengths", "add a range of lengths, `L=2..9`")
    if len(of_lengths) + (length is not None) > 1:
        listed = ", ".join(f"`{name}`" for name in of_lengths)
        given_too = " beside `--length`" if length is not None else ""
        help = "a sweep has one range for all lengths: `L=2..9`"
        _refuse(f"ranges of lengths{given_too}: {listed}", help)
    result = []
    at_points = points(ranges)
    for number, grammar in enumerate(grammars):
        for point in at_points:
            sizes = tuple((name, value) for name, value in point.items() if name in grammar.size)
            check_sizes(grammar, dict(sizes))
            at = point[of_lengths[0]] if length is None else length
            if not 1 <= at <= MAX_LENGTH:
                _refuse(f"a length is {at:,}; lengths are 1 to {MAX_LENGTH:,}")
            result.append((number, sizes, at))
    if not result:
        _refuse("the ranges are empty")
    return result


def _read_results(path: Path) -> list[tuple[Key, Entry]]:
    """The entries that a file has. An unfinished last line is left out. Raises GrammarError."""
    try:
        lines = read_limited(path).decode().split("\n")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise unreadable(path, ValueError("it is not a text file")) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    results = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            entry = Entry.from_json(data)
            sizes = tuple(entry.sizes.items())
            key = Key(str(data["mark"]), sizes, entry.length, entry.observed, int(data["seed"]))
            results.append((key, entry))
        except (ValueError, KeyError, TypeError, AttributeError):
            is_begun = line.startswith(BEGIN) or BEGIN.startswith(line)
            if number < len(lines) or not is_begun:
                _refuse(f"`{path}` has no entry of a sweep on line {number}")
    return results


@contextlib.contextmanager
def _appending(path: Path | None) -> Iterator[Callable[[Mapping[Key, Entry]], None]]:
    """A function that adds entries to a file, all of them in one piece."""
    if path is None:
        yield lambda entries: None
        return
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        refuse("F413", f"`{path}` cannot be written: {reason}")

    def write(entries: Mapping[Key, Entry]) -> None:
        rows = [{"mark": k.mark, "seed": k.seed, **e.as_json()} for k, e in entries.items()]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        os.write(handle, text.encode())

    try:
        # An entry that an earlier run left unfinished goes; reading has seen that it is one.
        os.ftruncate(handle, path.read_bytes().rfind(b"\n") + 1)
        yield write
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Task:
    """Lengths of one grammar with one choice of sizes; `parameters` is the number of these."""

    grammar: int
    sizes: Sizes
    lengths: tuple[int, ...]
    moments: tuple[str, ...]
    parameters: int


def _tasks(
    grammars: Sequence[Grammar], missing: Mapping[Key, int], query: str | None, direction: Direction
) -> list[Task]:
    """The tasks that compute missing entries, the largest first."""
    from fgg.runtime.identify.parameters import parameters_of

    groups: dict[tuple[int, Sizes], dict[int, list[str]]] = {}
    for key, number in missing.items():
        lengths = groups.setdefault((number, key.sizes), {})
        lengths.setdefault(key.length, []).append(key.observed)
    tasks = []
    for (number, sizes), names in groups.items():
        source = selected(with_sizes(grammars[number], dict(sizes)), query)
        parameters, bad = parameters_of(source)
        if bad:
            raise GrammarError([unnormalised(source, name) for name in dict.fromkeys(bad)])
        check_direction(source, direction)
        count = parameters.count
        batches: dict[tuple[str, ...], list[int]] = {}
        for length, observed in names.items():
            batches.setdefault(tuple(observed), []).append(length)
        for moments, together in batches.items():
            parts = [(length,) for length in together] if count > MANY else [tuple(together)]
            tasks += [Task(number, sizes, part, moments, count) for part in parts]
    return sorted(tasks, key=lambda task: -task.parameters * max(task.lengths))


def _check_memory(tasks: Sequence[Task], jobs: int) -> None:
    """Raise GrammarError (F420) if the largest Jacobians would not fit side by side."""
    import torch

    from fgg.runtime.memory import require

    counts = sorted((task.parameters for task in tasks), reverse=True)[:jobs]
    needed = sum(8 * 3 * (count + 6) * count for count in counts)
    require(needed, torch.device("cpu"), "the largest entry of the sweep")


@dataclass
class _Worker:
    """Computes tasks; keeps the model of the last one, as the next one is often the same."""

    grammars: Sequence[Grammar]
    query: str | None
    direction: Direction
    seed: int
    key: tuple[int, Sizes] | None = None
    model: IdentificationModel | None = None

    def run(self, task: Task) -> list[Entry]:
        """The entries of a task."""
        key = (task.grammar, task.sizes)
        if self.key != key or self.model is None:
            self.model = model_of(self.grammars[task.grammar], self.query, dict(task.sizes))
            self.key = key
        return [e for length in task.lengths for e in self._entries(self.model, task, length)]

    def _entries(self, model: IdentificationModel, task: Task, length: int) -> list[Entry]:
        """The entries at one length; undefined where there are no strings of it (F455)."""
        entry = partial(Entry, model.name, dict(task.sizes), length)
        try:
            results = model.identify(
                length,
                task.moments,
                direction=self.direction,
                seed=self.seed,
                second=False,
                null=False,
            )
        except GrammarError as error:
            if error.diagnostics[0].code != "F455":
                raise
            return [entry(name, task.parameters, 0, None, "undefined") for name in task.moments]
        return [
            entry(name, x.parameters, x.moments, x.rank, x.verdict, x.error, model.query)
            for name, x in results.items()
        ]


def _computed(
    worker: _Worker, tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, list[Entry]]]:
    """The entries of tasks, in the order in which they are done."""
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, worker.run(task)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import active_children, get_context

    others = set(active_children())
    with ProcessPoolExecutor(
        min(jobs, len(tasks)),
        mp_context=get_context("spawn"),
        initializer=_start_process,
        initargs=(worker,),
    ) as pool:
        waiting = {pool.submit(_run_in_process, task): task for task in tasks}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            # Do not wait for entries that will not be shown.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()
            raise


_process_worker: _Worker | None = None
"""The worker of a process of the pool, which is set when the process starts."""


def _start_process(worker: _Worker) -> None:
    global _process_worker
    _process_worker = worker
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone, perhaps killed: no task will come."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _run_in_process(task: Task) -> list[Entry]:
    assert _process_worker is not None
    return _process_worker.run(task)
