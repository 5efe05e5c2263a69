"""EM, VB, CVB and Hastings on isiZulu verbs: `python -m examples.morphology_methods`.

The experiment of Wang and Blunsom 2013, section 4.1, on other verbs. A word is a stem with affixes
by one of five templates, and a morph may be any substring of the words; a sparse prior makes few of
them likely. All methods start from the same random weights, under which all segmentations of a word
are about as likely. The held-out words are other types; nothing but their substrings is known.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import fgg
from examples.report import Report, finish, parser, percent, say, spread
from fgg.data import Example, build_vocabulary, find, read
from fgg.data.preprocessing import part_ids
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import segments
from fgg.runtime.learn import METHODS, Method, log_likelihood
from fgg.runtime.learn.fitting import batched
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program
from fgg.runtime.train.feed import parts
from fgg.scores import perplexity, segment_score

LEXICA = ("stem", "mood", "subject", "tense", "object")
ORDER = ("em", "vb", "cvb", "hastings")


@dataclass(frozen=True)
class Words:
    """Words to learn from and to test on, and the program of their substrings."""

    train: Sequence[Example]
    test: Sequence[Example]
    inputs: Sequence[list[list[int]]]
    held: Sequence[list[list[int]]]
    program: Program


@dataclass(frozen=True)
class Run:
    """What a method did: perplexity after each sweep, scores at the end, seconds of sweeps."""

    method: str
    prior: float
    seed: int
    curve: list[float]
    perplexity: float
    boundary_f1: float
    part_f1: float
    settled: int
    seconds: float
    acceptance: float | None = None


def words(language: str, train: int, test: int) -> Words:
    """Types of verbs, drawn once; held-out ones are no types of the training data."""
    own = list(read(find(f"nguni_verbs/{language}.train.tsv"), format="morphs"))
    other = list(read(find(f"nguni_verbs/{language}.test.tsv"), format="morphs"))
    chance = random.Random(0)
    known: dict[tuple[str, ...], Example] = {}
    for example in own:
        known.setdefault(example.words, example)
    new: dict[tuple[str, ...], Example] = {}
    for example in other:
        if example.words not in known:
            new.setdefault(example.words, example)
    some = chance.sample(list(known.values()), min(train, len(known)))
    held = chance.sample(list(new.values()), min(test, len(new)))
    vocabulary = build_vocabulary(parts([*some, *held], None), unknown=None)
    grammar = fgg.load("morphology", sizes={"substrings": len(vocabulary)})
    return Words(
        some,
        held,
        [part_ids(example.words, vocabulary.index) for example in some],
        [part_ids(example.words, vocabulary.index) for example in held],
        fgg.compile(grammar),
    )


def start(program: Program, seed: int) -> dict[str, Tensor]:
    """Random weights of substrings; templates weigh as much as makes all segmentations alike."""
    (size,) = program.shape("stem")
    chance = torch.Generator().manual_seed(seed)
    found = {}
    for name in LEXICA:
        draws = torch.empty(size, dtype=torch.float64).exponential_(generator=chance)
        found[name] = draws / draws.sum()
    morphs = torch.arange(1, 6, dtype=torch.float64)  # V has one, STOVM five
    found["template"] = (morphs * torch.tensor(float(size)).log()).softmax(0)
    return found


def run(data: Words, method: str, prior: float, seed: int, sweeps: int) -> Run:
    """Sweeps of a method, and the scores of the held-out words."""
    model = data.program.model(seed=seed, dtype=torch.float64)
    given: dict[str, Any] = {"weights": start(data.program, seed)}
    if method != "em":
        given["prior"] = prior
    if method == "hastings":
        given |= {"seed": seed, "burn_in": sweeps // 2}
    fitting: Method = METHODS[method](model, **given)
    ready = [fitting.ready(batch) for batch in batched(model, data.inputs, method)]
    characters = sum(map(len, data.test))
    curve: list[float] = []
    seconds, acceptance, settled = 0.0, None, 0
    for _ in range(sweeps):
        before = time.process_time()
        progress = fitting.sweep(ready)
        seconds += time.process_time() - before
        smooth(model, fitting, prior)
        curve.append(perplexity(log_likelihood(model, data.held)[0], characters))
        acceptance = progress.details.get("acceptance", acceptance)
        near = [abs(a - curve[-1]) < 0.005 * curve[-1] for a in curve[-3:]]
        settled = len(curve)
        if method != "hastings" and len(curve) > 4 and all(near):
            settled = len(curve) - 2  # it moved by less than half a percent since
            break
    score = segment_score(
        [example.segments or () for example in data.test],
        [
            segments(found, len(example))
            for found, example in zip(model.posterior(s=data.held).best(), data.test, strict=True)
        ],
    )
    f1 = score.boundaries.f1, score.parts.f1
    return Run(method, prior, seed, curve, curve[-1], *f1, settled, seconds, acceptance)


def smooth(model: Model, fitting: Method, prior: float) -> None:
    """Smooth a model of EM by the prior, as the others are: else most words are impossible."""
    if fitting.name == "em":
        for name, counts in fitting.sums.items():  # type: ignore[attr-defined]
            total = counts + prior
            model.set_logits(name, (total / total.sum(-1, keepdim=True)).log())


def verdict(runs: Sequence[Run], prior: float) -> list[str]:
    """Which claims of the paper hold, from the numbers."""
    own = {m: [r for r in runs if r.method == m and r.prior == prior] for m in ORDER}
    if not all(own.values()):
        return []
    mean = {m: sum(r.perplexity for r in found) / len(found) for m, found in own.items()}
    f1 = {m: sum(r.boundary_f1 for r in found) / len(found) for m, found in own.items()}
    time_of = {m: sum(r.seconds for r in found) / len(found) for m, found in own.items()}
    most = max(r.settled for r in own["cvb"])
    gap = 100 * abs(mean["cvb"] / mean["hastings"] - 1)
    return [
        f'prior {prior:g}: "CVB converges before 10 sweeps" {_says(most < 10)} '
        f"(the slowest run took {most})",
        f'prior {prior:g}: "CVB takes a fraction of the sampler\'s time" '
        f"{_says(2 * time_of['cvb'] < time_of['hastings'])} ({time_of['cvb']:.0f} s and "
        f"{time_of['hastings']:.0f} s for {len(own['hastings'][0].curve)} sweeps, which is not "
        "known to be enough)",
        f'prior {prior:g}: "there is little difference in perplexity" between CVB and Hastings '
        f"{_says(gap < 10)} ({mean['cvb']:.2f} and {mean['hastings']:.2f})",
        f'prior {prior:g}: "the difference in F1 is trivial" '
        f"{_says(abs(f1['cvb'] - f1['hastings']) < 0.03)} "
        f"({percent(f1['cvb'])} and {percent(f1['hastings'])})",
        f"prior {prior:g}: CVB has {'lower' if mean['cvb'] < mean['vb'] else 'no lower'} "
        f"perplexity and {'higher' if f1['cvb'] > f1['vb'] else 'no higher'} F1 than VB",
    ]


def _says(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def main(arguments: Sequence[str] | None = None) -> Report:
    """Run all methods, and report."""
    options = parser(__doc__)
    options.add_argument("--language", default="isizulu")
    options.add_argument("--words", type=int, default=800, help="training words (800)")
    options.add_argument("--held", type=int, default=150, help="held-out words (150)")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--contrast", type=int, default=1, help="seeds of the other priors (1)")
    options.add_argument("--sweeps", type=int, default=20, help="at most, but of Hastings (20)")
    options.add_argument("--draws", type=int, default=15, help="sweeps of Hastings (15)")
    options.add_argument("--prior", type=float, nargs="+", default=[1e-5, 0.1])
    given = options.parse_args(arguments)
    if given.small:
        given.words, given.held, given.seeds = 12, 5, 1
        given.sweeps, given.draws, given.prior = 2, 2, [1e-5]
    torch.set_num_threads(1)
    data = words(given.language, given.words, given.held)
    (size,) = data.program.shape("stem")
    report = Report(
        name="morphology_methods",
        title=f"Morphology of {given.language} verbs: four methods",
        command="python -m examples.morphology_methods",
        columns=["method", "prior", "perplexity", "boundary F1", "morph F1", "sweeps", "seconds"],
    )
    runs: list[Run] = []
    for prior in given.prior:
        for method in ORDER:
            sweeps = given.draws if method == "hastings" else given.sweeps
            own = []
            for seed in range(given.seeds if prior == given.prior[0] else given.contrast):
                own.append(run(data, method, prior, seed, sweeps))
                say(method, prior, seed, own[-1].perplexity, own[-1].boundary_f1, own[-1].seconds)
            runs += own
            report.add(
                method,
                f"{prior:g}",
                spread([r.perplexity for r in own]),
                spread([100 * r.boundary_f1 for r in own], ".1f"),
                spread([100 * r.part_f1 for r in own], ".1f"),
                spread([float(r.settled) for r in own], ".0f"),
                spread([r.seconds for r in own], ".1f"),
            )
    every = [[(i, i + 1) for i in range(len(e))] for e in data.test]
    naive = segment_score([e.segments or () for e in data.test], every)
    report.add("every letter", "", "", *map(percent, (naive.boundaries.f1, naive.parts.f1)), "", "")
    report.notes = [
        f"{len(data.train)} training types, {len(data.test)} held-out types, {size:,} substrings "
        f"of both; {given.seeds} seeds ({given.contrast} of the other priors), mean ± deviation",
        "perplexity is of held-out words, per character, ends not counted; EM's weights are "
        "smoothed by the prior; sweeps: until perplexity moves by less than 0.5%, or all",
        "the test words' substrings are in the lexicon, as in the paper: a model that learns "
        "words by heart has a low perplexity too, so F1 stands beside it",
        *(line for prior in given.prior for line in verdict(runs, prior)),
    ]
    report.numbers = {"runs": [vars(r) for r in runs], "substrings": size}
    first = given.prior[0]
    report.plot = Plot(
        title=f"Held-out perplexity per character, prior {first:g}, seed 0",
        x="sweep",
        y="perplexity",
        log_x=True,
        log_y=True,
        lines=tuple(
            Line(label=r.method, points=tuple((i + 1.0, p) for i, p in enumerate(r.curve)))
            for r in runs
            if r.seed == 0 and r.prior == first
        ),
    )
    return finish(report, given)


if __name__ == "__main__":
    main()
