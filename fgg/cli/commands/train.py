"""Train a model on data; the run is kept in a folder and can be taken up again at any moment."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.cli import Usage
from fgg.cli.data import add_data, changes_of, fields_given
from fgg.cli.output import print_json
from fgg.cli.passes import AUTO, add_jit, add_space, jit_of
from fgg.cli.target import add_file, assignments, load_target, need_grammar, only_query, seed_number

if TYPE_CHECKING:
    from fgg.data import ExampleBatch
    from fgg.runtime.train import Checkpoint, Epoch

IMPOSSIBLE = (
    "{:,} held-out items have probability 0. For words that are not in the training data, "
    "`--min-count 2` makes rare ones <unk>; `--option pseudo=0.1` adds to the counts of em."
)
METHODS = ("adam", "em", "online-em", "vb", "cvb", "hastings")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc train`."""
    add_file(parser, optional=True)
    parser.add_argument("--query", metavar="NAME", help="what the data are observations of")
    add_data(parser, several=True)
    parser.add_argument("--valid", metavar="PATH", nargs="+", default=[], help="held-out data")
    parser.add_argument("--method", choices=METHODS, default="em", help="how parameters are fitted")
    parser.add_argument("--epochs", type=int, metavar="N", help="sweeps over the data (10)")
    parser.add_argument("--out", metavar="DIR", required=True, help="the folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    parser.add_argument("--seed", type=seed_number, default=0, help="of the start and the order")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="of the parameters")
    parser.add_argument("--device", default="cpu", help="where to compute, `cuda`")
    parser.add_argument(
        "--tokens", type=int, metavar="N", help="tokens of a batch, padding included"
    )
    parser.add_argument("--prior", type=float, metavar="A", help="Dirichlet prior (vb, cvb, …)")
    parser.add_argument("--rate", type=float, metavar="R", help="learning rate (adam)")
    parser.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], help="of the method"
    )
    parser.add_argument(
        "--patience", type=int, default=0, metavar="N", help="stop after N epochs without progress"
    )
    parser.add_argument(
        "--save-every", type=float, default=60.0, metavar="SECONDS", help="checkpoints in an epoch"
    )
    add_space(parser)
    add_jit(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train, or go on training."""
    if (arguments.epochs or 0) < 0 or (arguments.tokens is not None and arguments.tokens < 1):
        raise Usage("`--epochs` is a number from 0 up, `--tokens` one from 1 up")
    from fgg.runtime.train.processes import joined

    with joined(arguments.device) as processes:
        from fgg.api.train import start

        asked = None if arguments.file is None else settings_of(arguments, processes.world)
        if asked is None and not arguments.resume:
            raise Usage("a grammar is needed", "`fggc train FILE --data PATH --out DIR`")
        if asked is not None and not arguments.data:
            raise Usage("data are needed", "`--data PATH`")
        with stoppable() as stopping, shown(arguments.json, processes.first) as show:
            trainer = start(
                Path(arguments.out),
                asked,
                resume=arguments.resume,
                epochs=arguments.epochs,
                every=arguments.save_every,
                device=arguments.device,
                jit=jit_of(arguments),
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


def settings_of(arguments: argparse.Namespace, world: int) -> Any:
    """The settings that the command line asks for."""
    from fgg.api.compile import selected
    from fgg.grammar.printer import print_grammar
    from fgg.runtime.model.saving import self_contained
    from fgg.runtime.train import RunSettings

    grammar = need_grammar(load_target(arguments), quiet=arguments.json)
    query = arguments.query
    if query is None and grammar.queries:
        query = only_query(grammar)
    selected(grammar, query)  # a query that there is not is told of by the grammar's own name
    options = dict(pair(text) for text in arguments.option)
    for name in ("prior", "rate"):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    given = assignments(arguments.set, "--set")
    alone = arguments.method in ("cvb", "hastings") and arguments.tokens is None
    return RunSettings(
        grammar=print_grammar(self_contained(grammar)),
        name=grammar.name,
        query=query,
        method=arguments.method,
        epochs=10 if arguments.epochs is None else arguments.epochs,
        seed=arguments.seed,
        dtype=arguments.dtype or ("float32" if arguments.method == "adam" else "float64"),
        space=arguments.space or AUTO,
        budget=0 if alone else arguments.tokens or 4096,
        options=options,
        data=tuple(arguments.data),
        valid=tuple(arguments.valid),
        format=arguments.format,
        fields=fields_given(arguments),
        changes={**changes_of(arguments), "sizes": given},
        skip=arguments.skip_bad,
        patience=arguments.patience,
        world=world,
    )


def pair(text: str) -> tuple[str, Any]:
    """A method's option as it is written: a number, a word, or several numbers.

    Those are apart by commas, `0.9,0.999`, or by name, `emit:0.1,trans:1`.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise Usage(f"`--option {text}`", "write NAME=VALUE")
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
    """Whether somebody has asked to stop, politely; a second time stops at once."""
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


class Show:
    """What is seen of a run: nothing."""

    def begin(self, at: Checkpoint, epochs: int) -> None:
        """A run begins, or goes on."""

    def batch(self, batch: ExampleBatch) -> None:
        """A batch is done."""

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is done."""


class Lines(Show):
    """A line an epoch, on standard error."""

    def begin(self, at: Checkpoint, epochs: int) -> None:
        """A run begins, or goes on."""
        if at.number:
            print(f"goes on in epoch {at.position.epoch + 1} of {epochs}", file=sys.stderr)

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is done."""
        print(described(epoch), file=sys.stderr, flush=True)


def described(epoch: Epoch) -> str:
    """An epoch in a line."""
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
    """A bar for the batches of an epoch besides."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar
        self.task = bar.add_task("epoch 1", total=None, rate="")
        self.tokens = 0
        self.size: int | None = None

    def begin(self, at: Checkpoint, epochs: int) -> None:
        """A run begins, or goes on."""
        super().begin(at, epochs)
        self.tokens = at.tokens

    def batch(self, batch: ExampleBatch) -> None:
        """A batch is done."""
        self.tokens += sum(batch.lengths)
        speed = self.bar.tasks[0].speed
        rate = f"{speed:,.0f} tokens/s" if speed else ""
        self.bar.update(self.task, completed=self.tokens, total=self.size, rate=rate)

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is done."""
        self.bar.console.print(described(epoch), highlight=False)
        self.size, self.tokens = epoch.tokens, 0
        self.bar.reset(self.task, description=f"epoch {epoch.epoch + 2}", total=self.size)


@contextmanager
def shown(quiet: bool, first: bool) -> Iterator[Show]:
    """What shows a run: a bar if somebody is there to see it, else lines; nothing with `--json`."""
    if quiet or not first or sys.stderr is None or sys.stderr.closed:
        yield Show()
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
    """Draw the curves, and say where everything is."""
    from fgg.api.train import MODEL, curves, history

    folder = Path(arguments.out)
    found = history(folder)
    if found:
        curves(folder, found)
    done = at.finished or at.position.epoch >= epochs
    if found and found[-1].get("impossible") and not arguments.json:
        print(IMPOSSIBLE.format(found[-1]["impossible"]), file=sys.stderr)
    if arguments.json:
        print_json(
            {
                "ok": True,
                "finished": done,
                "epochs": at.position.epoch,
                "folder": str(folder),
                "model": str(folder / MODEL) if (folder / MODEL).exists() else None,
                "metrics": found,
                "diagnostics": [],
            }
        )
    elif done:
        print(f"the model is {folder / MODEL}")
    else:
        print(f"stopped; `fggc train --resume --out {folder}` goes on")
