"""HMM language models in rank space, from random networks: `python -m examples.rank_space_hmm`.

The networks are those of the rank-space paper (Yang, Liu and Tu 2022, appendix B), trained on the
beginning of WikiText-2. States and rank are swept one at a time (the paper's table 3), against
HMMs of other kinds, the same model with states and rank interchanged, and Kneser-Ney n-grams. A
model reads the text as one stream, in windows that carry its state.

`--parts` says what is trained: by `states` and by `rank` as it stands in the stored results, and
`swapped` and `other` kinds of models.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import fgg
import fgg.data as data
from examples.kept_training import KeptTraining, Look
from examples.large_hmm.baselines import KneserNey, unigram
from examples.large_hmm.text import END, Text, text, upto
from examples.report import Report, finish, kept_runs, parser, say
from fgg.draw.plot import Line, Plot
from fgg.runtime.learn.method import SweepReport
from fgg.runtime.learn.stream import StreamAdam
from fgg.runtime.model.stream_state import CarriedState, stream_perplexity

GRAMMAR = Path(__file__).parent / "large_hmm" / "stream_rank.fgg"
NETS = "each(linear(dim=128), linear(dim=128), residual(dim=128))"
STEP = f"factor step(T -> T, W) rank r with net = {NETS}"
EMIT = "factor emit(T -> W) with net = residual(dim=128)"
KINDS = {
    "low-rank step": STEP,
    "low-rank transitions": "factor trans(T -> T) rank r with net = linear(dim=128)\n" + EMIT,
    "dense": "factor trans(T -> T) with net = residual(dim=128)\n" + EMIT,
}
"""The factors of a step: state and word of rank r together, states of rank r, or neither."""


@dataclass(frozen=True)
class Setting:
    """A model: its kind, its sizes, and the space in which log Z is computed."""

    kind: str
    states: int
    rank: int
    space: str
    seed: int = 0

    def __str__(self) -> str:
        rank = f", rank {self.rank:,}" if self.rank else ""
        return f"{self.kind}: {self.states:,} states{rank}"

    def grammar(self, words: int, dim: int) -> fgg.Grammar:
        """Its grammar, with networks of this width."""
        source = GRAMMAR.read_text("utf-8")
        assert STEP in source
        source = source.replace(STEP, KINDS[self.kind])
        if self.kind != "low-rank step":
            source = source.replace("step(t, u, o)", "trans(t, u) emit(u, o)")
        source = source.replace("dim=128", f"dim={dim}")
        return fgg.loads(source, sizes={"k": self.states, "r": self.rank or 1, "d": words})


def carried() -> CarriedState:
    """The state goes from the end of a window to the beginning of the next one, the same node."""
    return CarriedState(names=("init", None, "first", "final"))


def rates(rate: float, epoch: int) -> float:
    """The learning rate of an epoch: the same in the first two, then half of it each time."""
    return float(rate * 0.5 ** max(0, epoch - 1))


def train(
    given: argparse.Namespace, own: Text, test: data.TokenStream, setting: Setting
) -> list[Look]:
    """What was seen after each epoch, and on the test text after the last."""
    program = fgg.compile(setting.grammar(len(own.vocabulary), given.dim), space=setting.space)
    model = program.model(seed=setting.seed, dtype=torch.float32)
    method = StreamAdam(model, rate=given.rate, clip=5.0, per="token", seed=setting.seed)
    names = ("dim", "rate", "rows", "length")
    settings = asdict(setting) | {name: getattr(given, name) for name in names}
    runs = kept_runs(given, "rank_space_hmm")
    training = KeptTraining(method, runs, settings)

    def sweep(epoch: int) -> SweepReport:
        for group in method.optimizer.param_groups:
            group["lr"] = rates(given.rate, epoch)
        method.carried = carried()
        return method.sweep_stream(own.windows("train", given.rows, given.length))

    def look(stream: data.TokenStream = own.test, name: str = "valid") -> Look:
        windows = data.Windows(tokens=stream, rows=16, length=64)
        value = stream_perplexity(model, windows, carried())
        say(f"{setting}: {name} {value:.1f}")
        return {name: value}

    training.run(given.epochs, sweep, look)
    if len(training.looks) > given.epochs:
        raise SystemExit("more epochs than that have been trained: give a new folder as --runs")
    last = runs.run(settings | {"epochs": given.epochs}, lambda: look(test, "test"))
    return [*training.looks[:-1], training.looks[-1] | last]


PARTS = ("states", "swapped", "other", "rank")


def all_settings(given: argparse.Namespace) -> dict[str, list[Setting]]:
    """The models, by the part of the table that they are in; the most telling ones first."""
    k, r = given.states, given.ranks
    middle = r[len(r) // 2]
    base = k[len(k) // 2]
    return {
        "states": [Setting("low-rank step", n, middle, "rank") for n in k],
        "swapped": [Setting("low-rank step", middle, base, "state")],
        "other": [
            Setting("low-rank transitions", base, middle, "state"),
            Setting("dense", middle, 0, "state"),
        ],
        "rank": [Setting("low-rank step", base, n, "rank") for n in r],
    }


def tested(own: Text, tokens: int) -> data.TokenStream:
    """The beginning of the test text."""
    path = data.find("wikitext2/test.txt.xz")
    examples = upto(data.read(path, format="words", blank=True), tokens)
    return data.token_stream(map(own.vocabulary.encoded, examples), end=own.vocabulary.index[END])


def by_size(
    rows: dict[Setting, list[Look]], flat: dict[str, float], given: argparse.Namespace
) -> Plot:
    """Test perplexity by states and by rank, and of the n-grams."""
    parts = all_settings(given)
    lines = []
    for name, other in (("states", "rank"), ("rank", "states")):
        values = [(float(getattr(s, name)), rows[s][-1]["test"]) for s in parts[name] if s in rows]
        points = sorted(values)
        fixed = f"{getattr(parts[name][0], other):,}"
        label = f"by {name}, {fixed} states" if other == "states" else f"by {name}, rank {fixed}"
        lines.append(Line(label=label, points=tuple(points)))
    ends = [x for line in lines for x, _ in line.points]
    for name, value in flat.items():
        across = ((min(ends), value), (max(ends), value))
        lines.append(Line(label=name.removeprefix("Kneser-Ney "), points=across, markers=False))
    return Plot(
        title="Rank-space HMMs: perplexity of test text",
        x="states, or rank",
        lines=tuple(lines),
        log_x=True,
    )


def options() -> argparse.ArgumentParser:
    """What the command takes."""
    asked = parser(__doc__)
    asked.add_argument("--states", type=int, nargs="+", default=[256, 1024, 4096])
    asked.add_argument("--ranks", type=int, nargs="+", default=[64, 256])
    asked.add_argument("--parts", nargs="+", choices=PARTS, default=["states", "rank"])
    asked.add_argument("--epochs", type=int, default=4)
    asked.add_argument("--dim", type=int, default=128, help="the width of embeddings")
    asked.add_argument("--rate", type=float, default=0.003)
    asked.add_argument("--rows", type=int, default=16, help="rows of a window")
    asked.add_argument("--length", type=int, default=32, help="tokens of a row of a window")
    return asked


def main(arguments: Sequence[str] | None = None) -> Report:
    """Train all, and report."""
    given = options().parse_args(arguments)
    limits = (300_000, 30_000, 5_000)
    if given.small:
        given.states, given.ranks, given.dim, given.epochs = [3, 4, 5], [2, 3, 4], 8, 1
        limits = (3_000, 500, 100)
    torch.set_num_threads(1)
    paths = [data.find(f"wikitext2/{part}.txt.xz") for part in ("train", "valid")]
    own = text(paths[0], paths[1], *limits)
    test = tested(own, 2 * limits[1])
    report = Report(
        name="rank_space_hmm",
        title="Rank-space HMMs as language models of WikiText-2",
        command="python -m examples.rank_space_hmm",
        columns=["", "space", "valid", "test", "CPU seconds"],
    )
    words, flat = len(own.vocabulary), {}
    train_ids = own.train.ids.tolist()
    streams = [own.test.ids.tolist(), test.ids.tolist()]
    report.add("unigram", "", *(unigram(train_ids, ids, words) for ids in streams), "")
    for order in (2, 5):
        counts = KneserNey(train_ids, order, words)
        values = [counts.perplexity(ids) for ids in streams]
        report.add(f"Kneser-Ney {order}-gram", "", *values, "")
        flat[f"Kneser-Ney {order}-gram"] = values[1]
    rows: dict[Setting, list[Look]] = {}
    parts = all_settings(given)
    for part in given.parts:
        for setting in parts[part]:
            if setting not in rows:
                rows[setting] = train(given, own, test, setting)
    for setting, looks in rows.items():
        last = looks[-1]
        seconds = f"{last['seconds']:.0f}"
        report.add(str(setting), setting.space, last["valid"], last["test"], seconds)
        report.seconds += last["seconds"]
        report.numbers[str(setting)] = {"curve": looks, **asdict(setting)}
    report.notes = [
        f"{len(own.train):,} training tokens, {len(own.test):,} of valid, {len(test):,} of test, "
        f"{words:,} words; `<unk>` and the ends of all lines count",
        f"networks of width {given.dim} from random numbers; AdamW, rate {given.rate:g} for two "
        f"epochs, then half of it each time; {given.epochs} epochs; {given.rows} x "
        f"{given.length} tokens a step; one seed",
    ]
    report.plot = by_size(rows, flat, given)
    return finish(report, given)


if __name__ == "__main__":
    main()
