"""Scores of predictions against gold annotation: pure functions on plain data."""

from fgg.scores.f1 import (
    ItemScores,
    Score,
    SegmentScore,
    compare,
    pair_score,
    segment_score,
)
from fgg.scores.parses import (
    HeadScore,
    head_score,
    left_branching,
    left_neighbours,
    oracle_binary,
    plain_spans,
    random_tree,
    right_branching,
    right_neighbours,
    span_score,
)
from fgg.scores.perplexity import (
    bits,
    character_perplexity,
    characters,
    perplexity,
    word_perplexity,
)
from fgg.scores.tags import VMeasure, contingency, many_to_one, one_to_one, v_measure

__all__ = [
    "HeadScore",
    "ItemScores",
    "Score",
    "SegmentScore",
    "VMeasure",
    "bits",
    "character_perplexity",
    "characters",
    "compare",
    "contingency",
    "head_score",
    "left_branching",
    "left_neighbours",
    "many_to_one",
    "one_to_one",
    "oracle_binary",
    "pair_score",
    "perplexity",
    "plain_spans",
    "random_tree",
    "right_branching",
    "right_neighbours",
    "segment_score",
    "span_score",
    "v_measure",
    "word_perplexity",
]
