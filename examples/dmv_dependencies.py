"""The dependency model with valence on English tags: `python -m examples.dmv_dependencies`.

UD English EWT, sentences of at most 10 words without punctuation, heads from universal tags alone
(Klein and Manning 2004), with their harmonic initialiser: at first a word's head is any other word,
in proportion to one over their distance. A second start multiplies this by how open the head's tag
is, its number of different words over its number of tokens: of articles and prepositions there are
few, and they make poor heads in Universal Dependencies.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import fgg
from examples.report import Report, finish, parser, percent, say
from fgg.data import Example, find, read
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import heads, read_links
from fgg.runtime.learn import EM, VB
from fgg.runtime.learn.fitting import batched
from fgg.runtime.model.model import Model
from fgg.scores import head_score, left_neighbours, right_neighbours

COLUMNS = ("word", "tag", "fine", "head", "relation")
PSEUDO = 0.1
"""Added to every count of EM, so that every sentence has a tree."""
LINKS = ("left_some=j-1:k", "right_some=i:k", "root=:r")


def openness(examples: Sequence[Example], index: Mapping[str, int]) -> list[float]:
    """For each tag, its different words over its tokens."""
    words: list[Counter[str]] = [Counter() for _ in index]
    for example in examples:
        for word, tag in zip(example.words, example.tags or (), strict=True):
            words[index[tag]][word.lower()] += 1
    return [len(found) / found.total() for found in words]


def harmonic(
    sentences: Sequence[Sequence[int]], tags: int, opens: Sequence[float] | None = None
) -> dict[str, Tensor]:
    """Weights from soft heads, P(head of m is h) ∝ o_h / |h - m|, as if they had been observed.

    o is how open the tag of a word is, or 1; a word is the root with probability o / Σ o. Of the
    tokens of a tag, the share that goes on to one more dependent is taken to be geometric with the
    mean number of dependents on that side.
    """
    opens = opens or [1.0] * tags
    root = torch.full((tags,), 0.1, dtype=torch.float64)
    arcs = {side: torch.full((tags, tags), 0.1, dtype=torch.float64) for side in ("left", "right")}
    tokens = torch.zeros(tags, dtype=torch.float64)
    for sentence in sentences:
        own = [opens[tag] for tag in sentence]
        for m, tag in enumerate(sentence):
            tokens[tag] += 1
            top = own[m] / sum(own)
            root[tag] += top
            near = {h: own[h] / abs(h - m) for h in range(len(sentence)) if h != m}
            total = sum(near.values())
            for h, weight in near.items():
                share = (1 - top) * weight / total
                arcs["left" if m < h else "right"][sentence[h], tag] += share
    found = {"root": root / root.sum()}
    for side, table in arcs.items():
        found[side] = table / table.sum(-1, keepdim=True)
        mean = table.sum(-1) / (tokens + 1)
        go = mean / (1 + mean)
        decisions = torch.stack([1 - go, go], -1)  # stop, go
        found[f"stop_{side}"] = decisions.unsqueeze(1).expand(-1, 2, -1).clone()
    return found


def accuracy(model: Model, examples: Sequence[Example], inputs: Sequence[list[int]]) -> float:
    """The share of words whose head in the best tree is right."""
    links = read_links(LINKS, model.program.grammar)
    found: list[list[int]] = []
    for first in range(0, len(inputs), 300):
        some = inputs[first : first + 300]
        trees = model.posterior(w=some).best()
        found += [heads(t, len(s), links) for t, s in zip(trees, some, strict=True)]
    return head_score([e.heads or () for e in examples], found).directed


def main(arguments: Sequence[str] | None = None) -> Report:
    """Fit by several methods, and report."""
    options = parser(__doc__)
    options.add_argument("--sweeps", type=int, default=15)
    options.add_argument("--sentences", type=int, default=None, help="training sentences (all)")
    given = options.parse_args(arguments)
    if given.small:
        given.sweeps, given.sentences = 1, 40
    torch.set_num_threads(1)
    parts = {}
    for part in ("train", "dev", "test"):
        path = find(f"ewt/dmv10.{part}.tsv")
        parts[part] = list(read(path, format="columns", columns=COLUMNS))
    train = parts["train"][: given.sentences]
    test = parts["test"][: given.sentences]
    dev = parts["dev"][: given.sentences]
    index = {tag: i for i, tag in enumerate(sorted({t for e in train for t in e.tags or ()}))}
    numbers = {
        name: [[index.get(t, 0) for t in e.tags or ()] for e in own]
        for name, own in (("train", train), ("dev", dev), ("test", test))
    }
    program = fgg.compile(fgg.load("dmv", sizes={"tags": len(index)}))
    report = Report(
        name="dmv_dependencies",
        title="DMV on UD English EWT, at most 10 words",
        command="python -m examples.dmv_dependencies",
        columns=["model", "start", "sweeps", "objective", "dev", "test", "seconds"],
    )
    gold = {name: [e.heads or () for e in own] for name, own in (("dev", dev), ("test", test))}
    for label, chain in (
        ("left neighbour", left_neighbours),
        ("right neighbour", right_neighbours),
    ):
        shares = [head_score(g, [chain(len(h)) for h in g]).directed for g in gold.values()]
        report.add(label, "", "", "", *map(percent, shares), "")
    start = harmonic(numbers["train"], len(index))
    apart = harmonic(numbers["train"], len(index), openness(train, index))
    lines = []
    runs: list[tuple[str, str, dict[str, Any]]] = [
        ("em", "random", {"pseudo": PSEUDO}),
        ("em", "harmonic", {"weights": start, "pseudo": PSEUDO}),
        ("em", "harmonic, open", {"weights": apart, "pseudo": PSEUDO}),
        ("vb", "harmonic", {"weights": start, "prior": 0.1}),
        ("vb", "harmonic, open", {"weights": apart, "prior": 0.1}),
    ]
    if given.small:
        runs = [runs[2], runs[3]]
    for method, begin, settings in runs:
        model = program.model(seed=0, dtype=torch.float64)
        kind = EM if method == "em" else VB
        fitting = kind(model, dtype=torch.float32, **settings)
        label = method + (f", prior {settings['prior']}" if "prior" in settings else "")
        ready = [fitting.ready(b) for b in batched(model, numbers["train"], method, 8192)]
        before = time.process_time()
        points = []
        for sweep in range(given.sweeps):
            progress = fitting.sweep(ready)
            if sweep in (0, 2, 5, 9) or sweep == given.sweeps - 1:
                share = accuracy(model, dev, numbers["dev"])
                points.append((sweep + 1.0, 100 * share))
                say(label, begin, sweep + 1, f"{progress.objective:.1f}", percent(share))
        seconds = time.process_time() - before
        shares = [points[-1][1] / 100, accuracy(model, test, numbers["test"])]
        objective = f"{progress.objective:,.0f}"
        report.add(label, begin, given.sweeps, objective, *map(percent, shares), f"{seconds:.0f}")
        lines.append(Line(label=f"{label}, {begin}", points=tuple(points)))
        report.numbers[f"{label}, {begin}"] = {"points": points, "test": shares[1]}
    report.notes = [
        f"{len(train):,} training sentences, {sum(map(len, train)):,} words, {len(index)} "
        "universal tags; directed accuracy over all words of the best tree, punctuation left out; "
        f"EM with pseudo-counts of {PSEUDO}",
        "open: heads also in proportion to the types per token of their tags; this, and not the "
        "square root of the number of types, was taken by accuracy on the development part",
        "UD takes content words for heads; scores are not comparable with those of WSJ10",
    ]
    report.plot = Plot(
        title="DMV: directed accuracy on the development part",
        x="sweep",
        y="percent",
        lines=tuple(lines),
    )
    return finish(report, given)


if __name__ == "__main__":
    main()
