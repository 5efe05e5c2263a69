"""The front end keeps its promises whatever the text."""

from __future__ import annotations

import random

import pytest

from tests.fuzz import Finding, check, fuzz, shrink, texts
from tests.mutations import mutate, tokens


def report(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.reason}\n{finding.text!r}" for finding in map(shrink, findings))


def test_no_text_breaks_the_front_end() -> None:
    findings = fuzz(seed=1, count=2000)
    assert not findings, report(findings)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_text_of_very_many_breaks_the_front_end(seed: int) -> None:
    findings = fuzz(seed=seed, count=10_000)
    assert not findings, report(findings)


def test_the_texts_are_the_same_on_every_run() -> None:
    assert list(texts(3, 50)) == list(texts(3, 50))


def test_some_texts_are_grammars_and_some_are_not() -> None:
    verdicts = {check(text) for text in texts(5, 40)}
    assert verdicts == {None}


def test_tokens_join_to_the_text() -> None:
    text = 'rule r: X[i] -> f(`a b`, "c\\"d") # why\n for i <= 3'
    assert "".join(tokens(text)) == text
    assert mutate(random.Random(0), "") == ""
