"""What decomposed grammars cost, in state space and in rank space."""

from __future__ import annotations

from fgg.compiler.cost import cost
from fgg.compiler.lower import plan
from fgg.compiler.passes.fold import fold
from fgg.compiler.passes.rank_space import rank_space
from fgg.grammar import Grammar
from tests.compiler.rank_grammars import (
    asked,
    decomposed,
)


def orders(grammar: Grammar) -> list[str]:
    planned = plan(fold(grammar))
    found = cost(planned, dict.fromkeys(planned.lengths, 32), batch=16, width=4)
    return found.text(found.order).split(" + ")


LARGE = {
    "pcfg": (300, 600, 10000, 20),
    "lpcfg": (300, 600, 1000, 20),
    "hmm_rank": (500, 10000, 20),
    "lhmm": (500, 10000, 20),
}


def test_state_space_costs_what_the_literature_says() -> None:
    # [RS eq. 10]: O(n^3 r + n^2 m r); [LR]: O(n m r).
    terms = orders(decomposed(asked("pcfg", LARGE["pcfg"])))
    assert terms == ["n^3*r", "n^2*nt*r", "n*pt*r"]
    assert orders(decomposed(asked("lhmm", LARGE["lhmm"]))) == ["n*k*r"]
    assert orders(decomposed(asked("hmm_rank", LARGE["hmm_rank"]))) == ["n*k*r"]


def test_rank_space_costs_what_the_paper_says() -> None:
    # [RS §4.2]: O(n^3 r + n^2 r^2), besides words (J, K at n tokens) and weights (H, I), once.
    terms = orders(rank_space(decomposed(asked("pcfg", LARGE["pcfg"]))))
    assert terms == ["n^3*r", "n^2*r^2", "n*pt*r", "nt*r^2"]
    # [RS §4.3]: O(n r^2), besides the product of weights.
    assert orders(rank_space(decomposed(asked("hmm_rank", LARGE["hmm_rank"])))) == [
        "n*r^2",
        "k*r^2",
    ]
    terms = orders(rank_space(decomposed(asked("lpcfg", LARGE["lpcfg"]))))
    assert terms[:2] == ["n^3*r^2", "n^2*r^3"]


def test_where_states_are_fewer_than_ranks_the_plan_stays_with_states() -> None:
    terms = orders(rank_space(decomposed(asked("pcfg", (30, 60, 10000, 100)))))
    assert terms[:2] == ["n^3*r", "n^2*nt*r"]
