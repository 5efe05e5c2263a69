"""Scores of what models say, against gold annotation: pure functions on plain data."""

from fgg.scores.counting import Score, compare, mean_f1, pooled
from fgg.scores.dependencies import HeadScore, head_score, left_neighbours, right_neighbours
from fgg.scores.pairs import PairScore, pair_score
from fgg.scores.perplexity import (
    bits,
    character_perplexity,
    characters,
    perplexity,
    word_perplexity,
)
from fgg.scores.segments import SegmentScore, segment_score
from fgg.scores.spans import (
    SpanScore,
    left_branching,
    oracle_binary,
    plain_spans,
    random_tree,
    right_branching,
    span_score,
)
from fgg.scores.tags import VMeasure, contingency, many_to_one, one_to_one, v_measure

__all__ = [
    "HeadScore",
    "PairScore",
    "Score",
    "SegmentScore",
    "SpanScore",
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
    "mean_f1",
    "one_to_one",
    "oracle_binary",
    "pair_score",
    "perplexity",
    "plain_spans",
    "pooled",
    "random_tree",
    "right_branching",
    "right_neighbours",
    "segment_score",
    "span_score",
    "v_measure",
    "word_perplexity",
]
