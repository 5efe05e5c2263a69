"""A large HMM as a language model, its ablations, and what it is compared with [VL §5, §6].

    python -m examples.large_hmm.language_model [FOLDER] [SECONDS]

trains each model for so many seconds of CPU time on a part of WikiText-2, and writes a table
(`table.txt`) and a plot of perplexity by number of states (`states.svg`). A line of the text is
followed by `<eos>`, blank lines too; words that are not among the most frequent ones are `<unk>`;
perplexity is a token, and both of them count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from time import process_time

import numpy as np
import torch

import fgg
import fgg.data as data
from examples.large_hmm.baselines import (
    FeedForward,
    KneserNey,
    Recurrent,
    for_seconds,
    network,
    unigram,
)
from fgg.clusters import brown, uniform
from fgg.draw.plot import Plot, lines, to_svg
from fgg.runtime.carrying import Carried, stream_perplexity
from fgg.runtime.thinning import StateDropout

HERE = Path(__file__).resolve().parent
END = "<eos>"


@dataclass(frozen=True)
class Setting:
    """A large HMM: how words get into blocks, states, dropout, what makes its parameters."""

    partition: str = "brown"
    blocks: int = 32
    places: int = 32
    dropout: float = 0.5
    net: str = "states(dim=64)"
    rate: float = 1e-2

    @property
    def states(self) -> int:
        """The number of states."""
        return self.blocks * self.places

    def __str__(self) -> str:
        kind = "neural" if self.net else "scalar"
        blocks = "dense" if self.blocks == 1 else f"{self.partition} {self.blocks} x {self.places}"
        return f"HMM {self.states}, {blocks}, dropout {self.dropout}, {kind}"


@dataclass(frozen=True)
class Text:
    """Streams of a text for training and testing."""

    train: data.Tokens
    test: data.Tokens
    vocabulary: data.Vocabulary
    known: list[list[str]]

    def windows(self, part: str, rows: int = 16, length: int = 32) -> data.Windows:
        """The windows of a stream."""
        return data.Windows(tokens=getattr(self, part), rows=rows, length=length)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    perplexity: float
    epochs: float = nan
    setting: Setting | None = None


def text(train: Path, test: Path, tokens: int, held_out: int, words: int) -> Text:
    """The beginnings of two files, with the most frequent words of the first."""
    parts = [
        list(upto(data.read(path, format="words", blank=True), many))
        for path, many in ((train, tokens), (test, held_out))
    ]
    vocabulary = data.build_vocabulary(parts[0], most=words, extra=(END,))
    end = vocabulary.index[END]
    own = [data.token_stream(map(vocabulary.encoded, part), end=end) for part in parts]
    known = [[*map(vocabulary.known, example.words), END] for example in parts[0]]
    return Text(own[0], own[1], vocabulary, known)


def upto(examples: Iterable[data.Example], tokens: int) -> Iterator[data.Example]:
    """The first examples, until they have so many tokens, ends counted."""
    count = 0
    for example in examples:
        count += len(example) + 1
        if count > tokens:
            return
        yield example


def grammar(setting: Setting, own: Text, folder: Path) -> fgg.Grammar:
    """The grammar of a setting, with its blocks in a file beside it."""
    partition = brown if setting.partition == "brown" else uniform
    blocks = partition(own.known, setting.blocks).block_of()
    table = [blocks.get(word, 0) for word in own.vocabulary.values]
    np.save(folder / "blocks.npy", np.array(table, np.int64))
    found = (HERE / "stream.fgg").read_text("utf-8")
    found = found.replace("map(cycle)", 'map("blocks.npy")')
    if setting.net:
        for factor in ("init(-> T)", "trans(T -> T)"):
            found = found.replace(f"factor {factor}", f"factor {factor} with net = {setting.net}")
        found = found.replace("blocks = clusters", f"blocks = clusters, net = {setting.net}")
    path = folder / "model.fgg"
    path.write_text(found, "utf-8")
    sizes = {"m": setting.blocks, "k": setting.places, "d": len(own.vocabulary)}
    return fgg.load(path, sizes=sizes)


def train(setting: Setting, own: Text, folder: Path, seconds: float, seed: int = 0) -> Row:
    """A large HMM after so much training: AdamW on windows, the state carried over."""
    model = fgg.compile(grammar(setting, own, folder)).model(seed=seed)
    dropout = StateDropout(model, "K", setting.dropout) if setting.dropout else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=setting.rate)
    generator = torch.Generator().manual_seed(seed)
    carried = Carried()

    def step(window: data.Window) -> None:
        optimizer.zero_grad(set_to_none=True)
        if dropout is None:
            log_z = carried.log_z(model.program, model.weights(), window)
        else:
            kept = dropout.draw(generator)
            log_z = carried.log_z(dropout.program, dropout.weights(kept), window, kept)
        torch.autograd.backward(-log_z.sum() / int(window.lengths.sum()))
        carried.advance()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    model.train()
    epochs = for_seconds(own.windows("train"), seconds, step)
    perplexity = stream_perplexity(model, own.windows("test"))
    return Row(str(setting), perplexity, epochs, setting)


def baselines(own: Text, seconds: float, dim: int = 256) -> Iterator[Row]:
    """What the HMMs are compared with; networks get as much time as they do."""
    train, test = own.train.ids.tolist(), own.test.ids.tolist()
    words = len(own.vocabulary)
    yield Row("unigram", unigram(train, test, words))
    for order in (2, 5):
        yield Row(f"Kneser-Ney {order}-gram", KneserNey(train, order, words).perplexity(test))
    torch.manual_seed(0)
    pairs = own.windows("train"), own.windows("test")
    yield Row(f"feed-forward 5-gram, {dim}", network(FeedForward(words, dim), *pairs, seconds))
    yield Row(f"LSTM, 2 x {dim}", network(Recurrent(words, dim), *pairs, seconds))


def settings(sizes: Iterable[int], base: Setting) -> Iterator[Setting]:
    """The ablations, one thing changed at a time, and then the numbers of states."""
    scalar = replace(base, net="", rate=0.05)
    yield base
    yield replace(base, partition="uniform")
    # A dense model can have few states only, if it is to see any data in the time.
    yield replace(base, blocks=1, places=min(256, base.states), dropout=0.0)
    yield replace(scalar, blocks=1, places=min(256, base.states), dropout=0.0)
    yield scalar
    for dropout in (0.0, 0.25, 0.75):
        yield replace(base, dropout=dropout)
    for states in sizes:
        yield replace(base, places=states // base.blocks)


def main(
    folder: Path,
    seconds: float = 20.0,
    files: tuple[Path, Path] | None = None,
    tokens: int = 300_000,
    held_out: int = 30_000,
    words: int = 5_000,
    base: Setting | None = None,
    sizes: tuple[int, ...] = (256, 512, 2048),
    dim: int = 256,
) -> list[Row]:
    """Train all, write the table and the plot."""
    folder.mkdir(parents=True, exist_ok=True)
    base = base or Setting()
    paths = files or (data.find("wikitext2/train.txt.xz"), data.find("wikitext2/valid.txt.xz"))
    own = text(*paths, tokens, held_out, words)
    print(f"{len(own.train):,} tokens, {len(own.test):,} held out, {len(own.vocabulary):,} words")
    rows: list[Row] = []

    def note(row: Row) -> None:
        rows.append(row)
        print(line(row), flush=True)
        (folder / "table.txt").write_text("".join(line(r) + "\n" for r in rows), "utf-8")

    for row in baselines(own, seconds, dim):
        note(row)
    for setting in dict.fromkeys(settings(sizes, base)):
        begun = process_time()
        note(train(setting, own, folder, seconds))
        print(f"  {process_time() - begun:.0f} s of CPU", file=sys.stderr, flush=True)
    changed = [
        r
        for r in rows
        if r.setting is not None and r.setting == replace(base, places=r.setting.places)
    ]
    points = sorted((float(r.setting.states), r.perplexity) for r in changed if r.setting)
    flat = [r for r in rows if r.setting is None]
    ends = [points[0][0], points[-1][0]]
    named = [("HMM", points), *((r.name, [(x, r.perplexity) for x in ends]) for r in flat)]
    plot = Plot(
        title="Perplexity by states", lines=lines(named), x="states", y="perplexity", log_x=True
    )
    (folder / "states.svg").write_text(to_svg(plot), "utf-8")
    return rows


def line(row: Row) -> str:
    """A row as text."""
    epochs = "" if row.epochs != row.epochs else f"{row.epochs:8.2f} epochs"
    return f"{row.name:52} {row.perplexity:10.1f} {epochs}".rstrip()


if __name__ == "__main__":
    given = sys.argv[1:]
    place = Path(given[0] if given else "language_model")
    if len(given) > 1:
        main(place, float(given[1]))
    else:
        main(place)
