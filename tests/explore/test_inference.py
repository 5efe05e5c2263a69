"""Explorer: inference from one item, typed or drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgg
from fgg.diagnostics import GrammarError
from fgg.explore.asked import Asked
from fgg.explore.start import opened
from tests.helpers.explorer import Viewed, asked, viewed
from tests.oracles import library_models

TINY = {"k": 2, "d": 3}


def inferred(grammar: str, **options: object) -> Viewed:
    return viewed("inference", asked(grammar, **options))


def listed(answer: Viewed, what: str) -> list[Any]:
    """The derivations of a kind."""
    (made,) = [part["list"] for part in answer.all("derivations") if part["what"] == what]
    return list(made)


def test_log_z_is_that_of_the_model() -> None:
    answer = inferred("hmm", sizes=TINY, inputs={"w": "2 0 1 1"}, seed=5)
    program = fgg.compile(fgg.load("hmm", sizes=TINY))
    weights = {n: w.double().numpy() for n, w in program.weights(seed=5).items()}
    wanted = library_models.hmm(weights, [2, 0, 1, 1])
    (log_z,) = answer.all("log_z")
    assert math.isclose(math.exp(log_z), wanted, rel_tol=1e-5)
    (item,) = answer.all("item")
    assert item["words"] == ["2", "0", "1", "1"] and not item["drawn"]


def test_all_derivations_together_have_probability_one() -> None:
    answer = inferred("hmm", sizes=TINY, inputs={"w": "2 0 1"}, best=20)
    best = listed(answer, "best")
    assert len(best) == 8
    assert math.isclose(sum(one["probability"] for one in best), 1.0, rel_tol=1e-9)
    entropy = -sum(one["probability"] * math.log(one["probability"]) for one in best)
    assert math.isclose(answer.all("entropy")[0], entropy, rel_tol=1e-6)
    (beliefs,) = answer.all("beliefs")
    (family,) = [table for table in beliefs if table["family"] == "X"]
    for place, cell in enumerate(family["cells"]):
        shares = [
            sum(d["probability"] for d in best if d["written"].split()[place] == value)
            for value in family["values"]
        ]
        assert np.allclose(cell["row"], shares, atol=1e-5)


@pytest.mark.parametrize("space", ["state", "rank", "dense"])
def test_levels_fill_the_charts_from_short_spans_to_long_ones(space: str) -> None:
    sizes = {"nt": 3, "pt": 4, "words": 5, "r": 2}
    answer = inferred("pcfg", sizes=sizes, inputs={"w": "0 1 2 3 4"}, space=space)
    (charts,) = answer.all("charts")
    levels: Any = answer.all("level")
    widths = [level["at"] for level in levels if level["name"] == "width"]
    assert widths == [*range(widths[0], 6)] and widths[0] <= 2
    names = [chart["family"] for chart in charts["list"]]
    for level in levels:
        for number, place, value in level["cells"]:
            chart = charts["list"][number]
            at = [low + i for low, i in zip(chart["low"], place, strict=True)]
            assert math.isfinite(value)
            if level["name"] == "width" and len(at) == 2:
                assert at[1] - at[0] == level["at"]
    number, _, last = levels[-1]["cells"][-1]
    assert names[number] == "S"
    assert math.isclose(last, answer.all("log_z")[0], rel_tol=1e-5)


def test_trees_are_drawn_with_the_words() -> None:
    answer = inferred("dyck", inputs={"w": "( [ ] )"})
    (best, *_) = listed(answer, "best")
    assert best["picture"].startswith("<svg") and best["steps"]
    assert answer.all("item")[0]["inputs"] == {"w": "( [ ] )"}


def test_a_drawn_item_can_be_typed_again() -> None:
    drawn = inferred("pcfg", sizes={"words": 20}, draw=True, lengths={"n": 4}, seed=3)
    (item,) = drawn.all("item")
    assert item["drawn"] and item["lengths"] == {"n": 4}
    typed = inferred("pcfg", sizes={"words": 20}, inputs=item["inputs"], seed=3)
    assert typed.all("log_z") == drawn.all("log_z")


@pytest.mark.parametrize("grammar", ["eisner", "ctc", "semicrf", "pair_hmm", "branching", "qcfg"])
def test_items_of_all_kinds_are_drawn(grammar: str) -> None:
    small = {"words": 5, "A": 3} if grammar == "qcfg" else {}
    answer = inferred(grammar, sizes=small)
    assert math.isfinite(answer.all("log_z")[0]) and answer.done["possible"]
    assert answer.all("derivations") or answer.all("refused")


def test_what_one_question_refuses_leaves_the_others() -> None:
    answer = inferred("pcfg", sizes={"words": 20}, space="rank")
    refused = {part["what"]: part["diagnostics"][0]["code"] for part in answer.all("refused")}
    assert refused == {"best": "F426"}
    assert listed(answer, "risk") and listed(answer, "samples") and answer.all("beliefs")


def test_an_item_without_derivations_says_so() -> None:
    answer = inferred("dyck", inputs={"w": "( ]"})
    assert answer.all("log_z") == [-math.inf] and answer.done == {"possible": False}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"inputs": {"w": "walrus"}}, "F411"),
        ({"inputs": {"w": "[1, 2"}}, "F411"),
        ({"inputs": {"w": "[[1]]"}}, "F411"),
        ({"inputs": {"w": "1000000"}}, "F411"),
        ({"inputs": 3}, "F415"),
        ({"inputs": {"w": 3}}, "F415"),
        ({"weights": "/etc/passwd"}, "F415"),
        ({"weights": "trained"}, "F415"),
        ({"best": 1000}, "F415"),
        ({"seed": -1}, "F415"),
        ({"lengths": {"n": 100_000}}, "F415"),
    ],
)
def test_what_cannot_be_read_is_refused(options: dict[str, object], code: str) -> None:
    with pytest.raises(GrammarError, match=code):
        inferred("hmm", **options)


def test_what_needs_too_much_memory_is_refused() -> None:
    home, _ = opened(None, 2**20)
    text = fgg.library.library_text("pcfg")
    request = Asked.of(home, {"text": text, "inputs": {"w": " ".join(["0"] * 150)}})
    with pytest.raises(GrammarError, match="F420"):
        viewed("inference", request)


def test_a_trained_model_brings_its_weights_and_its_words(tmp_path: Path) -> None:
    grammar = fgg.load("hmm", sizes={"k": 2})
    model = fgg.compile(grammar).model(seed=1)
    model.fit({"w": ["the dog barks", "the cat sleeps"]}, epochs=2)
    model.save(tmp_path / "dogs.fggm")
    home, start = opened(str(tmp_path / "dogs.fggm"), 2**32)
    assert start["trained"] and start["models"] == ["dogs.fggm"]
    given = {"text": start["text"], "query": "string", "inputs": {"w": "the dog sleeps"}}
    log_z = model(w=["the dog sleeps".split()]).item()
    for weights in ("trained", "dogs.fggm"):
        answer = viewed("inference", Asked.of(home, {**given, "weights": weights}))
        assert math.isclose(answer.all("log_z")[0], log_z, rel_tol=1e-5)
        assert answer.all("item")[0]["words"] == ["the", "dog", "sleeps"]
    other = viewed("inference", Asked.of(home, {**given, "weights": "own"}))
    assert not math.isclose(other.all("log_z")[0], log_z, rel_tol=1e-3)
