"""Library grammars with sizes set, and parameters to find again."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import fgg
from fgg.grammar import Grammar

TRUTH = {
    "root": np.array([0.4, 0.6]),
    "child": np.array([[0.8, 0.2], [0.3, 0.7]]),
    "emit": np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5]]),
}


def load(name: str, **sizes: int) -> Grammar:
    known = fgg.load(name).size
    return fgg.load(name, sizes={n: v for n, v in sizes.items() if n in known})


def instance(random: np.random.Generator, k: int, d: int) -> dict[str, Any]:
    """Parameters with T = (I + Dirichlet) / 2."""
    return {
        "root": random.dirichlet(np.ones(k)),
        "child": (np.eye(k) + random.dirichlet(np.ones(k), size=k)) / 2,
        "emit": random.dirichlet(np.ones(d), size=k),
    }


def random_weights(name: str, seed: int, **sizes: int) -> tuple[Grammar, dict[str, Any]]:
    """A library grammar, and random weights that its query's program takes."""
    grammar = load(name, **sizes)
    weights = fgg.compile(grammar).weights(seed=seed, dtype=torch.float64)
    return grammar, {n: np.asarray(w) for n, w in weights.items()}
