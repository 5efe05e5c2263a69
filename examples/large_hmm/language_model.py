"""A large HMM as a language model of WikiText-2, its ablations, and what it is compared with.

    python -m examples.large_hmm.language_model
    python -m examples.large_hmm.language_model --whole

The first trains many kinds of models [VL §5, §6] on the beginning of the text, a short time each.
The second trains one model on the whole text with all its words. A line of the text is followed by
`<eos>`, blank lines too; words that are not among the most frequent ones are `<unk>`; perplexity is
a token, and both of them count.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import fgg.data as data
from examples.large_hmm.baselines import FeedForward, KneserNey, Recurrent, network, unigram
from examples.large_hmm.budget import Budget
from examples.large_hmm.models import BEGINNING, Setting, train
from examples.large_hmm.text import Text, text
from examples.report import Report, finish, parser, say
from fgg.draw.plot import Plot, lines

COMMAND = "python -m examples.large_hmm.language_model"
WHOLE = Setting(blocks=128, places=32, net="states(dim=128)", rows=64)


@dataclass(frozen=True)
class Row:
    """A line of the table. `beginning` is the perplexity of the first held-out tokens."""

    name: str
    perplexity: float
    epochs: float = nan
    seconds: float = nan
    beginning: float = nan
    setting: Setting | None = None
    curve: tuple[tuple[float, float], ...] = ()


def baselines(own: Text, seconds: float, dim: int = 256) -> Iterator[Row]:
    """What the HMMs are compared with; networks get so much time each."""
    train, test = own.train.ids.tolist(), own.test.ids.tolist()
    words = len(own.vocabulary)
    yield Row("unigram", unigram(train, test, words))
    for order in (2, 5):
        counts = KneserNey(train, order, words)
        first = counts.perplexity(test[:BEGINNING])
        yield Row(f"Kneser-Ney {order}-gram", counts.perplexity(test), beginning=first)
    torch.manual_seed(0)
    nets = {f"feed-forward 5-gram, {dim}": FeedForward, f"LSTM, 2 x {dim}": Recurrent}
    for name, kind in nets.items() if seconds else ():
        pair = own.windows("train"), own.windows("test")
        found = network(kind(words, dim), *pair, Budget(seconds))
        yield Row(name, found.perplexity, found.epochs, found.seconds)


def settings(sizes: Iterable[int], base: Setting) -> Iterator[Setting]:
    """The ablations, one thing changed at a time, and then the numbers of states."""
    scalar = replace(base, net="", rate=0.05)
    few = min(256, base.states)
    yield base
    yield replace(base, partition="uniform")
    yield replace(base, blocks=1, places=few, dropout=0.0)
    yield replace(scalar, blocks=1, places=few, dropout=0.0)
    yield replace(scalar, blocks=1, places=base.states, dropout=0.0)
    yield scalar
    for dropout in (0.0, 0.25, 0.75):
        yield replace(base, dropout=dropout)
    for states in sizes:
        yield replace(base, places=states // base.blocks)


def ablations(
    own: Text, folder: Path, seconds: float, base: Setting, sizes: Sequence[int], dim: int = 256
) -> Iterator[Row]:
    """All models of the first table, as they are trained."""
    yield from baselines(own, seconds, dim)
    for setting in dict.fromkeys(settings(sizes, base)):
        found = train(setting, own, folder, seconds)
        yield Row(str(setting), found.perplexity, found.epochs, found.seconds, setting=setting)


def whole(own: Text, folder: Path, given: argparse.Namespace, setting: Setting) -> Iterator[Row]:
    """The models of the second table."""
    yield from baselines(own, given.networks)
    every = given.seconds / 30
    found = train(setting, own, folder, given.seconds, clock=given.clock, every=every, note=say)
    yield Row(
        str(setting),
        found.perplexity,
        found.epochs,
        found.seconds,
        setting=setting,
        curve=found.curve,
    )


def by_states(rows: Sequence[Row], base: Setting) -> Plot:
    """Perplexity by number of states, as Figure 3, with the other models as lines across."""
    same = [r for r in rows if r.setting and r.setting == replace(base, places=r.setting.places)]
    points = sorted((float(r.setting.states), r.perplexity) for r in same if r.setting)
    ends = [points[0][0], points[-1][0]]
    flat = [(r.name, [(x, r.perplexity) for x in ends]) for r in rows if r.setting is None]
    named = [("HMM", points), *flat]
    return Plot(
        title="Perplexity by states", lines=lines(named), x="states", y="perplexity", log_x=True
    )


def by_time(rows: Sequence[Row]) -> Plot:
    """Perplexity of the beginning of the held-out text by time of training."""
    named = [(r.name, list(r.curve)) for r in rows if r.curve]
    ends = [named[0][1][0][0], named[0][1][-1][0]]
    named += [
        (r.name, [(x, r.beginning) for x in ends]) for r in rows if r.beginning == r.beginning
    ]
    return Plot(
        title=f"Perplexity of {BEGINNING:,} held-out tokens by time",
        lines=lines(named),
        x="seconds of CPU time",
        y="perplexity",
    )


def options() -> argparse.ArgumentParser:
    """What the command takes."""
    found = parser(__doc__)
    found.add_argument("--whole", action="store_true", help="the whole text, all words, one model")
    found.add_argument("--seconds", type=float, help="CPU time a model (20; --whole: 3900)")
    found.add_argument(
        "--networks", type=float, help="CPU time of the feed-forward net and the LSTM; 0: without"
    )
    found.add_argument(
        "--clock", type=float, default=inf, help="seconds by the clock at most, with --whole"
    )
    found.add_argument("--train", type=Path, help="another text to train on, a line a paragraph")
    found.add_argument("--test", type=Path, help="another text to test on")
    found.add_argument("--keep", type=Path, help="a folder for grammar, blocks and parameters")
    return found


def main(arguments: Sequence[str] | None = None) -> Report:
    """Train all, and report."""
    given = options().parse_args(arguments)
    torch.set_num_threads(1)
    base, dim = WHOLE if given.whole else Setting(), 256
    sizes: tuple[int, ...] = (256, 512, 2048, 4096)
    limits = () if given.whole else (300_000, 30_000, 5_000)
    seconds = 3900.0 if given.whole else 20.0
    if given.small:
        base = replace(base, blocks=8, places=4, net="states(dim=16)")
        sizes, dim, seconds, limits = (16,), 16, 0.5, (3_000, 1_000, 200)
    given.seconds = given.seconds or seconds
    if given.networks is None:
        given.networks = given.seconds
    paths = [given.train, given.test]
    for place, name in enumerate(("train", "valid")):
        paths[place] = paths[place] or data.find(f"wikitext2/{name}.txt.xz")
    own = text(paths[0], paths[1], *limits)
    rows: list[Row] = []
    with TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if given.whole:
            found = whole(own, folder, given, base)
        else:
            found = ablations(own, folder, given.seconds, base, sizes, dim)
        for row in found:
            rows.append(row)
            say(f"{row.name}: {row.perplexity:.1f}")
    return finish(report(rows, own, given, base), given)


def report(rows: Sequence[Row], own: Text, given: argparse.Namespace, base: Setting) -> Report:
    """The table, notes and plot."""
    found = Report(
        name="large_hmm_whole" if given.whole else "large_hmm",
        title="Large HMMs as language models of WikiText-2" + ", whole" * given.whole,
        command=COMMAND + " --whole" * given.whole + " --networks 0" * (given.networks == 0),
        columns=["", "perplexity", "epochs", "CPU seconds"],
    )
    for row in rows:
        epochs = "" if row.epochs != row.epochs else f"{row.epochs:.2f}"
        seconds = "" if row.seconds != row.seconds else f"{row.seconds:.0f}"
        found.add(row.name, row.perplexity, epochs, seconds)
    found.numbers = {
        row.name: {
            "perplexity": row.perplexity,
            "epochs": row.epochs,
            "seconds": row.seconds,
            "beginning": row.beginning,
        }
        | ({"curve": row.curve} if row.curve else {})
        for row in rows
    }
    for own_numbers in found.numbers.values():  # JSON has no nan
        for key in [key for key, value in own_numbers.items() if value != value]:
            del own_numbers[key]
    found.notes = [
        f"{len(own.train):,} training tokens, {len(own.test):,} held out (`valid`), "
        f"{len(own.vocabulary):,} words; `<unk>` and the ends of all lines count",
        f"AdamW, rate {base.rate:g} (scalar: 0.05, networks: 0.003), falling to 0 over the time; "
        f"{base.rows} x {base.length} tokens a step, networks 16 x 32; one seed",
    ]
    found.plot = by_time(rows) if given.whole else by_states(rows, base)
    return found


if __name__ == "__main__":
    main()
