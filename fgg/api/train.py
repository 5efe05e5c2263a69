"""Training runs in folders: start or resume one, load its model, read data as it did."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from fgg.api.compile import compile, only_query, selected
from fgg.api.saved import load_model
from fgg.compiler.resolve.load import loads
from fgg.data import Batches, read
from fgg.diagnostics import refuse, render_all
from fgg.files import write_whole
from fgg.grammar.domains import with_sizes
from fgg.plan.backend import AUTO, CPP, TORCH, BackendChoice, check_backend
from fgg.runtime.train.feed import Feed, input_fields, make_feed, preprocessed, sizes_for
from fgg.runtime.train.processes import Processes
from fgg.runtime.train.run_folder import (
    FEED,
    METRICS,
    MODEL,
    SETTINGS,
    RunSettings,
    history,
    load_feed,
    load_settings,
    make_folder,
    save_feed,
)
from fgg.runtime.train.trainer import Epoch, InOrder, Trainer

if TYPE_CHECKING:
    from fgg.data import Corpus, ExampleBatch
    from fgg.grammar import Grammar
    from fgg.runtime.learn import Method
    from fgg.runtime.model.model import Model

CURVES = "curves.svg"
LEFT_OUT = "empty lines do not count, nor do items that `--min-length` or `--max-length` excludes"
IN_PYTHON = ("weights", "reduce")
"""The options of methods that a command line cannot give."""
EPOCHS = 10
"""The number of epochs of a run unless another one is given."""
SHUFFLED = ("adam", "online-em")
"""The methods that take batches in random order, because the order matters."""


def train(
    grammar: Grammar,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    query: str | None = None,
    method: str = "em",
    epochs: int = EPOCHS,
    valid: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    seed: int = 0,
    dtype: str | None = None,
    space: str = "auto",
    tokens: int = 4096,
    patience: int = 0,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    preprocessing: Mapping[str, object] | None = None,
    resume: bool = False,
    backend: str = AUTO,
    **options: object,
) -> Model:
    """Train a grammar on data files, in a folder that can be resumed; return the model.

    It is what `fggc train` does: `data` and `valid` are files, `tokens` is the size of a batch,
    `preprocessing` has the options that change the data (`{"lower": True, "min_count": 2}`), and
    `options` are the method's own. A run chooses its `backend` once, by the amount of data, and
    keeps it. `fgg.learn` takes data in memory and keeps no folder.
    """
    from fgg.runtime.model.saving import self_contained

    settings = RunSettings(
        grammar=str(self_contained(grammar)),
        name=grammar.name,
        query=query or only_query(grammar),
        method=method,
        epochs=epochs,
        seed=seed,
        dtype=dtype or ("float32" if method == "adam" else "float64"),
        space=space,
        backend=backend,
        budget=0 if method in ("cvb", "hastings") else tokens,
        options=options,
        data=_paths(data),
        valid=_paths(valid),
        format=format,
        fields=fields or {},
        changes={**(preprocessing or {}), "sizes": {}},
        patience=patience,
    )
    trainer = start(Path(folder), settings, resume=resume)
    trainer.run()
    return load_run(Path(folder))[0]


def _paths(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """One file or several, as texts."""
    several = [files] if isinstance(files, str | os.PathLike) else files
    return tuple(os.fspath(path) for path in several)


def start(
    folder: Path,
    settings: RunSettings | None,
    *,
    resume: bool = False,
    epochs: int | None = None,
    every: float = 60.0,
    device: str = "cpu",
    processes: Processes | None = None,
    stopping: Callable[[], bool] | None = None,
    report: Callable[[Epoch], None] | None = None,
    tick: Callable[[ExampleBatch], None] | None = None,
) -> Trainer:
    """The trainer of a new run, or of one to resume. Raises GrammarError for what does not fit.

    Without `settings`, those in the folder are used, with other `epochs` if given.
    """
    processes = processes or Processes()
    begins = not (folder / SETTINGS).exists()
    settings = _settled(folder, settings, resume, epochs)
    grammar = loads(settings.grammar, name=settings.name)
    asked = selected(grammar, settings.query)
    fields = input_fields(asked, settings.fields)
    corpus = _corpus(settings, settings.data)
    feed = load_feed(folder) if (folder / FEED).exists() else None
    if feed is None:
        feed = make_feed(asked, fields, corpus, settings.changes)
        if next(iter(corpus), None) is None:
            shown = ", ".join(f"`{path}`" for path in settings.data)
            refuse("F478", f"there are no items in {shown} to learn from", LEFT_OUT)
    sizes = sizes_for(grammar, feed, settings.changes.get("sizes", {}))
    backend = _possible(settings.backend)
    program = compile(
        with_sizes(grammar, sizes),
        settings.query,
        space=settings.space,
        batch=16,
        fallback=False,
        backend=backend.backend,
    )
    import torch

    dtype = getattr(torch, settings.dtype)
    model = program.model(seed=settings.seed, dtype=dtype).to(torch.device(device))
    method = _method(model, settings, processes)
    batches = _batches(settings, corpus, processes)
    valid = None
    if settings.valid:
        held = _corpus(settings, settings.valid)
        if next(iter(held), None) is None:
            shown = ", ".join(f"`{path}`" for path in settings.valid)
            refuse("F478", f"there are no held-out items in {shown}", LEFT_OUT)
        valid = Batches(
            corpus=held,
            tokens=settings.budget or 4096,
            shuffle=False,
            rank=processes.rank,
            world=processes.world,
        )
    trainer = Trainer(
        folder,
        model,
        method,
        feed,
        batches,
        epochs=settings.epochs,
        valid=valid,
        patience=settings.patience,
        every=every,
        processes=processes,
        report=report,
        tick=tick,
        stopping=stopping,
    )
    if begins:
        choice = _chosen(backend, trainer)
        settings = replace(settings, backend=choice.backend, backend_reason=choice.reason)
    processes.wait()  # until all have seen whether the folder holds a run
    if begins and processes.first:
        make_folder(folder)
        save_feed(folder, feed)
        settings.save(folder)
    processes.wait()
    if resume:
        trainer.resume()
    return trainer


def _settled(
    folder: Path, settings: RunSettings | None, resume: bool, epochs: int | None
) -> RunSettings:
    """The settings of a run: those given, if the folder holds no other ones."""
    there = (folder / SETTINGS).exists()
    if there and not resume:
        help = "`--resume` continues it; a new run needs another folder"
        refuse("F479", f"`{folder}` holds a run already", help)
    if settings is None or there:
        kept = load_settings(folder)
        if settings is None:
            return kept if epochs is None else replace(kept, epochs=epochs)
        different = settings.differences(kept)
        if different:
            help = "give the options that it began with, or `--resume --out DIR` alone"
            refuse("F479", f"the run in `{folder}` has another `{different[0]}`", help)
        return replace(settings, backend=kept.backend, backend_reason=kept.backend_reason)
    return settings


def _possible(asked: str) -> BackendChoice:
    """The backend that a run is asked for; without a compiler, tensor operations in place of C++.

    The latter comes with a warning (F435).
    """
    from fgg.runtime.native.build import CannotBuild, no_compiler

    check_backend(asked)
    reason = no_compiler() if asked == CPP else ""
    if not reason:
        return BackendChoice(asked, "it was asked for")
    warn(render_all([CannotBuild(reason).note()], None), stacklevel=3)
    return BackendChoice(TORCH, reason)


def _chosen(asked: BackendChoice, trainer: Trainer) -> BackendChoice:
    """The backend of a new run, which all of its processes have from now on.

    It depends on the amount of data alone: neither on machine code that happens to be there, nor
    on the number of epochs, so that a run which was stopped early equals a shorter one.
    """
    if asked.backend != AUTO:
        return asked
    from fgg.runtime.native.jobs import Job
    from fgg.runtime.program.prepared_batch import number_type

    model = trainer.model
    dtype, device = number_type([*model.parameters(), *model.buffers()])
    batches = trainer.feed.checked(model.program, trainer.batches)
    choice = Job(batches=batches, dtype=dtype, device=device, times=EPOCHS).choice()
    if trainer.processes.any(choice.backend == CPP) and choice.backend != CPP:
        choice = BackendChoice(CPP, "another process of this run has more to do")
    model.program.compiler.backend.settled = choice
    return choice


def _corpus(settings: RunSettings, paths: tuple[str, ...]) -> Corpus:
    return preprocessed(read(*paths, format=settings.format, skip=settings.skip), settings.changes)


def _method(model: Model, settings: RunSettings, processes: Processes) -> Method:
    """The method of a run, with its options. Raises GrammarError (F476)."""
    from fgg.runtime.learn.fitting import find_method, option_defaults

    kind = find_method(settings.method, settings.options)
    defaults = option_defaults(kind)
    options: dict[str, Any] = dict(settings.options)
    for name, value in options.items():
        if name in IN_PYTHON:
            refuse("F476", f"`{settings.method}` has no option `{name}`")
        options[name] = _option(name, value, defaults[name])
    if "seed" in defaults:
        options.setdefault("seed", settings.seed)
    if processes.world > 1:
        options["reduce"] = processes.sum
    return kind(model, **options)


def _option(name: str, value: object, default: object) -> object:
    """The value of a method's option. Raises GrammarError (F476) if it is of a wrong type."""
    if name == "dtype":
        import torch

        names = {"float32": torch.float32, "float64": torch.float64}
        if isinstance(value, str) and value in names:
            return names[value]
        refuse("F476", f"`{name}` cannot be `{value}`", "it is float32 or float64")
    if isinstance(default, bool):
        wanted, good = "yes or no", isinstance(value, bool)
    elif isinstance(default, int):
        wanted, good = "a whole number", isinstance(value, int) and not isinstance(value, bool)
    elif isinstance(default, float):
        wanted, good = "a number", isinstance(value, int | float) and not isinstance(value, bool)
    elif isinstance(default, tuple):
        wanted = f"{len(default)} numbers, `{name}={','.join(map(str, default))}`"
        good = isinstance(value, list | tuple) and len(value) == len(default)
    else:
        return value  # the method itself says what it takes
    if not good:
        refuse("F476", f"`{name}` cannot be `{value}`", f"it is {wanted}")
    return value


def _batches(settings: RunSettings, corpus: Corpus, processes: Processes) -> Batches | InOrder:
    if not settings.budget:
        return InOrder(corpus, processes.rank, processes.world)
    return Batches(
        corpus=corpus,
        tokens=settings.budget,
        shuffle=settings.method in SHUFFLED,
        seed=settings.seed,
        rank=processes.rank,
        world=processes.world,
    )


def load_run(
    folder: str | os.PathLike[str], query: str | None = None, *, backend: str = AUTO
) -> tuple[Model, Feed, RunSettings]:
    """The best model of a run, its feed, and its settings.

    `query` may be another query than the model was trained with.
    """
    path = Path(folder)
    settings = load_settings(path)
    model, feed = load_model(path / MODEL, query=query, backend=backend), load_feed(path)
    if query not in (None, settings.query):
        feed = feed.serving(model.program.grammar)
    return model, feed, settings


def run_inputs(
    folder: str | os.PathLike[str], grammar: Grammar, path: str, format: str | None = None
) -> dict[str, list[list[int] | list[list[int]]]]:
    """The inputs of the items in a data file, read as a run reads its data, for a query's grammar.

    No item is left out for its length. Raises GrammarError.
    """
    settings = load_settings(Path(folder))
    feed = load_feed(Path(folder)).serving(grammar)
    lengths = ("min_length", "max_length")
    changes = {name: value for name, value in settings.changes.items() if name not in lengths}
    examples = list(preprocessed(read(path, format=format or settings.format), changes))
    if not examples:
        refuse("F478", f"`{path}` has no items")
    return {name: [feed.ids(name, example) for example in examples] for name in feed.fields}


def known_words(
    folder: str | os.PathLike[str], grammar: Grammar, given: Mapping[str, Sequence[object]]
) -> dict[str, Sequence[object]]:
    """The inputs with unknown words replaced as the vocabularies of a run say."""
    vocabularies = load_feed(Path(folder)).vocabularies
    domains = {item.name: item.domain for item in grammar.inputs}
    inputs = dict(given)
    for name, values in given.items():
        vocabulary = vocabularies.get(domains.get(name, ""))
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            continue
        if vocabulary is not None and vocabulary.unknown is not None:
            kept = {*vocabulary.index, "-1", "-2"}
            ids = vocabulary.encode(values)
            names = [vocabulary.values[i] for i in ids]
            inputs[name] = [v if v in kept else n for v, n in zip(values, names, strict=True)]
    return inputs


def curves(folder: Path, epochs: list[dict[str, Any]]) -> None:
    """Draw the perplexities of a run, one point an epoch, from its metrics."""
    from fgg.draw.plot import Line, Plot, to_svg

    lines = []
    for name, label in (("perplexity", "training"), ("valid", "held out")):
        points = [(float(e["epoch"] + 1), float(e[name])) for e in epochs if e[name] is not None]
        if points:
            lines.append(Line(label=label, points=tuple(points)))
    if lines:
        plot = Plot(
            title=epochs[0]["kind"], x="epoch", y="perplexity per token", lines=tuple(lines)
        )
        write_whole(folder / CURVES, to_svg(plot).encode())


__all__ = [
    "CURVES",
    "METRICS",
    "MODEL",
    "curves",
    "history",
    "known_words",
    "load_feed",
    "load_run",
    "run_inputs",
    "start",
]
