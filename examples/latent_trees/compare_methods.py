"""EM, VB and CVB for latent annotations: `python -m examples.latent_trees.compare_methods`.

The experiment of Wang and Blunsom 2013, section 4.3, on the short sentences of another treebank.
Every category is split into annotations that nobody sees; trees are observed. All methods start
from relative frequencies with 1 % noise. Sentences are parsed by minimum Bayes risk: the binary
tree with the greatest expected number of right categories, annotations summed out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import fgg
from examples.latent_trees.treebank import Treebank, constituents, labels, read_treebank
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
from fgg.data import Example
from fgg.data.example import Span
from fgg.draw.plot import Line, Plot
from fgg.runtime.learn import METHODS, Method
from fgg.runtime.learn.fitting import batched
from fgg.runtime.program.program import Program
from fgg.scores.f1 import NOTHING, compare

ORDER = ("em", "vb", "cvb")
PRIOR = 0.01
LEAST_SWEEPS = 30
"""Sweeps before a method may end: annotations that hardly differ need some to part."""
SETTLED = 1e-5
"""Sweeps end when the objective changes by less, relative to its size."""
CELLS = 40_000
"""The most cells times sentences of a batch that is parsed at once, for one annotation."""


@dataclass(frozen=True)
class Run:
    """What a method did with one start: scores of both held-out parts, sweeps and CPU seconds."""

    method: str
    annotations: int
    seed: int
    prior: float
    sweeps: int
    seconds: float
    objective: float
    parts: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Grammars:
    """The programs of a number of annotations, of trees and of sentences."""

    bank: Treebank
    annotations: int
    trees: Program
    sentences: Program

    @staticmethod
    def of(bank: Treebank, annotations: int) -> Grammars:
        """Compile both."""
        return Grammars(
            bank,
            annotations,
            fgg.compile(bank.grammar("trees", annotations)),
            fgg.compile(bank.grammar("parse", annotations)),
        )


def start(bank: Treebank, annotations: int, seed: int) -> dict[str, Tensor]:
    """Relative frequencies of the treebank, the same for all annotations, with 1 % noise."""
    data = bank.inputs()
    h = annotations
    root = np.zeros(len(bank.categories))
    uses = np.zeros(len(bank.rules))
    emit = np.full((len(bank.tags), len(bank.vocabulary)), 1e-3)
    for top, rules, tags, words in zip(
        *(data[name] for name in ("top", "uses", "tag", "w")), strict=True
    ):
        root[top] += 1
        for rule, tag, word in zip(rules, tags, words, strict=True):
            if rule >= 0:
                uses[rule] += 1
            else:
                emit[tag, word] += 1
    heads = np.unique([rule[0] for rule in bank.rules], return_inverse=True)[1]
    chance = np.random.default_rng(seed)

    def noisy(shape: Sequence[int], table: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.broadcast_to(table, shape) * (1 + 0.01 * chance.uniform(-1, 1, shape))

    root = noisy((len(bank.categories), h), root[:, None])
    choose = noisy((h, len(bank.rules)), uses)
    split = noisy((len(bank.rules), h, h, h), np.ones(()))
    emit = noisy((len(bank.tags), h, len(bank.vocabulary)), emit[:, None])
    of_head = np.stack([np.bincount(heads, weights=row)[heads] for row in choose])
    tables = {
        "root": root / root.sum(),
        "choose": choose / of_head,
        "split": split / split.sum((-2, -1), keepdims=True),
        "emit": emit / emit.sum(-1, keepdims=True),
    }
    return {name: torch.from_numpy(table) for name, table in tables.items()}


def priors(prior: float, annotations: int) -> dict[str, float]:
    """One Dirichlet over all that a category may become, written for `choose` and `split`.

    Choosing a rule and then annotations is choosing among annotated rules: a Dirichlet of `prior`
    for each of these is one of `prior` h² for the rule and of `prior` for the annotations.
    """
    whole = prior * annotations**2
    return {"root": prior, "choose": whole, "split": prior, "emit": prior}


def run(
    grammars: Grammars,
    method: str,
    prior: float,
    seed: int,
    sweeps: int,
    shared: dict[str, Any],
) -> Run:
    """Sweeps of a method until its objective settles, and the scores of its parses."""
    bank, h = grammars.bank, grammars.annotations
    model = grammars.trees.model(seed=seed, dtype=torch.float64)
    given: dict[str, Any] = {
        "weights": start(bank, h, seed),
        "forests": shared.get("forests", True),
    }
    if method != "em":
        given["prior"] = priors(prior, h)
    fitting: Method = METHODS[method](model, **given)
    shared["forests"] = fitting.item_forests  # type: ignore[attr-defined]
    ready = [fitting.ready(batch) for batch in batched(model, bank.inputs(), method)]
    for batch in ready:
        shared["forests"].of(batch, fitting.counter)  # type: ignore[attr-defined]
    seconds, before = 0.0, -float("inf")
    for sweep in range(1, sweeps + 1):
        clock = time.process_time()
        objective = fitting.sweep(ready).objective
        seconds += time.process_time() - clock
        if sweep >= LEAST_SWEEPS and abs(objective - before) < SETTLED * abs(objective):
            break
        before = objective
    weights = smoothed(fitting, prior, h) if method == "em" else dict(model.detached())
    parts = {part: scores(grammars, weights, bank.examples[part]) for part in ("dev", "test")}
    return Run(method, h, seed, prior, sweep, seconds, objective, parts)


def smoothed(fitting: Method, prior: float, annotations: int) -> dict[str, Tensor]:
    """The weights of EM with the counts of the prior added, as the other methods have them."""
    alphas = priors(prior, annotations)
    result = {}
    for name, dists in fitting.distributions.items():  # type: ignore[attr-defined]
        total = fitting.sums[name] + alphas[name]  # type: ignore[attr-defined]
        result[name] = (total / dists.totals(total)).view(dists.shape)
    return result


def scores(
    grammars: Grammars, weights: Mapping[str, Tensor], examples: Sequence[Example]
) -> dict[str, float]:
    """Precision, recall and F1 of labelled phrases, and the share of trees that are all right."""
    total, exact, failed = NOTHING, 0, 0
    for some in by_length(examples, CELLS // grammars.annotations):
        guesses = parse(grammars, weights, some)
        for example, guess in zip(some, guesses, strict=True):
            gold = set(constituents(example))
            total += compare(gold, guess)
            exact += gold == guess
            failed += not guess
    return {
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
        "exact": exact / max(len(examples), 1),
        "failed": failed / max(len(examples), 1),
    }


def by_length(examples: Sequence[Example], cells: int) -> list[list[Example]]:
    """Examples in batches of one length, of at most so many cells."""
    batches: list[list[Example]] = []
    for example in sorted(examples, key=len):
        last = batches[-1] if batches else []
        if not last or len(last[0]) != len(example) or (len(last) + 1) * len(example) ** 2 > cells:
            batches.append([])
        batches[-1].append(example)
    return batches


def parse(
    grammars: Grammars, weights: Mapping[str, Tensor], examples: Sequence[Example]
) -> list[set[Span]]:
    """The labelled phrases of each sentence; none if it has no derivation."""
    bank = grammars.bank
    words = [bank.vocabulary.encode(example.words) for example in examples]
    post = grammars.sentences.posterior({n: w.float() for n, w in weights.items()}, {"w": words})
    used = post.marginals["X"].sum(-1).double().numpy()  # [batch, start, end, category]
    return [best_phrases(bank, cells) for cells in used]


def best_phrases(bank: Treebank, cells: NDArray[np.float64]) -> set[Span]:
    """The phrases of the binary tree whose cells have the greatest sum of marginals."""
    n = cells.shape[0]
    if cells[0, n].sum() < 0.5:
        return set()
    category, gain = cells.argmax(-1), cells.max(-1)
    cut: dict[tuple[int, int], int] = {}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            sums = [gain[i, k] + gain[k, j] for k in range(i + 1, j)]
            cut[i, j] = i + 1 + int(np.argmax(sums))
            gain[i, j] += max(sums)
    phrases: set[Span] = set()
    agenda = [(0, n)]
    while agenda:
        i, j = agenda.pop()
        for label in labels(bank.categories[category[i, j]], j - i == 1):
            phrases.add((i, j, label))
        if j - i > 1:
            agenda += [(i, cut[i, j]), (cut[i, j], j)]
    return phrases


def table_1(report: Report, runs: Sequence[Run]) -> None:
    """Rows as those of the paper's table 1: the run that is best on the development part."""
    for size in sorted({r.annotations for r in runs}):
        for method in ORDER:
            own = [r for r in runs if r.method == method and r.annotations == size]
            if not own:
                continue
            best = max(own, key=lambda r: r.parts["dev"]["f1"])
            shown = [
                percent(best.parts["test"][key]) for key in ("precision", "recall", "f1", "exact")
            ]
            every = spread([100 * r.parts["test"]["f1"] for r in own], ".1f")
            dev = spread([100 * r.parts["dev"]["f1"] for r in own], ".1f")
            sweeps = spread([float(r.sweeps) for r in own], ".0f")
            seconds = spread([r.seconds for r in own], ".1f")
            report.add(size, method, *shown, every, dev, len(own), sweeps, seconds)


def best_f1(runs: Sequence[Run], method: str, annotations: int) -> float:
    """F1 on the test part of the run that is best on the development part."""
    own = [r for r in runs if r.method == method and r.annotations == annotations]
    return max(own, key=lambda r: r.parts["dev"]["f1"]).parts["test"]["f1"] if own else 0.0


def verdicts(runs: Sequence[Run]) -> list[str]:
    """The paper's claims of section 4.3, judged by F1 on the test part."""
    split = sorted({r.annotations for r in runs if r.annotations > 1})
    if not split:
        return []
    f1 = {(m, h): best_f1(runs, m, h) for m in ORDER for h in split}

    def figures(numbers: Sequence[int]) -> str:
        return "; ".join(
            f"{h}: " + ", ".join(f"{m.upper()} {percent(f1[m, h])}" for m in ORDER) for h in numbers
        )

    first, more = split[0], split[1:]

    def cvb_wins(h: int) -> bool:
        return f1["cvb", h] > max(f1["em", h], f1["vb", h])

    lines = [
        claim(f"CVB is better than EM and VB with {first} annotations", cvb_wins(first))
        + f" ({figures([first])})"
    ]
    if more:
        lines += [
            claim("CVB keeps its advantage with more annotations", all(map(cvb_wins, more)))
            + f" ({figures(more)})",
            claim("VB fails to surpass EM with more", all(f1["vb", h] <= f1["em", h] for h in more))
            + f" ({figures(more)})",
        ]
    sweep = {
        m: mean(
            [r.seconds / r.sweeps for r in runs if r.method == m and r.annotations == split[-1]]
        )
        for m in ORDER
    }
    lines.append(
        claim("CVB takes about the time of VB", sweep["cvb"] < 2 * sweep["vb"])
        + f" (a sweep with {split[-1]} annotations: "
        + ", ".join(f"{m.upper()} {sweep[m]:.2f} s" for m in ORDER)
        + ")"
    )
    return lines


def main(arguments: Sequence[str] | None = None) -> Report:
    """Run all methods, and report."""
    options = parser(__doc__)
    options.add_argument("--longest", type=int, default=10, help="words of a sentence (10)")
    options.add_argument("--sentences", type=int, default=None, help="of each part (all)")
    options.add_argument("--annotations", type=int, nargs="+", default=[1, 2, 4, 8])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--sweeps", type=int, default=60, help="at most (60)")
    options.add_argument("--prior", type=float, default=PRIOR)
    given = options.parse_args(arguments)
    if given.small:
        given.longest, given.sentences, given.annotations = 5, 12, [1, 2]
        given.seeds, given.sweeps = 2, 3
    torch.set_num_threads(1)
    bank = read_treebank(given.longest, given.sentences)
    report = Report(
        name="latent_trees",
        title=f"Latent annotations on CRAFT trees, at most {given.longest} words",
        command=command("examples.latent_trees.compare_methods", arguments),
        columns=[
            *("annotations", "method", "precision", "recall", "F1", "exact"),
            *("F1 of all seeds", "dev F1", "seeds", "sweeps", "seconds"),
        ],
    )
    kept = kept_runs(given, report.name)
    runs: list[Run] = []
    for size in given.annotations:
        grammars, shared = Grammars.of(bank, size), dict[str, Any]()
        # Without annotations there is nothing hidden, and little that noise can change.
        for seed in range(1 if size == 1 else given.seeds):
            for method in ORDER:
                settings = {
                    "sentences": [len(own) for own in bank.examples.values()],
                    "longest": given.longest,
                    "annotations": size,
                    "method": method,
                    "seed": seed,
                    "sweeps": given.sweeps,
                    "prior": given.prior,
                }
                compute = partial(
                    _numbers, grammars, method, given.prior, seed, given.sweeps, shared
                )
                runs.append(Run(**kept.run(settings, compute)))
                say(size, method, seed, runs[-1].sweeps, runs[-1].parts["test"]["f1"])
    table_1(report, runs)
    sentences = ", ".join(f"{len(own):,} {part}" for part, own in bank.examples.items())
    report.notes = [
        f"{sentences} sentences of 2 to {given.longest} words; {len(bank.categories)} categories, "
        f"{len(bank.tags)} of them of words, {len(bank.rules)} binary rules, "
        f"{len(bank.vocabulary):,} words; words that occur once are one unknown word",
        "labelled phrases with punctuation, single children included, part-of-speech tags not; "
        "precision, recall, F1 and exact match on the test part are those of the seed that is best "
        "on the development part, as in the paper; F1 of all seeds: mean ± deviation, test part",
        f"prior of each rule: {given.prior:g}, by which EM's weights are smoothed, too; "
        f"sweeps until the objective changes by less than {SETTLED:g} of its size, or "
        f"{given.sweeps}; seconds: of CPU time, all sweeps",
        *verdicts(runs),
    ]
    report.numbers["runs"] = [vars(r) for r in runs]
    report.plot = Plot(
        title="Labelled F1 on the test part",
        x="annotations",
        y="percent",
        log_x=True,
        lines=tuple(
            Line(
                label=method,
                points=tuple((float(h), 100 * best_f1(runs, method, h)) for h in given.annotations),
            )
            for method in ORDER
        ),
    )
    return finish(report, given)


def _numbers(
    grammars: Grammars, method: str, prior: float, seed: int, sweeps: int, shared: dict[str, Any]
) -> dict[str, Any]:
    """A run as it is kept."""
    return vars(run(grammars, method, prior, seed, sweeps, shared))


if __name__ == "__main__":
    main()
