"""Secondary structures of tRNA: `python -m examples.rna_folding`.

The grammar of Knudsen and Hein 1999 (`rna` of the library) and one with stacked pairs
(`rna_folded.fgg`), fitted without structures by EM from weights that know which bases pair, and
with them: the query `folded` observes a structure by log-weights of 0 and -inf, and as a derivation
is a structure, one sweep of EM counts. Beside them, what ViennaRNA's minimum free energy scores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

import fgg
from examples.report import Report, finish, parser, percent, say
from fgg.data import Example, find, read
from fgg.draw.plot import Line, Plot
from fgg.grammar.annotations import pairs
from fgg.runtime.learn import EM, Items
from fgg.runtime.learn.fitting import batched
from fgg.runtime.model.model import Model
from fgg.scores import pair_score

GRAMMAR = Path(__file__).parent / "rna_folded.fgg"
BASES = "ACGU"
PAIRS = ("AU", "UA", "CG", "GC", "GU", "UG")
PSEUDO = 0.1


def ids(example: Example) -> list[int]:
    """The bases as numbers."""
    return [BASES.index(base) for base in example.words]


def structures(examples: Sequence[Example], size: int = 32) -> Iterator[Items]:
    """Batches of sequences with their structures as log-weights; padding is not read."""
    order = sorted(range(len(examples)), key=lambda i: len(examples[i]))
    for first in range(0, len(order), size):
        own = order[first : first + size]
        longest = max(len(examples[i]) for i in own)
        alone = torch.zeros(len(own), longest, dtype=torch.float64)
        paired = torch.full((len(own), longest, longest + 1), -torch.inf, dtype=torch.float64)
        for row, i in enumerate(own):
            for left, right in examples[i].pairs or ():
                alone[row, left] = alone[row, right] = -torch.inf
                paired[row, left, right + 1] = 0.0
        inputs = {"w": [ids(examples[i]) for i in own], "alone": alone, "pairs": paired}
        yield Items(inputs, None, tuple(own))


def canonical(stacked: bool) -> dict[str, Tensor]:
    """Weights to start from: six kinds of pairs are likely, and so are stems of several pairs."""
    pair = torch.full((4, 4), 0.001, dtype=torch.float64)
    for both in PAIRS:
        pair[BASES.index(both[0]), BASES.index(both[1])] = 1.0
    found = {
        "pair": pair / pair.sum(),
        "base": torch.full((4,), 0.25, dtype=torch.float64),
        "sequence": torch.tensor([0.8, 0.2], dtype=torch.float64),
        "part": torch.tensor([0.85, 0.15], dtype=torch.float64),
        "stem": torch.tensor([0.8, 0.2], dtype=torch.float64),
    }
    if stacked:
        found["stacked"] = found["pair"].expand(4, 4, 4, 4).clone()
    return found


def main(arguments: Sequence[str] | None = None) -> Report:
    """Fit in all ways, and report."""
    options = parser(__doc__)
    options.add_argument("--sequences", type=int, default=300, help="training sequences (300)")
    options.add_argument("--sweeps", type=int, default=15)
    given = options.parse_args(arguments)
    held = None
    if given.small:
        given.sequences, given.sweeps, held = 4, 1, 2
    torch.set_num_threads(1)
    train = list(read(find("rna/trna.train.dbn")))[: given.sequences]
    test = list(read(find("rna/trna.test.dbn")))[:held]
    gold = [e.pairs or () for e in test]
    report = Report(
        name="rna_folding",
        title="tRNA structures: F1 of base pairs",
        command="python -m examples.rna_folding",
        columns=["grammar", "fitted by", "decoded by", "mean F1", "precision", "recall", "seconds"],
    )
    baseline = json.loads(find("rna/viennarna_mfe_baseline.json").read_text())["trna"]
    shares = baseline["mean_f1"], baseline["ppv"], baseline["sens"]
    report.add("ViennaRNA 2.7.2", "its energies", "least energy", *map(percent, shares), "")

    def add(
        model: Model,
        name: str,
        fitted: str,
        seconds: float,
        methods: Sequence[str] = ("viterbi", "mbr"),
    ) -> None:
        for method in methods:
            # A pair is a cell of F: those are what minimum Bayes risk is to count.
            families = None if method == "viterbi" else ["F"]
            found = model.posterior(w=[ids(e) for e in test]).decode(method, families=families)
            score = pair_score(gold, [pairs(d, model.program.grammar) for d in found])
            shares = score.mean_f1, score.corpus.precision, score.corpus.recall
            report.add(name, fitted, method, *map(percent, shares), f"{seconds:.0f}")
            report.numbers[f"{name}, {fitted}, {method}"] = shares
            say(name, fitted, method, *map(percent, shares), f"{seconds:.0f}")

    lines = []
    for name in ("rna", "stacked pairs"):
        stacked = name != "rna"
        grammar = fgg.load(GRAMMAR) if stacked else fgg.load("rna")
        program = fgg.compile(grammar, query="string")
        if not stacked:
            start = program.model(weights=canonical(stacked))
            add(start, name, "nothing: the start", 0.0, ["mbr"])
        model = program.model(dtype=torch.float64)
        method = EM(model, weights=canonical(stacked), pseudo=PSEUDO)
        before = time.process_time()
        ready = [method.ready(b) for b in batched(model, [ids(e) for e in train], "em", 4096)]
        bases = sum(map(len, train))
        curve = []
        for sweep in range(given.sweeps):
            progress = method.sweep(ready)
            curve.append((sweep + 1.0, -progress.log_z / bases))
        lines.append(Line(label=name, points=tuple(curve)))
        add(model, name, "EM, no structures", time.process_time() - before)
    folded = fgg.compile(fgg.load(GRAMMAR), query="folded").model(dtype=torch.float64)
    before = time.process_time()
    EM(folded, pseudo=PSEUDO).sweep(structures(train))
    weights = {name: folded.weight(name).detach() for name in canonical(True)}
    program = fgg.compile(fgg.load(GRAMMAR), query="string")
    fitted = program.model(dtype=torch.float64, weights=weights)
    add(fitted, "stacked pairs", "counts of structures", time.process_time() - before)
    report.notes = [
        f"{len(train):,} training and {len(test):,} test sequences; pseudo-counts of {PSEUDO}",
        "precision and recall are pooled, F1 is a mean over sequences, both positions exact; those "
        "of ViennaRNA are as they were given",
        "structures of the same family are in the training data of the last model, and near "
        "duplicates in both parts; ViennaRNA has seen neither",
    ]
    report.plot = Plot(
        title="EM without structures: nats per base", x="sweep", y="nats", lines=tuple(lines)
    )
    return finish(report, given)


if __name__ == "__main__":
    main()
