"""Grammar induction on CRAFT trees: `python -m examples.pcfg_induction`.

Trees of sentences from their words alone, by PCFGs with low-rank rules whose weights come from the
networks of the rank-space paper (Yang, Liu and Tu 2022, appendix A). The rank is fixed, and the
number of symbols grows: the paper's figure 6. Trees are those of minimum Bayes risk, computed in
rank space. Training ends after so many epochs; no tree decides anything.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import fgg
from examples.kept_training import KeptTraining, Look
from examples.report import Report, finish, kept_runs, parser, percent, say, spread
from fgg.data import Example, Vocabulary, build_vocabulary, find, read
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import span_cells
from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.item_batches import Items
from fgg.runtime.learn.method import SweepReport
from fgg.runtime.model.model import Model
from fgg.scores import left_branching, oracle_binary, right_branching, span_score

GRAMMAR = Path(__file__).parent / "neural_pcfg.fgg"
Spans = Collection[tuple[int, int]]
MEASURES = ("dev perplexity", "dev S-F1", "test perplexity", "test S-F1")


@dataclass(frozen=True)
class Part:
    """Sentences with their gold spans, and the numbers of their words."""

    examples: list[Example]
    inputs: list[list[int]]

    @staticmethod
    def of(examples: Sequence[Example], vocabulary: Vocabulary) -> Part:
        """Sentences as numbers of a vocabulary."""
        return Part(list(examples), [vocabulary.encode(e.words) for e in examples])

    def s_f1(self, trees: Sequence[Spans]) -> float:
        """Sentence-level F1 of trees, given as spans."""
        gold = [e.spans or () for e in self.examples]
        return span_score(gold, trees, list(map(len, self.inputs))).mean_f1


@dataclass(frozen=True)
class Corpus:
    """What is trained on, what is looked at after each epoch, and what is tested at the end."""

    train: Part
    dev: Part
    test: Part
    words: int


def corpus(given: argparse.Namespace) -> Corpus:
    """The treebank, with the most frequent words of its training sentences."""

    def sentences(part: str, longest: int) -> list[Example]:
        examples = read(find(f"craft_trees/{part}.trees.xz"))
        return [e for e in examples if 2 <= len(e) <= longest]

    train = sentences("train", given.longest)
    dev, test = sentences("dev", given.longest), sentences("test", 40)[:: given.every]
    dev = dev[:: max(len(dev) // 400, 1)][:400]
    if given.small:
        train, dev, test = train[:20], dev[:10], test[:10]
    vocabulary = build_vocabulary(train, most=given.words)
    parts = [Part.of(examples, vocabulary) for examples in (train, dev, test)]
    return Corpus(parts[0], parts[1], parts[2], len(vocabulary))


def equal_lengths(inputs: Sequence[list[int]], size: int, seed: int) -> Iterator[Items]:
    """Batches of so many sentences of equal length, in random order."""
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    for sentence in inputs:
        by_length[len(sentence)].append(sentence)
    draw = random.Random(seed)
    batches = []
    for sentences in by_length.values():
        draw.shuffle(sentences)
        batches += [sentences[i : i + size] for i in range(0, len(sentences), size)]
    draw.shuffle(batches)
    return (Items({"w": batch}) for batch in batches)


def parsed(model: Model, part: Part) -> tuple[float, float]:
    """Perplexity a word, and S-F1 of the trees of minimum Bayes risk."""
    order = sorted(range(len(part.inputs)), key=lambda i: len(part.inputs[i]))
    trees: dict[int, Spans] = {}
    log_z = 0.0
    with torch.no_grad():
        for first in range(0, len(order), 50):
            batch = order[first : first + 50]
            post = model.posterior(w=[part.inputs[i] for i in batch])
            log_z += float(post.log_z.sum())
            trees |= zip(batch, map(span_cells, post.mbr(values=False)), strict=True)
    f1 = part.s_f1([trees[i] for i in range(len(trees))])
    return math.exp(-log_z / sum(map(len, part.inputs))), f1


def grammar(given: argparse.Namespace, symbols: int, words: int) -> fgg.Grammar:
    """The PCFG with so many symbols, and twice as many preterminals."""
    net = f"residual(dim={given.dim}, layers=2, init=xavier)"
    text = GRAMMAR.read_text("utf-8").replace("residual(dim=64, layers=2)", net)
    sizes = {"nt": symbols, "pt": 2 * symbols, "r": given.rank, "words": words}
    return fgg.loads(text, sizes=sizes)


@dataclass
class Run:
    """A grammar with so many symbols that is trained from one seed."""

    given: argparse.Namespace
    own: Corpus
    symbols: int
    seed: int

    def __post_init__(self) -> None:
        names = ("longest", "words", "rank", "dim", "batch", "rate")
        settings = {name: getattr(self.given, name) for name in names}
        self.settings = settings | {"symbols": self.symbols, "seed": self.seed}
        self.runs = kept_runs(self.given, "pcfg_induction")

    def train(self, epochs: int) -> KeptTraining:
        """Train until there are so many epochs."""
        program = fgg.compile(grammar(self.given, self.symbols, self.own.words), space="rank")
        model = program.model(seed=self.seed, dtype=torch.float32)
        rate, seed = self.given.rate, self.seed
        method = Adam(model, rate=rate, betas=(0.75, 0.999), clip=3.0, seed=seed)
        training = KeptTraining(method, self.runs, self.settings)

        def sweep(epoch: int) -> SweepReport:
            order = 1000 * seed + epoch
            return method.sweep(equal_lengths(self.own.train.inputs, self.given.batch, order))

        training.run(epochs, sweep, lambda: self.look(model, "dev"))
        return training

    def tested(self, epochs: int) -> list[Look]:
        """What was seen after each of so many epochs, and of the test sentences after the last."""
        training = self.train(epochs)
        if len(training.looks) > epochs:
            raise SystemExit("more epochs than that have been trained: give a new folder as --runs")
        test = self.runs.run(
            self.settings | {"epochs": epochs, "every": self.given.every},
            lambda: self.look(training.method.model, "test"),
        )
        return [*training.looks[:-1], training.looks[-1] | test]

    def look(self, model: Model, part: str) -> Look:
        """Perplexity and S-F1 on `dev` or `test`."""
        perplexity, f1 = parsed(model, getattr(self.own, part))
        name = f"nt {self.symbols}, seed {self.seed}"
        say(f"{name}: {part} perplexity {perplexity:.1f}, S-F1 {percent(f1)}")
        return {f"{part} perplexity": perplexity, f"{part} S-F1": f1}


def branching(own: Corpus) -> Iterator[tuple[str, list[float]]]:
    """S-F1 on dev and test of trees that nothing was learned for, and of the best binary ones."""
    for name in ("left branching", "right branching", "oracle"):
        shares = []
        for part in (own.dev, own.test):
            lengths = list(map(len, part.inputs))
            if name == "oracle":
                gold = [e.spans or () for e in part.examples]
                guess = [oracle_binary(g, n) for g, n in zip(gold, lengths, strict=True)]
            else:
                branch = left_branching if name == "left branching" else right_branching
                guess = list(map(branch, lengths))
            shares.append(part.s_f1(guess))
        yield name, shares


def by_symbols(runs: Mapping[int, Sequence[Sequence[Look]]], flat: Mapping[str, float]) -> Plot:
    """S-F1 and perplexity of dev sentences by the number of nonterminals, the mean of all seeds."""
    counts = sorted(runs)
    lines = []
    for measure, label, scale in (
        ("dev S-F1", "S-F1, %", 100.0),
        ("dev perplexity", "perplexity / 10", 0.1),
    ):
        ends = {n: [scale * looks[-1][measure] for looks in runs[n]] for n in counts}
        means = tuple((float(n), sum(v) / len(v)) for n, v in ends.items())
        lines.append(Line(label=label, points=means))
    for name, value in flat.items():
        across = tuple((float(n), 100 * value) for n in (counts[0], counts[-1]))
        lines.append(Line(label=name, points=across, markers=False))
    return Plot(
        title="PCFG induction on words of CRAFT: development sentences",
        x="nonterminals (preterminals: twice as many)",
        lines=tuple(lines),
        log_x=True,
    )


def options() -> argparse.ArgumentParser:
    """What the command takes."""
    asked = parser(__doc__)
    asked.add_argument("--symbols", type=int, nargs="+", default=[10, 30, 100])
    asked.add_argument(
        "--test", type=int, nargs="*", default=[10, 100], help="those that parse test sentences"
    )
    asked.add_argument("--seeds", type=int, default=1)
    asked.add_argument("--epochs", type=int, default=2)
    asked.add_argument("--longest", type=int, default=20, help="words of a training sentence")
    asked.add_argument("--words", type=int, default=5000, help="words besides <unk>")
    asked.add_argument("--rank", type=int, default=128)
    asked.add_argument("--dim", type=int, default=256, help="the width of embeddings")
    asked.add_argument("--batch", type=int, default=4, help="sentences of a batch")
    asked.add_argument("--every", type=int, default=5, help="every how-manieth test sentence (5)")
    asked.add_argument("--rate", type=float, default=0.001)
    return asked


def main(arguments: Sequence[str] | None = None) -> Report:
    """Induce grammars, and report."""
    given = options().parse_args(arguments)
    if given.small:
        given.symbols, given.test, given.seeds, given.epochs = [2, 4], [4], 1, 1
        given.rank, given.dim, given.words = 4, 8, 50
    torch.set_num_threads(1)
    own = corpus(given)
    report = Report(
        name="pcfg_induction",
        title="PCFG induction on words of CRAFT",
        command="python -m examples.pcfg_induction",
        columns=["", *MEASURES, "seeds", "CPU seconds a seed"],
    )
    flat = {}
    for name, (dev, test) in branching(own):
        report.add(name, "", percent(dev), "", percent(test), "", "")
        if name != "oracle":
            flat[name] = dev
    runs: dict[int, list[list[Look]]] = {n: [] for n in given.symbols}
    for seed in range(given.seeds):
        mine = [Run(given, own, symbols, seed) for symbols in given.symbols]
        for epoch in range(given.epochs):
            for run in mine:
                run.train(epoch + 1)
        for run in mine:
            test = run.symbols in given.test
            looks = run.tested(given.epochs) if test else run.train(given.epochs).looks
            runs[run.symbols].append(looks)
    for symbols, seeds in runs.items():
        ends = [looks[-1] for looks in seeds]
        cells = []
        for measure in MEASURES:
            scale = 100.0 if "F1" in measure else 1.0
            values = [scale * end[measure] for end in ends if measure in end]
            cells.append(spread(values, ".1f") if values else "")
        seconds = spread([end["seconds"] for end in ends], ".0f")
        report.add(f"nt {symbols}, pt {2 * symbols}", *cells, len(seeds), seconds)
        report.numbers[f"nt {symbols}"] = seeds
        report.seconds += sum(end["seconds"] for end in ends)
    report.notes = [
        f"{len(own.train.inputs):,} training sentences of 2 to {given.longest} words, without "
        f"tags or trees; {own.words:,} words; rank {given.rank}, dim {given.dim}; Adam, rate "
        f"{given.rate:g}, batches of {given.batch} sentences of equal length, "
        f"{given.epochs} epochs",
        f"dev: {len(own.dev.inputs):,} sentences up to {given.longest} words; test: "
        f"{len(own.test.inputs):,} up to 40 words, one of {given.every}",
        "S-F1: mean over sentences, unlabelled, spans of one word and whole sentences left out; "
        "trees of minimum Bayes risk, in rank space; nothing is chosen by a tree",
    ]
    report.plot = by_symbols(runs, flat)
    return finish(report, given)


if __name__ == "__main__":
    main()
