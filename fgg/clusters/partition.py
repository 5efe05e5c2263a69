"""Clusterings of words: Brown clusters and simpler ones, their quality, and their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgg.clusters.bigrams import Bigrams, count_bigrams
from fgg.clusters.brown_merging import OnProgress, greedy
from fgg.diagnostics import refuse
from fgg.files import read_limited, unreadable, write_whole

MAX_TABLES = 1 << 31  # the most bytes for the tables of Brown clustering
Text = Iterable[Sequence[str]] | Bigrams


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Words in blocks 0 … many-1: word i occurs `tokens[i]` times and is in block `blocks[i]`.

    `paths` are the bit strings of the blocks, in sorted order, if there is a hierarchy.
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
        """Write the block of each word, atomically. Raises GrammarError (F413)."""
        write_whole(Path(path), self.blocks_text().encode())

    def save_paths(self, path: str | Path) -> None:
        """Write the bit string of each word, atomically. Raises GrammarError (F413)."""
        write_whole(Path(path), self.paths_text().encode())


def brown(
    text: Text, clusters: int, *, across: bool = True, progress: OnProgress | None = None
) -> Clustering:
    """The Brown clusters of the words of a text, given as sentences or as bigrams.

    With `across`, the text is one stream of words; without, no pair crosses the end of a sentence.
    If there are fewer words than clusters, each word is a cluster. Raises GrammarError (F489).
    """
    bigrams = _counted(text, clusters, across)
    size = min(clusters, len(bigrams.words)) + 1
    if (needed := size * size * 8 * 8) > MAX_TABLES:
        gib = needed / 2**30
        refuse("F489", f"{clusters:,} clusters would need {gib:.1f} GiB for the merge losses")
    blocks, paths = greedy(bigrams, clusters, progress)
    return _clustering(bigrams, blocks, paths)


def uniform(text: Text, clusters: int, *, seed: int = 0) -> Clustering:
    """Random blocks with equal numbers of words, give or take one."""
    bigrams = _counted(text, clusters, True)
    many = len(bigrams.words)
    blocks = np.random.default_rng(seed).permutation(many) % min(clusters, many)
    return _clustering(bigrams, blocks)


def by_frequency(text: Text, clusters: int) -> Clustering:
    """Blocks with about equal numbers of tokens, of words of similar frequency.

    The tokens, in order of the frequency of their words, are cut into c stretches of equal length.
    A word is in the block of the stretch that holds the middle of its tokens, except that no block
    stays empty: a very frequent word, which fills several stretches, is a block by itself.
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
        refuse("F489", f"at least 1 cluster is needed, not {clusters}")
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
    """The average mutual information of adjacent blocks, in bits.

    Σ p(a,b) log2 (p(a,b) / (p(a) p(b))) over the blocks a, b of the two words of a bigram;
    `blocks[i]` is the block of word i. Merging blocks never increases it.
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
    block_of: dict[str, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        word, _, block = line.partition("\t")
        if not word or not block.isdecimal() or word in block_of:
            why = f"`{word}` has a block already" if word in block_of else "no `word<TAB>block`"
            refuse("F488", f"{path}:{number}: {why}")
        block_of[word] = int(block)
    return block_of
