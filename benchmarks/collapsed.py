"""Milliseconds an item of EM, VB, CVB and samplers: `python -m benchmarks.collapsed`.

Items are made-up words for the library's `morphology`. Their substrings are the first ones of a
vocabulary that grows: the rest is there, and no word has it. CPU time, one thread; the median of
several sweeps after the first, which grows the derivation forests. The end of a sweep renews all
weights and gives them to the model, so its cost grows with the vocabulary; a step's does not.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import fgg
from benchmarks.collapsed_by_hand import LEXICA, ByHand
from fgg.runtime.learn import METHODS
from fgg.runtime.learn.fitting import batched

PRIOR = 1e-2
METHODS_SHOWN = ("em", "vb", "cvb", "hastings", "gibbs")
Words = list[list[list[int]]]


def made_up(number: int, seed: int = 0) -> tuple[Words, int]:
    """Words as tables of their substrings, and how many substrings there are."""
    chance = random.Random(seed)
    syllables = ["".join(chance.choices("abcdefgh", k=chance.randint(1, 3))) for _ in range(60)]
    texts = sorted(
        {"".join(chance.choices(syllables, k=chance.randint(2, 5))) for _ in range(number)}
    )
    index: dict[str, int] = {}
    words = []
    for text in texts:
        n = len(text)
        table = [[-2] * (n + 1) for _ in range(n)]
        for i in range(n):
            for j in range(i + 1, n + 1):
                table[i][j] = index.setdefault(text[i:j], len(index))
        words.append(table)
    return words, len(index)


def weights(size: int) -> dict[str, torch.Tensor]:
    """Weights to begin with."""
    chance = torch.Generator().manual_seed(1)
    drawn = {name: torch.rand(size, generator=chance, dtype=torch.float64) for name in LEXICA}
    drawn["template"] = torch.ones(5, dtype=torch.float64)
    return {name: table / table.sum() for name, table in drawn.items()}


@dataclass(frozen=True)
class Spent:
    """CPU time: milliseconds of an item, and of the end of a sweep, where weights are renewed."""

    item: float
    end: float | None = None


def ours(words: Words, name: str, size: int, rounds: int) -> Spent:
    """Sweeps of a method."""
    program = fgg.compile(fgg.load("morphology", sizes={"substrings": size}))
    model = program.model(seed=0, dtype=torch.float64)
    options: dict[str, Any] = {"weights": weights(size), "forests": True}
    if name != "em":
        options["prior"] = PRIOR
    method = METHODS[name](model, **options)
    ready = [method.ready(batch) for batch in batched(model, words, name)]
    method.sweep(ready)
    steps, ends = [], []
    for _ in range(rounds):
        method.begin()
        steps.append(milliseconds(lambda: [method.step(batch) for batch in ready]))
        ends.append(milliseconds(method.end))
    return Spent(statistics.median(steps) / len(words), statistics.median(ends))


def by_hand(words: Words, name: str, size: int, rounds: int) -> Spent:
    """The same in NumPy."""
    hand = ByHand(words, size, PRIOR)
    hand.start({n: w.numpy() for n, w in weights(size).items()}, draw=name == "hastings")
    sweep = hand.cvb if name == "cvb" else hand.hastings
    return Spent(statistics.median(milliseconds(sweep) for _ in range(rounds)) / len(words))


def milliseconds(work: Callable[[], object]) -> float:
    """The CPU time of a call."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def main(arguments: Sequence[str] | None = None) -> str:
    """Measure, print and return the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--words", type=int, default=400)
    options.add_argument("--vocabulary", type=int, nargs="+", default=[0, 30_000, 300_000])
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args(arguments)
    torch.set_num_threads(1)
    words, least = made_up(given.words)
    sizes = [max(size, least) for size in given.vocabulary]
    rows: list[tuple[str, Callable[[int, int], Spent]]] = []
    for name in METHODS_SHOWN:
        rows.append((f"`{name}`", partial(ours, words, name)))
        if name in ("cvb", "hastings"):
            rows.append((f"`{name}` in NumPy", partial(by_hand, words, name)))
    lines = [
        "| an item, and the end of a sweep | "
        + " | ".join(f"{size:,} substrings" for size in sizes)
        + " |",
        "|---|" + "--:|" * len(sizes),
    ]
    for label, measure in rows:
        cells = [shown(measure(size, given.rounds)) for size in sizes]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    letters = sum(map(len, words)) / len(words)
    lines.append(f"\nMilliseconds; {len(words)} words of {letters:.1f} letters on average")
    table = "\n".join(lines)
    print(table)
    return table


def shown(spent: Spent) -> str:
    """A cell of the table."""
    return f"{spent.item:.3f}" + ("" if spent.end is None else f", {spent.end:.1f}")


if __name__ == "__main__":
    main()
