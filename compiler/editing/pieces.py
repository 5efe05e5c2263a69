"""A text cut into statements by their reserved words, without parsing it.

An editor changes one statement at a time. How the others parse depends on nothing but their own
text, so it need not be found out again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from fgg.compiler.syntax.lex import with_line_ends
from fgg.compiler.syntax.parse import QUERY_WORDS, parse
from fgg.compiler.syntax.tree import Statement
from fgg.diagnostics import Report
from fgg.grammar.spans import Source, Span

_NAME = r"(?:[^\W\d]\w*|`[^`\n]+`)"
_WORDS = "size|domain|rank|factor|nonterminal|input|start|rule|query|use"
_BLANK = r"(?:\s|#[^\n]*)*+"
_MARK = re.compile(
    rf'#[^\n]*|"(?:\\.|[^"\\\n])*"?|`[^`\n]*`?|[{{}}]|\binput{_BLANK}factor\b|\b(?:{_WORDS})\b'
)
_RANK_DOMAIN = re.compile(rf"rank{_BLANK}{_NAME}{_BLANK}=(?!=)")
_BEGINNING = re.compile(
    rf"(?P<word>{_WORDS}){_BLANK}(?:(?P<kind>factor|table(?={_BLANK}{_NAME})){_BLANK})?"
    rf"(?P<name>{_NAME})?"
)
_HEADER_INPUT = re.compile(rf"(?P<name>{_NAME}){_BLANK}:{_BLANK}{_NAME}{_BLANK}\[[^\]]*\]?")


class Heading(NamedTuple):
    """What an outline shows of a statement: its kind and its name, and where both stand."""

    kind: str
    name: str
    span: Span
    name_span: Span
    inner: tuple[Heading, ...] = ()


@dataclass
class Cut:
    """The place of a statement: from its first word to where the next statement starts."""

    word: str
    start: int
    next: int = 0
    comments: list[Span] = field(default_factory=list)
    inner: list[Cut] = field(default_factory=list)
    opening: int = -1  # the `{` of a query
    closing: int = -1  # its `}`

    def end(self, text: str) -> int:
        """The end of its last word or sign: comments behind it do not count."""
        end = self.next
        for comment in reversed(self.comments):
            if text[comment.end : end].strip():
                break
            end = comment.start
        return self.start + len(text[self.start : end].rstrip())


def cuts(text: str) -> list[Cut]:
    """The statements of a text, in order. What stands before the first has an empty word."""
    statements = [Cut("", 0)]
    depth = 0
    for mark in _MARK.finditer(text):
        sign, start = mark[0], mark.start()
        current = statements[-1]
        if sign[0] == "#":
            current.comments.append(Span(start, mark.end()))
        elif sign == "{":
            current.opening = start if not depth else current.opening
            depth += 1
        elif sign == "}":
            depth = max(depth - 1, 0)
            current.closing = current.closing if depth else start
        elif sign[0] not in '"`' and (sign != "rank" or _RANK_DOMAIN.match(text, start)):
            word = sign if sign.isalpha() else "input"
            if current.word == "query" and depth and word.upper() in QUERY_WORDS:
                current.inner.append(Cut(word, start))
                continue
            _end(text, statements, start)
            statements.append(Cut(word, start))
            depth = 0
    _end(text, statements, len(text))
    return statements if statements[0].next else statements[1:]


def _end(text: str, statements: list[Cut], end: int) -> None:
    """End the last statement. A query that is never closed ends where a line begins with a rule."""
    last = statements[-1]
    last.next = end
    if last.word == "query" and last.closing < 0:
        lines = (n for n, inner in enumerate(last.inner) if text[inner.start - 1] == "\n")
        kept = next(lines, len(last.inner))
        following = [last, *last.inner[kept:]]
        del last.inner[kept:]
        statements += following[1:]
        _divide(following, end, last.comments)
    if last.inner:
        _divide(last.inner, last.closing if last.closing >= 0 else last.next, last.comments)


def _divide(statements: list[Cut], end: int, comments: list[Span]) -> None:
    """Set the ends of statements that follow one another, and the comments in each."""
    bounds = [*(statement.start for statement in statements[1:]), end]
    for statement, bound in zip(statements, bounds, strict=False):
        statement.next = bound
        statement.comments = [c for c in comments if statement.start <= c.start < bound]


def headings(text: str) -> Iterator[Heading]:
    """What an outline shows: the declarations, the rules, and below each query what it holds."""
    text = with_line_ends(text)
    return (heading for cut in cuts(text) for heading in _headings(text, cut))


def _headings(text: str, cut: Cut) -> Iterator[Heading]:
    beginning = _BEGINNING.match(text, cut.start, cut.next)
    if beginning is None or cut.word in ("", "use", "start"):
        return
    kind = {"factor": "input factor", "table": "table"}.get(beginning["kind"] or "", cut.word)
    place = Span(*beginning.span("name" if beginning["name"] else "word"))
    inner: tuple[Heading, ...] = ()
    if cut.word == "query":
        inner = (
            *_header_inputs(text, beginning.end(), cut.opening),
            *(heading for statement in cut.inner for heading in _headings(text, statement)),
        )
    yield Heading(
        "domain" if cut.word == "rank" else kind,
        (beginning["name"] or "?").strip("`"),
        Span(cut.start, cut.end(text)),
        place,
        inner,
    )


def _header_inputs(text: str, start: int, end: int) -> Iterator[Heading]:
    for match in _HEADER_INPUT.finditer(text, start, max(start, end)):
        name = match["name"].strip("`")
        yield Heading("input", name, Span(*match.span()), Span(*match.span("name")))


class Piece:
    """The text of one statement, up to the next, and what is known of it by itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _parsed(self) -> tuple[tuple[Statement, ...], bool]:
        report = Report()
        statements = parse(Source("", self.text), report)
        return statements, not report.has_errors

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Its statement, with spans that count from the beginning of the piece."""
        return self._parsed[0]

    @property
    def is_parsed(self) -> bool:
        """Whether it has no syntax errors."""
        return self._parsed[1]


def pieces(text: str, known: Mapping[str, Piece]) -> list[tuple[int, Piece]]:
    """The pieces of a text with the offsets at which they start; known ones are taken over."""
    text = with_line_ends(text)
    placed = []
    new: dict[str, Piece] = {}
    for cut in cuts(text):
        part = text[cut.start : cut.next]
        piece = known.get(part) or new.get(part)
        if piece is None:
            piece = new[part] = Piece(part)
        placed.append((cut.start, piece))
    return placed
