"""Starting a training run: a new one, one to resume, or one to continue with other data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.api.compile import compile, selected
from fgg.api.saved import model_file
from fgg.compiler.resolve.load import loads
from fgg.data import Batches, read
from fgg.data.potentials import read_potentials
from fgg.data.preprocessing import Preprocessing, preprocessed
from fgg.diagnostics import GrammarError, refuse, warn
from fgg.grammar import Enumerated, Grammar
from fgg.grammar.domains import domain_size, with_sizes, with_values
from fgg.plan.backend import AUTO, CPP, TORCH, BackendChoice, check_backend
from fgg.progress import note
from fgg.runtime.train.digests import RunDigests, WatchedFiles, data_change, run_digests
from fgg.runtime.train.feed import Feed, input_fields, make_feed, sizes_for
from fgg.runtime.train.folder_lock import FolderLock
from fgg.runtime.train.processes import Processes
from fgg.runtime.train.run_folder import (
    RunFolder,
    SavedState,
    load_checkpoint,
    load_feed,
    save_feed,
)
from fgg.runtime.train.run_settings import MODEL_OF, SETTINGS, RunSettings, load_settings
from fgg.runtime.train.trainer import Epoch, InOrder, Trainer

if TYPE_CHECKING:
    from torch import Tensor

    from fgg.data import Corpus, ExampleBatch
    from fgg.runtime.learn import Method
    from fgg.runtime.model.model import Model

LEFT_OUT = "empty lines do not count, nor do items that `--min-length` or `--max-length` excludes"
IN_PYTHON = ("weights", "reduce")
"""The options of methods that a command line cannot give."""
EPOCHS = 10
"""The number of epochs of a run unless another one is given."""
SHUFFLED = ("adam", "online-em")
"""The methods that take batches in random order, because the order matters."""
MIGRATE = "`--migrate` continues with the model as it is, and drops all counts"


def start(
    folder: Path,
    settings: RunSettings | None,
    *,
    resume: bool = False,
    migrate: bool = False,
    given: Mapping[str, Any] | None = None,
    every: float = 60.0,
    device: str = "cpu",
    processes: Processes | None = None,
    stopping: Callable[[], bool] | None = None,
    report: Callable[[Epoch], None] | None = None,
    tick: Callable[[ExampleBatch], None] | None = None,
) -> Trainer:
    """The trainer of a new run, or of one to resume. Raises GrammarError for what does not fit.

    Without `settings`, those in the folder are used, except those that are `given`, such as
    `{"epochs": 20}`. With `migrate`, a run is resumed even if data or options are other ones. The
    folder is locked until the trainer has run.
    """
    processes = processes or Processes()
    lock = _locked(folder, processes)
    try:
        given = {**(given or {}), **({"world": processes.world} if migrate else {})}
        settings, kept = _settled(folder, settings, resume, migrate, given)
        run = _Start(folder, lock, processes, settings, kept, migrate, device)
        return run.trainer(every=every, stopping=stopping, report=report, tick=tick)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _locked(folder: Path, processes: Processes) -> FolderLock | None:
    """The lock of the folder, which the first process holds. Raises GrammarError (F496, F413)."""
    lock, error = None, None
    if processes.first:
        try:
            lock = FolderLock(folder)
        except GrammarError as caught:
            error = caught
    if processes.any(error is not None):
        raise error or GrammarError([])
    return lock


def _settled(
    folder: Path,
    settings: RunSettings | None,
    resume: bool,
    migrate: bool,
    given: Mapping[str, Any],
) -> tuple[RunSettings, RunSettings | None]:
    """The settings of a run, and those in the folder if it holds one. Raises GrammarError (F479).

    The two are the same but for what says when to stop, or with `migrate`.
    """
    there = (folder / SETTINGS).exists()
    if there and not resume:
        help = "`--resume` continues it; a new run needs another folder"
        refuse("F479", f"`{folder}` holds a run already", help)
    if settings is not None and not there:
        return settings, None
    kept = load_settings(folder)
    settings = replace(kept, **given) if settings is None else settings
    different = settings.differences(kept)
    if not migrate and different:
        help = "give the options that it began with, or `--resume --out DIR` alone"
        refuse("F479", f"the run in `{folder}` has another `{different[0]}`", f"{help}; {MIGRATE}")
    fixed = [name for name in different if name in MODEL_OF]
    if fixed:
        help = "another model needs a new run, in another folder"
        refuse("F479", f"the run in `{folder}` has another `{fixed[0]}`", help)
    return replace(settings, backend=kept.backend, backend_reason=kept.backend_reason), kept


@dataclass(frozen=True)
class _Start:
    """All that a run is started from; `kept` are the settings of the run in the folder."""

    folder: Path
    lock: FolderLock | None
    processes: Processes
    settings: RunSettings
    kept: RunSettings | None
    migrate: bool
    device: str

    def trainer(self, **more: Any) -> Trainer:
        """The trainer, after the folder has been written."""
        settings, processes = self.settings, self.processes
        grammar = loads(settings.grammar, name=settings.name)
        asked = selected(grammar, settings.query)
        watched = (
            _watched(settings.data, settings.potentials),
            _watched(settings.valid, settings.valid_potentials),
        )
        feed = None if self.kept is None else load_feed(self.folder)
        saved, changed = None, []
        if feed is not None:
            saved = load_checkpoint(self.folder, processes, migrate=self.migrate)
            changed = self.changes(saved, run_digests(settings, feed, *watched), watched[0])
        corpus = _corpus(settings, asked, settings.data, settings.potentials)
        fields = input_fields(asked, settings.fields)
        feed = feed or make_feed(asked, fields, corpus, settings.changes)
        _check_items(corpus, settings.data, "items in {} to learn from")
        backend = _possible(settings.backend)
        model = self.model(grammar, feed, backend)
        if saved is not None:
            _take(model, saved.model)
        _check_inputs(feed, model, corpus, settings.potentials)
        method = _method(model, settings, processes)
        batches = _batches(settings, corpus, processes)
        if self.kept is None:
            choice = _chosen(backend, model, feed, batches, processes)
            settings = replace(settings, backend=choice.backend, backend_reason=choice.reason)
        digests = run_digests(settings, feed, *watched)
        folder = RunFolder(self.folder, self.lock, digests, watched, processes)
        trainer = Trainer(
            folder,
            model,
            method,
            feed,
            batches,
            epochs=settings.epochs,
            valid=self.held_out(settings, asked, feed, model),
            patience=settings.patience,
            checks=settings.checks,
            **more,
        )
        try:
            self.write(trainer, settings, saved, changed)
        except GrammarError:
            if self.kept is None and processes.first:
                folder.remove_run(feed)
            raise
        return trainer

    def changes(self, saved: SavedState, now: RunDigests, data: WatchedFiles) -> list[str]:
        """The names of what has changed since the run began.

        Raises GrammarError (F479) unless the run may migrate.
        """
        changed = saved.digests.changes(now)
        run = f"the run in `{self.folder}`"
        for name in ("grammar", "vocabulary"):
            if name in changed:
                what = f"the {name} of {run} is not the one that it began with"
                refuse("F479", what, "another model needs a new run, in another folder")
        if self.migrate or not changed:
            return changed
        if "data" in changed:
            what = data_change(saved.digests.data, now.data, data.paths)
            help = f"restore the data; {MIGRATE}"
        elif "valid" in changed:
            what = "its held-out data have been changed"
            help = "restore them; `--migrate` continues, and forgets earlier held-out scores"
        else:
            what, help = f"the options in {SETTINGS} have been changed", MIGRATE
        refuse("F479", f"{run} cannot be resumed: {what}", help)

    def model(self, grammar: Grammar, feed: Feed, backend: BackendChoice) -> Model:
        """The model as a new run begins with it."""
        import torch

        settings = self.settings
        sizes = sizes_for(grammar, feed, settings.changes.get("sizes", {}))
        values = {domain: words.values for domain, words in feed.vocabularies.items()}
        named = with_values(with_sizes(grammar, sizes), values)
        program = compile(
            named,
            settings.query,
            space=settings.space,
            batch=16,
            fallback=False,
            backend=backend.backend,
        )
        model = program.model(seed=settings.seed, dtype=getattr(torch, settings.dtype))
        changes = {name: value for name, value in settings.changes.items() if name != "sizes"}
        model.preprocessing = Preprocessing(feed.fields, changes, settings.format)
        if self.kept is None:
            for text in vocabulary_notes(grammar, named, feed):
                note(text)
            if settings.initial:
                model.load(model_file(settings.initial))
        return model.to(torch.device(self.device))

    def held_out(
        self, settings: RunSettings, asked: Grammar, feed: Feed, model: Model
    ) -> Batches | None:
        """The batches of held-out data."""
        if settings.checks > 1 and settings.method not in SHUFFLED:
            refuse(
                "F476",
                f"`{settings.method}` changes the model at the end of an epoch only",
                "held-out data are looked at several times an epoch with `adam` or `online-em`",
            )
        if settings.checks > 1 and not settings.valid:
            refuse("F478", "there are no held-out data to look at several times an epoch")
        if not settings.valid:
            if settings.valid_potentials:
                refuse("F478", f"`{settings.valid_potentials}` belongs to no held-out data")
            return None
        corpus = _corpus(settings, asked, settings.valid, settings.valid_potentials)
        _check_items(corpus, settings.valid, "held-out items in {}")
        _check_inputs(feed, model, corpus, settings.valid_potentials)
        return Batches(
            corpus=corpus,
            tokens=settings.budget or 4096,
            shuffle=False,
            rank=self.processes.rank,
            world=self.processes.world,
        )

    def write(
        self,
        trainer: Trainer,
        settings: RunSettings,
        saved: SavedState | None,
        changed: list[str],
    ) -> None:
        """Write what a new run begins with, or load the state of one to resume.

        A folder holds a run as soon as it holds settings, so these come last.
        """
        self.processes.wait()  # until all have seen whether the folder holds a run
        number = None if saved is None else saved.checkpoint.number
        first = self.processes.first
        if first:
            trainer.folder.remove_leftovers(trainer.feed, number)
            if saved is None:
                save_feed(self.folder, trainer.feed)
        self.processes.wait()
        if saved is None:
            trainer.begin()
        if first and settings != self.kept:
            settings.save(self.folder)
        if saved is not None:
            if changed or saved.method is None:
                note(f"continuing with other {' and '.join(changed or ['processes'])}")
                trainer.migrate(saved, counts=changed == ["valid"])
            else:
                trainer.resume(saved)
        self.processes.wait()


def vocabulary_notes(before: Grammar, after: Grammar, feed: Feed) -> list[str]:
    """What a user should know of the domains whose values come from the data."""
    notes = []
    for name, words in feed.vocabularies.items():
        size, now = domain_size(before, name), domain_size(after, name)
        if after.domain[name].shape == before.domain[name].shape and size == now:
            continue
        shown = f"`{name}` has {now:,} values" + (f", not {size:,}" if size != now else "")
        if isinstance(after.domain[name].shape, Enumerated):
            first = ", ".join(words.values[:4]) + (", …" if len(words) > 4 else "")
            shown += f", the words of the data by frequency: {first}"
        notes.append(shown)
    return notes


def _watched(paths: Iterable[str], potentials: str) -> WatchedFiles:
    more = (potentials,) if potentials else ()
    return WatchedFiles(tuple(map(Path, (*paths, *more))))


def _check_items(corpus: Corpus, paths: Iterable[str], what: str) -> None:
    """Raise GrammarError (F478) if a corpus has no items."""
    if next(iter(corpus), None) is None:
        shown = ", ".join(f"`{path}`" for path in paths)
        refuse("F478", f"there are no {what.format(shown)}", LEFT_OUT)


def _check_inputs(feed: Feed, model: Model, corpus: Corpus, potentials: str) -> None:
    """Raise GrammarError, with the place of an item, if one is no input of the model."""
    if potentials:
        feed.check(model.program, corpus)
    else:
        feed.check_readable(corpus)


def _take(model: Model, state: Mapping[str, Tensor]) -> None:
    """Load the parameters of a checkpoint. Raises GrammarError (F479) if they do not fit."""
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if shapes != {name: tensor.shape for name, tensor in state.items()}:
        refuse("F479", "the parameters in the checkpoint are those of another model")
    model.load_state_dict(state)


def _possible(asked: str) -> BackendChoice:
    """The backend that a run is asked for; without a compiler, tensor operations in place of C++.

    The latter comes with a warning (F435).
    """
    from fgg.runtime.native.build import CannotBuild, no_compiler

    check_backend(asked)
    reason = no_compiler() if asked == CPP else ""
    if not reason:
        return BackendChoice(asked, "it was asked for")
    warn(CannotBuild(reason).note(), stacklevel=4)
    return BackendChoice(TORCH, reason)


def _chosen(
    asked: BackendChoice,
    model: Model,
    feed: Feed,
    source: Batches | InOrder,
    processes: Processes,
) -> BackendChoice:
    """The backend of a new run, which all of its processes have from now on.

    It depends on the amount of data alone: neither on machine code that happens to be there, nor
    on the number of epochs, so that a run which was stopped early equals a shorter one.
    """
    if asked.backend != AUTO:
        return asked
    from fgg.runtime.native.jobs import Job
    from fgg.runtime.program.prepared_batch import number_type

    dtype, device = number_type([*model.parameters(), *model.buffers()])
    batches = feed.checked(model.program, source)
    choice = Job(batches=batches, dtype=dtype, device=device, times=EPOCHS).choice()
    if processes.any(choice.backend == CPP) and choice.backend != CPP:
        choice = BackendChoice(CPP, "another process of this run has more to do")
    model.program.compiler.backend.settled = choice
    return choice


def _corpus(
    settings: RunSettings, asked: Grammar, paths: tuple[str, ...], potentials: str
) -> Corpus:
    """The data of a run. Raises GrammarError (F411, F478) unless there are the log-potentials."""
    corpus = read(*paths, format=settings.format, skip=settings.skip)
    if potentials:
        corpus = corpus.beside(read_potentials(asked, potentials))
    elif asked.input_factors:
        name, shown = asked.input_factors[0].name, ", ".join(f"`{path}`" for path in paths)
        message = f"log-potentials `{name}` are not given for the items in {shown}"
        refuse("F478", message, "`--potentials FILE`; those of held-out data: `--valid-potentials`")
    return preprocessed(corpus, settings.changes)


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
