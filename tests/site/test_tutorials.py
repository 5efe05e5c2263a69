"""Tutorials run, and what they compute is what their text says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from docs.site import notebook
from tests.helpers.places import ROOT

PAGES = sorted(p for p in (ROOT / "docs" / "tutorials").glob("*.md") if p.stem != "index")
SLOW: frozenset[str] = frozenset()
"""Pages that compute for more than some seconds."""

WIDEST = 260
"""The most characters of a line of output; readers scroll longer ones."""


def executed(page: Path) -> notebook.Outputs:
    """The outputs of a page, run in this folder; the tests of a page share them."""
    return notebook.run(page.read_text("utf-8"), page.name)


def text_of(outputs: notebook.Outputs) -> str:
    """All that a page prints."""
    return "".join(out.content for cell in outputs for out in cell if out.kind == "text")


def percentages(text: str) -> list[float]:
    return [float(share) for share in re.findall(r"([\d.]+)%", text)]


def check_hmm_tagger(text: str) -> None:
    counts, runs = (
        re.search(r"   10 tagged sentences.*\n.*\n.*", text),
        re.findall(r"from.*%", text),
    )
    assert counts is not None and percentages(counts[0]) == sorted(percentages(counts[0]))
    assert len(runs) == 3
    for run, number in zip(runs, (10, 100, 1000), strict=True):
        start, best, end = percentages(run)
        assert end < start - 20, "EM on plain text alone drifts away from the tags"
        assert (best > start + 1) == (number == 10)
    few, some, many = percentages(text[text.index("990 plain") - 20 :])[:3]
    assert few < some < 80 and many > 94
    before, after = percentages(text[text.index("seven tags") :])
    assert after > before + 10


def check_pcfg_induction(text: str) -> None:
    (right,) = percentages(re.findall(r"always branching.*", text)[0])
    plain = percentages("".join(re.findall(r"EM on plain text, seed.*", text)))
    assert len(plain) == 2 and max(plain) < right, "EM alone does not find the phrases"
    none, few, *more = percentages("".join(re.findall(r".*sentences with brackets:.*", text)))
    assert few > none + 30 and min(more) > 90
    assert "learner: proved" in text and "rank space is the cheapest" in text


def check_neural_crf(text: str) -> None:
    shares = re.findall(r"^(alone|chain|brackets).* ([\d.]+)% of expressions$", text, re.M)
    alone, chain, brackets, *sparse = (float(share) for _, share in shares)
    assert abs(alone - chain) < 10 and brackets > max(alone, chain, 37) * 2
    assert len(sparse) == 3 and sparse[2] > max(sparse[:2]) + 40


def check_own_model(text: str) -> None:
    assert "error[F119]" in text and "warning[F209]" in text and "song: ok" in text
    by_hand, compiled = re.findall(r"by hand (\S+), compiled (\S+)", text)[0]
    assert abs(float(by_hand) - float(compiled)) < 1e-9
    refuted, proved = text.index("song: refuted"), text.index("song: proved")
    assert refuted < text.index("rule: `more`") < proved
    assert "calls: O(n^2*" in text and "chain: O(n*" in text
    heard, truth = re.findall(r"^(?:heard|truth) (.*)$", text, re.M)
    assert heard == truth and len(set(heard)) == 3


def check_low_rank(text: str) -> None:
    rows = re.findall(r"rank +\d+: error of the table +(\S+)%, of the answer +(\S+)%", text)
    tables, answers = zip(*((float(a), float(b)) for a, b in rows), strict=True)
    assert len(rows) == 5 and sorted(tables, reverse=True) == list(tables)
    assert answers[3] < 4 and answers[4] < 0.3
    assert float(re.findall(r"random transitions.* (\d+)%", text)[0]) > 40
    assert "`emit` depends on the input there" in text and "rank space is the cheapest" in text
    assert len(set(re.findall(r"log Z = (-\d+\.\d{6})", text))) == 1


def check_identifiable(text: str) -> None:
    assert "pairs: not identifiable" in text and "2 of the deficiency are a gauge" in text
    values = [
        re.findall(r"\[(-.*?)\]", line)[0] for line in re.findall(r"^(?:one|other) .*", text, re.M)
    ]
    assert len(values) == 2 and values[0] == values[1]
    rows = re.findall(r"^(any pair|independent.*?) +(\*\*.*)", text, re.M)
    full = [[a == b for a, b in re.findall(r"(\d+) of +(\d+)", row)] for _, row in rows]
    assert full == [[False] * 4, [False, False, True, True], [False, False, True, True]]
    assert float(re.findall(r"the greatest error of a parameter: (\S+)", text)[0]) < 1e-12
    errors = [float(error) for error in re.findall(r"sentences: greatest error (\S+)", text)]
    assert len(errors) == 4 and sorted(errors, reverse=True) == errors and errors[-1] < 0.02


CLAIMS = {
    "hmm_tagger": check_hmm_tagger,
    "identifiable": check_identifiable,
    "low_rank": check_low_rank,
    "neural_crf": check_neural_crf,
    "own_model": check_own_model,
    "pcfg_induction": check_pcfg_induction,
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Pages compute small things: several threads would mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in PAGES],
    ids=[page.stem for page in PAGES],
)
def test_a_tutorial_shows_what_its_text_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = executed(page)
    text = text_of(outputs)
    assert "Warning" not in text and "Traceback" not in text
    assert max(map(len, text.splitlines())) <= WIDEST
    assert any(out.kind == "svg" for cell in outputs for out in cell), "a page has pictures"
    CLAIMS[page.stem](text)


def test_every_tutorial_is_listed() -> None:
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text("utf-8")
    for page in PAGES:
        assert f"({page.name})" in index and page.stem in CLAIMS
