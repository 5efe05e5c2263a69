"""Evaluation: the likelihood of data, and scores of a model's derivations against gold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from fgg.data import Batches, Example
from fgg.data.preprocessing import UNTAGGED
from fgg.diagnostics import GrammarError, refuse
from fgg.grammar import Grammar
from fgg.grammar.annotations import RuleLink, heads, pairs, segments, span_cells, tags
from fgg.grammar.domains import lengths
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.entries.factor_reader import Weight
from fgg.runtime.native.jobs import Job
from fgg.runtime.program.prepared_batch import number_type
from fgg.runtime.program.program import Program
from fgg.runtime.train.feed import Feed
from fgg.runtime.train.usage import Usage
from fgg.scores import (
    head_score,
    left_branching,
    left_neighbours,
    many_to_one,
    one_to_one,
    oracle_binary,
    pair_score,
    perplexity,
    right_branching,
    right_neighbours,
    segment_score,
    span_score,
    v_measure,
)

ANNOTATIONS = ("spans", "heads", "tags", "segments", "pairs")
"""The scores that compare derivations with the field of an example of the same name."""
SCORES = ("likelihood", "usage", *ANNOTATIONS)


@dataclass(frozen=True)
class Evaluation:
    """The scores to compute, how derivations are decoded, and how annotation is read from them."""

    scores: tuple[str, ...] = ("likelihood",)
    method: str = "viterbi"
    families: tuple[str, ...] = ()
    links: tuple[RuleLink, ...] = ()


def evaluate(
    program: Program,
    weights: Mapping[str, Weight],
    feed: Feed,
    batches: Batches,
    asked: Evaluation,
    tick: Callable[[int], None] | None = None,
) -> dict[str, dict[str, float]]:
    """The numbers of each score by name. Raises GrammarError (F478) if annotation is missing."""
    scores: dict[str, dict[str, float]] = {}
    examples: list[Example] = []
    derivations: list[Derivation] = []
    log_z: list[float] = []
    decoding = any(name in ANNOTATIONS for name in asked.scores)
    usage = Usage.of(program, weights) if "usage" in asked.scores else None
    tensors = (w if isinstance(w, torch.Tensor) else w.products.left for w in weights.values())
    dtype, device = number_type([*tensors])
    job = Job(
        batches=feed.checked(program, batches),
        dtype=dtype,
        device=device,
        derivatives=decoding or usage is not None,
        look=True,
    )
    with torch.no_grad(), job.on_one_backend(program):
        for batch in batches.epoch(0):
            items = feed.items(batch)
            if items is None:
                continue
            for example in batch.examples:
                _check(example, asked)
            if "likelihood" in asked.scores:
                log_z += program.log_z(weights, items.inputs, items.lengths).double().tolist()
            posterior = program.posterior(weights, items.inputs, items.lengths)
            if usage is not None:
                usage.add(posterior)
            if decoding:
                # Only tags are values of nodes; all else is read from cells and rules.
                values = "tags" in asked.scores
                derivations += posterior.decode(asked.method, values=values)
            examples += batch.examples
            if tick is not None:
                tick(sum(batch.lengths))
    if "likelihood" in asked.scores:
        scores["likelihood"] = _likelihood(log_z, examples, generates_ends(program, weights))
    if usage is not None:
        scores["usage"] = usage.numbers()
    for name in asked.scores:
        if name in ANNOTATIONS:
            scores[name] = SCORERS[name](program.grammar, examples, derivations, asked)
    return scores


def _check(example: Example, asked: Evaluation) -> None:
    for name in asked.scores:
        if name in ANNOTATIONS and getattr(example, name) is None:
            refuse("F478", f"{example.place}: there are no {name} to score against")


def generates_ends(program: Program, weights: Mapping[str, object]) -> bool:
    """Whether a model decides where an item ends, so that an end is an event to be counted.

    Then the probabilities of all items of all lengths sum to 1 at most. A model that is told the
    length, such as an HMM that stops without weight, has probabilities that sum to 1 for each. The
    answer is no where items have several lengths or need more than tokens.
    """
    names = lengths(program.grammar)
    if len(names) != 1:
        return False
    try:
        with torch.no_grad():
            log_z = program.log_z(weights, None, {name: [1, 2, 3, 4] for name in names})
    except GrammarError:
        return False
    return bool(0 < log_z.double().exp().sum() <= 1 + 1e-3)


def _likelihood(
    log_z: Sequence[float], examples: Sequence[Example], ends: bool
) -> dict[str, float]:
    total, tokens = float(sum(log_z)), sum(map(len, examples))
    if not tokens:
        refuse("F478", "there are no data to evaluate on")
    with_ends = {"perplexity_with_ends": perplexity(total, tokens + len(examples))} if ends else {}
    return {
        "log_likelihood": total,
        "items": len(examples),
        "tokens": tokens,
        "perplexity": perplexity(total, tokens),
        **with_ends,
        "impossible": sum(z == -torch.inf for z in log_z),
    }


Derivations = Sequence[Derivation]


def _spans(
    grammar: Grammar, examples: Sequence[Example], derivations: Derivations, asked: Evaluation
) -> dict[str, float]:
    gold = [example.spans or () for example in examples]
    sizes = list(map(len, examples))
    guess = [span_cells(d, asked.families) for d in derivations]
    score = span_score(gold, guess, sizes)
    baselines = {
        "left": [left_branching(n) for n in sizes],
        "right": [right_branching(n) for n in sizes],
        "oracle": [oracle_binary(g, n) for g, n in zip(gold, sizes, strict=True)],
    }
    return {
        "sentence_f1": score.mean_f1,
        "corpus_f1": score.corpus.f1,
        "precision": score.corpus.precision,
        "recall": score.corpus.recall,
        **{k: span_score(gold, v, sizes).mean_f1 for k, v in baselines.items()},
    }


def _heads(
    grammar: Grammar, examples: Sequence[Example], derivations: Derivations, asked: Evaluation
) -> dict[str, float]:
    if not asked.links:
        message = "no rule says which word is the head of which"
        help = "say so: `--links left_some=j-1:k right_some=i:k root=:r`"
        refuse("F478", message, help)
    gold = [example.heads or () for example in examples]
    guess = [heads(d, len(e), asked.links) for d, e in zip(derivations, examples, strict=True)]
    score = head_score(gold, guess)
    left = head_score(gold, [left_neighbours(len(e)) for e in examples])
    right = head_score(gold, [right_neighbours(len(e)) for e in examples])
    return {
        "directed": score.directed,
        "undirected": score.undirected,
        "left": left.directed,
        "right": right.directed,
    }


def _tags(
    grammar: Grammar, examples: Sequence[Example], derivations: Derivations, asked: Evaluation
) -> dict[str, float]:
    gold = [tag for example in examples for tag in example.tags or ()]
    guess: list[str] = []
    for derivation, example in zip(derivations, examples, strict=True):
        guess += [tag or "" for tag in tags(derivation, len(example), asked.families)]
    known = [(g, t) for g, t in zip(gold, guess, strict=True) if g != UNTAGGED]
    gold, guess = [g for g, _ in known], [t for _, t in known]
    measured = v_measure(gold, guess)
    return {
        "many_to_one": many_to_one(gold, guess),
        "one_to_one": one_to_one(gold, guess),
        "v": measured.v,
        "homogeneity": measured.homogeneity,
        "completeness": measured.completeness,
    }


def _segments(
    grammar: Grammar, examples: Sequence[Example], derivations: Derivations, asked: Evaluation
) -> dict[str, float]:
    gold = [example.segments or () for example in examples]
    guess = [segments(d, len(e)) for d, e in zip(derivations, examples, strict=True)]
    score = segment_score(gold, guess)
    return {
        "boundary_f1": score.boundaries.f1,
        "boundary_precision": score.boundaries.precision,
        "boundary_recall": score.boundaries.recall,
        "part_f1": score.parts.f1,
        "accuracy": score.accuracy,
    }


def _pairs(
    grammar: Grammar, examples: Sequence[Example], derivations: Derivations, asked: Evaluation
) -> dict[str, float]:
    gold = [example.pairs or () for example in examples]
    guess = [pairs(d, grammar, asked.links) for d in derivations]
    score = pair_score(gold, guess)
    return {
        "mean_f1": score.mean_f1,
        "corpus_f1": score.corpus.f1,
        "precision": score.corpus.precision,
        "recall": score.corpus.recall,
    }


Scorer = Callable[[Grammar, Sequence[Example], Derivations, Evaluation], dict[str, float]]
SCORERS: dict[str, Scorer] = {
    "spans": _spans,
    "heads": _heads,
    "tags": _tags,
    "segments": _segments,
    "pairs": _pairs,
}
