"""Explorer: the film of the passes."""

from __future__ import annotations

from typing import Any, cast
from xml.etree import ElementTree

import pytest

from fgg.compiler.driver import SPACES, Expected, after, pass_names
from fgg.draw import draw_rule
from fgg.explore.views.passes import MODEL, OUTER_RANK, OUTER_STATE, STATE, TOLD, tinted
from fgg.grammar import Grammar
from tests.helpers.explorer import asked, viewed

Frames = dict[str, dict[str, Any]]


def frames(grammar: str, **options: object) -> Frames:
    """The frames of a film by the names of their passes."""
    film = viewed("passes", asked(grammar, **options)).all("frame")
    return {str(frame["name"]): frame for frame in cast("list[dict[str, Any]]", film)}


def test_each_pass_is_told_of() -> None:
    assert {name for space in SPACES for name in pass_names(space)} | {MODEL} <= TOLD.keys()


@pytest.mark.parametrize("grammar", ["hmm", "pcfg", "crf", "dyck", "eisner", "qcfg", "pcfg_la"])
def test_a_film_has_a_frame_for_each_pass(grammar: str) -> None:
    film = viewed("passes", asked(grammar))
    names = [cast("dict[str, Any]", frame)["name"] for frame in film.all("frame")]
    assert [name for name in names if name != MODEL] == [*pass_names(str(film.done["space"]))]
    pictures = film.all("picture")
    assert len(set(map(str, pictures))) == len(pictures)
    for svg in pictures:
        assert ElementTree.fromstring(str(svg)).tag.endswith("svg")
    used = {r["picture"] for f in film.all("frame") for r in cast("dict[str, Any]", f)["rules"]}
    assert used == set(range(len(pictures)))


def test_rank_space_prepares_the_matrices_of_the_paper() -> None:
    film = frames("pcfg", space="rank")
    letters = {line.partition(" = ")[0] for line in film["rank_space"]["prepared"]}
    assert {"H", "J", "K", "L"} <= letters
    assert not {line for line in film["split"]["prepared"] if line.startswith("H")}
    assert film["conjoin"]["order"].startswith("O(n^3*nt^2") and film["model"]["order"] is None
    assert film["fold"]["order"] == "O(n^3*r + n^2*r^2 + n*pt*r + nt*r^2)"
    rules = {rule["name"]: rule for rule in film["rank_space"]["rules"]}
    assert [line[0] for line in rules["X_N_binary_1"]["prepared"]] == ["H"]
    assert rules["binary"]["cost"]["order"] == "O(n^3*r)"


def test_changes_are_told_apart() -> None:
    film = frames("pcfg", space="state")
    split = film["split"]
    changes = {rule["name"]: rule["change"] for rule in split["rules"]}
    assert changes["root"] == "changed" and changes["binary_N_N"] == "new"
    assert split["gone"] == ["binary"] and split["changed"]
    unequal = film["unequal"]
    assert not unequal["changed"] and {r["change"] for r in unequal["rules"]} == {"same"}


def test_rules_know_the_rules_that_they_come_from() -> None:
    request = asked("pcfg", space="state")
    film = frames("pcfg", space="state")
    (rule,) = [rule for rule in film["split"]["rules"] if rule["name"] == "binary_N_P"]
    assert rule["source"]["rule"] == "binary" and rule["source"]["nodes"].keys() >= {"a", "b", "c"}
    start, end = rule["source"]["place"]
    assert request.text[start:end] == "binary"


def test_a_grammar_without_a_schedule_still_has_a_film() -> None:
    film = viewed("passes", asked("branching"))
    assert film.done["space"] == "state" and "cannot be compiled" in str(film.done["reason"])
    assert len(film.all("frame")) > 3


def test_rank_nodes_and_state_nodes_have_their_own_colours() -> None:
    grammar = asked("hmm_rank").source
    states = drawn(grammar)
    assert STATE.fill in states and OUTER_STATE.fill in states and OUTER_RANK.fill not in states
    ranks = drawn(after(grammar, "rank_space", Expected(), "rank"))
    assert OUTER_RANK.fill in ranks and f'fill="{OUTER_STATE.fill}"' not in ranks


def drawn(grammar: Grammar) -> str:
    """All rules of a grammar as the film shows them."""
    return "".join(tinted(draw_rule(grammar, rule)).svg() for rule in grammar.rules)
