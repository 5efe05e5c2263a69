"""Words, molecules, brackets, branching: each grammar compared with what it claims to be."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from fgg.grammar.semantics import brute_force
from tests.helpers.library import ask, count, library, parameters
from tests.oracles import library_models as direct


@pytest.mark.parametrize("word", ["a", "ab", "aba", "abab", "ababa", "abbaba"])
def test_morphology_sums_over_templates_and_their_segments(word: str) -> None:
    lexicon = ["a", "b", "ab", "ba", "bab", "abab"]
    sizes, n = {"substrings": len(lexicon)}, len(word)
    weights = parameters("morphology", sizes)
    templates = ["stem"], ["stem", "mood"], ["subject", "stem", "mood"]
    longer = ["subject", "tense", "stem", "mood"], ["subject", "tense", "object", "stem", "mood"]
    expected, number = 0.0, 0
    for template, slots in enumerate((*templates, *longer)):
        for lengths in direct.compositions(n, n):
            if len(lengths) == len(slots):
                number += 1
                ends = np.cumsum(lengths)
                parts = [word[e - size : e] for e, size in zip(ends, lengths, strict=True)]
                if all(part in lexicon for part in parts):
                    morphemes = zip(slots, map(lexicon.index, parts), strict=True)
                    factors = [weights[slot][part] for slot, part in morphemes]
                    expected += float(weights["template"][template] * np.prod(factors))
    spans = [[word[i:j] for j in range(n + 1)] for i in range(n)]
    s = [[lexicon.index(x) if x in lexicon else -2 for x in row] for row in spans]
    assert ask("morphology", "word", weights, sizes, s=s) == pytest.approx(expected)
    assert count("morphology", "word", sizes, n=n) == number
    assert number == sum(comb(n - 1, boundaries) for boundaries in range(5))


@pytest.mark.parametrize("w", ["A", "GC", "GAAC", "GAAAC", "GGAACC", "GAACGAAC"])
def test_rna_sequences_have_their_probability(w: str) -> None:
    weights = parameters("rna", {})
    bases = ["ACGU".index(base) for base in w]
    assert ask("rna", "string", weights, {}, w=list(w)) == pytest.approx(direct.rna(weights, bases))


def test_branching_tends_to_the_probability_of_dying_out() -> None:
    grammar, z = library("branching", {}), 0.0
    for depth in range(6):
        assert brute_force(grammar, {}, max_depth=depth) == pytest.approx(z)
        z = 3 / 5 * z**2 + 2 / 5
    for _ in range(200):
        z = 3 / 5 * z**2 + 2 / 5
    assert z == pytest.approx(2 / 3)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_brackets_have_a_probability_if_they_balance(n: int) -> None:
    for w in map("".join, product("([)]", repeat=n)):
        rest = w
        while rest != (shorter := rest.replace("()", "").replace("[]", "")):
            rest = shorter
        expected = 0.0 if rest else (0.3 / 2) ** (n // 2) * 0.7 ** (n // 2 + 1)
        assert ask("dyck", "string", {}, {}, w=list(w)) == pytest.approx(expected)
