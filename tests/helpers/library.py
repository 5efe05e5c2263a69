"""Library grammars with small sizes and random weights, and their values by enumeration."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from fgg.compiler.resolve.load import load
from fgg.factors.maps import groups
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.semantics import brute_force, derivations
from fgg.rewrite.ground import ground
from fgg.runtime.program.bind import within_blocks
from tests.oracles.library_models import Floats, Weights

Sizes = dict[str, int]


LATENT = {"nt": 2, "pt": 1, "h": 2, "words": 2}


CATALAN = [0, 1, 1, 2, 5, 14]


TREES = [0, 1, 2, 7, 30, 143]


def library(name: str, sizes: Sizes) -> Grammar:
    """A library grammar with some of its sizes set."""
    return _library(name, tuple(sizes.items()))


@cache
def _library(name: str, sizes: tuple[tuple[str, int], ...]) -> Grammar:
    return load(name, sizes=dict(sizes))


def ask(name: str, query: str | None, weights: Weights, sizes: Sizes, **inputs: Any) -> Any:
    """The value of a library grammar by enumeration."""
    return brute_force(ground(library(name, sizes), query=query, inputs=inputs), weights)


def count(name: str, query: str | None, sizes: Sizes | None = None, **lengths: int) -> int:
    """The number of derivations of a library grammar for given lengths."""
    grammar = ground(library(name, sizes or {}), query=query, lengths=lengths)
    return len(list(derivations(grammar)))


def parameters(name: str, sizes: Sizes, seed: int = 0) -> dict[str, Floats]:
    """Random weights for all parameters of a grammar, normalised where it says so."""
    grammar = library(name, sizes)
    rng = np.random.default_rng(seed)
    weights: dict[str, Floats] = {}
    for factor in grammar.factors:
        if factor.value is None:
            array = rng.random([domain_size(grammar, domain) for domain in factor.domains]) + 0.1
            blocks = groups(grammar, factor)
            if blocks is not None:
                array = within_blocks(array, blocks)
            elif factor.given is not None:
                array /= array.sum(tuple(range(factor.given, array.ndim)), keepdims=True)
            weights[factor.name] = array
    if name == "dep_ies":
        weights["root"] = stationary(weights["arc"])
    return weights


def stationary(matrix: Floats) -> Floats:
    """The distribution that a step of a chain keeps."""
    return np.asarray(np.linalg.matrix_power(matrix, 200)[0])


def either(weights: Weights, own: str, shared: str) -> Floats:
    """The weights of a direction, or those that both directions share."""
    return weights[own] if own in weights else weights[shared]


def strings(size: int, n: int) -> list[list[int]]:
    """All strings of n tokens."""
    return [list(w) for w in product(range(size), repeat=n)]
