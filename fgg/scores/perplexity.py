"""Perplexities: exp(-log-likelihood / number of events), where an event is a word or a character.

Log-likelihoods are in nats, one for each whole sentence. Whether the end of a sentence is an event
changes the number, so `ends` has no default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def perplexity(log_likelihood: float, events: int) -> float:
    """exp(-log-likelihood / events); infinite if the log-likelihood is -inf."""
    if events <= 0:
        raise ValueError("there are no tokens to compute a perplexity from")
    rate = -log_likelihood / events
    return math.exp(rate) if rate < 709 else math.inf


def word_perplexity(
    log_likelihoods: Iterable[float], lengths: Sequence[int], *, ends: bool
) -> float:
    """The perplexity per word of sentences of these lengths.

    With `ends`, the end of each sentence counts as one more word, as it must if the model assigns
    it a probability (language modelling). Without, only words count, as in grammar induction.
    """
    return perplexity(math.fsum(log_likelihoods), sum(lengths) + (len(lengths) if ends else 0))


def characters(sentences: Iterable[Sequence[str]], *, spaces: bool, ends: bool) -> int:
    """The number of characters in the words of sentences, with `spaces` between and `ends`."""
    total = 0
    for words in sentences:
        total += sum(map(len, words)) + ends
        total += max(len(words) - 1, 0) if spaces else 0
    return total


def character_perplexity(
    log_likelihoods: Iterable[float],
    sentences: Iterable[Sequence[str]],
    *,
    spaces: bool,
    ends: bool,
) -> float:
    """The perplexity per character, counted as `characters` does."""
    return perplexity(math.fsum(log_likelihoods), characters(sentences, spaces=spaces, ends=ends))


def bits(perplexity: float) -> float:
    """The bits per event of a perplexity."""
    return math.log2(perplexity)
