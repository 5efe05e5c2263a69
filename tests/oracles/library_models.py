"""The models of the library, computed directly: by enumeration or by a textbook recursion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weights = Mapping[str, Floats]
Heads = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def hmm(weights: Weights, w: Sequence[int]) -> float:
    """The probability of a string: the forward algorithm."""
    forward = weights["init"] * weights["emit"][:, w[0]]
    for word in w[1:]:
        forward = forward @ weights["trans"] * weights["emit"][:, word]
    return float(forward.sum())


def hmm_blocks(weights: Weights, w: Sequence[int]) -> float:
    """The same where words are dealt out to blocks, and a state emits words of its block only."""
    places, words = weights["emit"].shape
    blocks = len(weights["init"]) // places
    emit = np.zeros((blocks, places, words))
    for word in range(words):
        emit[word % blocks, :, word] = weights["emit"][:, word]
    return hmm({**weights, "emit": emit.reshape(-1, words)}, w)


def hmm_rank(weights: Weights, w: Sequence[int]) -> float:
    """The same where a step leads from a state to the next one and a word."""
    forward = weights["init"]
    for word in w:
        forward = forward @ weights["step"][:, :, word]
    return float(forward.sum())


def hsmm(weights: Weights, w: Sequence[int]) -> float:
    """The probability of a string, segment by segment; the last one may be longer than it shows."""
    duration, emit = weights["duration"], weights["emit"]
    states = range(len(emit))

    def segment(t: int, start: int) -> float:
        total = 0.0
        for length in range(1, min(duration.shape[1], len(w) - start) + 1):
            words = float(np.prod([emit[t, word] for word in w[start : start + length]]))
            if start + length == len(w):
                total += float(duration[t, length - 1 :].sum()) * words
            else:
                after = [weights["trans"][t, u] * segment(u, start + length) for u in states]
                total += float(duration[t, length - 1]) * words * sum(after)
        return total

    return sum(float(weights["init"][t]) * segment(t, 0) for t in states)


def lcm(weights: Weights, w: Sequence[int]) -> float:
    """The probability of a string under a mixture of bags of words."""
    return float(weights["class"] @ np.prod(weights["emit"][:, list(w)], axis=1))


def inside(root: Floats, binary: Floats, emit: Floats, w: Sequence[int]) -> float:
    """The probability of a string: the inside algorithm over one set of symbols."""

    @cache
    def span(i: int, j: int) -> Floats:
        total = emit[:, w[i]] if j == i + 1 else np.zeros(len(emit))
        for k in range(i + 1, j):
            total = total + np.einsum("abc,b,c->a", binary, span(i, k), span(k, j))
        return total

    return float(root @ span(0, len(w)))


def phrase_inside(root: Floats, binary: Floats, emit: Floats, w: Sequence[int]) -> float:
    """The same where phrase symbols come first among the symbols, then preterminals."""
    phrases, symbols = binary.shape[:2]
    all_root, all_binary = np.zeros(symbols), np.zeros((symbols, symbols, symbols))
    all_emit = np.zeros((symbols, emit.shape[1]))
    all_root[:phrases], all_binary[:phrases], all_emit[phrases:] = root, binary, emit
    return inside(all_root, all_binary, all_emit, w)


def lexicalised(weights: Weights, w: Sequence[int]) -> float:
    """The probability of a string under a lexicalised PCFG, by spans and positions of heads."""
    expand = weights["expand"]  # [phrase, head, side, head child, modifier, modifier's head]
    if "modifier" in weights:
        expand = np.einsum("ahsbc,chm->ahsbcm", expand, weights["modifier"])
    phrases, symbols = len(expand), expand.shape[3]

    @cache
    def span(a: int, i: int, j: int, p: int) -> float:
        if j == i + 1:
            return float(a >= phrases)
        if a >= phrases:
            return 0.0
        total = 0.0
        for b, c in product(range(symbols), repeat=2):
            for k in range(i + 1, j):
                left = p < k
                head, other = ((i, k), (k, j)) if left else ((k, j), (i, k))
                for q in range(*other):
                    total += (
                        float(expand[a, w[p], 0 if left else 1, b, c, w[q]])
                        * span(b, *head, p)
                        * span(c, *other, q)
                    )
        return total

    return sum(
        float(weights["root"][a] * weights["head"][a, w[p]]) * span(a, 0, len(w), p)
        for a in range(phrases)
        for p in range(len(w))
    )


def quasi_synchronous(
    weights: Weights, phrases: int, labels: int, s: Sequence[int], w: Sequence[int]
) -> float:
    """The weight of a target, its symbols being aligned to the nodes of a source."""
    root, binary, emit = weights["root"], weights["binary"], weights["emit"]
    symbols = range(binary.shape[1] // labels)

    @cache
    def span(symbol: int, node: int, i: int, j: int) -> float:
        pair = symbol * labels + s[node]
        if j == i + 1:
            return float(emit[pair - phrases * labels, w[i]]) if symbol >= phrases else 0.0
        if symbol >= phrases:
            return 0.0
        total = 0.0
        for (b, u), (c, t) in product(product(symbols, range(len(s))), repeat=2):
            rule = float(binary[pair, b * labels + s[u], c * labels + s[t]])
            for k in range(i + 1, j):
                total += rule * span(b, u, i, k) * span(c, t, k, j)
        return total

    return sum(
        float(root[a * labels + s[v]]) * span(a, v, 0, len(w))
        for a in range(phrases)
        for v in range(len(s))
    )


def projective_trees(n: int) -> Iterator[Heads]:
    """The heads of the words, -1 for the root, of every projective tree with one root."""
    for heads in product(range(-1, n), repeat=n):
        if heads.count(-1) == 1 and _is_projective(heads):
            yield heads


def _is_projective(heads: Heads) -> bool:
    def is_below(word: int, above: int) -> bool:
        for _ in heads:
            if word in (above, -1):
                break
            word = heads[word]
        return word == above

    root = heads.index(-1)
    return all(is_below(m, root) for m in range(len(heads))) and all(
        is_below(between, h)
        for m, h in enumerate(heads)
        if h >= 0
        for between in range(min(h, m) + 1, max(h, m))
    )


def dependencies(
    root: Floats, left: Floats, right: Floats, w: Sequence[int], heads: Heads
) -> float:
    """The probability of the words of a tree, each given its head."""
    total = 1.0
    for m, h in enumerate(heads):
        if h < 0:
            total *= root[w[m]]
        else:
            total *= (left if m < h else right)[w[h], w[m]]
    return total


def valence(weights: Weights, w: Sequence[int], heads: Heads) -> float:
    """The probability of a tree and its tags: the DMV's decisions, word by word."""
    total = float(weights["root"][w[heads.index(-1)]])
    for h in range(len(w)):
        dependents = [m for m, head in enumerate(heads) if head == h]
        for side, near_first in (
            ("left", [m for m in reversed(dependents) if m < h]),
            ("right", [m for m in dependents if m > h]),
        ):
            stop = weights[f"stop_{side}"]
            for number, m in enumerate(near_first):
                total *= stop[w[h], min(number, 1), 1] * weights[side][w[h], w[m]]
            total *= stop[w[h], min(len(near_first), 1), 0]
    return total


def rna(weights: Weights, w: Sequence[int]) -> float:
    """The probability of a sequence: the three equations of the grammar, span by span."""
    (more, last), (single, paired), (stack, loop) = (
        weights[name] for name in ("sequence", "part", "stem")
    )

    def split(i: int, j: int) -> float:
        return sum(part(i, k) * sequence(k, j) for k in range(i + 1, j))

    @cache
    def sequence(i: int, j: int) -> float:
        return float(more * split(i, j) + last * part(i, j))

    @cache
    def part(i: int, j: int) -> float:
        if j - i == 1:
            return float(single * weights["base"][w[i]])
        return float(paired * weights["pair"][w[i], w[j - 1]]) * stem(i + 1, j - 1)

    @cache
    def stem(i: int, j: int) -> float:
        if j - i < 2:
            return 0.0
        pair = float(weights["pair"][w[i], w[j - 1]])
        return float(stack) * pair * stem(i + 1, j - 1) + float(loop) * split(i, j)

    return sequence(0, len(w))


def rna_structures(i: int, j: int) -> list[Pairs]:
    """The sets of nested pairs of positions in [i, j) around at least two positions each."""
    if j - i <= 0:
        return [()]
    found = list(rna_structures(i + 1, j))
    for k in range(i + 3, j):
        for inner, after in product(rna_structures(i + 1, k), rna_structures(k + 1, j)):
            found.append(((i, k), *inner, *after))
    return found


def pair_hmm(weights: Weights, x: Sequence[int], y: Sequence[int]) -> float:
    """The probability of two sequences: the forward algorithm with one state of each kind."""
    follow = {-1: weights["init"], **dict(enumerate(weights["next"]))}

    @cache
    def rest(state: int, i: int, j: int) -> float:
        match, insert, delete, stop = follow[state]
        total = float(stop) if (i, j) == (len(x), len(y)) else 0.0
        if i < len(x) and j < len(y):
            total += float(match * weights["match"][0, x[i], y[j]]) * rest(0, i + 1, j + 1)
        if j < len(y):
            total += float(insert * weights["insert"][0, y[j]]) * rest(1, i, j + 1)
        if i < len(x):
            total += float(delete * weights["delete"][0, x[i]]) * rest(2, i + 1, j)
        return total

    return rest(-1, 0, 0)


def collapse(frames: Sequence[int]) -> list[int]:
    """The labels that frames give: repetitions removed, then blanks."""
    kept = [a for i, a in enumerate(frames) if i == 0 or a != frames[i - 1]]
    return [a for a in kept if a != 0]


def compositions(n: int, most: int) -> Iterator[tuple[int, ...]]:
    """The ways to write n as a sum of numbers from 1 to `most`, in order."""
    if n == 0:
        yield ()
    for first in range(1, min(n, most) + 1):
        for rest in compositions(n - first, most):
            yield (first, *rest)
