"""S-F1 by hand, against all binary trees, and on real trees with known baselines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgg.data import of_length, read
from fgg.scores import (
    Score,
    left_branching,
    oracle_binary,
    plain_spans,
    random_tree,
    right_branching,
    span_score,
)
from fgg.scores.parses import Pair
from tests.helpers.real_data import real


def trees(start: int, end: int) -> list[frozenset[Pair]]:
    """The spans of all binary trees."""
    if end - start == 1:
        return [frozenset()]
    return [
        one | other | {(start, end)}
        for middle in range(start + 1, end)
        for one in trees(start, middle)
        for other in trees(middle, end)
    ]


def test_spans_that_every_tree_has_do_not_count() -> None:
    spans = [(0, 4, "S"), (0, 1, "NP"), (1, 4, "VP"), (1, 4, "X"), (2, 4, "NP")]
    assert plain_spans(spans, 4) == {(1, 4), (2, 4)}


def test_sentence_and_corpus_f1_by_hand() -> None:
    gold = [
        [(0, 4), (0, 2), (2, 4)],
        [(0, 5), (1, 5), (2, 5), (3, 5)],
        [(0, 2)],
        [(0, 1)],
        [(0, 3)],
    ]
    predicted = [
        [(0, 4), (0, 2), (0, 3)],  # 1 of 2, of 2: F1 1/2
        [(0, 5), (1, 5)],  # 1 of 1, of 3: F1 1/2
        [(0, 2)],  # nothing counts: F1 1
        [(0, 1)],  # one word: left out
        [(0, 3), (0, 2)],  # a span where there is none: F1 0
    ]
    score = span_score(gold, predicted, [4, 5, 2, 1, 3])
    assert [s.f1 for s in score.scores] == [0.5, 0.5, 1, 0]
    assert score.mean_f1 == 0.5
    assert score.corpus == Score(2, 4, 5)
    assert score.corpus.f1 == pytest.approx(2 * (2 / 4) * (2 / 5) / (2 / 4 + 2 / 5))


def test_nothing_to_score() -> None:
    assert span_score([], [], []).mean_f1 == 0


def test_branching_trees() -> None:
    assert left_branching(4) == {(0, 2), (0, 3), (0, 4)}
    assert right_branching(4) == {(2, 4), (1, 4), (0, 4)}
    assert left_branching(1) == right_branching(1) == set()


def test_random_trees_are_binary_trees_and_follow_the_seed() -> None:
    all_trees = set(trees(0, 5))
    drawn = {frozenset(random_tree(5, seed)) for seed in range(300)}
    assert drawn == all_trees
    assert random_tree(9, 1) == random_tree(9, 1)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=6), st.integers(1, 6))
def test_no_binary_tree_beats_the_oracle(drawn: list[Pair], length: int) -> None:
    gold: set[Pair] = set()  # of a tree: spans that cross one are left out
    for i, j in drawn:
        if i < j <= length and not any(a < i < b < j or i < a < j < b for a, b in gold):
            gold.add((i, j))
    spans = frozenset(oracle_binary(gold, length))
    possible = trees(0, length)
    assert spans in possible
    if length > 1:
        best = max(span_score([gold], [tree], [length]).mean_f1 for tree in possible)
        assert span_score([gold], [spans], [length]).mean_f1 == pytest.approx(best)


@pytest.mark.parametrize(
    ("most", "many", "left", "right", "oracle"),
    [(10, 633, 33.74, 56.57, 84.94), (999, 2717, 12.65, 35.48, 84.43)],
)
def test_the_baselines_of_real_trees(
    most: int, many: int, left: float, right: float, oracle: float
) -> None:
    examples = list(read(real("craft_trees/dev.trees.xz")).map(of_length(1, most)))
    lengths = [len(example) for example in examples]
    gold = [example.spans or () for example in examples]
    guesses = {
        left: map(left_branching, lengths),
        right: map(right_branching, lengths),
        oracle: map(oracle_binary, gold, lengths),
    }
    for expected, guess in guesses.items():
        score = span_score(gold, guess, lengths)
        assert len(score.scores) == many
        assert round(100 * score.mean_f1, 2) == expected
