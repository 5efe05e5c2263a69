"""`use`: what it brings, how it is called, and what is said where it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fgg.compiler import load, load_text
from fgg.compiler.resolve.load import load_file
from fgg.diagnostics import GrammarError, render_all
from fgg.diagnostics.diagnostics import as_json
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force

Write = Callable[..., None]

WORDS = """
size k = 2
domain T = k
domain D = {stop, go}
factor tag(-> T) = [0.25, 0.75]
factor more(D) = [2, 3]
factor unused(T)
nonterminal Word(T)
nonterminal Other(T)
rule word:  Word(t)  -> more(go) tag(t)
rule other: Other(t) -> unused(t)
start Word
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def files(**texts: str) -> None:
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.fgg"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    return files


def said(name: str) -> str:
    with pytest.raises(GrammarError) as caught:
        load(name)
    return str(caught.value)


def test_a_used_grammar_means_what_it_says(write: Write) -> None:
    write(words=WORDS, main='use "words.fgg" nonterminal S() start S rule S -> Word(t) Word(1)')
    assert brute_force(load("main.fgg"), {}) == pytest.approx(3 * 3 * 0.75)


def test_names_get_the_prefix_and_values_stay_values(write: Write) -> None:
    write(
        words=WORDS,
        main='use "words.fgg" as a use "words.fgg" as b '
        "nonterminal S() start S rule both: S -> a_Word(0) b_Word(t) b_more(stop)",
    )
    grammar = load("main.fgg")
    assert brute_force(grammar, {}) == pytest.approx(3 * 0.25 * 3 * 2)
    text = print_grammar(grammar)
    assert "rule a_word: a_Word(t) -> a_more(go) a_tag(t)" in text
    again, diagnostics, source = load_text(text)
    assert again == grammar, render_all(diagnostics, source)


def test_only_what_is_needed_comes_along(write: Write) -> None:
    write(words=WORDS, main='use "words.fgg" nonterminal S() start S rule S -> Word(t)')
    loaded = load_file("main.fgg")
    assert loaded.diagnostics == ()
    grammar = loaded.checked()
    assert [f.name for f in grammar.factors] == ["tag", "more", "D.go"]
    assert [r.name for r in grammar.rules] == ["word", "S"]


def test_a_grammar_can_add_rules_and_queries_to_what_it_uses(write: Write) -> None:
    write(
        main="""
        use "hmm"
        start S
        factor skip(T -> T)
        rule skip: X(t) -> skip(t, u) X(u)
        query string(w: W[n]) {
          rule begin: S    -> X[0]
          rule step:  X[i] -> o = w[i] X[i+1] for i < n - 1
          rule skip:  X[i] -> X[i+1]          for i < n - 1
          rule last:  X[i] -> o = w[i]        for i == n - 1
        }
        """
    )
    grammar = load("main.fgg")
    assert [r.name for r in grammar.rules] == ["begin", "step", "last", "skip"]
    assert list(grammar.query) == ["string"]


def test_paths_are_relative_to_the_file_that_has_them(write: Write, tmp_path: Path) -> None:
    write(
        sub__deep='domain W = file("words.txt") factor f(-> W) = load("f.npy")',
        sub__words='use "deep.fgg" factor g(W) = 2',
        main='use "sub/words.fgg" nonterminal S() start S rule S -> f(w) g(w)',
    )
    tmp_path.joinpath("sub/words.txt").write_text("a\nb\n")
    np.save(tmp_path / "sub/f.npy", np.array([0.25, 0.75]))
    grammar = load("main.fgg")
    text = print_grammar(grammar)
    assert 'file("sub/words.txt")' in text and 'load("sub/f.npy")' in text
    again, _, _ = load_text(text)
    assert again is not None and again == grammar
    assert brute_force(again, {}) == 2


def test_a_file_that_two_others_use_comes_once(write: Write) -> None:
    write(
        base="domain T = 2 factor f(T) = 1",
        left='use "base.fgg" nonterminal L(T) rule l: L(t) -> f(t)',
        right='use "./base.fgg" nonterminal R(T) rule r: R(t) -> f(t) f(t)',
        main='use "left.fgg" use "right.fgg" nonterminal S() start S rule S -> L(t) R(t)',
    )
    assert brute_force(load("main.fgg"), {}) == 2


def test_sizes_are_set_by_the_names_they_have_here(write: Write) -> None:
    base = "size k = 2 domain T = k factor f(T) = 1"
    write(base=base, main='use "base.fgg" as b nonterminal S() start S rule S -> b_f(t)')
    assert brute_force(load("main.fgg", sizes={"b_k": 5}), {}) == 5
    with pytest.raises(GrammarError, match="no size `k`"):
        load("main.fgg", sizes={"k": 5})


def test_errors_are_shown_in_the_file_they_are_in(write: Write) -> None:
    write(
        words="domain T = 2\nfactor f(T, U)\n",
        main='use "words.fgg"\nnonterminal S() start S rule S -> f(t) g(t)',
    )
    loaded = load_file("main.fgg")
    first, second = loaded.diagnostics
    text = render_all(loaded.diagnostics, loaded.source)
    assert "--> main.fgg:2:40" in text and "--> words.fgg:2:13" in text
    places = [as_json(d, loaded.source)["place"] for d in (first, second)]
    assert [p["file"] for p in places if isinstance(p, dict)] == ["main.fgg", "words.fgg"]


def test_a_label_may_lie_in_another_file(write: Write) -> None:
    write(words=WORDS, main='use "words.fgg"\nnonterminal Word() start Word')
    text = said("main.fgg")
    assert "--> main.fgg:2:13" in text
    assert "::: words.fgg:8:13" in text


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"main": 'use "main.fgg"'}, "`main.fgg` uses itself"),
        ({"main": 'use "a.fgg"', "a": 'use "main.fgg"'}, "uses itself, through other files"),
        ({"main": 'use "nothing.fgg"'}, "there is no file `nothing.fgg`"),
        ({"main": 'use "hmmm"'}, "did you mean `hmm`?"),
        ({"main": 'use "hmm" us h'}, "unexpected `us`"),
        ({"main": 'use "a.fgg"', "a": '{"grammar": {}}'}, "`a.fgg` is JSON"),
        ({"main": 'use "a.fgg"', "a": "domain T ="}, "--> a.fgg:1:10"),
        ({"main": 'use "hmm" use "hmm" as S nonterminal S_S()'}, "`S_S` is declared twice"),
    ],
)
def test_what_cannot_be_used_is_refused(write: Write, texts: dict[str, str], message: str) -> None:
    write(**texts)
    assert message in said("main.fgg")


def test_uses_without_end_are_refused(write: Write) -> None:
    levels = {f"f{i}": f'use "f{i + 1}.fgg" as a use "f{i + 1}.fgg" as b' for i in range(20)}
    write(**levels, f20="domain T = 2", main='use "f0.fgg"')
    assert "more than 100 files are used" in said("main.fgg")


def test_one_name_for_two_things_is_refused(write: Write) -> None:
    write(a="domain T = 2", b="domain T = 3", main='use "a.fgg" use "b.fgg"')
    text = said("main.fgg")
    assert "`b.fgg` declares `T`, which is declared already" in text
    assert 'write `use "b.fgg" as m`: then it is called `m_T`' in text


def test_a_grammar_without_uses_is_what_it_was(write: Write) -> None:
    grammar: Grammar = load("pcfg")
    assert print_grammar(grammar).startswith("size nt")
