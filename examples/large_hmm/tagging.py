"""Tags from a large HMM: states emit a word and a tag [VL, draft §5.2], trained on tagged text.

    python -m examples.large_hmm.tagging [FOLDER]

trains on the English Web Treebank (states are latent, words and tags are seen), and compares the
accuracy of the tags with that of each word's most frequent tag, and of an HMM whose states are the
tags, on the development and on the test part. Unknown words are classes by their shape, in all.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch

import fgg
import fgg.data as data
from examples.large_hmm.tag_states import Counts, beginning
from fgg.clusters import brown
from fgg.runtime.learn import bucketed, in_memory
from fgg.runtime.model.model import Model

HERE = Path(__file__).resolve().parent
COLUMNS = ("word", "tag", "fine", "head", "relation")


@dataclass(frozen=True)
class Tagged:
    """Sentences as numbers: words, and the tags beside them."""

    words: list[list[int]]
    tags: list[list[int]]

    def __len__(self) -> int:
        return sum(map(len, self.words))


@dataclass(frozen=True)
class Corpus:
    """Training and held-out sentences, and what the numbers mean."""

    train: Tagged
    test: list[Tagged]
    vocabulary: data.Vocabulary
    tags: tuple[str, ...]
    known: list[list[str]]  # the training words as the vocabulary has them


def corpus(paths: Sequence[Path], most: int | None = None) -> Corpus:
    """Tagged sentences to train on, and held out; words that occur once are classes of unknowns."""
    parts = [list(data.read(path, format="columns", columns=COLUMNS)) for path in paths]
    parts[0] = parts[0][:most]
    vocabulary = data.build_vocabulary(parts[0], least=2, shapes=True)
    tags = tuple(sorted({tag for part in parts for example in part for tag in example.tags or ()}))
    number = {tag: i for i, tag in enumerate(tags)}
    found = [
        Tagged(
            [vocabulary.encode(example.words) for example in part],
            [[number[tag] for tag in example.tags or ()] for example in part],
        )
        for part in parts
    ]
    known = [[vocabulary.known(word) for word in example.words] for example in parts[0]]
    return Corpus(found[0], found[1:], vocabulary, tags, known)


def accuracy(found: list[list[int]], gold: Tagged) -> float:
    """The share of words with the right tag."""
    pairs = zip(found, gold.tags, strict=True)
    return sum(a == b for x, y in pairs for a, b in zip(x, y, strict=True)) / len(gold)


def most_frequent(own: Corpus) -> list[float]:
    """Each word with the tag that it has most often; a word never seen with that of all words."""
    counts: dict[int, Counter[int]] = {}
    every: Counter[int] = Counter()
    for words, tags in zip(own.train.words, own.train.tags, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts.setdefault(word, Counter())[tag] += 1
            every[tag] += 1
    usual = every.most_common(1)[0][0]
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    return [
        accuracy([[best.get(w, usual) for w in words] for words in part.words], part)
        for part in own.test
    ]


def plain(own: Corpus, pseudo: float = 0.01) -> Model:
    """An HMM whose states are the tags: relative frequencies."""
    sizes = {"tags": len(own.tags), "words": len(own.vocabulary)}
    program = fgg.compile(fgg.load("tagger", sizes=sizes), "tagged")
    seen = {"w": own.train.words, "tag": own.train.tags}
    return fgg.learn(program, seen, method="em", epochs=1, pseudo=pseudo, budget=20000).model


@dataclass(frozen=True)
class States:
    """A large HMM: Brown clusters, places in each, and how it begins.

    With `pull` its places begin as tags, and it is drawn to the HMM of tags with so many counts a
    state, by VB; without, it begins anywhere, and is fitted by EM.
    """

    blocks: int
    places: int
    pull: float = 30.0
    sweeps: int = 2

    def __str__(self) -> str:
        start = f"from tags, {self.pull:g} counts" if self.pull else "from noise"
        return f"large HMM, {self.blocks} x {self.places} states, {start}"


def large(own: Corpus, folder: Path, states: States, seed: int = 0) -> Model:
    """The large HMM, fitted to words and tags."""
    clusters = brown(own.known, states.blocks).block_of()
    table = [clusters.get(word, 0) for word in own.vocabulary.values]
    np.save(folder / "blocks.npy", np.array(table))
    text = (HERE / "tagging.fgg").read_text("utf-8")
    (folder / "tagging.fgg").write_text(text.replace("map(cycle)", 'map("blocks.npy")'), "utf-8")
    sizes = {"m": states.blocks, "k": states.places, "d": len(own.vocabulary)}
    program = fgg.compile(fgg.load(folder / "tagging.fgg", sizes=sizes | {"tags": len(own.tags)}))
    seen = {"w": own.train.words, "tags": own.train.tags}
    options: dict[str, Any] = {"epochs": states.sweeps, "budget": 20000}
    if not states.pull:
        model = program.model(seed=seed, dtype=torch.float64)
        return fgg.learn(model, seen, method="em", pseudo=0.01, **options).model
    counts = Counts.of(own.train.words, own.train.tags, (len(own.vocabulary), len(own.tags)))
    start, prior = beginning(counts, torch.tensor(table), states.places, seed)
    weights = {name: w.reshape(program.shape(name)) for name, w in start.items()}
    model = program.model(weights=weights, dtype=torch.float64)
    strength = {"init": states.pull, "trans": states.pull, "emit": 1.0, "tag": 1.0}
    alpha = {name: (strength[name] * w).reshape(program.shape(name)) for name, w in prior.items()}
    return fgg.learn(model, seen, method="vb", prior=alpha, **options).model


def tagged(model: Model, words: list[list[int]], name: str, emits: str | None) -> list[list[int]]:
    """For each word the likeliest tag given the sentence: Σ_t p(t | w) tag(t, y), or its state."""
    weights = model.detached()
    items = in_memory(model.program, {"w": words, name: [[-1] * len(s) for s in words]})
    found: dict[int, list[int]] = {}
    for batch in bucketed(items, 20000):
        states = model.program.posterior(weights, batch.inputs).marginals["X"]
        scores = states if emits is None else states.flatten(2) @ weights[emits]
        best = scores.argmax(-1).tolist()
        for place, item in enumerate(batch.ids):
            found[item] = best[place][: len(words[item])]
    return [found[i] for i in range(len(words))]


SIZES = (
    States(128, 8, 0.0, 10),
    States(32, 8),
    States(32, 17),
    States(64, 17),
)
"""What is tried: not as many places as there are tags, and as many."""


def main(
    folder: Path,
    files: Sequence[Path] | None = None,
    most: int | None = None,
    sizes: Sequence[States] = SIZES,
) -> dict[str, list[float]]:
    """The accuracies by model, on each of the held-out parts, printed as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = files or [data.find(f"ewt/{part}.tsv.xz") for part in ("train", "dev", "test")]
    own = corpus(paths, most)
    print(f"{len(own.train):,} words, {len(own.vocabulary):,} types, {len(own.tags)} tags")
    found = {"most frequent tag": most_frequent(own)}

    def note(name: str, model: Model, names: tuple[str, str | None]) -> None:
        found[name] = [accuracy(tagged(model, part.words, *names), part) for part in own.test]

    note("HMM of tags", plain(own), ("tag", None))
    for states in sizes:
        begun = process_time()
        note(str(states), large(own, folder, states), ("tags", "tag"))
        print(f"{states}: {process_time() - begun:.0f} s of CPU", file=sys.stderr, flush=True)
    for name, values in found.items():
        print(f"{name:44}", *(f"{100 * value:.2f}" for value in values))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tagging"))
