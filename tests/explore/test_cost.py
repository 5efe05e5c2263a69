"""Explorer: costs, curves and what GPUs could do."""

from __future__ import annotations

from typing import Any

import pytest

from fgg.api.compile import compile
from fgg.compiler.cost.cost import cost
from fgg.diagnostics import GrammarError
from fgg.explore.views.cost import POINTS, grid
from fgg.grammar.domains import with_sizes
from fgg.runtime.posterior.compiled_posterior import CompiledPosterior
from tests.helpers.explorer import Viewed, asked, viewed


@pytest.fixture(scope="module")
def costs() -> Viewed:
    return viewed("cost", asked("hmm_rank", vary="k"))


def here(answer: Viewed) -> Any:
    (part,) = answer.all("here")
    return part


def test_each_space_has_its_polynomial(costs: Viewed) -> None:
    spaces = {space["name"]: space for space in here(costs)["spaces"]}
    assert {name: space["order"] for name, space in spaces.items()} == {
        "state": "O(n*k*r)",
        "rank": "O(n*r^2 + k*r^2)",
    }
    assert here(costs)["chosen"] == "rank" and "dense" in here(costs)["refused"]
    for space in spaces.values():
        assert sum(item["multiply_adds"] for item in space["items"]) == space["multiply_adds"]
        assert sum(space["bytes"].values()) == space["peak"]


def test_figures_are_those_of_the_program(costs: Viewed) -> None:
    program = compile(asked("hmm_rank").source, space="rank").compiled
    counted = cost(program.plan, {"n": 32}, batch=16)
    (rank,) = [space for space in here(costs)["spaces"] if space["name"] == "rank"]
    assert rank["multiply_adds"] == counted.multiply_adds


def test_auto_changes_its_mind_exactly_where_it_is_said(costs: Viewed) -> None:
    turns = {entry["name"]: entry["turns"] for entry in costs.all("turns")}
    assert {*turns} == {"n", "k", "d", "r", "batch"} and turns["n"] == []
    assert turns["k"] == [
        {"at": 3, "before": "dense", "after": "state"},
        {"at": 17, "before": "state", "after": "rank"},
    ]
    for turn in turns["k"]:
        for number, space in ((turn["at"] - 1, turn["before"]), (turn["at"], turn["after"])):
            grammar = with_sizes(asked("hmm_rank").source, {"k": number})
            program = compile(grammar).compiled
            inputs = {"w": [[0] * 32] * 16}
            post = program.posterior(program.weights(seed=0), inputs)
            assert isinstance(post, CompiledPosterior)
            assert program.in_cheapest_space(post.collated).space == space


def test_curves_go_through_the_present_number(costs: Viewed) -> None:
    points: Any = {point["at"]: point for point in costs.all("point")}
    assert 256 in points and len(points) >= POINTS - 1
    spaces = {space["name"]: space for space in here(costs)["spaces"]}
    for name, figures in points[256]["spaces"].items():
        assert figures["multiply_adds"] == spaces[name]["multiply_adds"]
        assert figures["bytes"] == spaces[name]["peak"]


def test_curves_along_lengths_and_batches_keep_the_programs() -> None:
    answer = viewed("cost", asked("hmm", vary="n", lengths={"n": 10}, batch=3, dtype="float64"))
    assert here(answer)["setting"] == {"lengths": {"n": 10}, "batch": 3, "dtype": "float64"}
    points: Any = answer.all("point")
    work = [point["spaces"]["state"]["multiply_adds"] for point in points]
    assert work == sorted(work) and work[0] < work[-1]
    assert [entry["turns"] for entry in answer.all("turns")] == [[]]


def test_grids_have_the_number_and_stay_in_bounds() -> None:
    assert 7 in grid(7, 10**9, 13) and max(grid(4000, 4096, 13)) == 4096
    assert grid(1, 10**9, 13)[0] == 1


@pytest.mark.parametrize(
    "options",
    [{"vary": "x"}, {"batch": 0}, {"lengths": {"n": 5000}}, {"lengths": 3}, {"dtype": "int8"}],
)
def test_wrong_settings_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(GrammarError, match="F415"):
        viewed("cost", asked("hmm", **options))


def test_grammars_without_a_schedule_have_no_cost() -> None:
    with pytest.raises(GrammarError, match="F425"):
        viewed("cost", asked("branching"))


def test_the_roofline_bounds_all_programs() -> None:
    answer: Any = viewed("roofline", asked("hmm", device="h100", lengths={"n": 8})).done
    assert answer["device"] == "h100" and answer["fits"]
    assert {row["program"] for row in answer["passes"]} == {"torch", "triton"}
    for row in answer["passes"]:
        seconds = row["seconds"]
        assert seconds >= row["roofline_seconds"] and row["launches"] > 0
        assert 2 * row["multiply_adds"] <= seconds * answer["flops"] * (1 + 1e-9)
        assert row["bytes"] <= seconds * answer["bandwidth"] * (1 + 1e-9)
    with pytest.raises(GrammarError, match="F415"):
        viewed("roofline", asked("hmm", device="abacus"))
