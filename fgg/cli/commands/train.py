"""Fit a model to data. The run is kept in a folder; it can be stopped and resumed at any time."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.cli.arguments import Parser, Usage, assignments
from fgg.cli.options_compiler import add_backend, add_space
from fgg.cli.options_data import add_potentials, add_training_data, changes_of, fields_given
from fgg.cli.options_model import add_declarations, add_file, load_grammar, query_of, saved_model
from fgg.cli.output import print_report
from fgg.plan.backend import AUTO
from fgg.progress import notes_to

if TYPE_CHECKING:
    from rich.progress import Progress

    from fgg.data import ExampleBatch
    from fgg.runtime.train import Checkpoint, Epoch, RunSettings

OptionValue = bool | int | float | str | list[float] | dict[str, float]

IMPOSSIBLE = (
    "{:,} held-out items have probability 0. If they have words that are not in the training "
    "data, `--min-count 2` replaces rare words by <unk>; `--option pseudo=0.1` smooths em."
)
ONE_BY_ONE = ("cvb", "variable-cvb", "exact-cvb", "hastings")
METHODS = ("adam", "em", "online-em", "vb", "cvb", "variable-cvb", "exact-cvb", "hastings", "gibbs")


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc train`."""
    add_file(parser, optional=True)
    parser.value("--query", "NAME", "the query that the data are inputs of")
    add_training_data(parser)
    parser.values("--valid", "PATH", "held-out data")
    add_potentials(parser)
    parser.value("--valid-potentials", "FILE", "log-potentials of the held-out data")
    parser.choice("--method", METHODS, "how to fit the model", default="em")
    parser.value("--epochs", "N", "passes over the data (default: 10)", type=int)
    parser.add_argument("--out", metavar="DIR", required=True, help="the folder of the run")
    parser.flag("--resume", "resume the run in the folder")
    parser.flag("--migrate", "resume with other data or options; all counts are dropped")
    parser.seed("the random seed")
    parser.choice(
        "--dtype",
        ("float32", "float64"),
        "the type of parameters (default: by method)",
    )
    parser.value("--device", "DEVICE", "where to compute: cpu, cuda, cuda:1", default="cpu")
    parser.value(
        "--tokens",
        "N",
        "tokens in a batch, padding included (default: 4096; cvb, exact-cvb, hastings: one item)",
        type=int,
    )
    parser.value("--prior", "A", "Dirichlet prior (vb, cvb, hastings, gibbs)", type=float)
    parser.value("--rate", "R", "learning rate (adam)", type=float)
    parser.repeated("--option", "NAME=VALUE", "an option of the method: `pseudo=0.1`")
    parser.value("--patience", "N", "stop after N checks without progress", type=int, default=0)
    parser.value(
        "--checks",
        "N",
        "look at held-out data N times an epoch (adam, online-em; default: 1)",
        type=int,
        default=1,
    )
    parser.value(
        "--save-every",
        "SECONDS",
        "time between two checkpoints in an epoch (default: 60)",
        type=float,
        default=60.0,
    )
    add_declarations(parser)
    add_space(parser)
    add_backend(parser)


def run(arguments: argparse.Namespace) -> int:
    """Start a training run or resume one."""
    if (arguments.epochs or 0) < 0 or (arguments.tokens is not None and arguments.tokens < 1):
        raise Usage("`--epochs` must be at least 0, and `--tokens` at least 1")
    if arguments.patience < 0 or not arguments.save_every >= 0:
        raise Usage("`--patience` and `--save-every` must be at least 0")
    if arguments.checks < 1:
        raise Usage("`--checks` must be at least 1")
    from fgg.runtime.devices import usable_device
    from fgg.runtime.train.processes import joined

    usable_device(arguments.device)
    with joined(arguments.device) as processes:
        from fgg.api.start_run import start

        asked = None if arguments.file is None else settings_of(arguments, processes.world)
        if asked is None and not arguments.resume:
            raise Usage("a grammar is needed", "`fggc train FILE --data PATH --out DIR`")
        if asked is not None and not arguments.data:
            raise Usage("data are needed", "`--data PATH`")
        if arguments.migrate and not arguments.resume:
            raise Usage("`--migrate` is for a run that is resumed", "add `--resume`")
        with (
            stoppable() as stopping,
            shown(arguments.json, processes.first) as show,
            notes_to(show.note),
        ):
            trainer = start(
                Path(arguments.out),
                asked,
                resume=arguments.resume,
                migrate=arguments.migrate,
                given=given_again(arguments),
                every=arguments.save_every,
                device=arguments.device,
                processes=processes,
                stopping=stopping,
                report=show.epoch,
                tick=show.batch,
            )
            show.begin(trainer.at, trainer.epochs)
            at = trainer.run()
        if processes.first:
            finish(arguments, at, trainer.epochs)
        done = at.finished or at.position.epoch >= trainer.epochs
        return 0 if done else 130


def settings_of(arguments: argparse.Namespace, world: int) -> RunSettings:
    """Return the settings of a run that the command line asks for."""
    from fgg.api.compile import selected
    from fgg.grammar.printer import print_grammar
    from fgg.runtime.model.saving import self_contained
    from fgg.runtime.train import RunSettings

    grammar, _ = load_grammar(arguments)
    query = query_of(grammar, arguments)
    selected(grammar, query)  # raises an error with the grammar's name if there is no such query
    options = dict(option_value(text) for text in arguments.option)
    for name in ("prior", "rate"):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    saved = saved_model(arguments.file)
    if saved and (arguments.rank or arguments.merge or arguments.merge_rule):
        raise Usage("a trained model keeps its ranks and its factors", "give the grammar instead")
    known = saved.preprocessing.changes if saved else {}
    fixed = {"sizes": assignments(arguments.set, "--set")}
    alone = arguments.method in ONE_BY_ONE and arguments.tokens is None
    return RunSettings(
        grammar=print_grammar(self_contained(grammar)),
        name=grammar.name,
        query=query,
        method=arguments.method,
        epochs=10 if arguments.epochs is None else arguments.epochs,
        seed=arguments.seed,
        dtype=arguments.dtype or ("float32" if arguments.method == "adam" else "float64"),
        space=arguments.space or AUTO,
        backend=arguments.backend,
        budget=0 if alone else arguments.tokens or 4096,
        options=options,
        data=tuple(arguments.data),
        valid=tuple(arguments.valid),
        potentials=arguments.potentials or "",
        valid_potentials=arguments.valid_potentials or "",
        format=arguments.format or (saved.preprocessing.format if saved else None),
        fields=fields_given(arguments) or (saved.preprocessing.fields if saved else {}),
        changes={**known, **changes_of(arguments), **fixed},
        skip=arguments.skip_bad,
        patience=arguments.patience,
        checks=arguments.checks,
        world=world,
        initial=arguments.file if saved else "",
    )


def given_again(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a run that may be given when it is resumed without a grammar."""
    given: dict[str, Any] = {} if arguments.epochs is None else {"epochs": arguments.epochs}
    for name in ("data", "valid"):
        if getattr(arguments, name):
            given[name] = tuple(getattr(arguments, name))
    for name in ("potentials", "valid_potentials"):
        if getattr(arguments, name):
            given[name] = getattr(arguments, name)
    return given


def option_value(text: str) -> tuple[str, OptionValue]:
    """Return the name and the value of an option NAME=VALUE. Raises Usage.

    A value is a number, a word, a list of numbers, `0.9,0.999`, or numbers by name,
    `emit:0.1,trans:1`.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise Usage(f"`--option {text}` is not of the form NAME=VALUE")
    if value in ("yes", "no"):
        return name, value == "yes"
    try:
        if ":" in value:
            named = (part.partition(":") for part in value.split(","))
            return name, {key: float(number) for key, _, number in named}
        if "," in value:
            return name, [float(part) for part in value.split(",")]
    except ValueError:
        return name, value
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            pass
    return name, value


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether a signal asked to stop; a second Ctrl-C stops at once."""
    asked: list[int] = []

    def note(number: int, frame: object) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


class Display:
    """Shows a run; this one shows nothing."""

    def begin(self, at: Checkpoint, epochs: int) -> None:
        """Show that a run begins or resumes."""

    def batch(self, batch: ExampleBatch) -> None:
        """Show that a batch is done."""

    def epoch(self, epoch: Epoch) -> None:
        """Show that an epoch is done."""

    def note(self, text: str) -> None:
        """Show what takes a while before the first batch is done."""


class Lines(Display):
    """Prints a line for each epoch to standard error."""

    def begin(self, at: Checkpoint, epochs: int) -> None:
        """Show that a run begins or resumes."""
        if at.number and at.position.epoch >= epochs:
            count = "1 epoch is" if epochs == 1 else f"all {epochs} epochs are"
            print(f"{count} done", file=sys.stderr)
        elif at.number:
            print(f"resuming in epoch {at.position.epoch + 1} of {epochs}", file=sys.stderr)

    def epoch(self, epoch: Epoch) -> None:
        """Show that an epoch is done."""
        print(described(epoch), file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Show what takes a while before the first batch is done."""
        print(text, file=sys.stderr, flush=True)


def described(epoch: Epoch) -> str:
    """Return the line for an epoch."""
    text = f"epoch {epoch.epoch + 1}: {epoch.kind} {epoch.objective:.6g}"
    text += f", perplexity {epoch.perplexity:.5g}"
    if epoch.valid is not None:
        text += f", held out {epoch.valid:.5g}"
    if epoch.impossible:
        text += f" ({epoch.impossible:,} impossible)"
    if epoch.wider:
        text += f", {epoch.wider:,} items with more range"
    more = "".join(f", {name} {value:.4g}" for name, value in epoch.details.items())
    return f"{text}{more} ({epoch.tokens_per_second:,.0f} tokens/s)"


class Bars(Lines):
    """Draws a bar for the batches of an epoch, too."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task = bar.add_task("", total=None, rate="")
        self.tokens = 0
        self.epochs = 0
        self.size: int | None = None

    def begin(self, at: Checkpoint, epochs: int) -> None:
        """Show that a run begins or resumes."""
        super().begin(at, epochs)
        self.tokens, self.epochs = at.tokens, epochs
        self.show(at.position.epoch + 1)

    def show(self, number: int) -> None:
        """Show a bar for an epoch, counted from 1; none after the last one."""
        text = f"epoch {number} of {self.epochs}"
        left = number <= self.epochs
        self.bar.reset(self.task, description=text, total=self.size, visible=left)

    def batch(self, batch: ExampleBatch) -> None:
        """Show that a batch is done."""
        self.tokens += sum(batch.lengths)
        speed = self.bar.tasks[0].speed
        rate = f"{speed:,.0f} tokens/s" if speed else ""
        self.bar.update(self.task, completed=self.tokens, total=self.size, rate=rate)

    def epoch(self, epoch: Epoch) -> None:
        """Show that an epoch is done."""
        self.bar.console.print(described(epoch), highlight=False)
        self.size, self.tokens = epoch.tokens, 0
        self.show(epoch.epoch + 2)

    def note(self, text: str) -> None:
        """Show what takes a while before the first batch is done."""
        self.bar.console.print(text, highlight=False)


@contextmanager
def shown(quiet: bool, first: bool) -> Iterator[Display]:
    """Give a display: a bar on a terminal, else lines; nothing with `--json`."""
    if quiet or not first or sys.stderr is None or sys.stderr.closed:
        yield Display()
        return
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Bars(bar)


def finish(arguments: argparse.Namespace, at: Checkpoint, epochs: int) -> None:
    """Draw the curves, and print where the model is."""
    from fgg.api.train import MODEL, curves, history

    folder = Path(arguments.out)
    metrics = history(folder)
    if metrics:
        curves(folder, metrics)
    done = at.finished or at.position.epoch >= epochs
    if metrics and metrics[-1].get("impossible") and not arguments.json:
        print(IMPOSSIBLE.format(metrics[-1]["impossible"]), file=sys.stderr)
    if arguments.json:
        print_report(
            {
                "finished": done,
                "epochs": at.position.epoch,
                "folder": str(folder),
                "model": str(folder / MODEL) if (folder / MODEL).exists() else None,
                "metrics": metrics,
            }
        )
    elif done:
        print(f"the model is {folder / MODEL}")
    else:
        print(f"stopped; `fggc train --resume --out {folder}` resumes it")
