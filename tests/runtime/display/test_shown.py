"""What results look like: one line in a session, a picture or a table in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import fgg
from fgg.data import build_vocabulary, read
from fgg.diagnostics import GrammarError

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def program() -> fgg.Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))


class Balanced(HTMLParser):
    """Checks that every tag is closed, and keeps the names of the tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_public_result_is_one_short_line(program: fgg.Program, tmp_path: Path) -> None:
    grammar = program.compiler.model
    model = program.model(seed=0, dtype=torch.float64)
    post = model.posterior(w=[[0, 1], [2, 1, 0]])
    ground = fgg.rewrite.ground(grammar, query="string", inputs={"w": [0, 1]})
    learned = fgg.learn(model, [[0, 1]], epochs=1)
    weights = {"trans": np.full((2, 2), 0.5)}
    (tmp_path / "text.txt").write_text("the dog runs\n")
    corpus = read(str(tmp_path / "text.txt"))
    shown = [
        *(grammar, grammar.rules[0], grammar.queries[0], program, program.compiled.plan),
        *(model, post, post.best(), post.best()[0], post.best()[0].steps[0], post.beliefs()[1]),
        *(post.rule_marginals("step"), post.charts("max"), grammar.draw(), post.draw()),
        *(learned, learned.method, learned.history[0]),
        *(fgg.reference.solve(ground, "log", seed=1), fgg.reference.posterior(ground, seed=1)),
        *(fgg.verify(grammar, length=2, trials=1, floats=False), fgg.identify(grammar, length=3)),
        fgg.low_rank.decompose(grammar, weights, ranks={"trans": 1}),
        *(corpus, build_vocabulary(corpus)),
    ]
    for value in shown:
        text = repr(value)
        assert "\n" not in text and len(text) <= 160 and " object at 0x" not in text, text


def test_a_grammar_is_its_source_as_a_string_and_its_rules_as_a_picture() -> None:
    grammar = fgg.load("pcfg")
    assert fgg.loads(str(grammar)) == grammar
    picture = grammar.draw().svg()
    assert grammar._repr_svg_() == picture
    assert all(f">{rule.name}</text>" in picture for rule in grammar.rules)
    assert ">word</text>" in grammar.draw("word").svg()
    with pytest.raises(GrammarError, match="did you mean `word`"):
        grammar.draw("wrd")


def test_a_program_shows_its_cost_its_factors_and_its_plan(program: fgg.Program) -> None:
    page = program._repr_html_()
    tags = Balanced(page).seen
    assert tags.count("svg") == 1 and "details" in tags
    described = program.compiled.described
    assert described.order == "O(n*k^2)" and "O(n*k^2)" in page
    for item in described.contractions:
        assert f">{item.name}</text>" in page and f">{item.multiply_adds:,}</text>" in page
    assert "<td>trans</td><td>2, 2</td>" in page
    assert "plan of hmm_string" in page
    assert program.draw().svg() in page


def test_a_program_on_the_reference_engine_shows_why() -> None:
    with pytest.warns(UserWarning, match="F434"):
        program = fgg.compile(fgg.load("branching"))
    page = program._repr_html_()
    Balanced(page)
    assert "runs on the reference engine" in page
    with pytest.raises(GrammarError, match="F425"):
        program.draw()


def test_a_fit_shows_its_curve(program: fgg.Program) -> None:
    learned = fgg.learn(program, [[0, 1], [2, 1, 0]], epochs=4)
    page = learned._repr_html_()
    assert Balanced(page).seen.count("circle") == 4
    assert "log-likelihood" in page


def test_lists_of_derivations_are_drawn_one_by_one(program: fgg.Program) -> None:
    post = program.model(seed=0).posterior(w=[[0, 1], [2, 1, 0]])
    best, samples = post.best(), post.sample(3, seed=0)
    assert Balanced(best._repr_html_()).seen.count("svg") == 2  # type: ignore[attr-defined]
    page = samples._repr_html_()  # type: ignore[attr-defined]
    assert Balanced(page).seen.count("svg") == 6 and "item 1" in page
    assert best == list(best) and isinstance(samples[0], list)
    many = post.sample(30, seed=0)[0]._repr_html_()  # type: ignore[attr-defined]
    assert many.count("<svg") == 20 and "and 10 more" in many


def test_a_posterior_shows_log_z_and_its_first_item(program: fgg.Program) -> None:
    post = program.model(seed=0).posterior(w=[[0, 1], [2, 1, 0]])
    assert Balanced(post._repr_html_()).seen.count("tr") == 3


def test_markup_in_a_grammar_is_shown_as_text_everywhere() -> None:
    text = f"""
    domain T = {{"{EVIL}", b}}  domain W = {{"{EVIL}", d}}
    factor `f{EVIL}`(-> T)  factor emit(T -> W)
    nonterminal S() nonterminal X(T) start S
    rule `r{EVIL}`: S -> `f{EVIL}`(t) X(t)
    rule w: X(t) -> emit(t, o)
    query q(w: W[n]) {{ rule `r{EVIL}`: S -> X[0]  rule w: X[0] -> o = w[0] }}
    """
    grammar = fgg.loads(text, name=f"{EVIL}.fgg")
    program = fgg.compile(grammar)
    model = program.model(seed=0, dtype=torch.float64)
    post = model.posterior(w=[[EVIL]])
    pages = [
        *(grammar._repr_svg_(), program._repr_html_(), post._repr_html_(), post.draw().svg()),
        post.best()._repr_html_(),  # type: ignore[attr-defined]
        *(post.best()[0].to_svg(kind) for kind in ("auto", "rules")),
    ]
    for page in pages:
        assert page is not None and "<script" not in page and "&lt;script" in page
