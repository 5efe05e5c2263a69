"""Can data tell the parameters of a latent tree model? A story in five steps, with plots.

A PCFG is not identifiable from its sentences: a whole family of parameters gives the same ones.
Restricted so that children are drawn independently and alike, it is; and then its parameters can
be read off the moments of sentences of three words, without any iteration.

Where there is no linear algebra, moments are matched by least squares; and Fisher's information
says beforehand how many sentences that will take.

    python examples/unmixing.py [FOLDER]

writes to the folder `samples.svg` (the error falls as sentences grow in number), `spectrum.svg`
(how the error in exact moments depends on how alike states are) and `precision.svg` (the errors of
an HMM's parameters from triples of words, and the predicted ones).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import fgg
from fgg.api.unmix import curve, draw, precision
from fgg.draw.plot import Plot, lines, to_svg

SIZES = {"k": 2, "d": 4}
NUMBERS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


TRUTH = {
    "root": np.array([0.4, 0.6]),
    "child": np.array([[0.8, 0.2], [0.3, 0.7]]),
    "emit": np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5]]),
}

HMM_SIZES = {"k": 2, "d": 3}
HMM_NUMBERS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
HMM = {
    "init": np.array([0.7, 0.3]),
    "trans": np.array([[0.8, 0.2], [0.3, 0.7]]),
    "emit": np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
}


def check() -> None:
    """Ask of two models whether the triples of words in three words tell their parameters."""
    for name, what in (("cnf", "any pair of children"), ("pcfg_ie", "children drawn alike")):
        found = fgg.identify(fgg.load(name), length=3, moments="***", sizes=SIZES)
        print(
            f"{name} ({what}): rank {found.rank} of {found.parameters} parameters, "
            f"deficiency {found.deficiency}: identifiable: {found.verdict}"
        )


def recover() -> None:
    """Read the parameters off exact moments, and off a million sentences."""
    grammar, truth = fgg.load("pcfg_ie", sizes=SIZES), TRUTH
    exact = fgg.unmix(grammar, weights=truth)
    print(f"from exact moments: greatest error {exact.error(truth):.1e}")
    sentences = draw(grammar, truth, 3, 1_000_000, seed=0)
    found = fgg.unmix(grammar, {3: sentences})
    print(f"from {len(sentences):,} sentences: {found.error(truth):.3f}")
    print(np.round(found.aligned(truth)["emit"], 3))
    print(np.round(truth["emit"], 3), "is the truth")


def samples(folder: Path, numbers: Sequence[int], draws: int) -> None:
    """Plot how the error falls, with and without EM from the estimate."""
    grammar, truth = fgg.load("pcfg_ie", sizes=SIZES), TRUTH
    found = curve(grammar, truth, numbers, draws=draws, refine=100)
    plain = [(float(p.sentences), p.error) for p in found]
    after = [(float(p.sentences), p.refined) for p in found]
    last = plain[-1]
    rate = [(n, last[1] * (last[0] / n) ** 0.5) for n, _ in plain]
    plot = Plot(
        title="PCFG-IE, two states, four words: error of the parameters",
        lines=lines([("unmixing", plain), ("then EM", after), ("n to the -1/2", rate)]),
        x="sentences of three words",
        y="greatest error, median of draws",
        log_x=True,
        log_y=True,
    )
    (folder / "samples.svg").write_text(to_svg(plot), "utf-8")
    for point in found:
        print(
            f"{point.sentences:>9,} sentences: error {point.error:.3f}, "
            f"after EM {point.refined:.3f}" + (f", {point.failed} failed" if point.failed else "")
        )


def spectrum(folder: Path) -> None:
    """Plot how much of the precision of moments is lost when states become alike."""
    grammar = fgg.load("pcfg_ie", sizes=SIZES)
    found = []
    for power in range(8):
        step = 10.0**-power
        near = step * TRUTH["emit"] + (1 - step) * TRUTH["emit"].mean(axis=0)
        truth = {**TRUTH, "emit": near}
        try:
            found.append((step, fgg.unmix(grammar, weights=truth).error(truth)))
        except fgg.GrammarError:  # too near to one state
            break
    plot = Plot(
        title="Exact moments: states that are alike",
        lines=lines([("error", found)]),
        x="distance between the words of the two states, as a share of what it was",
        y="greatest error of a parameter",
        log_x=True,
        log_y=True,
    )
    (folder / "spectrum.svg").write_text(to_svg(plot), "utf-8")


def predicted(folder: Path, numbers: Sequence[int], draws: int) -> None:
    """Plot the errors of an HMM's parameters from triples of words, and those predicted."""
    grammar = fgg.load("hmm", sizes=HMM_SIZES)
    limits = precision(grammar, HMM, [3])
    for name, needed in limits.needed(0.05).items():
        print(f"{name} within 0.05 for 95 %: {needed:,} triples")
    points = curve(grammar, HMM, numbers, draws=draws, method="moments")
    errors = [(float(p.sentences), p.error) for p in points]
    expected = [(n, limits.greatest(n)) for n, _ in errors]
    plot = Plot(
        title="HMM, two states, three words: error of the parameters",
        lines=lines([("moment matching", errors), ("predicted", expected)]),
        x="triples of words",
        y="greatest error, median of draws",
        log_x=True,
        log_y=True,
    )
    (folder / "precision.svg").write_text(to_svg(plot), "utf-8")
    for (number, error), (_, limit) in zip(errors, expected, strict=True):
        print(f"{number:>9,.0f} triples: error {error:.4f}, predicted {limit:.4f}")


def main(
    folder: Path,
    numbers: Sequence[int] = NUMBERS,
    draws: int = 5,
    hmm_numbers: Sequence[int] = HMM_NUMBERS,
) -> None:
    """Tell the story."""
    folder.mkdir(parents=True, exist_ok=True)
    check()
    recover()
    samples(folder, numbers, draws)
    spectrum(folder)
    predicted(folder, hmm_numbers, draws)
    names = ("samples", "spectrum", "precision")
    print("wrote " + ", ".join(str(folder / f"{name}.svg") for name in names))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
