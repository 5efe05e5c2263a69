"""What language models are compared with: counts of n-grams, a feed-forward network, an LSTM.

All take the same streams, and all tokens count: `<unk>`, and the ends of lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import torch
from torch import Tensor, nn

from examples.large_hmm.budget import Budget
from fgg.data import Window, Windows

History = tuple[int, ...]


class KneserNey:
    """Interpolated Kneser-Ney smoothing (Kneser and Ney 1995; Chen and Goodman 1999).

    p(w | h) = max(c(h w) - D, 0) / c(h) + D N(h) / c(h) · p(w | h'), with h' the history less its
    first word and N(h) the number of words that follow h. In all orders but the highest c(h w) is
    the number of words that come before h w; below single words everything is equally likely.
    D = n₁ / (n₁ + 2 n₂) in each order, of the numbers of entries that occur once and twice.
    """

    def __init__(self, tokens: Sequence[int], order: int, words: int) -> None:
        self.order, self.words = order, words
        grams = [
            Counter(zip(*(tokens[i:] for i in range(n)), strict=False)) for n in range(1, order + 1)
        ]
        self.counts: list[dict[History, int]] = []
        for n in range(order - 1):
            self.counts.append(dict(Counter(gram[1:] for gram in grams[n + 1])))
        self.counts.append(dict(grams[-1]))
        self.totals: list[dict[History, int]] = []
        self.kinds: list[dict[History, int]] = []
        self.discounts = []
        for found in self.counts:
            total: dict[History, int] = defaultdict(int)
            kinds: dict[History, int] = defaultdict(int)
            for gram, count in found.items():
                total[gram[:-1]] += count
                kinds[gram[:-1]] += 1
            sizes = Counter(found.values())
            self.discounts.append(sizes[1] / max(sizes[1] + 2 * sizes[2], 1))
            self.totals.append(dict(total))
            self.kinds.append(dict(kinds))

    def probability(self, word: int, history: History) -> float:
        """p(word | history), of which the last `order` - 1 words count."""
        found = 1 / self.words
        for n in range(self.order):
            own = history[len(history) - n :]
            if len(own) < n or own not in self.totals[n]:
                break
            total, discount = self.totals[n][own], self.discounts[n]
            count = max(self.counts[n].get((*own, word), 0) - discount, 0.0)
            found = count / total + discount * self.kinds[n][own] / total * found
        return found

    def perplexity(self, tokens: Sequence[int]) -> float:
        """The perplexity of a stream."""
        width = self.order - 1
        logs = (
            log(self.probability(word, tuple(tokens[max(i - width, 0) : i])))
            for i, word in enumerate(tokens)
        )
        return exp(-sum(logs) / len(tokens))


def unigram(train: Sequence[int], test: Sequence[int], words: int) -> float:
    """The perplexity of relative frequencies, with one added to each count."""
    counts = Counter(train)
    total = len(train) + words
    return exp(-sum(log((counts[w] + 1) / total) for w in test) / len(test))


class FeedForward(nn.Module):
    """The word from the embeddings of the four before it; output vectors are the embeddings."""

    def __init__(self, words: int, dim: int, before: int = 4, dropout: float = 0.3) -> None:
        super().__init__()
        self.before, self.begin = before, words
        self.embedding = nn.Embedding(words + 1, dim)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.layers = nn.Sequential(
            nn.Linear(before * dim, dim),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(dim, dim),
            nn.ReLU(),
        )
        self.last: Tensor | None = None

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of each word, `[row, position, words]`; the words before a window are kept."""
        last = self.last
        if last is None or len(last) != len(ids):
            last = ids.new_full((len(ids), self.before), self.begin)
        whole = torch.cat([last, ids], 1)
        self.last = whole[:, -self.before :]
        x = self.embedding(whole).unfold(1, self.before, 1)[:, :-1].flatten(2)
        found: Tensor = self.layers(x) @ self.embedding.weight[:-1].T
        return found

    def reset(self) -> None:
        """Forget what was read."""
        self.last = None


class Recurrent(nn.Module):
    """A two-layer LSTM; output vectors are the embeddings."""

    def __init__(self, words: int, dim: int, dropout: float = 0.3) -> None:
        super().__init__()
        self.begin = words
        self.embedding = nn.Embedding(words + 1, dim)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.lstm = nn.LSTM(dim, dim, 2, batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.state: tuple[Tensor, Tensor] | None = None
        self.last: Tensor | None = None

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of each word; the state at the end of a window is kept."""
        last = self.last
        if last is None or len(last) != len(ids):
            last, self.state = ids.new_full((len(ids), 1), self.begin), None
        self.last = ids[:, -1:]
        x, state = self.lstm(self.embedding(torch.cat([last, ids[:, :-1]], 1)), self.state)
        self.state = (state[0].detach(), state[1].detach())
        found: Tensor = self.dropout(x) @ self.embedding.weight[:-1].T
        return found

    def reset(self) -> None:
        """Forget what was read."""
        self.state = self.last = None


@dataclass(frozen=True)
class Trained:
    """The perplexity of a network, and how much it has seen in its time."""

    perplexity: float
    epochs: float
    seconds: float


def network(
    net: FeedForward | Recurrent,
    train: Windows,
    test: Windows,
    budget: Budget,
    rate: float = 3e-3,
) -> Trained:
    """A network after so much training: AdamW on windows, what was read carried over."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, fused=True)

    def loss(ids: Tensor) -> Tensor:
        scores = net(ids.clamp(min=0))
        return nn.functional.cross_entropy(
            scores.flatten(0, 1), ids.flatten(), ignore_index=-1, reduction="sum"
        )

    def step(window: Window) -> None:
        ids = torch.from_numpy(window.ids)
        if not window.continues.any():
            net.reset()
        budget.set_rate(optimizer, rate)
        optimizer.zero_grad()
        torch.autograd.backward(loss(ids) / max(int((ids >= 0).sum()), 1))
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()

    net.train()
    epochs = budget.steps(train, step)
    spent = budget.spent()
    net.eval()
    net.reset()
    total, count = 0.0, 0
    with torch.no_grad():
        for window in test:
            total += float(loss(torch.from_numpy(window.ids)))
            count += int(window.lengths.sum())
    return Trained(exp(total / count), epochs, spent)
