"""Engines say how far they are; nobody pays for it who does not listen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fgg
from fgg.api.unmix import unmix
from fgg.progress import Listener, Stage, heard_by, levels, stage, steps
from fgg.rewrite.ground import ground
from fgg.runtime.model.decompose import decompose, smallest_rank
from fgg.runtime.reference.solve import solve


class Recorder(Listener):
    """Keeps all stages, and counts how often the last of them has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Stage] = []
        self.idled = 0

    def begin(self, begun: Stage) -> None:
        self.begun.append(begun)
        super().begin(begun)

    def idle(self) -> None:
        self.idled += 1

    def totals(self) -> dict[str, set[tuple[int, int]]]:
        found: dict[str, set[tuple[int, int]]] = {}
        for item in self.begun:
            found.setdefault(item.what, set()).add((item.done, item.total))
        return found


def heard(work: Callable[[], object]) -> Recorder:
    recorder = Recorder()
    with heard_by(recorder):
        work()
    assert not recorder.stages
    return recorder


def test_without_a_listener_loops_are_as_they_were() -> None:
    items = [1, 2]
    assert steps(items, "item") is items
    assert levels(3, 0, -1) == range(3, 0, -1)
    with stage("item", 2) as shown:
        shown.done += 1
    assert str(shown) == "item 1 of 2"


def test_stages_are_counted_and_end_in_turn() -> None:
    recorder = Recorder()
    with heard_by(recorder), stage("outer") as outer:
        for place in steps(range(3), "inner"):
            assert [s.what for s in recorder.stages] == ["outer", "inner"]
            assert recorder.stages[1].done == place
            outer.update(place + 1, 3)
        assert recorder.idled == 0
    assert recorder.totals() == {"outer": {(3, 3)}, "inner": {(3, 3)}}
    assert recorder.idled == 1 and not recorder.stages


def test_a_loop_that_is_left_ends_its_stage() -> None:
    def leave() -> None:
        for item in steps(range(3), "item"):
            if item == 1:
                raise ValueError

    recorder = Recorder()
    with heard_by(recorder):
        with pytest.raises(ValueError):
            leave()
    assert not recorder.stages


def test_numbers_are_written_with_commas() -> None:
    assert str(Stage("rule")) == "rule"
    assert str(Stage("rule", 0, 1234)) == "rule 1,234"
    assert str(Stage("rule", 100_000, 1234)) == "rule 1,234 of 100,000"


def test_grounding_and_solving_count_rules_and_levels() -> None:
    hmm = fgg.load("hmm", sizes={"k": 2, "d": 2})
    found = heard(lambda: solve(ground(hmm, query="string", lengths={"n": 4}), seed=0)).totals()
    flat = ground(hmm, query="string", lengths={"n": 4})
    assert found["rule written out"] == {(len(flat.rules), len(flat.rules))}
    ((done, total),) = found["level"]
    assert done == total > 4


def test_passes_of_compiled_programs_count_levels() -> None:
    program = fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 2, "pt": 2, "words": 2}))
    weights = program.weights(seed=0)
    inputs = {"w": [[0, 1, 0, 1, 1]]}
    forward = heard(lambda: program.log_z(weights, inputs)).totals()["level"]
    assert all(done == total for done, total in forward) and max(forward) >= (3, 3)
    both = heard(lambda: program.posterior(weights, inputs).marginals).totals()["level"]
    assert max(both) >= max(forward)
    decoded = heard(lambda: program.posterior(weights, inputs).best()).totals()
    assert decoded["item"] == {(1, 1)} and max(decoded["level"]) >= (3, 3)
    assert (7, 7) in heard(lambda: program.posterior(weights, inputs).sample(7)).totals()["draw"]


def test_other_semirings_count_levels() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 2}))
    weights = program.weights(seed=0)
    found = heard(lambda: program.posterior(weights, {"w": [[0, 1, 0]]}).charts("max"))
    assert all(done == total for done, total in found.totals()["level"])


def test_ranks_count_blocks_of_columns() -> None:
    hmm = fgg.load("hmm", sizes={"k": 3, "d": 3})
    found = heard(lambda: fgg.identify(hmm, length=3)).totals()
    assert "block of columns" in found and "part of the Jacobian" in found


def test_decompositions_count_sweeps() -> None:
    weights = np.random.default_rng(0).random((4, 4, 4))
    found = heard(lambda: decompose(weights, None, 2))
    assert "sweep" in found.totals()
    assert "sweep" in heard(lambda: smallest_rank(weights, None, 0.5)).totals()


def test_comparisons_count_items() -> None:
    hmm = fgg.load("hmm")
    found = heard(lambda: fgg.verify(hmm, trials=1, length=2, items=4)).totals()
    assert any(done == total for done, total in found["item"])


def test_unmixing_counts_lengths() -> None:
    grammar = fgg.load("pcfg_ie", sizes={"k": 2, "d": 3})
    data = np.random.default_rng(0).integers(0, 3, (50, 3))
    found = heard(lambda: unmix(grammar, {3: data}, refine=1)).totals()
    assert "batch" in found
