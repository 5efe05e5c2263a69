"""HMM language models of WikiText-2: `python -m examples.hmm_language_model`.

A dense HMM in state space beside low-rank ones in rank space, fitted by stepwise EM, against a
unigram and an interpolated Kneser-Ney bigram. Everyone has the same words, the 33,278 of the
training data with one `<eos>` for each line that is not blank, and every token counts, `<eos>` too.

From random weights, states of the low-rank HMM stay alike for many sweeps, since its transitions
are means over all of them. So models also start from the bigrams of Brown clusters, one for each
state, or, of the low-rank HMM, for each value of its rank node. There, word and next state depend
on the rank node alone: of rank r it can say what an HMM of r states can, and no more.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

import fgg
from examples.large_hmm.baselines import KneserNey
from examples.report import Report, finish, parser, say
from fgg.clusters import brown
from fgg.data import find, read
from fgg.draw.plot import Line, Plot
from fgg.runtime.learn import OnlineEM, bucketed, in_memory, log_likelihood
from fgg.scores import perplexity

END = "<eos>"
PSEUDO = 0.0003
"""Added to every count of a batch: what is left for words that a state has not emitted yet."""
TIED = 0.9
"""The share of a start that the clusters decide; the rest is as in the whole text."""
Text = list[list[int]]


def kneser_ney(text: Text, size: int) -> KneserNey:
    """The bigrams of a text; a line begins after the end of another one."""
    return KneserNey([0, *(word for line in text for word in line)], 2, size)


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


def class_bigrams(text: Text, size: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """A start from Brown clusters: `[class]`, `[class, class]` and `[class, word]`."""
    found = brown(([str(word) for word in line] for line in text), classes, across=False)
    block = torch.zeros(size, dtype=torch.long)
    for word, number in found.block_of().items():
        block[int(word)] = number
    first, follow = torch.ones(classes), torch.ones(classes, classes)
    emit = torch.zeros(classes, size)
    for line in text:
        words = torch.tensor(line)
        own = block[words]
        first[own[0]] += 1
        one = torch.ones(len(line))
        follow.index_put_((own[:-1], own[1:]), one[1:], accumulate=True)
        emit.index_put_((own, words), one, accumulate=True)
    whole = emit.sum(0) + 0.01
    parts = [part / part.sum(-1, keepdim=True) for part in (first, follow, emit + 1e-9, whole)]
    first, follow, emit, whole = (part.double() for part in parts)
    return first, follow, TIED * emit + (1 - TIED) * whole


def started(name: str, sizes: dict[str, int], start: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """The weights of a model that says what bigrams of classes say, about.

    Of `hmm_rank`, state u belongs to class u mod r, and the classes are the values of the rank
    node: a state goes to its own one, and that to the states of the next class.
    """
    first, follow, emit = start
    if name == "hmm":
        return {"init": first, "trans": follow, "emit": emit}
    k, classes = sizes["k"], len(first)
    own = torch.arange(k) % classes
    share = 1 / torch.bincount(own, minlength=classes)[own]
    mine = torch.nn.functional.one_hot(own, classes).double()
    leave = TIED * mine + (1 - TIED) / classes
    return {
        "init": first[own] * share,
        "step_0": leave,
        "step_1": follow[:, own] * share,
        "step_2": emit,
    }


def main(arguments: Sequence[str] | None = None) -> Report:
    """Fit the models, and report."""
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=1.0, help="CPU minutes a model (1)")
    options.add_argument("--batch", type=int, default=24_000, help="tokens of a batch (24,000)")
    given = options.parse_args(arguments)
    torch.set_num_threads(1)
    models = [
        ("hmm", {"k": 64}, "state", "random"),
        ("hmm", {"k": 64}, "state", "Brown"),
        ("hmm_rank", {"k": 1024, "r": 64}, "rank", "random"),
        ("hmm_rank", {"k": 1024, "r": 64}, "rank", "Brown"),
        ("hmm_rank", {"k": 1024, "r": 64}, "state", "Brown"),
        ("hmm_rank", {"k": 1024, "r": 128}, "rank", "Brown"),
    ]
    if given.small:
        given.minutes, given.batch = 0.005, 2000
        models = [
            ("hmm", {"k": 3}, "state", "Brown"),
            ("hmm_rank", {"k": 6, "r": 3}, "rank", "Brown"),
        ]
    train, valid, test, size = texts(40 if given.small else None)
    tokens, held = sum(map(len, train)), sum(map(len, test))
    report = Report(
        name="hmm_language_model",
        title="HMM language models of WikiText-2",
        command="python -m examples.hmm_language_model",
        columns=["model", "space", "start", "parameters", "sweeps", "tokens/s", "valid", "test"],
    )
    counts = Counter(word for line in train for word in line)
    uniform = 1e-9  # in small runs there are new words; in the whole text there are none
    say("baselines")

    def unigram(text: Text) -> float:
        logs = (math.log(counts[w] / tokens + uniform) for line in text for w in line)
        return perplexity(math.fsum(logs), sum(map(len, text)))

    bigram = kneser_ney(train, size)

    def by_bigrams(text: Text) -> float:
        pairs = (pair for line in text for pair in zip([0, *line], line, strict=False))
        logs = (math.log(bigram.probability(w, (v,))) for v, w in pairs)
        return perplexity(math.fsum(logs), sum(map(len, text)))

    report.add("unigram", "", "", f"{size:,}", "", "", unigram(valid), unigram(test))
    pairs = f"{len(bigram.counts[1]):,}"
    report.add("Kneser-Ney bigram", "", "", pairs, "", "", by_bigrams(valid), by_bigrams(test))
    curves = []
    starts: dict[int, tuple[Tensor, ...]] = {}
    for name, sizes, space, begin in models:
        program = fgg.compile(fgg.load(name, sizes={**sizes, "d": size}), space=space)
        model = program.model(seed=0)
        weights = None
        if begin == "Brown":
            classes = sizes.get("r", sizes["k"])
            if classes not in starts:
                before = time.process_time()
                starts[classes] = class_bigrams(train, size, classes)
                say("clusters", classes, f"{time.process_time() - before:.0f} s")
            weights = started(name, sizes, starts[classes])
        method = OnlineEM(model, dtype=torch.float32, pseudo=PSEUDO, weights=weights)
        batches = bucketed(in_memory(program, train), given.batch)
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
            say(name, sizes, space, begin, len(curve), f"{seconds:.0f} s", f"{curve[-1][1]:.1f}")
        rate = len(curve) * tokens / seconds
        scores = []
        for text in (valid, test):
            logs, number = log_likelihood(model, text, budget=given.batch)
            scores.append(perplexity(logs, number))
        label = f"{name} " + ", ".join(f"{k} = {v:,}" for k, v in sizes.items())
        parameters = sum(p.numel() for p in model.parameters())
        report.add(label, space, begin, f"{parameters:,}", len(curve), f"{rate:,.0f}", *scores)
        curves.append(Line(label=f"{label}, {space}, {begin}", points=tuple(curve)))
        report.numbers[f"{label}, {space}, {begin}"] = {
            "curve": curve,
            "seconds": seconds,
            "all": time.process_time() - begun,
        }
    report.notes = [
        f"{tokens:,} training and {held:,} test tokens, {size:,} words; one `<eos>` for each line "
        "that is not blank, counted as a token; blank lines are left out",
        "perplexity per token; each line on its own, for HMMs and bigrams alike",
        "Kneser-Ney: interpolated, one discount; HMMs: stepwise EM from random weights or from the "
        "bigrams of Brown clusters (20 to 30 s more, not counted), with pseudo-counts of "
        f"{PSEUDO} a batch, {given.minutes:g} minutes of CPU time each; tokens/s: of EM sweeps",
        "those of `hmm_rank` with the same sizes and start have the same parameters and do the "
        "same computation in two spaces; of rank r they can say what an HMM of r states can",
        "no HMM here reaches the Kneser-Ney bigram, which remembers pairs of words",
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
