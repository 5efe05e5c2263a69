"""Pieces: statements are cut as the parser reads them, and only edited ones are read again."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from fgg.compiler.editing import formatter, pieces
from fgg.compiler.editing.pieces import Heading, headings
from fgg.compiler.resolve.load import analyse
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.lex import with_line_ends
from fgg.compiler.syntax.parse import parse
from fgg.diagnostics import Report
from fgg.grammar.spans import Source, Span
from fgg.lsp import analysis
from fgg.lsp.analysis import Analysis
from fgg.lsp.renaming import renaming
from tests.helpers.places import LIBRARY, ROOT

FILES = sorted([*LIBRARY.glob("*.fgg"), *ROOT.joinpath("examples").rglob("*.fgg")])
KINDS = {"InputFactor": "input factor", "InputTable": "table"}
TRICKY = """\
# rule a: S -> X   is a comment
use "hmm" as h
size k = 2  domain D = {stop, `rule b`, "query {"}   # two on a line
factor f(D -> D) = {stop: {stop: 1}}
  rank k   # the rank, no domain
  with init = normal
rank R = k
input factor # of what
  phi[i](D) for i < n
input table left[m]
input table: D[n]
nonterminal S()
start S
rule S -> f(a, b) # an unnamed rule
rule `a b`: S ->
query `q 1`(w: D[n],
            v: D[n, n+1]) {
  input factor g(D)
rule S -> # the brace is not in column 0 }
  rule `a b`: S -> }
factor last(D)
# the end
"""


def parsed(statements: Iterable[tree.Statement]) -> Iterator[Heading]:
    """The headings of statements that have been parsed."""
    for statement in statements:
        if isinstance(statement, tree.UseDecl | tree.StartDecl):
            continue
        name = statement.name
        if isinstance(statement, tree.RuleDecl):
            name = statement.name or statement.head.label
        assert name is not None
        kind = type(statement).__name__.removesuffix("Decl")
        inner = parsed(statement.statements) if isinstance(statement, tree.QueryDecl) else ()
        word = KINDS.get(kind, kind.lower())
        yield Heading(word, name.text, statement.span, name.span, tuple(inner))


@pytest.mark.parametrize("text", [TRICKY, *(p.read_text("utf-8") for p in FILES)])
def test_headings_are_those_of_the_parser(text: str) -> None:
    report = Report()
    statements = parse(Source("", text), report)
    assert not report.has_errors
    assert list(headings(text)) == list(parsed(statements))


@pytest.mark.parametrize("text", [TRICKY, TRICKY.replace("\n", "\r\n"), TRICKY.replace("\n", "\r")])
def test_pieces_are_parsed_as_the_whole_is(text: str) -> None:
    report = Report()
    whole = [type(s) for s in parse(Source("", text), report)]
    placed = pieces.pieces(text, {})
    assert all(piece.is_parsed for _, piece in placed)
    assert [type(s) for _, piece in placed for s in piece.statements] == whole
    assert "".join(piece.text for _, piece in placed) == with_line_ends(text)


def test_a_query_that_is_not_closed_does_not_swallow_what_follows() -> None:
    text = "query q(w: W[n]) {\n  rule a: S -> X\nrule b: X ->\nrule c: X ->\n"
    (query, *rules) = headings(text)
    assert [heading.name for heading in query.inner] == ["w", "a"]
    assert [heading.name for heading in rules] == ["b", "c"]


def test_any_text_has_headings_within_it() -> None:
    rng = random.Random(0)
    for _ in range(300):
        text = rng.choice(FILES).read_text("utf-8")
        for _ in range(rng.randrange(1, 6)):
            start = rng.randrange(len(text) + 1)
            new = rng.choice(["{", "}", '"', "`", "#", "\n", " rule ", "query ", "\r", ""])
            text = text[:start] + new + text[start + rng.choice((0, 1, 20)) :]
        last = 0
        for heading in headings(text):
            assert last <= heading.span.start <= heading.name_span.start
            assert heading.name_span.end <= heading.span.end <= len(text)
            last = heading.span.end


def big(rules: int) -> str:
    lines = ["domain T = 4", "domain D = {stop, go}", "factor f(T -> T)", "factor g(T -> D)"]
    lines += ["nonterminal X(T)", "nonterminal S()", "start S", "rule top: S -> X(0)"]
    lines += [f"rule r{n}: X(t) -> f(t, u) g(u, stop) X(u)" for n in range(rules)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often texts are parsed, laid out and read as grammars."""
    counted = {"parsed": 0, "laid out": 0, "read": 0}

    def counting(name: str, function: object) -> object:
        def call(*arguments: object, **options: object) -> object:
            counted[name] += 1
            return function(*arguments, **options)  # type: ignore[operator]

        return call

    monkeypatch.setattr(pieces, "parse", counting("parsed", parse))
    monkeypatch.setattr(formatter, "_layout", counting("laid out", formatter._layout))
    monkeypatch.setattr(analysis, "analyse", counting("read", analyse))
    return counted


def test_after_an_edit_only_the_edited_statement_is_read_again(calls: dict[str, int]) -> None:
    text = big(300)
    before = Analysis(text, "big.fgg")
    assert before.formatted() is not None and before.index.occurrences
    assert calls == {"parsed": 308, "laid out": 308, "read": 0}
    edited = Analysis(text.replace("rule r7: X(t)", "rule r7 :X(t)"), "big.fgg", 1, before)
    formatted = edited.formatted()
    assert formatted is not None and "rule r7:   X(t) -> f" in formatted
    assert calls == {"parsed": 309, "laid out": 309, "read": 0}
    assert len(edited.index.occurrences) == len(before.index.occurrences)
    assert len(list(headings(edited.text))) == 307
    assert calls == {"parsed": 309, "laid out": 309, "read": 0}
    assert formatter.format_text(edited.text) == formatted


@pytest.mark.parametrize(
    ("place", "new"), [("f(T", "trans"), ("X(T)", "Y"), ("stop,", "halt"), ("u) g", "t2")]
)
def test_renaming_to_a_new_name_reads_nothing_again(
    place: str, new: str, calls: dict[str, int]
) -> None:
    text = big(50)
    before = Analysis(text, "big.fgg")
    occurrence = before.index.at(text.index(place))
    assert occurrence is not None
    read = calls["parsed"]
    changes = renaming(before, occurrence, new)
    assert len(changes) > 2 and calls == {"parsed": read, "laid out": 0, "read": 0}
    for span, name in sorted(changes, key=lambda change: -change[0].start):
        assert text[span.start : span.end] == occurrence.symbol.name
        text = text[: span.start] + name + text[span.end :]
    old, after = before.loaded.grammar, Analysis(text, "big.fgg").loaded.grammar
    assert old is not None and after is not None
    assert str(after) == re_named(str(old), occurrence.symbol.name, new, place)


def re_named(text: str, old: str, new: str, place: str) -> str:
    """The text of a grammar with another name; of a node, in the first rule that has it alone."""
    import re

    lines = text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if "rule r0:" in line), None)
    chosen = {first} if place == "u) g" else set(range(len(lines)))
    return "".join(
        re.sub(rf"(?<!\w){old}(?!\w)", new, line) if n in chosen else line
        for n, line in enumerate(lines)
    )


def test_spans_of_symbols_are_where_they_stand() -> None:
    shifted = Analysis("# one more line\n" + TRICKY, "a.fgg", 1, Analysis(TRICKY, "a.fgg"))
    whole = Analysis("# one more line\n" + TRICKY, "a.fgg")
    assert shifted.index.occurrences == whole.index.occurrences
    assert all(isinstance(occurrence.span, Span) for occurrence in shifted.index.occurrences)
