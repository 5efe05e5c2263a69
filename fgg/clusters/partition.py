"""Words in clusters: the value that clustering gives, how good it is, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgg.clusters.counts import Bigrams, count_bigrams
from fgg.clusters.greedy import Progress, greedy
from fgg.diagnostics import refuse
from fgg.files import read_limited, unreadable, write_whole

MAX_TABLES = 1 << 31  # bytes that the tables of Brown clustering may take
Text = Iterable[Sequence[str]] | Bigrams


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Blocks 0 … many-1 of words: `blocks[i]` holds word i, which occurs `tokens[i]` times.

    `paths` has the bit string of each block where there is a hierarchy, in sorted order.
    """

    words: tuple[str, ...]
    tokens: NDArray[np.int64]
    blocks: NDArray[np.int64]
    many: int
    paths: tuple[str, ...] = ()

    def block_of(self) -> dict[str, int]:
        """The block of each word."""
        return dict(zip(self.words, self.blocks.tolist(), strict=True))

    def blocks_text(self) -> str:
        """A line `word<TAB>block` for each word, the most frequent first."""
        pairs = zip(self.words, self.blocks.tolist(), strict=True)
        return "".join(f"{word}\t{block}\n" for word, block in pairs)

    def paths_text(self) -> str:
        """A line `bits<TAB>word<TAB>count` for each word, block by block."""
        assert self.paths, "there is no hierarchy"
        rows = zip(self.blocks.tolist(), range(len(self.words)), strict=True)
        return "".join(
            f"{self.paths[block]}\t{self.words[word]}\t{self.tokens[word]}\n"
            for block, word in sorted(rows)
        )

    def save(self, path: str | Path) -> None:
        """Write the block of each word, whole or not at all. Raises GrammarError."""
        write_whole(Path(path), self.blocks_text().encode())

    def save_paths(self, path: str | Path) -> None:
        """Write the bit string of each word, whole or not at all. Raises GrammarError."""
        write_whole(Path(path), self.paths_text().encode())


def brown(
    text: Text, clusters: int, *, across: bool = True, progress: Progress | None = None
) -> Clustering:
    """Brown clusters of the words of a text: sentences, each a sequence of words, or its counts.

    With `across`, the text is one stream of words; without, no pair reaches over the end of a
    sentence. If there are fewer words than clusters, each word has its own. Raises GrammarError.
    """
    bigrams = _counted(text, clusters, across)
    size = min(clusters, len(bigrams.words)) + 1
    if (needed := size * size * 8 * 8) > MAX_TABLES:
        message = f"{clusters:,} clusters would need {needed / 2**30:.1f} GiB for the merge losses"
        refuse("F489", message)
    blocks, paths = greedy(bigrams, clusters, progress)
    return _clustering(bigrams, blocks, paths)


def uniform(text: Text, clusters: int, *, seed: int = 0) -> Clustering:
    """Blocks of equal numbers of words (give or take one), drawn at random."""
    bigrams = _counted(text, clusters, True)
    many = len(bigrams.words)
    blocks = np.random.default_rng(seed).permutation(many) % min(clusters, many)
    return _clustering(bigrams, blocks)


def by_frequency(text: Text, clusters: int) -> Clustering:
    """Blocks of about equal numbers of tokens: words in order of frequency, cut into pieces.

    All tokens, in the order of their words, are cut into c stretches of one length; a word is in
    the block of the stretch that the middle of its tokens is in, except that no block stays empty:
    very frequent words, which fill several stretches, are blocks of their own.
    """
    bigrams = _counted(text, clusters, True)
    many = len(bigrams.words)
    clusters = min(clusters, many)
    middle = np.cumsum(bigrams.tokens) - bigrams.tokens / 2
    wanted = (middle * clusters / bigrams.tokens.sum()).astype(np.int64)
    blocks = np.zeros(many, np.int64)
    for word in range(1, many):  # each block has a word, and none is left out
        step = min(blocks[word - 1] + 1, wanted[word])
        blocks[word] = max(step, blocks[word - 1], clusters - (many - word))
    return _clustering(bigrams, blocks)


def _counted(text: Text, clusters: int, across: bool) -> Bigrams:
    if clusters < 1:
        message = f"{clusters} clusters are asked for; at least 1 is needed"
        refuse("F489", message)
    bigrams = text if isinstance(text, Bigrams) else count_bigrams(text, across=across)
    if not bigrams.words:
        refuse("F489", "there are no words to cluster")
    return bigrams


def _clustering(
    bigrams: Bigrams, blocks: NDArray[np.int64], paths: tuple[str, ...] = ()
) -> Clustering:
    return Clustering(
        words=bigrams.words,
        tokens=bigrams.tokens,
        blocks=blocks,
        many=int(blocks.max()) + 1,
        paths=paths,
    )


def mutual_information(bigrams: Bigrams, blocks: ArrayLike) -> float:
    """The average mutual information of neighbouring blocks, in bits.

    Σ p(a,b) log2 (p(a,b) / (p(a) p(b))) over the blocks of the left and the right word of a pair;
    `blocks[i]` is the block of word i. No merge of blocks makes it greater.
    """
    given = np.asarray(blocks, np.int64)
    _, numbers = np.unique(given, return_inverse=True)  # any numbers will do
    many = int(numbers.max()) + 1
    keys = numbers[bigrams.left] * many + numbers[bigrams.right]
    used, inverse = np.unique(keys, return_inverse=True)
    joint = np.bincount(inverse, bigrams.pairs) / bigrams.total
    left = np.bincount(used // many, joint, many)
    right = np.bincount(used % many, joint, many)
    return float((joint * np.log2(joint / (left[used // many] * right[used % many]))).sum())


def read_blocks(path: str | Path) -> dict[str, int]:
    """The block of each word in a file of lines `word<TAB>block`. Raises GrammarError."""
    try:
        text = read_limited(path).decode()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    found: dict[str, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        word, _, block = line.partition("\t")
        if not word or not block.isdecimal() or word in found:
            why = f"`{word}` has a block already" if word in found else "no `word<TAB>block`"
            message = f"{path}:{number}: {why}"
            refuse("F488", message)
        found[word] = int(block)
    return found
