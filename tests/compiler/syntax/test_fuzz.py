"""The front end keeps its promises whatever the text."""

from __future__ import annotations

import random

import pytest

import tests.generators.fuzz
from fgg.compiler import load_text
from tests.generators.fuzz import Finding, fuzz, shrink, texts
from tests.generators.mutations import mutate, tokens


def report(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.reason}\n{finding.text!r}" for finding in map(shrink, findings))


def test_no_text_breaks_the_front_end() -> None:
    findings = fuzz(seed=1, count=500)
    assert not findings, report(findings)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_text_of_very_many_breaks_the_front_end(seed: int) -> None:
    findings = fuzz(seed=seed, count=10_000)
    assert not findings, report(findings)


def test_the_texts_are_the_same_on_every_run() -> None:
    assert list(texts(3, 50)) == list(texts(3, 50))


def test_a_good_part_of_the_texts_are_grammars() -> None:
    grammars = [load_text(text)[0] for text in texts(5, 100)]
    assert 10 <= sum(grammar is not None for grammar in grammars) <= 60


def test_a_broken_promise_is_found_and_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(text: str, name: str = "", *, folder: str = ".") -> object:
        assert "query" not in text, "no queries today"
        return load_text(text, name, folder=folder)

    monkeypatch.setattr(tests.generators.fuzz, "load_text", load)
    (finding,) = fuzz(seed=1, count=30)
    assert finding.reason.startswith("AssertionError")
    assert shrink(finding).text == "query"


def test_tokens_join_to_the_text() -> None:
    text = 'rule r: X[i] -> f(`a b`, "c\\"d") # why\n for i <= 3'
    assert "".join(tokens(text)) == text
    assert mutate(random.Random(0), "") == ""
