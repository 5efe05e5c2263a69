"""What derivations say of sequences, against what the models' own structure must be."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fgg import GrammarError, compile, load
from fgg.grammar.annotations import heads, pairs, read_links, segments, span_cells, tags
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.program.program import Program

DMV = ("left_some=j-1:k", "right_some=i:k", "root=:r")


def sampled(
    name: str, sizes: dict[str, int], inputs: dict[str, Any], number: int = 20
) -> tuple[Program, list[Derivation]]:
    program = compile(load(name, sizes=sizes))
    weights = program.weights(seed=1)
    (found,) = program.posterior(weights, inputs).sample(number, seed=2)
    return program, found


def test_heads_make_a_projective_tree() -> None:
    length = 5
    program, found = sampled("dmv", {"tags": 3}, {"w": [[0, 1, 2, 1, 0]]})
    links = read_links(DMV, program.grammar)
    seen = set()
    for derivation in found:
        guess = heads(derivation, length, links)
        seen.add(tuple(guess))
        assert guess.count(0) == 1 and -1 not in guess
        arcs = [(min(h - 1, w), max(h - 1, w)) for w, h in enumerate(guess) if h]
        assert not any(a < c < b < d for a, b in arcs for c, d in arcs)
        for word in range(length):  # every word leads to the root
            at, steps = word, 0
            while guess[at] and steps <= length:
                at, steps = guess[at] - 1, steps + 1
            assert guess[at] == 0
    assert len(seen) > 5


def test_pairs_nest_and_lie_where_rules_read_two_letters() -> None:
    program, found = sampled("rna", {}, {"w": [[0, 1, 2, 3, 3, 0, 1, 2, 1, 0]]})
    links = read_links(("paired=i:j-1", "stack=i:j-1"), program.grammar)
    some = 0
    for derivation in found:
        guess = pairs(derivation, program.grammar)
        assert guess == pairs(derivation, program.grammar, links)
        assert len({x for pair in guess for x in pair}) == 2 * len(guess)
        assert not any(a < c < b < d for a, b in guess for c, d in guess)
        some += len(guess)
    assert some > 0


def test_spans_of_a_binary_tree() -> None:
    _, found = sampled("pcfg_dense", {"nt": 2, "pt": 2, "words": 3}, {"w": [[0, 1, 2, 1, 0]]})
    for derivation in found:
        spans = span_cells(derivation, ["X"])
        assert {(i, i + 1) for i in range(5)} | {(0, 5)} <= spans and len(spans) == 9
        assert all(tag is not None for tag in tags(derivation, 5))
        assert not span_cells(derivation, ["S"])


def test_tags_are_the_states_of_a_chain() -> None:
    _, found = sampled("hmm", {"k": 3, "d": 4}, {"w": [[0, 1, 2, 3]]})
    for derivation in found:
        assert tags(derivation, 4) == [v for v in derivation.cell_values()]
        assert tags(derivation, 4, ["S"]) == [None] * 4


def test_segments_cover_a_word() -> None:
    text = "abcd"
    parts = sorted({text[i:j] for i in range(4) for j in range(i + 1, 5)})
    table = [[parts.index(text[i:j]) if j > i else -2 for j in range(5)] for i in range(4)]
    _, found = sampled("morphology", {"substrings": len(parts)}, {"s": [table]})
    for derivation in found:
        guess = segments(derivation, 4)
        assert guess[0][0] == 0 and guess[-1][1] == 4
        assert all(a[1] == b[0] for a, b in pairwise(guess))
        leaves = sum(
            label in ("stem", "mood", "subject", "tense", "object")
            for step in derivation.steps
            for label in (edge.label for edge in step.rule.rhs.edges)
        )
        assert len(guess) == leaves
    assert len({tuple(segments(d, 4)) for d in found}) > 2


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("root", "not a link"),
        ("rot=:r", "no rule"),
        ("root=:r*2", "not an index"),
        ("root=:q", "`q`"),
    ],
)
def test_links_that_mean_nothing_are_refused(link: str, message: str) -> None:
    program, found = sampled("dmv", {"tags": 3}, {"w": [[0, 1]]}, 1)
    with pytest.raises(GrammarError, match=message):
        heads(found[0], 2, read_links([link], program.grammar))
