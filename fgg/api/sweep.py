"""Sweeps: identifications for ranges of sizes and lengths, in parallel, that can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from fgg.api.compile import check_sizes, selected
from fgg.api.identify import (
    MAX_LENGTH,
    Number,
    check_direction,
    check_inputs,
    check_moments,
    unnormalised,
)
from fgg.api.sweep_ranges import Range, points, refused
from fgg.api.sweep_results import Key, Sizes, appending, line_of, read_results
from fgg.api.sweep_table import Entry
from fgg.api.sweep_workers import Task, computed
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.domains import with_sizes
from fgg.grammar.names import fresh
from fgg.grammar.printer import print_grammar

FIGURE = ("12", "**", "123e1", "123", "***", "***e1")
"""The observation functions of Figure 2 of [ID]."""
LENGTH = "L"
MANY = 150
"""With more parameters than this, lengths are computed apart from each other."""

Progress = Callable[[int, int], None]


def sweep(
    grammars: Sequence[Grammar],
    ranges: Sequence[Range],
    *,
    moments: Sequence[str] = FIGURE,
    query: str | None = None,
    direction: Sequence[Number] | int | None = None,
    length: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    results: Path | None = None,
    progress: Progress | None = None,
) -> list[Entry]:
    """The identifications of grammars at every point of ranges of sizes and lengths.

    A range of `L`, or of the grammar's own name for the length, is that of lengths; a size that a
    grammar does not have is left out for it. `results` is a file with an entry a line: those that
    it has are not computed again, new ones are added as they come. With several `jobs`, processes
    compute side by side. Raises GrammarError for what cannot be asked, before work begins.
    """
    check_moments(moments)
    grammars = _told_apart(grammars)
    found: dict[Key, Entry] = {}
    marks = [_mark(grammar, query, direction) for grammar in grammars]
    wanted = _wanted(grammars, ranges, query, length, moments, seed, marks)
    if results is not None:
        # The name is that of this sweep: files may have been moved, or come together since.
        found |= {
            key: replace(entry, grammar=grammars[wanted[key]].name)
            for key, entry in read_results(results)
            if key in wanted
        }
    tasks = list(_tasks(grammars, wanted, found, marks, query, direction))
    _check_memory(tasks, jobs)
    total, done = len(wanted), len(found)
    if progress is not None:
        progress(done, total)
    with appending(results) as write:
        for task, entries in computed(grammars, query, tasks, jobs):
            own = {
                (marks[task.grammar], task.sizes, e.length, e.observed, task.seed): e
                for e in entries
            }
            write([line_of(key, entry) for key, entry in own.items()])
            found |= own
            done += len(own)
            if progress is not None:
                progress(done, total)
    return [found[key] for key in wanted]


def _told_apart(grammars: Sequence[Grammar]) -> list[Grammar]:
    """The grammars, those of which an earlier one has the name with a number after it."""
    found: list[Grammar] = []
    for grammar in grammars:
        if grammar in found:
            continue  # the same once more
        name = fresh(grammar.name, {own.name for own in found})
        found.append(replace(grammar, name=name))
    return found


def _mark(grammar: Grammar, query: str | None, direction: object) -> str:
    """What tells results of this grammar from those of another one."""
    text = f"{print_grammar(grammar)}\n{query}\n{direction!r}"
    return sha256(text.encode()).hexdigest()[:16]


def _wanted(
    grammars: Sequence[Grammar],
    ranges: Sequence[Range],
    query: str | None,
    length: int | None,
    moments: Sequence[str],
    seed: int,
    marks: Sequence[str],
) -> dict[Key, int]:
    """Every entry that is asked for, in order, and the number of its grammar."""
    known = {name for grammar in grammars for name in grammar.size}
    names = {LENGTH}
    for grammar in grammars:
        source = selected(grammar, query)
        check_inputs(source)
        own = sorted(length_names(source))
        names |= set(own)
    names -= known
    for item in ranges:
        if item.name not in known | names:
            raise refused(f"no grammar has a size `{item.name}`", "`L` is the length of strings")
    if length is None and not any(item.name in names for item in ranges):
        raise refused("the sweep has no lengths", "add a range of lengths, `L=2..9`")
    of_lengths = [item.name for item in ranges if item.name in names]
    if len(of_lengths) + (length is not None) > 1:
        listed_names = ", ".join(f"`{name}`" for name in of_lengths)
        given_too = " beside `--length`" if length is not None else ""
        help = "all lengths of a sweep are the same: one range, `L=2..9`"
        raise refused(f"ranges of lengths{given_too}: {listed_names}", help)
    found: dict[Key, int] = {}
    listed = list(points(ranges))
    for number, grammar in enumerate(grammars):
        for point in listed:
            sizes = tuple((n, v) for n, v in point.items() if n in grammar.size)
            check_sizes(grammar, dict(sizes))
            given = [value for name, value in point.items() if name in names]
            at = given[0] if given else length
            assert at is not None
            if not 1 <= at <= MAX_LENGTH:
                raise refused(f"a length is {at:,}; lengths are 1 to {MAX_LENGTH:,}")
            for name in moments:
                found.setdefault((marks[number], sizes, at, name, seed), number)
    if not found:
        raise refused("the ranges are empty")
    return found


def _tasks(
    grammars: Sequence[Grammar],
    wanted: Mapping[Key, int],
    found: Mapping[Key, Entry],
    marks: Sequence[str],
    query: str | None,
    direction: Sequence[Number] | int | None,
) -> Iterator[Task]:
    """What is left to do, the largest first."""
    from fgg.runtime.identify.parameters import parameters_of

    groups: dict[tuple[int, Sizes], dict[int, list[str]]] = {}
    seed = 0
    for key, number in wanted.items():
        _, sizes, length, name, seed = key
        if key not in found:
            groups.setdefault((number, sizes), {}).setdefault(length, []).append(name)
    made = []
    for (number, sizes), lengths in groups.items():
        source = selected(with_sizes(grammars[number], dict(sizes)), query)
        parameters, bad = parameters_of(source)
        if bad:
            raise GrammarError([unnormalised(source, name) for name in dict.fromkeys(bad)])
        check_direction(source, direction)
        given = tuple(direction) if isinstance(direction, Sequence) else direction
        batches: dict[tuple[str, ...], list[int]] = {}
        for length, listed in lengths.items():
            batches.setdefault(tuple(listed), []).append(length)
        for names, own in batches.items():
            parts = [(n,) for n in own] if parameters.count > MANY else [tuple(own)]
            made += [
                Task(number, sizes, part, names, seed, given, parameters.count * max(part))
                for part in parts
            ]
    yield from sorted(made, key=lambda task: -task.cost)


def _check_memory(tasks: Sequence[Task], jobs: int) -> None:
    """Raise GrammarError (F420) if the largest Jacobians would not fit side by side."""
    import torch

    from fgg.runtime.memory import require

    counts = sorted((task.cost // max(task.lengths) for task in tasks), reverse=True)[:jobs]
    needed = sum(8 * 3 * (count + 6) * count for count in counts)
    require(needed, torch.device("cpu"), "the largest entry of the sweep")
