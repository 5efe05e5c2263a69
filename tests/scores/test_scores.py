"""Heads, tags, segments, pairs and perplexities, by hand and by brute force."""

import math
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgg.data import as_characters, read
from fgg.scores import (
    Score,
    bits,
    character_perplexity,
    characters,
    head_score,
    left_neighbours,
    many_to_one,
    one_to_one,
    pair_score,
    perplexity,
    right_neighbours,
    segment_score,
    v_measure,
    word_perplexity,
)
from tests.helpers.real_data import real

FILES = Path(__file__).parents[1] / "data" / "files"


def test_heads_by_hand() -> None:
    # The second word hangs from the first instead of the other way round; the root is wrong too.
    score = head_score([[2, 0, 2], [0]], [[0, 1, 2], [0]])
    assert (score.words, score.directed, score.undirected) == (4, 2 / 4, 3 / 4)
    assert head_score([], []).directed == 0


def test_neighbours() -> None:
    assert left_neighbours(3) == [0, 1, 2]
    assert right_neighbours(3) == [2, 3, 0]
    assert right_neighbours(1) == [0] and right_neighbours(0) == []


def test_the_baselines_of_real_heads() -> None:
    examples = list(read(real("ewt/dmv10.test.tsv"), format="columns"))
    gold = [example.heads or () for example in examples]
    for chain, expected in ((left_neighbours, 18.70), (right_neighbours, 37.69)):
        score = head_score(gold, [chain(len(example)) for example in examples])
        assert round(100 * score.directed, 2) == expected


def test_tags_by_hand() -> None:
    gold, induced = list("NNNVVD"), [0, 0, 1, 1, 1, 0]
    assert many_to_one(gold, induced) == 4 / 6
    assert one_to_one(gold, induced) == 4 / 6
    assert many_to_one(gold, range(6)) == 1
    assert one_to_one(gold, range(6)) == 3 / 6
    assert many_to_one([], []) == one_to_one([], []) == 0


Tags = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)


@given(Tags)
def test_one_to_one_is_the_best_of_all_maps(pairs: list[tuple[int, int]]) -> None:
    gold, induced = [g for g, _ in pairs], [i for _, i in pairs]
    best = max(sum(order[i] == g for g, i in pairs) for order in permutations(range(4)))
    assert one_to_one(gold, induced) == pytest.approx(best / len(pairs))


@given(Tags)
def test_v_measure_is_what_its_definition_says(pairs: list[tuple[int, int]]) -> None:
    def entropy(values: list[object], given: list[object]) -> float:
        total = 0.0
        for value, other in {*zip(values, given, strict=True)}:
            both = sum((v, g) == (value, other) for v, g in zip(values, given, strict=True))
            total -= both / len(values) * math.log(both / given.count(other))
        return total

    gold: list[object] = [g for g, _ in pairs]
    induced: list[object] = [i for _, i in pairs]
    one = [0] * len(pairs)
    measure = v_measure(gold, induced)
    for value, of, by in (
        (measure.homogeneity, gold, induced),
        (measure.completeness, induced, gold),
    ):
        whole = entropy(of, list(one))
        expected = 1 - entropy(of, by) / whole if whole > 1e-12 else 1
        assert value == pytest.approx(expected, abs=1e-9)
    turned = v_measure(induced, gold)
    assert turned.v == pytest.approx(measure.v)


def test_v_measure_of_equal_and_of_unrelated_tags() -> None:
    assert v_measure("aabb", [5, 5, 7, 7]).v == pytest.approx(1)
    assert v_measure("aabb", [5, 7, 5, 7]).v == pytest.approx(0)
    assert v_measure("", "").v == 1


def test_segments_by_hand() -> None:
    gold = [[(0, 3), (3, 5), (5, 6)], [(0, 4)]]
    guess = [[(0, 3), (3, 6)], [(0, 2), (2, 4)]]
    score = segment_score(gold, guess)
    assert score.boundaries == Score(1, 2, 2)  # 3 | of 3 and 5 against 3 and, in the other, 2
    assert score.parts == Score(1, 4, 4)
    assert (score.exact, score.items, score.accuracy) == (0, 2, 0)
    assert segment_score(gold, gold, [3, 1]).boundaries == Score(6, 6, 6)
    assert segment_score(gold[1:], gold[1:]).boundaries.f1 == 1  # nothing to find
    with pytest.raises(ValueError):
        segment_score(gold, guess[:1])


def test_words_are_segments_of_characters() -> None:
    examples = [as_characters(e) for e in read(FILES / "words.txt")]
    gold = [e.segments or () for e in examples]
    whole = [[(0, len(e))] for e in examples]
    score = segment_score(gold, whole)
    assert score.boundaries == Score(0, 0, 2 + 2 + 2 + 6)
    assert score.parts == Score(0, 4, 3 + 3 + 3 + 7)


def test_pairs_by_hand() -> None:
    score = pair_score([[(0, 8), (1, 7)], []], [[(8, 0), (2, 6), (3, 5)], []])
    assert score.corpus == Score(1, 3, 2)
    assert score.mean_f1 == pytest.approx((2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2) + 1) / 2)


def test_perplexities_say_what_they_count() -> None:
    likelihoods, lengths = [math.log(1 / 8), math.log(1 / 4)], [2, 1]
    assert perplexity(math.log(1 / 8), 3) == pytest.approx(2)
    assert word_perplexity(likelihoods, lengths, ends=True) == pytest.approx(2)
    assert word_perplexity(likelihoods, lengths, ends=False) == pytest.approx(2 ** (5 / 3))
    sentences = [("the", "dog"), ("a",)]
    assert characters(sentences, spaces=False, ends=False) == 7
    assert characters(sentences, spaces=True, ends=True) == 10
    value = character_perplexity(likelihoods, sentences, spaces=True, ends=True)
    assert bits(value) == pytest.approx(0.5)
    assert perplexity(-math.inf, 3) == perplexity(-1e6, 1) == math.inf
    with pytest.raises(ValueError):
        perplexity(0.0, 0)
