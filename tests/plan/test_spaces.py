"""The choice of a space by the size of a batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgg
from fgg.compiler.cost.choose import choose
from fgg.compiler.driver import Expected
from fgg.plan.spaces import SpaceWork, cheapest, turns
from fgg.rewrite import conjoin

WORK = st.builds(SpaceWork, st.integers(0, 300), st.integers(0, 40))


@given(st.dictionaries(st.sampled_from(["rank", "state", "dense"]), WORK, min_size=1))
def test_turning_points_are_where_the_cheapest_space_changes(works: dict[str, SpaceWork]) -> None:
    points = turns(works)
    assert points[0][0] == 1 and [p for p, _ in points] == sorted({p for p, _ in points})
    for items in range(1, 400):
        space = next(name for start, name in reversed(points) if start <= items)
        assert works[space].of(items) == works[cheapest(works, items)].of(items)
        before = [start for start, _ in points if start == items and items > 1]
        if before:  # a space is left only for one that is cheaper
            last = next(name for start, name in reversed(points) if start < items)
            assert works[last].of(items) > works[space].of(items)


@pytest.mark.parametrize("length", [4, 16])
@pytest.mark.parametrize(("states", "rank"), [(512, 64), (2048, 128)])
def test_rank_space_pays_from_half_the_rank_in_tokens(length: int, states: int, rank: int) -> None:
    # A token takes 2 k r multiply-adds in state space and r² in rank space, which has k r² before.
    grammar = fgg.load("hmm_rank", sizes={"k": states, "d": 1000, "r": rank})
    choice = choose(conjoin(grammar, grammar.query["string"]), Expected())
    ((_, first), (items, second)) = turns(choice.works({"n": length}))
    assert (first, second) == ("state", "rank")
    tokens = items * length
    assert rank / 2 <= tokens < rank / 2 * 1.1 + 2 * length
