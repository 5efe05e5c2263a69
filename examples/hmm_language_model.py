"""HMM language models of WikiText-2: `python -m examples.hmm_language_model`.

A dense HMM in state space beside low-rank ones in rank space, fitted by stepwise EM, against a
unigram and an interpolated Kneser-Ney bigram. Everyone has the same words, the 33,278 of the
training data with one `<eos>` for each line that is not blank, and every token counts, `<eos>` too.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

import fgg
from examples.report import Report, finish, parser, say
from fgg.data import find, read
from fgg.draw.plot import Line, Plot
from fgg.runtime.learn import OnlineEM, bucketed, in_memory, log_likelihood
from fgg.scores import perplexity

END = "<eos>"
PSEUDO = 0.005
"""Added to every count of EM: what is left for words that a state has not emitted yet."""
Text = list[list[int]]


@dataclass
class Bigram:
    """Interpolated Kneser-Ney with one discount, D = n1 / (n1 + 2 n2) (Ney, Essen & Kneser 1994).

    P(w | v) = max(c(v w) - D, 0) / c(v) + D · N(v ·) / c(v) · P₁(w), where P₁ comes from the number
    of words that w follows, discounted and mixed with the uniform distribution in the same way.
    """

    size: int
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    heads: Counter[int] = field(default_factory=Counter)
    follows: Counter[int] = field(default_factory=Counter)  # how many words come before it
    leads: Counter[int] = field(default_factory=Counter)  # how many words come after it

    def fit(self, text: Text, end: int) -> Bigram:
        """Count the pairs of a text; a line begins after the end of another one."""
        for line in text:
            for pair in zip([end, *line], line, strict=False):
                self.pairs[pair] += 1
        for (v, w), count in self.pairs.items():
            self.heads[v] += count
            self.leads[v] += 1
            self.follows[w] += 1
        self.discount = _discount(self.pairs.values())
        self.lower = _discount(self.follows.values())
        self.types = sum(self.follows.values())
        return self

    def probability(self, v: int, w: int) -> float:
        """P(w | v)."""
        flat = self.lower * len(self.follows) / self.types / self.size
        back = max(self.follows[w] - self.lower, 0.0) / self.types + flat
        total = self.heads[v]
        if not total:
            return back
        own = max(self.pairs[v, w] - self.discount, 0.0) / total
        return own + self.discount * self.leads[v] / total * back


def _discount(counts: Iterable[int]) -> float:
    found = Counter(counts)
    return found[1] / max(found[1] + 2 * found[2], 1)


def texts(lines: int | None) -> tuple[Text, Text, Text, int]:
    """The three parts as numbers of words, and how many words there are; the first is the end."""
    index: dict[str, int] = defaultdict(lambda: len(index))
    assert index[END] == 0
    found = []
    for part in ("train", "valid", "test"):
        text: Text = []
        for number, example in enumerate(read(find(f"wikitext2/{part}.txt.xz"))):
            if lines is not None and number >= (lines if part == "train" else lines // 4):
                break
            text.append([index[word] for word in (*example.words, END)])
        found.append(text)
    return found[0], found[1], found[2], len(index)


def main(arguments: Sequence[str] | None = None) -> Report:
    """Fit the models, and report."""
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=1.5, help="CPU minutes a model (1.5)")
    options.add_argument("--batch", type=int, default=24_000, help="tokens of a batch (24,000)")
    given = options.parse_args(arguments)
    torch.set_num_threads(1)
    models = [
        ("hmm", {"k": 64}, "state"),
        ("hmm_rank", {"k": 1024, "r": 64}, "rank"),
        ("hmm_rank", {"k": 1024, "r": 64}, "state"),
    ]
    if given.small:
        given.minutes, given.batch = 0.005, 2000
        models = [("hmm", {"k": 3}, "state"), ("hmm_rank", {"k": 6, "r": 3}, "rank")]
    train, valid, test, size = texts(40 if given.small else None)
    tokens, held = sum(map(len, train)), sum(map(len, test))
    report = Report(
        name="hmm_language_model",
        title="HMM language models of WikiText-2",
        command="python -m examples.hmm_language_model",
        columns=["model", "space", "parameters", "sweeps", "tokens/s", "valid", "test"],
    )
    counts = Counter(word for line in train for word in line)
    uniform = 1e-9  # in small runs there are new words; in the whole text there are none
    say("baselines")

    def unigram(text: Text) -> float:
        logs = (math.log(counts[w] / tokens + uniform) for line in text for w in line)
        return perplexity(math.fsum(logs), sum(map(len, text)))

    bigram = Bigram(size).fit(train, 0)

    def kneser_ney(text: Text) -> float:
        pairs = (pair for line in text for pair in zip([0, *line], line, strict=False))
        logs = (math.log(bigram.probability(v, w)) for v, w in pairs)
        return perplexity(math.fsum(logs), sum(map(len, text)))

    report.add("unigram", "", f"{size:,}", "", "", unigram(valid), unigram(test))
    pairs = f"{len(bigram.pairs):,}"
    report.add("Kneser-Ney bigram", "", pairs, "", "", kneser_ney(valid), kneser_ney(test))
    curves = []
    for name, sizes, space in models:
        program = fgg.compile(fgg.load(name, sizes={**sizes, "d": size}), space=space)
        model = program.model(seed=0)
        method = OnlineEM(model, dtype=torch.float32, pseudo=PSEUDO)
        batches = bucketed(program, in_memory(program, train), given.batch)
        ready = [method.ready(batch) for batch in batches]
        sample = valid[:: max(len(valid) // 300, 1)]
        curve: list[tuple[float, float]] = []
        begun = time.process_time()
        shuffle = torch.Generator().manual_seed(0)
        seconds = 0.0
        # No sweep is begun that would end after the budget; one there is in any case.
        while not curve or seconds * (len(curve) + 1) / len(curve) < 60 * given.minutes:
            before = time.process_time()
            order = torch.randperm(len(ready), generator=shuffle).tolist()
            method.sweep(ready[i] for i in order)
            seconds += time.process_time() - before
            now = log_likelihood(model, sample, budget=given.batch)
            curve.append((seconds, perplexity(now[0], now[1])))
            say(name, sizes, space, len(curve), f"{seconds:.0f} s", f"{curve[-1][1]:.1f}")
        rate = len(curve) * tokens / seconds
        scores = []
        for text in (valid, test):
            logs, number = log_likelihood(model, text, budget=given.batch)
            scores.append(perplexity(logs, number))
        label = f"{name} " + ", ".join(f"{k} = {v:,}" for k, v in sizes.items())
        parameters = sum(p.numel() for p in model.parameters())
        report.add(label, space, f"{parameters:,}", len(curve), f"{rate:,.0f}", *scores)
        curves.append(Line(label=f"{label}, {space}", points=tuple(curve)))
        report.numbers[f"{label}, {space}"] = {
            "curve": curve,
            "seconds": seconds,
            "all": time.process_time() - begun,
        }
    report.notes = [
        f"{tokens:,} training and {held:,} test tokens, {size:,} words; one `<eos>` for each line "
        "that is not blank, counted as a token; blank lines are left out",
        "perplexity per token; each line on its own, for HMMs and bigrams alike",
        "Kneser-Ney: interpolated, one discount; HMMs: stepwise EM from random weights with "
        f"pseudo-counts of {PSEUDO}, {given.minutes:g} minutes of CPU time each; "
        "tokens/s: of EM sweeps",
        "the two of `hmm_rank` with the same sizes have the same parameters and do the same "
        "computation in two spaces",
    ]
    report.plot = Plot(
        title="WikiText-2: perplexity of a part of the validation text",
        x="seconds of CPU time",
        y="perplexity",
        log_y=True,
        lines=tuple(curves),
    )
    return finish(report, given)


if __name__ == "__main__":
    main()
