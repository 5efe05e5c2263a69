"""Symbols: where a name stands, what it means there, and where it is declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fgg.lsp.analysis import Analysis
from tests.helpers.places import LIBRARY

TEXT = """
size k = 2
domain T = k
domain D = {stop, go}
factor f(T, T -> D) = {0: {1: {stop: 1}}} with blocks = g
factor g(D -> T) = map(cycle)
input w: D[n]
nonterminal S()
nonterminal X[i](T) for 0 <= i < n
start S
rule root: S -> X[0](t) f(t, u, stop)
rule step: X[i](t) -> f(t, u.T, d) d = w[i] X[i+k](u) for i < n
query q(v: T[m]) {
  rule root: S -> X[m] t = v[0]
}
"""


def meaning(place: str, text: str = TEXT) -> tuple[str, str]:
    """The kind of the symbol at the place marked by `|`, and the line that declares it."""
    offset = text.index(place.replace("|", "")) + place.index("|")
    index = Analysis(text, "test.fgg").index
    found = index.at(offset)
    assert found is not None, place
    target = index.definition(found.symbol)
    assert target is not None
    return found.symbol.kind, text[: target.span.end].rsplit("\n", 1)[-1].strip()


@pytest.mark.parametrize(
    ("place", "kind", "declared"),
    [
        ("domain T = |k", "size", "size k"),
        ("factor f(|T", "domain", "domain T"),
        ("blocks = |g", "factor", "factor g"),
        ("{1: {|stop", "value", "domain D = {stop"),
        ("u, |stop)", "value", "domain D = {stop"),
        ("for 0 <= |i < n\nstart", "index", "nonterminal X[i"),
        ("for 0 <= i < |n\nstart", "length", "input w: D[n"),
        ("f(|t, u, stop)", "node", "rule root: S -> X[0](t"),
        ("d = |w[i]", "input", "input w"),
        ("X[i+|k](u)", "size", "size k"),
        ("  rule |root", "rule", "rule root"),
        ("X[m] |t =", "node", "rule root: S -> X[0](t"),
        ("t = |v[0]", "input", "query q(v"),
        ("S -> X[|m]", "length", "query q(v: T[m"),
        ("X[|m] t", "length", "query q(v: T[m"),
        ("f(t, u.|T", "domain", "domain T"),
    ],
)
def test_a_name_is_what_it_means_where_it_stands(place: str, kind: str, declared: str) -> None:
    assert meaning(place) == (kind, declared)


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.fgg")), ids=lambda path: path.stem)
def test_each_name_of_a_library_grammar_has_a_meaning(path: Path) -> None:
    text = re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), path.read_text("utf-8"))
    index = Analysis(text, str(path)).index
    words = "with for prior dirichlet init map cycle runs uniform net residual frozen yes part eye "
    words += "tied blocks stationary "
    words += "size domain rank factor nonterminal input table start rule query"
    for match in re.finditer(r"(?<![\w\"])[^\W\d]\w*", text):
        found = index.at(match.start())
        if match[0] not in words.split() and not re.match(r"\s*=\s*[\d\"]", text[match.end() :]):
            assert found is not None, (match[0], text[match.start() - 30 : match.end() + 10])


def test_names_of_used_files_are_declared_there(tmp_path: Path) -> None:
    tmp_path.joinpath("a.fgg").write_text("domain T = 2\nfactor f(T)\n")
    text = 'use "a.fgg" as m nonterminal S() start S rule S -> m_f(t)'
    analysis = Analysis(text, str(tmp_path / "main.fgg"))
    found = analysis.index.at(text.index("m_f"))
    assert found is not None
    target = analysis.index.definition(found.symbol)
    assert target is not None and not analysis.is_here(target.span)
    path, places = analysis.where(target.span)
    assert (Path(path).name, places.position(target.span.start).line) == ("a.fgg", 1)


def test_what_a_used_file_declares_has_the_names_it_is_used_by(tmp_path: Path) -> None:
    tmp_path.joinpath("a.fgg").write_text(
        "domain D = {stop, go}\nfactor f(D)\ninput v: D[n]\ninput factor phi(D)\n"
    )
    text = 'use "a.fgg" as m nonterminal S() start S rule S -> m_f(stop) m_f(t) phi(go) m_f(v[0])'
    index = Analysis(text, str(tmp_path / "main.fgg")).index
    kinds = {}
    for name in ("m_f(stop", "stop", "phi", "go", "v[0]"):
        occurrence = index.at(text.index(name))
        assert occurrence is not None and index.definition(occurrence.symbol) is not None
        kinds[occurrence.symbol.name] = (occurrence.symbol.kind, occurrence.symbol.owner)
    assert kinds == {
        "m_f": ("factor", ""),
        "stop": ("value", "m_D"),
        "phi": ("input factor", ""),
        "go": ("value", "m_D"),
        "v": ("input", ""),
    }


def test_names_of_library_grammars_are_declared_in_their_files(tmp_path: Path) -> None:
    text = 'use "hmm" as h\nrule S -> h_init(t)'
    analysis = Analysis(text, str(tmp_path / "main.fgg"))
    occurrence = analysis.index.at(text.index("h_init"))
    assert occurrence is not None
    target = analysis.index.definition(occurrence.symbol)
    assert target is not None
    path, places = analysis.where(target.span)
    line = Path(path).read_text("utf-8").splitlines()[places.position(target.start).line]
    assert line == "factor init(-> T)"
