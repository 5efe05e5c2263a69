"""Perplexities: exp(-log-likelihood / number of events), and what counts as an event.

Log-likelihoods are in nats, one for each sentence, of the whole sentence. Whether ends of sentences
are events changes the number, so it has to be said: `ends` is no default that can be forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def perplexity(log_likelihood: float, events: int) -> float:
    """exp(-log-likelihood / events); infinite for what is impossible."""
    if events <= 0:
        raise ValueError("there is nothing to take a perplexity of")
    rate = -log_likelihood / events
    return math.exp(rate) if rate < 709 else math.inf


def word_perplexity(
    log_likelihoods: Iterable[float], lengths: Sequence[int], *, ends: bool
) -> float:
    """The perplexity per word of sentences of these lengths.

    With `ends`, the end of each sentence counts as one more word, as it must if the model gives it
    a probability (language modelling). Without, words alone count, as in grammar induction.
    """
    return perplexity(math.fsum(log_likelihoods), sum(lengths) + (len(lengths) if ends else 0))


def characters(sentences: Iterable[Sequence[str]], *, spaces: bool, ends: bool) -> int:
    """The number of characters of sentences: of their words, the spaces between, and their ends."""
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
    """The perplexity per character; see `characters` for what is counted."""
    return perplexity(math.fsum(log_likelihoods), characters(sentences, spaces=spaces, ends=ends))


def bits(perplexity: float) -> float:
    """The bits for each event that a perplexity stands for."""
    return math.log2(perplexity)
