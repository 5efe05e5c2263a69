"""Tags from a large HMM: states emit a word and a tag [VL, draft §5.2], trained on tagged text.

    python -m examples.large_hmm.tagging [FOLDER]

trains on the English Web Treebank by EM (states are latent, words and tags are seen), and compares
the accuracy of the tags with that of each word's most frequent tag, and of an HMM whose states are
the tags. Unknown words are classes by their shape, in all three.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
import torch

import fgg
import fgg.data as data
from fgg.clusters import brown
from fgg.runtime.learn import bucketed, in_memory
from fgg.runtime.model import Model

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
    test: Tagged
    vocabulary: data.Vocabulary
    tags: tuple[str, ...]
    known: list[list[str]]  # the training words as the vocabulary has them


def corpus(train: Path, test: Path, most: int | None = None) -> Corpus:
    """Tagged sentences; words that occur once are classes of unknown words."""
    parts = [list(data.read(p, format="columns", columns=COLUMNS)) for p in (train, test)]
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
    return Corpus(found[0], found[1], vocabulary, tags, known)


def accuracy(found: list[list[int]], gold: Tagged) -> float:
    """The share of words with the right tag."""
    pairs = zip(found, gold.tags, strict=True)
    return sum(a == b for x, y in pairs for a, b in zip(x, y, strict=True)) / len(gold)


def most_frequent(own: Corpus) -> float:
    """Each word with the tag that it has most often; a word never seen with that of all words."""
    counts: dict[int, Counter[int]] = {}
    every: Counter[int] = Counter()
    for words, tags in zip(own.train.words, own.train.tags, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts.setdefault(word, Counter())[tag] += 1
            every[tag] += 1
    usual = every.most_common(1)[0][0]
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    return accuracy([[best.get(w, usual) for w in words] for words in own.test.words], own.test)


def plain(own: Corpus, pseudo: float = 0.1) -> float:
    """An HMM whose states are the tags: relative frequencies, and the best tag at each place."""
    sizes = {"tags": len(own.tags), "words": len(own.vocabulary)}
    program = fgg.compile(fgg.load("tagger", sizes=sizes), "tagged")
    seen = {"w": own.train.words, "tag": own.train.tags}
    model = fgg.learn(program, seen, method="em", epochs=1, pseudo=pseudo, budget=20000).model
    return accuracy(tagged(model, own.test.words, "tag", None), own.test)


def large(own: Corpus, folder: Path, blocks: int, places: int, sweeps: int, seed: int = 0) -> float:
    """The large HMM: Brown clusters, EM on words and tags, and the best tag at each place."""
    clusters = brown(own.known, blocks).block_of()
    table = [clusters.get(word, 0) for word in own.vocabulary.values]
    np.save(folder / "blocks.npy", np.array(table))
    text = (HERE / "tagging.fgg").read_text("utf-8")
    (folder / "tagging.fgg").write_text(text.replace("map(cycle)", 'map("blocks.npy")'), "utf-8")
    sizes = {"m": blocks, "k": places, "d": len(own.vocabulary), "tags": len(own.tags)}
    program = fgg.compile(fgg.load(folder / "tagging.fgg", sizes=sizes))
    model = program.model(seed=seed, dtype=torch.float64)
    seen = {"w": own.train.words, "tags": own.train.tags}
    fgg.learn(model, seen, method="em", epochs=sweeps, pseudo=0.01, budget=20000)
    return accuracy(tagged(model, own.test.words, "tags", "tag"), own.test)


def tagged(model: Model, words: list[list[int]], name: str, emits: str | None) -> list[list[int]]:
    """For each word the likeliest tag given the sentence: Σ_t p(t | w) tag(t, y), or its state."""
    weights = model.detached()
    items = in_memory(model.program, {"w": words, name: [[-1] * len(s) for s in words]})
    found: dict[int, list[int]] = {}
    for batch in bucketed(model.program, items, 20000):
        states = model.program.marginals(weights, batch.inputs)["X"]
        scores = states if emits is None else states.flatten(2) @ weights[emits]
        best = scores.argmax(-1).tolist()
        for place, item in enumerate(batch.ids):
            found[item] = best[place][: len(words[item])]
    return [found[i] for i in range(len(words))]


def main(
    folder: Path,
    files: tuple[Path, Path] | None = None,
    most: int | None = None,
    sizes: tuple[tuple[int, int], ...] = ((32, 2), (32, 4), (64, 4), (64, 8)),
    sweeps: int = 10,
) -> dict[str, float]:
    """The accuracies by model, printed as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    own = corpus(*(files or (data.find("ewt/train.tsv.xz"), data.find("ewt/dev.tsv.xz"))), most)
    print(f"{len(own.train):,} words, {len(own.vocabulary):,} types, {len(own.tags)} tags")
    found = {"most frequent tag": most_frequent(own), "HMM of tags": plain(own)}
    for blocks, places in sizes:
        begun = process_time()
        name = f"large HMM, {blocks} x {places} states"
        found[name] = large(own, folder, blocks, places, sweeps)
        print(f"{name}: {process_time() - begun:.0f} s of CPU", file=sys.stderr)
    for name, value in found.items():
        print(f"{name:32} {100 * value:.2f}")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tagging"))
