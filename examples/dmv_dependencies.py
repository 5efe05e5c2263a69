"""The dependency model with valence on English tags: `python -m examples.dmv_dependencies`.

The experiment of Wang and Blunsom 2013, section 4.2, on UD English EWT: sentences of at most 10
words without punctuation, heads from universal tags alone, learned by EM, VB and CVB with priors 1
and 0.1. All methods begin with the harmonic initialiser of Klein and Manning 2004, with 1 % noise:
at first a word's head is any other word, in proportion to one over their distance. A second start
multiplies this by how open the head's tag is, its number of different words over its number of
tokens: of articles and prepositions there are few, and they make poor heads in Universal
Dependencies.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import fgg
from examples.report import (
    Report,
    claim,
    command,
    finish,
    kept_runs,
    mean,
    parser,
    percent,
    say,
    spread,
)
from fgg.data import Example, find, read
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import heads, read_links
from fgg.runtime.learn import METHODS, Method
from fgg.runtime.learn.fitting import batched
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program
from fgg.scores import head_score, left_neighbours, right_neighbours

COLUMNS = ("word", "tag", "fine", "head", "relation")
ORDER = ("em", "vb", "cvb")
PSEUDO = 1e-3
"""Added to every count of EM, so that every sentence has a tree."""
NOISE = 0.01
"""How far weights of a start differ from the initialiser's."""
SETTLED = 1e-5
"""Sweeps end when the objective changes by less, relative to its size."""
LEAST_SWEEPS = 5
STARTS = ("harmonic", "open")
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


@dataclass(frozen=True)
class Task:
    """The sentences of each part as tags, with their heads, and the program that learns."""

    program: Program
    inputs: dict[str, list[list[int]]]
    examples: dict[str, Sequence[Example]]
    tags: int


@dataclass(frozen=True)
class Run:
    """What a method did from a start: its objective, and the shares of right heads in percent."""

    method: str
    prior: float | None
    start: str
    seed: int
    sweeps: int
    seconds: float
    objective: float
    dev: float
    test: float


def task(sentences: int | None) -> Task:
    """The short sentences of the treebank, at most so many of each part."""
    examples = {
        part: list(read(find(f"ewt/dmv10.{part}.tsv"), format="columns", columns=COLUMNS))
        for part in ("train", "dev", "test")
    }
    examples = {part: own[:sentences] for part, own in examples.items()}
    index = tag_numbers(examples["train"])
    inputs = {
        part: [[index.get(t, 0) for t in e.tags or ()] for e in own]
        for part, own in examples.items()
    }
    program = fgg.compile(fgg.load("dmv", sizes={"tags": len(index)}))
    return Task(program, inputs, dict(examples), len(index))


def tag_numbers(examples: Sequence[Example]) -> dict[str, int]:
    """The tags of some sentences, numbered by name."""
    return {t: i for i, t in enumerate(sorted({t for e in examples for t in e.tags or ()}))}


def starts(given: Task) -> dict[str, dict[str, Tensor]]:
    """The two initialisers."""
    sentences, train = given.inputs["train"], given.examples["train"]
    opens = openness(train, tag_numbers(train))
    return {
        "harmonic": harmonic(sentences, given.tags),
        "open": harmonic(sentences, given.tags, opens),
    }


def run(
    given: Task,
    weights: Mapping[str, Tensor],
    start: str,
    method: str,
    prior: float | None,
    seed: int,
    sweeps: int,
    shared: dict[str, Any],
) -> Run:
    """Sweeps of a method until its objective settles, and its accuracy."""
    model = given.program.model(seed=seed, dtype=torch.float64)
    chance = torch.Generator().manual_seed(seed)
    options: dict[str, Any] = {
        "weights": {name: noisy(table, chance) for name, table in weights.items()},
        "forests": shared.get("forests", True),
    }
    options |= {"pseudo": PSEUDO} if prior is None else {"prior": prior}
    fitting: Method = METHODS[method](model, **options)
    shared["forests"] = fitting.item_forests  # type: ignore[attr-defined]
    ready = [fitting.ready(b) for b in batched(model, given.inputs["train"], method)]
    seconds, before = 0.0, -float("inf")
    for sweep in range(1, sweeps + 1):
        clock = time.process_time()
        objective = fitting.sweep(ready).objective
        seconds += time.process_time() - clock
        if sweep > LEAST_SWEEPS and abs(objective - before) < SETTLED * abs(objective):
            break
        before = objective
    dev, test = (
        100 * accuracy(model, given.examples[part], given.inputs[part]) for part in ("dev", "test")
    )
    return Run(method, prior, start, seed, sweep, seconds, objective, dev, test)


def noisy(table: Tensor, chance: torch.Generator) -> Tensor:
    """Weights that differ a little from others."""
    noise = 2 * torch.rand(table.shape, dtype=table.dtype, generator=chance) - 1
    changed = table * (1 + NOISE * noise)
    return changed / changed.sum(-1, keepdim=True)


def verdicts(runs: Sequence[Run], start: str) -> list[str]:
    """The paper's claims of section 4.2, judged from one start."""
    of: dict[tuple[str, float | None], list[Run]] = {}
    for one in runs:
        if one.start == start:
            of.setdefault((one.method, one.prior), []).append(one)
    em = of[("em", None)]
    lines = []
    for prior in sorted({p for _, p in of if p is not None}, reverse=True):
        vb, cvb = of[("vb", prior)], of[("cvb", prior)]
        wins = sum(c.test > max(v.test, e.test) for c, v, e in zip(cvb, vb, em, strict=True))
        holds = mean([r.test for r in cvb]) > max(mean([r.test for r in o]) for o in (vb, em))
        sweep = {o[0].method: mean([r.seconds / r.sweeps for r in o]) for o in (em, vb, cvb)}
        lines.append(
            claim(f"CVB is better than VB and EM, prior {prior:g}", holds)
            + f" (it is in {wins} of {len(cvb)} runs; a sweep: EM {sweep['em']:.2f} s, "
            f"VB {sweep['vb']:.2f} s, CVB {sweep['cvb']:.2f} s)"
        )
    return [f"{start}: {line}" for line in lines]


def main(arguments: Sequence[str] | None = None) -> Report:
    """Fit by all methods, and report."""
    options = parser(__doc__)
    options.add_argument("--sweeps", type=int, default=25, help="at most (25)")
    options.add_argument("--sentences", type=int, default=None, help="of each part (all)")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS)
    options.add_argument("--prior", type=float, nargs="+", default=[1.0, 0.1])
    given = options.parse_args(arguments)
    if given.small:
        given.sweeps, given.sentences, given.seeds, given.prior = 2, 40, 2, [0.1]
    torch.set_num_threads(1)
    data = task(given.sentences)
    report = Report(
        # The results of one start are files of their own.
        name="_".join(["dmv_dependencies", *(given.starts if len(given.starts) == 1 else ())]),
        title="DMV on UD English EWT, at most 10 words",
        command=command("examples.dmv_dependencies", arguments),
        columns=["model", "prior", "start", "sweeps", "objective", "dev", "test", "seconds"],
    )
    baselines(report, data)
    kept, shared = kept_runs(given, "dmv_dependencies"), dict[str, Any]()
    runs: list[Run] = []
    wanted = [("em", None), *((m, p) for p in given.prior for m in ("vb", "cvb"))]
    for start, weights in ((name, starts(data)[name]) for name in given.starts):
        for method, prior in wanted:
            own = []
            for seed in range(given.seeds):
                settings = {
                    "sentences": given.sentences,
                    "start": start,
                    "method": method,
                    "prior": prior,
                    "seed": seed,
                    "sweeps": given.sweeps,
                }
                compute = partial(
                    _numbers, data, weights, start, method, prior, seed, given.sweeps, shared
                )
                own.append(Run(**kept.run(settings, compute)))
                say(start, method, prior, seed, own[-1].sweeps, own[-1].dev, own[-1].test)
            runs += own
            add(report, own)
    report.notes = [
        f"{len(data.inputs['train']):,} training sentences, "
        f"{sum(map(len, data.inputs['train'])):,} words, {data.tags} universal tags; directed "
        "accuracy over all words of the best tree, punctuation left out; "
        f"EM with pseudo-counts of {PSEUDO:g}",
        f"{given.seeds} seeds, mean ± deviation: the initialiser's weights with {NOISE:.0%} noise; "
        f"sweeps until the objective changes by less than {SETTLED:g} of its size, or "
        f"{given.sweeps}; seconds: of CPU time, all sweeps",
        "open: heads also in proportion to the types per token of their tags; this, and not the "
        "square root of the number of types, was taken by accuracy on the development part",
        "UD takes content words for heads; scores are not comparable with those of WSJ10",
        *(line for start in given.starts for line in verdicts(runs, start)),
    ]
    report.numbers["runs"] = [vars(r) for r in runs]
    report.plot = plot(runs, given.prior)
    return finish(report, given)


def baselines(report: Report, data: Task) -> None:
    """Rows of trees that need no model."""
    gold = [[e.heads or () for e in data.examples[part]] for part in ("dev", "test")]
    for label, chain in (
        ("left neighbour", left_neighbours),
        ("right neighbour", right_neighbours),
    ):
        shares = [head_score(g, [chain(len(h)) for h in g]).directed for g in gold]
        report.add(label, "", "", "", "", *map(percent, shares), "")


def add(report: Report, runs: Sequence[Run]) -> None:
    """A row for runs from different seeds."""
    first = runs[0]
    report.add(
        first.method,
        "" if first.prior is None else f"{first.prior:g}",
        first.start,
        spread([float(r.sweeps) for r in runs], ".0f"),
        spread([r.objective for r in runs], ",.0f"),
        spread([r.dev for r in runs], ".1f"),
        spread([r.test for r in runs], ".1f"),
        spread([r.seconds for r in runs], ".1f"),
    )


def plot(runs: Sequence[Run], priors: Sequence[float]) -> Plot:
    """Accuracy by prior, as in figure 6 of the paper, from the second start."""
    start = runs[-1].start
    lines = []
    for method in ORDER:
        points = []
        for prior in sorted(priors):
            own = [
                r.test
                for r in runs
                if r.start == start and r.method == method and r.prior in (None, prior)
            ]
            points.append((prior, mean(own)))
        lines.append(Line(label=method, points=tuple(points)))
    return Plot(
        title=f"DMV: directed accuracy on the test part, start: {start}",
        x="prior (EM has none)",
        y="percent",
        log_x=True,
        lines=tuple(lines),
    )


def _numbers(
    data: Task,
    weights: Mapping[str, Tensor],
    start: str,
    method: str,
    prior: float | None,
    seed: int,
    sweeps: int,
    shared: dict[str, Any],
) -> dict[str, Any]:
    """A run as it is kept."""
    return vars(run(data, weights, start, method, prior, seed, sweeps, shared))


if __name__ == "__main__":
    main()
