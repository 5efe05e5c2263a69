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
from functools import partial
from math import isfinite
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
from fgg.data import Example, build_vocabulary, find, read
from fgg.data.preprocessing import part_ids
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import segments
from fgg.runtime.learn import METHODS, Hastings, Method, log_likelihood
from fgg.runtime.learn.convergence import effective_size, r_hat
from fgg.runtime.learn.fitting import batched
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program
from fgg.runtime.train.feed import parts
from fgg.scores import perplexity, segment_score

TEMPLATES = ("V", "VM", "SVM", "STVM", "STOVM")
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
    """What a method did: perplexity at some sweeps, scores at the end, seconds of sweeps.

    `settled` is the sweep after which perplexity stayed within 2 % of the last one. `traces` are
    numbers after each sweep of the sampler, by name.
    """

    method: str
    prior: float
    seed: int
    sweeps: int
    curve: list[tuple[int, float]]
    perplexity: float
    boundary_f1: float
    part_f1: float
    settled: int
    seconds: float
    acceptance: list[float]
    traces: dict[str, list[float]]


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
    curve: list[tuple[int, float]] = []
    acceptance: list[float] = []
    traces: dict[str, list[float]] = {}
    seconds = 0.0
    for sweep in range(1, sweeps + 1):
        before = time.process_time()
        report = fitting.sweep(ready)
        seconds += time.process_time() - before
        if isinstance(fitting, Hastings):
            acceptance.append(report.details["acceptance"])
            watch(fitting, report.objective, traces)
        if is_looked_at(sweep) or sweep == sweeps:
            smooth(model, fitting, prior)
            curve.append((sweep, perplexity(log_likelihood(model, data.held)[0], characters)))
        if method != "hastings" and len(curve) > 4:
            near = [abs(a - curve[-1][1]) < 0.001 * curve[-1][1] for _, a in curve[-4:]]
            if all(near):
                break
    score = segment_score(
        [example.segments or () for example in data.test],
        [
            segments(best, len(example))
            for best, example in zip(model.posterior(s=data.held).best(), data.test, strict=True)
        ],
    )
    return Run(
        method=method,
        prior=prior,
        seed=seed,
        sweeps=sweep,
        curve=curve,
        perplexity=curve[-1][1],
        boundary_f1=score.boundaries.f1,
        part_f1=score.parts.f1,
        settled=settled(curve),
        seconds=seconds,
        acceptance=acceptance,
        traces=traces,
    )


def is_looked_at(sweep: int) -> bool:
    """Whether perplexity is measured after a sweep: each of the first 40, then every tenth."""
    return sweep <= 40 or sweep % 10 == 0


def settled(curve: Sequence[tuple[int, float]]) -> int:
    """The first sweep from which on perplexity stays within 2 % of the last."""
    last = curve[-1][1]
    moving = [number for number, (_, p) in enumerate(curve) if abs(p - last) > 0.02 * last]
    return curve[moving[-1] + 1][0] if moving else curve[0][0]


def watch(sampler: Hastings, log_joint: float, traces: dict[str, list[float]]) -> None:
    """Add what R-hat is computed of: log P, how often templates are used, the sizes of lexica."""
    tables = sampler.layout.tables(sampler.store.total)
    numbers = {"log P": log_joint}
    for place, name in enumerate(TEMPLATES):
        numbers[name] = float(tables["template"][0, place])
    for name in LEXICA:
        numbers[f"{name}s"] = float((tables[name] > 0.5).sum())
    for name, number in numbers.items():
        traces.setdefault(name, []).append(number)


@dataclass(frozen=True)
class Agreement:
    """How far chains agree on a number, over the second half of their sweeps."""

    name: str
    r_hat: float
    effective_size: float
    means: list[float]


def agreements(runs: Sequence[Run]) -> list[Agreement]:
    """How far the chains agree on each number that was watched."""
    result = []
    for name in runs[0].traces:
        chains = [r.traces[name][len(r.traces[name]) // 2 :] for r in runs]
        means = [sum(c) / len(c) for c in chains]
        result.append(Agreement(name, r_hat(chains), effective_size(chains), means))
    return result


def smooth(model: Model, fitting: Method, prior: float) -> None:
    """Smooth a model of EM by the prior, as the others are: else most words are impossible."""
    if fitting.name == "em":
        for name, counts in fitting.sums.items():  # type: ignore[attr-defined]
            total = counts + prior
            model.set_logits(name, (total / total.sum(-1, keepdim=True)).log())


def verdicts(runs: Sequence[Run], prior: float) -> list[str]:
    """The paper's claims of section 4.1, each judged by the numbers of one prior."""
    of = {m: [r for r in runs if r.method == m and r.prior == prior] for m in ORDER}
    if not all(of.values()):
        return []
    rate = {m: mean([r.perplexity for r in own]) for m, own in of.items()}
    f1 = {m: mean([r.boundary_f1 for r in own]) for m, own in of.items()}
    cvb, hastings = of["cvb"], of["hastings"]
    needed = {m: mean([r.seconds * r.settled / r.sweeps for r in of[m]]) for m in ORDER}
    sweep = {m: mean([r.seconds / r.sweeps for r in of[m]]) for m in ORDER}
    late = [a for r in hastings for a in r.acceptance[len(r.acceptance) // 2 :]]
    last = max(r.settled for r in hastings)
    worst = max(a.r_hat for a in agreements(hastings))
    ratio = rate["cvb"] / rate["hastings"]
    return [
        claim("CVB converges before 10 sweeps", max(r.settled for r in cvb) < 10)
        + f" (within 2 % of its last perplexity after {listed(cvb)})",
        claim("Hastings converges after about 1,000 sweeps", last <= 1000 and worst < 1.1)
        + f" (the perplexity of averaged weights is within 2 % after {listed(hastings)} of "
        f"{hastings[0].sweeps:,}, but the greatest R-hat is {worst:.1f}: "
        + ("chains agree)" if worst < 1.1 else "each chain stays where it is)"),
        claim("CVB takes a fraction of the sampler's time", 2 * needed["cvb"] < needed["hastings"])
        + f" ({needed['cvb']:.1f} s of CPU time and {needed['hastings']:.1f} s until within 2 %; "
        f"a sweep: VB {sweep['vb']:.2f} s, CVB {sweep['cvb']:.2f} s, "
        f"Hastings {sweep['hastings']:.2f} s)",
        claim("the perplexities of CVB and Hastings differ little", abs(ratio - 1) < 0.05)
        + f" ({rate['cvb']:.2f} and {rate['hastings']:.2f}, a character)",
        claim("their F1 differ trivially", abs(f1["cvb"] - f1["hastings"]) < 0.03)
        + f" ({percent(f1['cvb'])} and {percent(f1['hastings'])})",
        claim("proposals are hardly ever rejected", bool(late) and mean(late) > 0.97)
        + f" ({percent(mean(late))} % accepted in the second half)",
        claim(
            "CVB is better than VB and EM, in similar training time",
            rate["cvb"] < min(rate["vb"], rate["em"])
            and f1["cvb"] > max(f1["vb"], f1["em"])
            and needed["cvb"] < 2 * max(needed["vb"], needed["em"]),
        )
        + f" (perplexity {rate['cvb']:.2f}, {rate['vb']:.2f}, {rate['em']:.2f}; F1 "
        f"{percent(f1['cvb'])}, {percent(f1['vb'])}, {percent(f1['em'])})",
    ]


def listed(runs: Sequence[Run]) -> str:
    """The sweeps after which runs had settled."""
    return ", ".join(str(r.settled) for r in runs)


def main(arguments: Sequence[str] | None = None) -> Report:
    """Run all methods, and report."""
    options = parser(__doc__)
    options.add_argument("--language", default="isizulu")
    options.add_argument("--words", type=int, default=800, help="training words (800)")
    options.add_argument("--held", type=int, default=150, help="held-out words (150)")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--chains", type=int, default=3, help="seeds of Hastings (3)")
    options.add_argument("--sweeps", type=int, default=60, help="at most, but of Hastings (60)")
    options.add_argument("--draws", type=int, default=1000, help="sweeps of Hastings (1000)")
    options.add_argument(
        "--prior", type=float, nargs="+", default=[1e-5, 0.1], help="Hastings has the first only"
    )
    given = options.parse_args(arguments)
    if given.small:
        given.words, given.held, given.seeds, given.chains = 12, 5, 2, 2
        given.sweeps, given.draws, given.prior = 2, 8, [1e-5]
    torch.set_num_threads(1)
    data = words(given.language, given.words, given.held)
    (size,) = data.program.shape("stem")
    report = Report(
        name="morphology_methods",
        title=f"Morphology of {given.language} verbs: four methods",
        command=command("examples.morphology_methods", arguments),
        columns=["method", "prior", "perplexity", "boundary F1", "morph F1", "sweeps", "seconds"],
    )
    kept = kept_runs(given, report.name)
    runs: list[Run] = []
    for prior in given.prior:
        for method in ORDER:
            sweeps = given.draws if method == "hastings" else given.sweeps
            if method == "hastings" and prior != given.prior[0]:
                continue
            own = []
            for seed in range(given.chains if method == "hastings" else given.seeds):
                settings = {
                    "language": given.language,
                    "words": [len(data.train), len(data.test)],
                    "method": method,
                    "prior": prior,
                    "seed": seed,
                    "sweeps": sweeps,
                }
                numbers = kept.run(settings, partial(_numbers, data, method, prior, seed, sweeps))
                own.append(Run(**numbers))
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
        f"of both; {given.seeds} seeds, mean ± deviation; Hastings: {given.chains} chains of "
        f"{given.draws:,} sweeps, with the first prior only",
        "perplexity is of held-out words, per character, ends not counted; EM's weights are "
        "smoothed by the prior, the sampler's are averaged over the second half of its sweeps; "
        "sweeps: until perplexity stays within 2% of the last; seconds: of CPU time, all sweeps",
        "the test words' substrings are in the lexicon, as in the paper: a model that learns "
        "words by heart has a low perplexity too, so F1 stands beside it",
    ]
    for prior in given.prior[:1]:
        chains = [r for r in runs if r.method == "hastings" and r.prior == prior]
        agreed = agreements(chains)
        report.notes.append(f"Prior {prior:g}: {shown_agreements(agreed)}")
        report.notes += [f"Prior {prior:g}: {line}" for line in verdicts(runs, prior)]
        report.numbers[f"agreement, prior {prior:g}"] = [saved(a) for a in agreed]
    kept_curves = [{k: v for k, v in vars(r).items() if k != "traces"} for r in runs]
    report.numbers |= {"runs": kept_curves, "substrings": size}
    first = given.prior[0]
    report.plot = Plot(
        title=f"Held-out perplexity per character, prior {first:g}, seed 0",
        x="sweep",
        y="perplexity",
        log_x=True,
        log_y=True,
        lines=tuple(
            Line(label=r.method, points=tuple((float(i), p) for i, p in r.curve))
            for r in runs
            if r.seed == 0 and r.prior == first
        ),
    )
    return finish(report, given)


def saved(agreement: Agreement) -> dict[str, Any]:
    """A row of numbers for JSON, which has no NaN."""
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in vars(agreement).items()
    }


def shown_agreements(agreed: Sequence[Agreement]) -> str:
    """R-hat and effective sample sizes as one line."""
    shown = [f"{a.name} {a.r_hat:.2f} ({a.effective_size:.0f})" for a in agreed]
    return "R-hat of the chains, second half, and effective draws of all of them: " + ", ".join(
        shown
    )


def _numbers(data: Words, method: str, prior: float, seed: int, sweeps: int) -> dict[str, Any]:
    """A run as it is kept."""
    return vars(run(data, method, prior, seed, sweeps))


if __name__ == "__main__":
    main()
