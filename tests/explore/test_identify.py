"""Explorer: ranks and null directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgg
from fgg.diagnostics import GrammarError
from tests.helpers.explorer import Viewed, asked, viewed


def result_of(answer: Viewed) -> Any:
    (result,) = answer.all("result")
    return result


def test_the_result_is_that_of_identify() -> None:
    answer = viewed("identify", asked("hmm", length=2))
    sizes = {size["name"]: size["value"] for size in answer.all("sizes")[0]}
    assert max(sizes.values()) <= 3
    wanted = fgg.identify(fgg.load("hmm"), length=2, sizes=sizes)
    result = result_of(answer)
    assert result["rank"] == wanted.rank and result["parameters"] == wanted.parameters
    assert result["verdict"] == "no" and len(result["directions"]) == wanted.deficiency
    for shown, direction in zip(result["directions"], wanted.directions, strict=True):
        for move in shown:
            array = direction.moves[move["factor"]]
            assert np.allclose(np.array(move["rows"]).reshape(array.shape), array, atol=1e-3)


def test_the_table_has_every_kind_of_moments_at_every_length() -> None:
    answer = viewed("identify", asked("hmm", length=3, moments="123"))
    result = result_of(answer)
    cells = {(cell["moments"], cell["length"]): cell for cell in answer.all("cell")}
    assert {name for name, _ in cells} == {*result["moments_names"]}
    assert {length for _, length in cells} == {2, 3, 4, 5, 6}
    assert cells["123", 3]["rank"] == result["rank"] and result["verdict"] == "yes"
    assert cells["123", 2]["verdict"] == "undefined"
    ranks = [cells["all", length]["rank"] for length in range(2, 7)]
    assert ranks == sorted(ranks)


def test_sizes_can_be_set() -> None:
    answer = viewed("identify", asked("hmm", at={"k": 3, "d": 4}))
    assert answer.all("sizes") == [[{"name": "k", "value": 3}, {"name": "d", "value": 4}]]
    assert result_of(answer)["parameters"] == 2 + 3 * 2 + 3 * 3


@pytest.mark.parametrize(
    ("grammar", "options", "code"),
    [
        ("crf", {}, "F453"),
        ("hmm", {"moments": "1234"}, "F415"),
        ("hmm", {"length": 0}, "F415"),
        ("hmm", {"at": {"k": 10_000}}, "F415"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    grammar: str, options: dict[str, object], code: str
) -> None:
    with pytest.raises(GrammarError, match=code):
        viewed("identify", asked(grammar, **options))
