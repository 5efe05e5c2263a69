"""Brown clustering against its definition, step by step, and against the reference on real text."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgg.clusters import (
    Bigrams,
    brown,
    brown_merging,
    by_frequency,
    count_bigrams,
    mutual_information,
    read_blocks,
    uniform,
)
from fgg.clusters import bigrams as bigrams_module
from fgg.clusters.brown_merging import MergeTable
from fgg.data import read
from fgg.diagnostics import GrammarError
from tests.helpers.real_data import real

Counts = NDArray[np.int64]


def text(seed: int, tokens: int, words: int) -> list[list[str]]:
    draw = np.random.default_rng(seed)
    row = (draw.zipf(1.3, tokens) % words).tolist()
    return [[f"w{i}" for i in row[a : a + 7]] for a in range(0, tokens, 7)]


def information(counts: Counts, tokens: Counts, total: int) -> float:
    """Σ n(i,j) log (n(i,j) N / (n(i) n(j))), pair by pair."""
    value = 0.0
    for (i, j), n in np.ndenumerate(counts):
        if n:
            value += float(n * np.log(n * total / (tokens[i] * tokens[j])))
    return value


def merged(counts: Counts, i: int, j: int) -> Counts:
    result = counts.copy()
    result[i] += result[j]
    result[:, i] += result[:, j]
    return np.delete(np.delete(result, j, 0), j, 1)


def losses(counts: Counts, tokens: Counts, total: int) -> NDArray[np.float64]:
    """What each merge loses, by computing everything twice."""
    before = information(counts, tokens, total)
    table = np.full(counts.shape, np.inf)
    for i, j in itertools.combinations(range(len(counts)), 2):
        joined = np.delete(tokens, j)
        joined[i] = tokens[i] + tokens[j]
        table[i, j] = table[j, i] = before - information(merged(counts, i, j), joined, total)
    return table


def test_bigrams_are_counted() -> None:
    bigrams = count_bigrams([["b", "a"], ["a", "b", "a"], []])
    assert bigrams.words == ("a", "b")
    assert bigrams.tokens.tolist() == [3, 2]
    rows = zip(bigrams.left, bigrams.right, bigrams.pairs, strict=True)
    assert [tuple(map(int, row)) for row in rows] == [(0, 0, 1), (0, 1, 1), (1, 0, 2)]
    assert count_bigrams([["b", "a"], ["a", "b", "a"]], across=False).total == 3
    assert count_bigrams([]).words == ()


@pytest.mark.parametrize("across", [True, False])
def test_counting_does_not_depend_on_the_size_of_chunks(
    across: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = text(1, 400, 30)
    whole = count_bigrams(sentences, across=across)
    assert whole.total == (399 if across else 400 - len(sentences))
    for size in (1, 5, 50):
        monkeypatch.setattr(bigrams_module, "CHUNK", size)
        bigrams = count_bigrams(sentences, across=across)
        assert bigrams.words == whole.words
        for name in ("tokens", "left", "right", "pairs"):
            assert (getattr(bigrams, name) == getattr(whole, name)).all()


def dense(bigrams: Bigrams, many: int) -> Counts:
    table = np.zeros((many, many), np.int64)
    inside = (bigrams.left < many) & (bigrams.right < many)
    table[bigrams.left[inside], bigrams.right[inside]] = bigrams.pairs[inside]
    return table


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), table=st.booleans(), refresh=st.booleans())
def test_the_table_of_losses_is_kept_right(seed: int, table: bool, refresh: bool) -> None:
    """Adding and merging in any order, the losses are those of the definition."""
    draw = np.random.default_rng(seed)
    size, total = 6, 1000
    keep_table = brown_merging.TABLE
    brown_merging.TABLE = keep_table if table else 0
    try:
        window = MergeTable(size, total)
    finally:
        brown_merging.TABLE = keep_table
    for _ in range(12):
        active = np.flatnonzero(window.active)
        if len(active) == size or (len(active) > 1 and draw.random() < 0.4):
            i, j = draw.permutation(active)[:2]
            window.merge(int(i), int(j))
        else:
            slot = int(draw.choice(np.flatnonzero(~window.active)))
            row, column = (draw.poisson(0.7, (2, size)) * [window.active] * 3).astype(np.int64)
            row[slot] = draw.poisson(1.0)
            window.add(slot, row, column, int(draw.integers(30, 60)))
        if refresh:
            window.recompute()
        active = np.flatnonzero(window.active)
        block = np.ix_(active, active)
        expected = losses(window.counts[block], window.tokens[active], total)
        np.testing.assert_allclose(window.losses()[block], expected, atol=1e-9)
        free = np.flatnonzero(~window.active)
        assert np.isinf(window.losses()[free]).all() and np.isinf(window.losses()[:, free]).all()


def naive(bigrams: Bigrams, clusters: int) -> list[frozenset[int]]:
    """The algorithm with a window, computing everything anew: the clusters at the end."""
    total = int(bigrams.tokens.sum())
    groups: list[list[int]] = []
    for word in range(len(bigrams.words)):
        groups.append([word])
        if len(groups) <= clusters:
            continue
        known = dense(bigrams, word + 1)
        maps = np.array([[w in group for w in range(word + 1)] for group in groups]).astype(int)
        counts = maps @ known @ maps.T
        tokens = maps @ bigrams.tokens[: word + 1]
        i, j = divmod(int(losses(counts, tokens, total).argmin()), len(groups))
        groups[i] += groups.pop(j)
    return [frozenset(group) for group in groups]


@pytest.mark.parametrize(("seed", "clusters"), [(0, 4), (1, 3), (2, 7), (3, 1)])
def test_clusters_are_those_of_the_definition(seed: int, clusters: int) -> None:
    bigrams = count_bigrams(text(seed, 3000, 40))
    clustering = brown(bigrams, clusters)
    groups = [frozenset(np.flatnonzero(clustering.blocks == b).tolist()) for b in range(clusters)]
    assert {*groups} == {*naive(bigrams, clusters)}


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    many = len(count_bigrams(text(5, 3000, 300)).words)
    brown(text(5, 3000, 300), 4, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told) and told[0] == (1, many) and told[-1] == (many, many)


def test_paths_are_a_binary_tree() -> None:
    clustering = brown(text(5, 3000, 60), 9)
    assert clustering.many == 9 == len(clustering.paths)
    assert list(clustering.paths) == sorted(clustering.paths)
    assert sum(2.0 ** -len(path) for path in clustering.paths) == 1
    for one, other in itertools.permutations(clustering.paths, 2):
        assert not other.startswith(one)


def test_merges_go_up_the_tree_in_order_of_loss() -> None:
    """Cutting the tree at its first branch is as good as any other merge of the clusters."""
    bigrams = count_bigrams(text(7, 4000, 50))
    clustering = brown(bigrams, 3)
    (pair,) = [p for p in itertools.combinations(range(3), 2) if _siblings(clustering.paths, p)]
    lost = {}
    for i, j in itertools.combinations(range(3), 2):
        lost[i, j] = -mutual_information(
            bigrams, np.where(clustering.blocks == j, i, clustering.blocks)
        )
    assert min(lost, key=lost.__getitem__) == pair


def _siblings(paths: tuple[str, ...], pair: tuple[int, ...]) -> bool:
    one, other = (paths[i] for i in pair)
    return one[:-1] == other[:-1] and len(one) == len(other)


def test_fewer_words_than_clusters_are_clusters_of_their_own() -> None:
    clustering = brown([["a", "b", "a", "c"]], 10)
    assert clustering.many == 3 and sorted(clustering.blocks.tolist()) == [0, 1, 2]
    alone = brown([["a", "a"]], 5)
    assert alone.paths == ("0",) and alone.blocks.tolist() == [0]


def test_simple_partitions() -> None:
    bigrams = count_bigrams(text(9, 5000, 200))
    even = uniform(bigrams, 7, seed=3)
    sizes = np.bincount(even.blocks)
    assert len(sizes) == 7 and sizes.max() - sizes.min() <= 1
    assert (even.blocks == uniform(bigrams, 7, seed=3).blocks).all()
    assert (even.blocks != uniform(bigrams, 7, seed=4).blocks).any()
    ranked = by_frequency(bigrams, 7)
    assert ranked.many == 7 and (np.diff(ranked.blocks) >= 0).all()
    assert sorted({*ranked.blocks.tolist()}) == list(range(7))
    flat = by_frequency([[str(i) for i in range(12)]], 4)
    assert np.bincount(flat.blocks).tolist() == [3, 3, 3, 3]
    skewed = by_frequency([["a"] * 90 + ["b", "c", "d"]], 3)
    assert skewed.blocks.tolist() == [0, 1, 2, 2]


def test_mutual_information_by_hand() -> None:
    bigrams = count_bigrams([["a", "b"] * 50 + ["a"]])
    assert mutual_information(bigrams, [0, 1]) == pytest.approx(1)
    assert mutual_information(bigrams, [5, 5]) == pytest.approx(0)


def test_brown_keeps_more_information_than_chance() -> None:
    bigrams = count_bigrams(e.words for e in read(real("wikitext2/tiny.txt")))
    values = [
        mutual_information(bigrams, c.blocks)
        for c in (uniform(bigrams, 16), by_frequency(bigrams, 16), brown(bigrams, 16))
    ]
    assert values == sorted(values)


def test_files(tmp_path: Path) -> None:
    clustering = brown(text(2, 500, 20), 4)
    clustering.save(tmp_path / "blocks.txt")
    assert read_blocks(tmp_path / "blocks.txt") == clustering.block_of()
    clustering.save_paths(tmp_path / "paths.txt")
    rows = [line.split("\t") for line in (tmp_path / "paths.txt").read_text().splitlines()]
    assert {word: bits for bits, word, _ in rows} == {
        word: clustering.paths[block] for word, block in clustering.block_of().items()
    }
    assert sum(int(number) for _, _, number in rows) == 500
    assert [bits for bits, _, _ in rows] == sorted(bits for bits, _, _ in rows)


@pytest.mark.parametrize("line", ["word", "word\tx", "\t3", "word\t1\nword\t2"])
def test_bad_block_files_are_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text(line)
    with pytest.raises(GrammarError, match="F488"):
        read_blocks(tmp_path / "b.txt")
    with pytest.raises(GrammarError, match="F401"):
        read_blocks(tmp_path / "none.txt")


def test_what_cannot_be_clustered_is_refused() -> None:
    for sentences, clusters in (([], 3), ([["a"]], 0), ([[str(i) for i in range(60000)]], 50000)):
        with pytest.raises(GrammarError, match="F489"):
            brown(sentences, clusters)


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "reference"), [(64, 1.2827), (128, 1.5279)])
def test_mutual_information_on_wikitext_is_that_of_the_reference(
    clusters: int, reference: float
) -> None:
    bigrams = count_bigrams(e.words for e in read(real("wikitext2/train.txt.xz")))
    assert len(bigrams.words) == 33277
    given = read(
        real(f"brown_wt2/c{clusters}.paths.xz"), format="columns", columns=("tag", "word", "")
    )
    (example,) = given
    assert example.tags is not None
    path = dict(zip(example.words, example.tags, strict=True))
    names = {bits: number for number, bits in enumerate(sorted({*path.values()}))}
    theirs = mutual_information(bigrams, [names[path[word]] for word in bigrams.words])
    assert theirs == pytest.approx(reference, abs=1e-4)
    ours = mutual_information(bigrams, brown(bigrams, clusters).blocks)
    assert ours > 0.995 * reference
