"""Grammar induction on tags of CRAFT: `python -m examples.pcfg_tags`.

Trees of sentences of 2 to 10 words from their tags alone, by a PCFG with low-rank rules whose
weights come from networks (Kim, Dyer and Rush 2019; Yang, Zhao and Tu 2021). Several seeds; the
model that is used is the one with the best held-out likelihood, for which no tree is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch

import fgg
from examples.report import Report, finish, parser, percent, say
from fgg.data import Example, find, read
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import span_cells
from fgg.runtime.learn import perplexity
from fgg.runtime.model.model import Model
from fgg.scores import left_branching, oracle_binary, right_branching, span_score

GRAMMAR = Path(__file__).parent / "neural_pcfg.fgg"


def score(model: Model, examples: Sequence[Example], inputs: Sequence[list[int]]) -> float:
    """S-F1 of the trees of minimum Bayes risk."""
    trees = []
    for first in range(0, len(inputs), 200):
        trees += model.posterior(w=inputs[first : first + 200]).mbr()
    spans = [span_cells(tree) for tree in trees]
    gold = [e.spans or () for e in examples]
    return span_score(gold, spans, list(map(len, examples))).mean_f1


def main(arguments: Sequence[str] | None = None) -> Report:
    """Induce grammars, and report."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=4)
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--tokens", type=int, default=200, help="tokens of a batch (200)")
    given = options.parse_args(arguments)
    sizes, count = {"nt": 30, "pt": 60, "r": 64}, None
    if given.small:
        given.seeds, given.epochs, sizes, count = 1, 1, {"nt": 3, "pt": 5, "r": 4}, 20
    torch.set_num_threads(1)
    parts = {
        part: list(read(find(f"craft_trees/{part}.len10.trees")))[:count]
        for part in ("train", "dev", "test")
    }
    index = {t: i for i, t in enumerate(sorted({t for e in parts["train"] for t in e.tags or ()}))}
    inputs = {
        part: [[index.get(t, 0) for t in e.tags or ()] for e in own] for part, own in parts.items()
    }
    program = fgg.compile(fgg.load(GRAMMAR, sizes={**sizes, "words": len(index)}))
    report = Report(
        name="pcfg_tags",
        title="PCFG induction on the tags of CRAFT, 2 to 10 words",
        command="python -m examples.pcfg_tags",
        columns=["", "dev perplexity", "dev S-F1", "test S-F1", "seconds"],
    )
    for name in ("left", "right", "oracle"):
        shares = []
        for part in ("dev", "test"):
            gold = [e.spans or () for e in parts[part]]
            lengths = list(map(len, parts[part]))
            guess = {
                "left": [left_branching(n) for n in lengths],
                "right": [right_branching(n) for n in lengths],
                "oracle": [oracle_binary(g, n) for g, n in zip(gold, lengths, strict=True)],
            }[name]
            shares.append(span_score(gold, guess, lengths).mean_f1)
        report.add(f"{name} branching" if name != "oracle" else name, "", *map(percent, shares), "")
    best: tuple[float, float, int] | None = None
    lines = []
    for seed in range(given.seeds):
        model = program.model(seed=seed)
        begun = time.process_time()
        points: list[tuple[float, float]] = []

        def note(progress: object, model: Model = model, points: list = points) -> None:  # type: ignore[type-arg]
            points.append((len(points) + 1.0, perplexity(model, inputs["dev"])))

        fgg.learn(
            model,
            inputs["train"],
            method="adam",
            epochs=given.epochs,
            budget=given.tokens,
            seed=seed,
            report=note,
            rate=0.003,
            betas=(0.75, 0.999),
            clip=3.0,
        )
        seconds = time.process_time() - begun
        shares = [score(model, parts[part], inputs[part]) for part in ("dev", "test")]
        held = points[-1][1]
        say(seed, held, *map(percent, shares))
        report.add(f"neural PCFG, seed {seed}", held, *map(percent, shares), f"{seconds:.0f}")
        best = min(best, (held, shares[1], seed)) if best else (held, shares[1], seed)
        lines.append(Line(label=f"seed {seed}", points=tuple(points)))
        report.numbers[f"seed {seed}"] = {"curve": points, "dev": shares[0], "test": shares[1]}
    if best is not None:
        chosen = f"chosen by dev likelihood: seed {best[2]}"
        report.add(chosen, best[0], "", percent(best[1]), "")
    report.notes = [
        f"{len(parts['train']):,} training sentences as {len(index)} tags; nt, pt, r = "
        f"{sizes['nt']}, {sizes['pt']}, {sizes['r']}; Adam, {given.epochs} epochs",
        "S-F1: mean over sentences, unlabelled, spans of one word and whole sentences left out",
    ]
    report.plot = Plot(
        title="PCFG induction: held-out perplexity per tag", x="epoch", y="dev", lines=tuple(lines)
    )
    return finish(report, given)


if __name__ == "__main__":
    main()
