"""Derivations are drawn as people draw them: the shape of the cells decides how."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import fgg
from fgg.diagnostics import GrammarError
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.display.annotated import Annotated
from fgg.runtime.display.pictures import KINDS

SVG = "{http://www.w3.org/2000/svg}"

PCFG = """
domain N = {s, np, vp}  domain W = {the, dog, "<script>alert(1)</script>"}
factor root(-> N) = {s: 1}
factor binary(N -> N, N) = {s: {np: {vp: 1}}, np: {np: {np: 1}}, vp: {vp: {np: 1}}}
factor emit(N -> W) = {s: {the: 1}, np: {the: 0.5, dog: 0.5}, vp: {"<script>alert(1)</script>": 1}}
nonterminal S() nonterminal X(N) start S
rule root: S -> root(a) X(a)
rule binary: X(a) -> binary(a, b, c) X(b) X(c)
rule word: X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root: S -> X[0,n]
  rule binary: X[i,j] -> X[i,k] X[k,j] for i < k < j
  rule word: X[i,i+1] -> o = w[i]
}
"""
WORDS = ["the", "dog", "<script>alert(1)</script>"]


def best(name: str, sizes: dict[str, int], **inputs: Any) -> Derivation:
    program = fgg.compile(fgg.load(name, sizes=sizes))
    return program.model(seed=1, dtype=torch.float64).posterior(**inputs).best()[0]


def sentence() -> Derivation:
    program = fgg.compile(fgg.loads(PCFG))
    return program.model(dtype=torch.float64).posterior(w=[WORDS]).best()[0]


def kinds(derivation: Derivation) -> list[str]:
    shown = Annotated(derivation, None)
    return [name for name, kind in KINDS.items() if kind.holds(shown)]


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [e.text or "" for e in root.iter(f"{SVG}text") if e.get("fill") != "none"]


@pytest.mark.parametrize(
    ("name", "sizes", "inputs", "expected"),
    [
        ("hmm", {"k": 3, "d": 4}, {"w": [[0, 1, 2]]}, "tags"),
        ("hsmm", {"k": 2, "d": 4, "dmax": 3}, {"w": [[0, 1, 2]]}, "tags"),
        ("pcfg", {"nt": 2, "pt": 2, "words": 4, "r": 2}, {"w": [[0, 1, 2]]}, "constituents"),
        ("dmv", {"tags": 3}, {"w": [[0, 1, 2]]}, "dependencies"),
        ("eisner", {}, {"root": [torch.zeros(3)], "arc": [torch.zeros(3, 3)]}, "dependencies"),
        ("dyck", {}, {"w": [list("([])")]}, "pairs"),
        ("morphology", {"substrings": 3}, {"s": [[[-1, 0, 1], [-1, -1, 2]]]}, "segments"),
        ("pair_hmm", {}, {"x": [[0, 1]], "y": [[1, 0, 2]]}, "rules"),
    ],
)
def test_the_shape_of_the_indices_decides_the_picture(
    name: str, sizes: dict[str, int], inputs: dict[str, object], expected: str
) -> None:
    derivation = best(name, sizes, **inputs)
    assert kinds(derivation)[0] == expected
    assert derivation.draw().marks == derivation.draw(expected).marks


def test_a_constituency_tree_has_the_words_as_leaves_below_their_labels() -> None:
    derivation = sentence()
    (root,) = Annotated(derivation, None).spans
    spans = {(node.label, node.start, node.end) for node in root.nodes()}
    assert spans == {("s", 0, 3), ("np", 0, 2), ("np", 0, 1), ("np", 1, 2), ("vp", 2, 3)}
    shown = texts(derivation.to_svg("constituents"))
    assert shown[-3:-1] == WORDS[:2] and sorted(shown[:5]) == ["np", "np", "np", "s", "vp"]


def test_words_of_the_user_are_escaped_in_every_picture() -> None:
    for kind in kinds(sentence()):
        svg = sentence().to_svg(kind)
        assert "<script" not in svg and "&lt;script" in svg
        ElementTree.fromstring(svg)


def test_arcs_go_from_the_heads_that_the_links_give() -> None:
    from fgg.grammar.annotations import heads, read_links

    derivation = best("dmv", {"tags": 5}, w=[[0, 3, 1, 4, 2]])
    links = read_links(
        ["left_some=j-1:k", "right_some=i:k", "root=:r"],
        fgg.compile(fgg.load("dmv", sizes={"tags": 5})).grammar,
    )
    arcs = Annotated(derivation, None).heads
    assert arcs is not None
    drawn = {arc.end: 0 if arc.start is None else arc.start + 1 for arc in arcs}
    assert [drawn[word] for word in range(5)] == heads(derivation, 5, links)


def test_scores_of_arcs_are_drawn_as_arcs() -> None:
    scores = torch.full((3, 3), -5.0)
    scores[1, 0] = scores[1, 2] = 5.0
    derivation = best("eisner", {}, root=[torch.zeros(3)], arc=[scores])
    arcs = Annotated(derivation, None).heads
    assert {(arc.start, arc.end) for arc in arcs or ()} == {(None, 1), (1, 0), (1, 2)}
    shown = texts(derivation.draw(words=["dogs", "chase", "cats"]).svg())
    assert shown[-3:] == ["dogs", "chase", "cats"]


def test_paired_positions_are_brackets_that_match() -> None:
    arcs = Annotated(best("dyck", {}, w=[list("([])")]), None).pairs
    assert {arc.ends() for arc in arcs} == {(0, 3), (1, 2)}


def test_words_can_be_given_and_must_suffice() -> None:
    derivation = best("hmm", {"k": 3, "d": 4}, w=[[0, 1, 2]])
    assert texts(derivation.draw(words=["a", "b", "c"]).svg())[:3] == ["a", "b", "c"]
    with pytest.raises(GrammarError, match="2 words for 3 positions"):
        derivation.draw(words=["a", "b"])


def test_a_picture_that_a_derivation_has_not_is_refused() -> None:
    derivation = best("hmm", {"k": 3, "d": 4}, w=[[0, 1, 2]])
    with pytest.raises(GrammarError, match="no dependencies to draw") as error:
        derivation.draw("dependencies")
    assert "`tags`, `rules`" in str(error.value)
    with pytest.raises(GrammarError, match="did you mean `tags`"):
        derivation.draw("tag")


def test_a_derivation_of_the_reference_engine_is_drawn_without_its_words() -> None:
    grammar = fgg.load("cnf", sizes={"k": 2, "d": 3})
    ground = fgg.rewrite.ground(grammar, query="string", inputs={"w": [0, 1, 2]})
    derivation = fgg.reference.viterbi(ground, seed=1)
    assert texts(derivation.to_svg())[-3:] == ["0", "1", "2"]


def test_a_derivation_is_one_line_in_the_interpreter() -> None:
    derivation = best("hmm", {"k": 3, "d": 4}, w=[[0, 1, 2]])
    assert repr(derivation).startswith("Derivation('hmm_string', 4 steps, log_weight=-")
    assert "\n" not in repr(derivation)


@pytest.mark.parametrize(
    ("name", "sizes", "inputs", "form"),
    [
        ("hmm", {"k": 3, "d": 4}, {"w": [[0, 1, 2]]}, r"\d \d \d"),
        ("cnf", {"k": 2, "d": 3}, {"w": [[0, 1]]}, r"\(\d \(\d 0\) \(\d 1\)\)"),
        ("dyck", {}, {"w": [list("([])")]}, r"\(\(\)\)"),
        ("rna", {}, {"w": [list("GAAC")]}, r"\(\.\.\)|\.\.\.\.|\(-LRB-.*"),
        ("dmv", {"tags": 3}, {"w": [[0, 1, 2]]}, r"\d \d \d"),
        ("morphology", {"substrings": 3}, {"s": [[[-1, 0, 1], [-1, -1, 2]]]}, r"\d/\w+.*"),
        ("pair_hmm", {}, {"x": [[0, 1]], "y": [[1, 0, 2]]}, r"[MIDStop.\d ]+"),
    ],
)
def test_a_derivation_is_written_on_one_line(
    name: str, sizes: dict[str, int], inputs: dict[str, object], form: str
) -> None:
    assert re.fullmatch(form, best(name, sizes, **inputs).written())


def test_brackets_and_spaces_in_words_do_not_break_a_written_tree() -> None:
    text = PCFG.replace('"<script>alert(1)</script>"', '"a (b"')
    program = fgg.compile(fgg.loads(text))
    post = program.model(dtype=torch.float64).posterior(w=[["the", "dog", "a (b"]])
    assert post.best()[0].written() == "(s (np (np the) (np dog)) (vp a_-LRB-b))"


def test_a_step_that_emits_two_words_makes_a_segment_of_them() -> None:
    text = """
    domain Chord = {C, F}  domain Note = {c, e, g}
    factor one(Chord, Note) = 0.1
    factor two(Chord, Note, Note) = 0.9
    factor next(Chord -> Chord) = uniform
    nonterminal S()
    nonterminal X(Chord)
    start S
    rule begin:  S    -> X(t)
    rule single: X(t) -> one(t, x) next(t, u) X(u)
    rule double: X(t) -> two(t, x, y) next(t, u) X(u)
    rule end:    X(t) ->
    query heard(w: Note[n]) {
      rule begin:  S    -> X[0]
      rule single: X[i] -> x = w[i] X[i+1]              for i < n
      rule double: X[i] -> x = w[i] y = w[i+1] X[i+2]   for i < n-1
      rule end:    X[n] ->
    }
    """
    post = fgg.compile(fgg.loads(text)).model().posterior(w=[list("cegc"), list("cec")])
    assert post.best()[0].written() in {f"c_e/{a} g_c/{b}" for a in "CF" for b in "CF"}
    assert sorted(post.best()[1].written().count(mark) for mark in "_/") == [1, 2]
