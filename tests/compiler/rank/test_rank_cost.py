"""What decomposed grammars cost, in state space and in rank space."""

from __future__ import annotations

import pytest

from fgg.api.compile import selected
from fgg.compiler import load
from fgg.compiler.cost.cost import Cost, cost
from fgg.compiler.passes.fold import fold
from fgg.compiler.plan.lower import plan
from fgg.compiler.rank.rank_space import rank_space
from fgg.grammar import Grammar
from tests.helpers.rank_grammars import decomposed

LARGE: dict[str, tuple[str | None, dict[str, int]]] = {
    "pcfg": ("string", {"nt": 300, "pt": 600, "r": 20}),
    "lpcfg": ("string", {"nt": 300, "pt": 600, "r": 20}),
    "hmm_rank": ("string", {"k": 500, "d": 10000, "r": 20}),
    "lhmm": ("string", {"k": 500, "d": 10000, "r": 20}),
    "lexpcfg_rank": (None, {"nt": 300, "pt": 600, "r": 20}),
    "qcfg": ("aligned", {"nt": 300, "pt": 600, "labels": 50, "r": 20}),
}


def state(name: str, **sizes: int) -> Grammar:
    query, large = LARGE[name]
    return decomposed(selected(load(name, sizes={**large, **sizes}), query))


def counted(grammar: Grammar) -> Cost:
    planned = plan(fold(grammar))
    return cost(planned, dict.fromkeys(planned.lengths, 32), batch=16, width=4)


def orders(grammar: Grammar) -> list[str]:
    found = counted(grammar)
    return found.text(found.order).split(" + ")


def test_state_space_costs_what_the_literature_says() -> None:
    # [RS eq. 10]: O(n^3 r + n^2 m r); [LR]: O(n m r).
    assert orders(state("pcfg")) == ["n^3*r", "n^2*nt*r", "n*pt*r"]
    assert orders(state("lhmm")) == ["n*k*r"]
    assert orders(state("hmm_rank")) == ["n*k*r"]


def test_matricised_rules_cost_less_than_the_literature_says() -> None:
    # [RS eq. 12]: O(n^3 m^2 r + n^2 m r); the products with one child are messages, or the sum
    # over splits comes first.
    assert orders(state("lpcfg"))[:2] == ["n^3*nt*r", "n^2*nt^2*r"]
    assert orders(state("lpcfg", nt=30, pt=60))[:2] == ["n^3*nt^2", "n^2*nt^2*r"]


def test_rank_space_costs_what_the_paper_says() -> None:
    # [RS §4.2]: O(n^3 r + n^2 r^2), besides words (J, K at n tokens) and weights (H, I), once.
    terms = orders(rank_space(state("pcfg")))
    assert terms == ["n^3*r", "n^2*r^2", "n*pt*r", "nt*r^2"]
    # [RS §4.3]: O(n r^2), besides the product of weights.
    assert orders(rank_space(state("hmm_rank"))) == ["n*r^2", "k*r^2"]
    assert orders(rank_space(state("lpcfg")))[:2] == ["n^3*r^2", "n^2*r^3"]


def test_what_the_paper_names_as_next_costs_as_little() -> None:
    # A head has n positions. State space: [RS eq. 10] for each; rank space: [RS §4.2] for each.
    assert orders(state("lexpcfg_rank")) == ["n^4*r", "n^3*nt*r", "n*pt*r"]
    terms = orders(rank_space(state("lexpcfg_rank")))
    assert terms == ["n^4*r", "n^3*r^2", "n*nt*r^2", "pt*r"]
    # Spans of the target do not depend on the source, whose m nodes are summed beforehand.
    assert {"n^3*r", "m*n^2*nt*labels*r"} <= set(orders(state("qcfg")))
    terms = orders(rank_space(state("qcfg")))
    assert {"n^3*r", "n^2*r^2"} <= set(terms)
    assert not [x for x in terms if "n^2" in x and ("nt" in x or "pt" in x or "labels" in x)]


@pytest.mark.parametrize("name", ["pcfg", "hmm_rank"])
def test_no_step_at_many_positions_depends_on_the_number_of_states(name: str) -> None:
    found = counted(rank_space(state(name)))
    steps = [found.text(item.order) for item in found.items if item.kind == "step"]
    terms = [set(term.replace("^2", "").split("*")) for x in steps for term in x.split(" + ")]
    assert terms and not [term for term in terms if "n" in term and term & {"nt", "pt", "k"}]


def test_multiply_adds_of_the_steps_stay_when_states_become_many() -> None:
    few, many = (
        sum(item.multiply_adds for item in counted(rank_space(g)).items if item.kind == "step")
        for g in (state("pcfg"), state("pcfg", nt=3000, pt=6000))
    )
    assert few == many > 0


def test_where_states_are_fewer_than_ranks_the_plan_stays_with_states() -> None:
    terms = orders(rank_space(state("pcfg", nt=30, pt=60, r=100)))
    assert terms[:2] == ["n^3*r", "n^2*nt*r"]
