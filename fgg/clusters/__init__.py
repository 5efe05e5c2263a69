"""Clusters of words: Brown clustering, and simpler partitions to compare it with."""

from fgg.clusters.bigrams import Bigrams, count_bigrams
from fgg.clusters.partition import (
    Clustering,
    brown,
    by_frequency,
    mutual_information,
    read_blocks,
    uniform,
)

__all__ = [
    "Bigrams",
    "Clustering",
    "brown",
    "by_frequency",
    "count_bigrams",
    "mutual_information",
    "read_blocks",
    "uniform",
]
