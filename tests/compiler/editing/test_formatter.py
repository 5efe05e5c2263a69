"""Formatting: it changes neither meaning nor comments, nor anything when it is done again."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings

from fgg.compiler import load_text
from fgg.compiler.editing.formatter import format_text
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from tests.generators.grammars import any_grammars
from tests.helpers.places import LIBRARY

FILES = sorted(LIBRARY.glob("*.fgg"))
MESSY = """
#  A comment   with    spaces
size k=2   domain T = k domain D={ stop ,go}
factor f( T,T->D )=[ [ [1 ,2],[3,4] ],
   [[1,2],  [3,4]]]   # a table
    rank 3   with init=normal , prior = dirichlet( 0.1 )
nonterminal S( ) nonterminal X [ i,j ] ( T )   for 0<=i<j<= 2*k-1
start S
rule  a:S->X[0 , 2*k - 1](t)f( t , u ,stop )
rule longer :X[i,j](t) ->    (u:T)  X[i+1, j] ( t )   for i!=j-1
# about the query
query   q( w:T[ n ] ){
# inside
rule a : S->X   # trailing
 }
"""
NEAT = """\
#  A comment   with    spaces
size k = 2
domain T = k
domain D = {stop, go}
factor f(T, T -> D) = [ [ [1 ,2],[3,4] ],
   [[1,2],  [3,4]]]   # a table
    rank 3 with init = normal, prior = dirichlet(0.1)
nonterminal S()
nonterminal X[i,j](T) for 0 <= i < j <= 2*k-1
start S
rule a:      S         -> X[0, 2*k-1](t) f(t, u, stop)
rule longer: X[i,j](t) -> (u: T) X[i+1, j](t)   for i != j-1
# about the query
query q(w: T[n]) {
  # inside
  rule a: S -> X  # trailing
}
"""


def loaded(text: str) -> Grammar | None:
    return load_text(text, folder=str(LIBRARY))[0]


def comments(text: str) -> list[str]:
    return [found.rstrip() for found in re.findall(r"#[^\n]*", text)]


def test_a_messy_text_becomes_neat() -> None:
    assert format_text(MESSY) == NEAT


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_library_grammars_are_formatted(path: Path) -> None:
    text = path.read_text("utf-8")
    assert format_text(text) == text


@settings(max_examples=60, deadline=None)
@given(any_grammars())
def test_formatting_keeps_the_grammar_and_is_done_once(grammar: Grammar) -> None:
    text = print_grammar(grammar)
    once = format_text(text)
    assert loaded(once) == grammar
    assert format_text(once) == once


def scrambled(text: str, rng: random.Random) -> str:
    """The text with other spaces, where spaces stand already, and line breaks between tokens."""

    def space(match: re.Match[str]) -> str:
        quoted = text.count('"', 0, match.start()) % 2 or text.count("`", 0, match.start()) % 2
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return match[0] if quoted or "#" in line else rng.choice((" ", "  ", "\n   ", "\t"))

    return re.sub(r" +", space, text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scrambled_texts_keep_their_comments_and_meaning(path: Path) -> None:
    rng = random.Random(0)
    for _ in range(3):
        text = scrambled(path.read_text("utf-8"), rng)
        once = format_text(text)
        assert comments(once) == comments(text)
        assert format_text(once) == once
        assert loaded(once) == loaded(path.read_text("utf-8"))


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a comment", "size k = 2 # a", "#a\r\nsize k=1"]
)
def test_small_texts_are_formatted(text: str) -> None:
    once = format_text(text)
    assert format_text(once) == once
    assert comments(once) == [c.rstrip() for c in comments(text)]


def test_a_text_with_errors_is_left_alone() -> None:
    with pytest.raises(GrammarError, match=r"F001|F002|F015"):
        format_text("rule S - X")
