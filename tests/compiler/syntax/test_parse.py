"""Syntax trees have exact places, and every syntax error is found, named and survived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgg.compiler import load_text
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.lex import MAX_TOKENS
from fgg.compiler.syntax.parse import parse
from fgg.diagnostics import Diagnostic, Report, render_all, sort_diagnostics
from fgg.diagnostics.codes import CODES
from fgg.grammar import Grammar
from fgg.grammar.index import RESERVED
from fgg.grammar.printer import print_grammar
from fgg.grammar.spans import Source, Span
from tests.conftest import Golden
from tests.generators.grammars import any_grammars
from tests.generators.mutations import NAMES, NUMBERS, SIGNS, STRANGE, WORDS
from tests.helpers.places import LIBRARY

FILES = sorted(LIBRARY.glob("*.fgg"))


def read(text: str) -> tuple[tuple[tree.Statement, ...], tuple[Diagnostic, ...]]:
    report = Report()
    statements = parse(Source("test.fgg", text), report)
    return statements, sort_diagnostics(report.diagnostics)


def statements_of(text: str) -> tuple[tree.Statement, ...]:
    statements, diagnostics = read(text)
    assert diagnostics == (), render_all(diagnostics, Source("test.fgg", text))
    return statements


def bare(node: object) -> object:
    """A syntax tree without its places."""
    if is_dataclass(node):
        return type(node).__name__, *(
            bare(getattr(node, f.name)) for f in fields(node) if not f.name.endswith("span")
        )
    return tuple(map(bare, node)) if isinstance(node, tuple) else node


def nodes(node: object) -> Iterator[object]:
    """All parts of a syntax tree that have a place, outer ones first."""
    if is_dataclass(node) and not isinstance(node, Span):
        yield node
        for f in fields(node):
            yield from nodes(getattr(node, f.name))
    elif isinstance(node, tuple):
        for item in node:
            yield from nodes(item)


def place(node: object) -> Span:
    span = getattr(node, "span", None)
    assert isinstance(span, Span)
    return span


def reparsed(node: object, text: str) -> object:
    """What the text at a node's place is if it stands alone where such a node can stand."""
    if isinstance(node, tree.Arithmetic):
        (statement,) = statements_of(f"size x = {text}")
        return statement.value if isinstance(statement, tree.SizeDecl) else None
    if isinstance(node, tree.Comparison):
        (statement,) = statements_of(f"rule X -> for {text}")
        return statement.conditions[0] if isinstance(statement, tree.RuleDecl) else None
    if isinstance(node, tree.EdgeSyntax):
        (statement,) = statements_of(f"rule {text} ->")
        return statement.head if isinstance(statement, tree.RuleDecl) else None
    if isinstance(node, tree.ClampSyntax):
        (statement,) = statements_of(f"rule X -> {text}")
        return statement.body[0] if isinstance(statement, tree.RuleDecl) else None
    if isinstance(node, tree.PathSyntax | tree.PositionSyntax | tree.LiteralSyntax):
        (statement,) = statements_of(f"rule X -> f({text})")
        assert isinstance(statement, tree.RuleDecl)
        edge = statement.body[0]
        assert isinstance(edge, tree.EdgeSyntax) and edge.arguments is not None
        return edge.arguments[0]
    if isinstance(node, tree.ValueSyntax):
        written = "with x =" if isinstance(node, tree.StringLiteral) else "="
        (statement,) = statements_of(f"factor f() {written} {text}")
        assert isinstance(statement, tree.FactorDecl)
        return statement.attributes[0].value if "with" in written else statement.value
    if isinstance(node, tree.Enumeration):
        (statement,) = statements_of(f"domain x = {text}")
        return statement.definition if isinstance(statement, tree.DomainDecl) else None
    if isinstance(node, tree.AttributeDecl):
        (statement,) = statements_of(f"factor f() with {text}")
        return statement.attributes[0] if isinstance(statement, tree.FactorDecl) else None
    (statement,) = statements_of(text)
    return statement


def check_places(text: str) -> None:
    for statement in statements_of(text):
        for node in nodes(statement):
            span = place(node)
            written = text[span.start : span.end]
            assert written == written.strip()
            for inner in nodes(node):
                assert span.start <= place(inner).start <= place(inner).end <= span.end
            if isinstance(node, tree.Name):
                assert node.text == written.strip("`") or written[0] == '"'
            elif isinstance(node, tree.TypedSyntax):
                assert ":" in written and node.node.text in written
            elif isinstance(node, tree.InputDecl) and not written.startswith("input"):
                assert bare(reparsed(node, f"input {written}")) == bare(node)
            elif isinstance(node, tree.EdgeSyntax) and "(" not in written:
                assert written.startswith(text[node.label.span.start : node.label.span.end])
            elif isinstance(node, tree.CallLiteral) and node.name.text == "file":
                assert written.startswith("file(") and written.endswith(")")
            else:
                assert bare(reparsed(node, written)) == bare(node), (written, node)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_place_in_a_library_grammar_is_exact(path: Path) -> None:
    check_places(path.read_text("utf-8"))


@settings(max_examples=40)
@given(any_grammars())
def test_every_place_in_a_random_grammar_is_exact(grammar: Grammar) -> None:
    check_places(print_grammar(grammar))


def test_a_factor_reaches_to_the_end_of_its_clauses() -> None:
    text = "factor f(A -> B) = uniform rank r\n  with a = 1  with b = 2  size r = 3"
    factor = statements_of(text)[0]
    assert text[place(factor).start : place(factor).end].endswith("b = 2")


# One text a syntax code: the shortest mistake of its kind, and the place it is found at.
MISTAKES = [
    ("F001", "size k = 3 : 4", ":"),
    ("F002", "size k", "k"),
    ("F003", "size k ~= 3", "~"),
    ("F004", 'domain A = {"a, b', '"a, b'),
    ("F004", "size `a b = 3", "`a b = 3"),
    ("F004", "size `` = 3", "``"),
    ("F005", "size rule = 3", "rule"),
    ("F006", "sise k = 3", "sise"),
    ("F007", "size k = " + "(" * 101, "("),
    ("F009", "rule X -> for i = 3", "="),
    ("F009", "size k == 3", "=="),
    ("F010", "size k = " + "9" * 401, "9" * 401),
    ("F010", "factor f() = 1e401", "1e401"),
    ("F010", "factor f() = 1e-400/3", "1e-400/3"),
    ("F010", "factor f() = 1e400/3", "1e400/3"),
    ("F011", "with a = 3", "with a = 3"),
    ("F011", "size k = 3 rank k", "rank k"),
    ("F011", "factor f(A, A) rank 3 = [1]", "["),
    ("F012", r'domain A = {"\q"}', r'"\q"'),
    ("F012", r'domain A = {"\ud800"}', r'"\ud800"'),
    ("F013", "factor f() with a = 1, a = 2", "a"),
    ("F013", "factor f(A, A) rank 1 rank 2", "rank 2"),
    ("F015", "rule r: X(a) f(a)", "f"),
    ("F016", "size k = 3 ** 2", "*"),
    ("F017", "rule X -> f(a", "("),
    ("F017", "rule X(a -> f(a)", "("),
    ("F017", "factor f(A] = 3", "]"),
    ("F017", "size k = 3 }", "}"),
    ("F018", "query q { rule S -> X", "query"),
    ("F018", "query q { rule S -> X size k = 3", "query"),
    ("F019", "rule X -> f(a b)", "b"),
    ("F019", "rule X -> for i < 3 j < 4", "j"),
    ("F020", "rule r X(a) -> f(a)", "r"),
    ("F020", "input w W[n]", "w"),
    ("F020", "query q(w W[n]) { }", "w"),
    ("F021", "query q { size k = 3 }", "size"),
    ("F014", "size k = " + "+".join(["1"] * 1001), "+".join(["1"] * 1001)),
    ("F001", "query q(w: T[n]) {\n rule a: S -> u = w\n}", "w"),
    ("F001", "rule a: S -> f\nS -> f S", "->"),
    ("F001", "rule a: S -> f\nb: S -> f S", ":"),
    ("F006", "rule a: S -> f\nprule S -> f S", "prule"),
    ("F009", "rule a: S -> m == w[i]", "=="),
    # A flat list in a place where it cannot stand is a list like any other.
    ("F019", "factor f(A, A) = [[1, 2] [3, 4]]", "["),
    ("F001", "rule X -> f([1, 2])", "["),
    ("F001", "size k = {a, b}", "{"),
    ("F017", "factor f(A) = [1, 2)", ")"),
    ("F019", "factor f(A) = [1, 2 3]", "3"),
    ("F005", "domain A = {a, rule}", "rule"),
    ("F010", "factor f(A) = [1, 1e401]", "1e401"),
    ("F012", r'domain A = {a, "\q", b}', r'"\q"'),
]


@pytest.mark.parametrize(("code", "text", "at"), MISTAKES)
def test_a_mistake_is_called_by_its_name(code: str, text: str, at: str) -> None:
    _, diagnostics = read(text)
    assert code in [d.code for d in diagnostics], render_all(diagnostics, Source("", text))
    found = next(d for d in diagnostics if d.code == code)
    assert found.span is not None
    assert text[found.span.start : found.span.end] == at
    assert len(diagnostics) == 1, "one mistake, one message"


def test_every_syntax_code_has_a_mistake() -> None:
    elsewhere = {"F008"}  # tested below
    assert {code for code, _, _ in MISTAKES} | elsewhere == {c for c in CODES if c < "F100"}


def test_a_text_can_be_too_long() -> None:
    statements, diagnostics = read(" " * (4 * 1024 * 1024 + 1))
    assert statements == () and [d.code for d in diagnostics] == ["F008"]


def test_a_text_can_have_too_many_tokens() -> None:
    statements, diagnostics = read("~" + "f " * (MAX_TOKENS + 2))
    assert statements == () and [d.code for d in diagnostics] == ["F008"]
    assert diagnostics[0].span == Span(2 * MAX_TOKENS + 1, 2 * MAX_TOKENS + 2)


def test_a_line_may_end_with_a_carriage_return() -> None:
    text = "# a comment\rsize k = 3\r# another\r\nsize m = 4 # the last\r\r"
    assert [place(statement) for statement in statements_of(text)] == [
        Span(text.index("size k"), text.index("size k") + 10),
        Span(text.index("size m"), text.index("size m") + 10),
    ]
    assert [d.code for d in read('domain A = {"a\rb}')[1]] == ["F004"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("query q(w: T[n]) {\n rule a: S -> u = w\n}", "`w[i]`"),
        ("rule a: S -> f\nS -> f S", "`rule`"),
        ("rule a: S -> f\nprule S -> f S", "`rule`"),
        ("rule a: S -> f\nrule b: S -> m == w[i]", "single `=`"),
    ],
)
def test_a_mistake_in_a_rule_has_one_message_with_a_hint(text: str, hint: str) -> None:
    before = "domain T = 2 input w: T[n] nonterminal S() start S factor f()\n"
    _, diagnostics, _ = load_text(before + text)
    assert len(diagnostics) == 1
    assert hint in diagnostics[0].help


def test_half_a_character_is_refused() -> None:
    assert [d.code for d in read("size k = 3 # \ud800")[1]] == ["F003"]


def test_a_byte_order_mark_is_ignored() -> None:
    assert len(statements_of("\ufeffsize k = 3")) == 1


MANY = """\
size k == 3
domain T = {a b}
factr f(T)
factor g(T -> T -> T)
nonterminal rule()
rule a X(t) -> g(t)
rule b: X(t) g(t)
rule c: X(t -> g(t)
rule d: X(t) -> g(t) for t = 3
size `ok` = 3
query q(w W[n]) { rule a: X -> X }
query r(w: W[n]) {
  rule a: X[i -> X
  factor h(T)
  rule b: X ->
"""


def test_all_mistakes_are_reported_at_once(golden: Golden) -> None:
    statements, diagnostics = read(MANY)
    golden(render_all(diagnostics, Source("many.fgg", MANY)) + "\n")
    kept = ["SizeDecl", "QueryDecl", "FactorDecl", "RuleDecl"]
    assert [type(statement).__name__ for statement in statements] == kept


def test_queries_without_braces_are_not_taken_for_open_ones() -> None:
    _, diagnostics = read("query a\nquery b\n" * 20)
    assert {d.code for d in diagnostics} == {"F001"}


def test_there_is_an_end_to_messages() -> None:
    _, diagnostics = read("size = 3\n" * 1000 + "\x01 " * 1000)
    assert 20 <= len(diagnostics) <= 40


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_between_backquotes_are_names(word: str) -> None:
    text = f"""
    size `{word}` = 3   domain `{word}2` = {{`{word}`}}   factor `{word}`(`{word}2`)
    nonterminal X[`{word}`]()   input `{word}`: W[n]   start `{word}`
    rule `{word}`: X[`{word}`] -> `{word}`(`{word}`.`{word}`) `{word}` = `{word}`[`{word}`]
    query `{word}` {{ }}
    """
    assert len(statements_of(text)) == 8


def test_a_bare_edge_is_not_followed_by_a_node() -> None:
    (rule,) = statements_of("rule X -> Y (u: T) Z")
    assert isinstance(rule, tree.RuleDecl)
    assert [type(item).__name__ for item in rule.body] == ["EdgeSyntax", "EdgeSyntax"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-k", "Negated"),
        ("+k", "NameRef"),
        ("-(-k)", "Negated"),
        ("(k)", "NameRef"),
        ("-2*k", "Times"),
    ],
)
def test_a_sign_stands_before_an_atom(text: str, value: str) -> None:
    (size,) = statements_of(f"size x = {text}")
    assert isinstance(size, tree.SizeDecl) and type(size.value).__name__ == value
    assert [d.code for d in read("size x = --k")[1]] == ["F001"]


def test_comments_and_layout_do_not_matter() -> None:
    text = "rule r : X [ i , j ] ( a ) -> f ( a . N , w [ i ] ) # why\n for i<j,j<=n"
    assert bare(statements_of(text)) == bare(
        statements_of("rule r: X[i, j](a) -> f(a.N, w[i])\n\n for i < j, # c\n j <= n")
    )


@settings(max_examples=500)
@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    read(text)


@settings(max_examples=500)
@given(st.lists(st.sampled_from([*WORDS, *SIGNS, *NAMES, *NUMBERS, *STRANGE]), max_size=40))
def test_no_sequence_of_tokens_raises(words: list[str]) -> None:
    text = " ".join(words)
    _, diagnostics = read(text)
    for diagnostic in diagnostics:
        assert "F000" < diagnostic.code < "F100"
        assert diagnostic.span is not None
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
        for leaked in ("LPAR", "RPAR", "$END", "Token", "Unexpected", "NAME", "LBRACE", "SQB"):
            assert leaked not in diagnostic.message + diagnostic.help + diagnostic.label


@pytest.mark.parametrize(
    "text",
    [
        "query t(w:W[n]){->}->",
        "query q {}}{ ->",
        "domain D = -1 factor f(D) = {0: 0}",
        "domain D = 9999999999999999999 factor f(D) = {0: 0}",
    ],
)
def test_texts_that_once_broke_the_reader_are_errors(text: str) -> None:
    grammar, diagnostics, _ = load_text(text)
    assert grammar is None and any(d.is_error for d in diagnostics)
