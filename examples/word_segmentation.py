"""Cantonese words without spaces: `python -m examples.word_segmentation`.

HKCanCor, utterances as characters. A sentence is a chain of words (`words.fgg`), and any part of at
most four characters that occurs twice may be one. Without words to learn from, priors decide: a
flat one, or one that makes long words unlikely as a Dirichlet process would (Goldwater, Griffiths
and Johnson 2009). With gold words (parts that are no words are ruled out) one sweep counts them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fgg
from examples.report import Report, finish, parser, percent, say
from fgg.data import Example, Vocabulary, as_characters, find, read
from fgg.data.preprocessing import part_ids
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import segments
from fgg.runtime.learn import METHODS, Method
from fgg.runtime.learn.fitting import batched
from fgg.runtime.train.feed import parts
from fgg.scores import segment_score

GRAMMAR = Path(__file__).parent / "words.fgg"
LONGEST = 4
STRENGTH = 200.0
"""The sum of the prior's counts, where it is that of a process."""


@dataclass(frozen=True)
class Way:
    """A way to fit the model."""

    label: str
    method: str
    classes: int = 1
    supervised: bool = False
    shaped: bool = False
    sweeps: int = 15


WAYS = (
    Way("EM, unigrams", "em"),
    Way("VB, unigrams, flat prior", "vb"),
    Way("VB, unigrams, prior by length", "vb", shaped=True),
    Way("VB, 8 classes, prior by length", "vb", classes=8, shaped=True),
    Way("gold words, unigrams", "vb", supervised=True, shaped=True, sweeps=2),
    Way("gold words, 8 classes", "vb", classes=8, supervised=True, shaped=True),
)


def base(words: Sequence[str], letters: Counter[str]) -> Tensor:
    """A distribution over words: characters are drawn until, with probability 1/2, one is last."""
    total = sum(letters.values())
    logs = [sum(math.log(letters[c] / total / 2) for c in word) for word in words]
    return torch.tensor(logs, dtype=torch.float64).softmax(0)


def gold_parts(ids: list[list[int]], example: Example) -> list[list[int]]:
    """The parts of an utterance, those that are no words ruled out."""
    known = set(example.segments or ())
    return [[x if (i, j) in known else -2 for j, x in enumerate(row)] for i, row in enumerate(ids)]


def main(arguments: Sequence[str] | None = None) -> Report:
    """Fit in all ways, and report."""
    options = parser(__doc__)
    options.add_argument("--utterances", type=int, default=3000, help="training data (3000)")
    options.add_argument("--held", type=int, default=600, help="test data (600)")
    given = options.parse_args(arguments)
    ways: Sequence[Way] = WAYS
    if given.small:
        given.utterances, given.held, ways = 20, 5, [WAYS[2], WAYS[4]]
    torch.set_num_threads(1)
    train, test = (
        list(read(find(f"hkcancor/{part}.txt"), format="tagged").map(as_characters))[:count]
        for part, count in (("train", given.utterances), ("test", given.held))
    )
    both = [*train, *test]
    counts = Counter(part for example in parts(both, LONGEST) for part in example.words)
    single = {c for e in both for c in e.words}
    lexicon = [part for part, count in counts.items() if count > 1 or part in single]
    gold = {"".join(e.words[i:j]) for e in train for i, j in e.segments or ()}
    lexicon += sorted(gold - set(lexicon))
    vocabulary = Vocabulary(values=tuple(lexicon), unknown=None)
    letters = Counter(c for e in both for word in e.words for c in word)
    shape = base(lexicon, letters)
    inputs = [part_ids(e.words, vocabulary.index) for e in train]
    held = [part_ids(e.words, vocabulary.index) for e in test]
    right = [e.segments or () for e in test]
    report = Report(
        name="word_segmentation",
        title="Cantonese word segmentation (HKCanCor)",
        command="python -m examples.word_segmentation",
        columns=["", "boundary F1", "word F1", "words a sentence", "seconds"],
    )

    def add(label: str, found: Sequence[Sequence[tuple[int, int]]], seconds: str = "") -> float:
        score = segment_score(right, found)
        mean = sum(map(len, found)) / len(found)
        shares = score.boundaries.f1, score.parts.f1
        report.add(label, *map(percent, shares), f"{mean:.1f}", seconds)
        report.numbers[label] = {"boundaries": shares[0], "words": shares[1], "mean": mean}
        say(label, *map(percent, shares), seconds)
        return score.parts.f1

    add("gold", right)
    add("every character", [[(i, i + 1) for i in range(len(e))] for e in test])
    add(
        "pairs of characters",
        [[(i, min(i + 2, len(e))) for i in range(0, len(e), 2)] for e in test],
    )
    add("one word", [[(0, len(e))] for e in test])
    shown: list[tuple[float, float]] = []
    for way in ways:
        grammar = fgg.load(GRAMMAR, sizes={"lexicon": len(lexicon), "k": way.classes})
        program = fgg.compile(grammar)
        model = program.model(seed=0, dtype=torch.float64)
        noise = torch.rand(
            (way.classes, len(lexicon)),
            generator=torch.Generator().manual_seed(0),
            dtype=torch.float64,
        )
        weights = shape * (0.5 + noise) if way.shaped else 0.5 + noise
        settings: dict[str, Any] = {"weights": {"word": weights / weights.sum(-1, keepdim=True)}}
        if way.method == "em":
            settings["pseudo"] = 0.001
        else:
            prior = STRENGTH * shape.expand(way.classes, -1) if way.shaped else 0.001
            settings["prior"] = {"word": prior, "first": 1.0, "next": 1.0, "more": 1.0}
        before = time.process_time()
        fitting: Method = METHODS[way.method](model, **settings)
        own = inputs
        if way.supervised:
            own = [gold_parts(ids, e) for ids, e in zip(inputs, train, strict=True)]
        ready = [fitting.ready(b) for b in batched(model, own, way.method)]
        for _ in range(way.sweeps if not given.small else 2):
            fitting.sweep(ready)
        seconds = time.process_time() - before
        found = [
            segments(t, len(e)) for t, e in zip(model.posterior(s=held).best(), test, strict=True)
        ]
        shown.append((len(shown) + 1.0, 100 * add(way.label, found, f"{seconds:.0f}")))
    report.notes = [
        f"{len(train):,} training and {len(test):,} test utterances, {len(lexicon):,} possible "
        f"words: parts of both of at most {LONGEST} characters that occur twice, single "
        "characters, and the words of the training data",
        "F1 pooled over utterances; a word counts if both its ends are right",
    ]
    naive = report.numbers["every character"]["words"]
    report.plot = Plot(
        title="Word F1 on HKCanCor, in the order of the table",
        x="way",
        y="percent",
        lines=(
            Line(label="models", points=tuple(shown), joined=False),
            Line(
                label="every character",
                points=tuple((x, 100 * naive) for x, _ in shown),
                markers=False,
            ),
        ),
    )
    return finish(report, given)


if __name__ == "__main__":
    main()
