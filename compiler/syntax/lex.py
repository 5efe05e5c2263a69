"""From text to tokens; characters that begin no token are reported."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from functools import cache
from typing import overload

from fgg.compiler.syntax.flat_lists import row_end, values_end
from fgg.compiler.syntax.lalr import surface
from fgg.diagnostics import Report
from fgg.grammar.spans import Span

MAX_CHARACTERS = 4 * 1024 * 1024
MAX_TOKENS = 1_000_000
MAX_NESTING = 100
MAX_SYNTAX_ERRORS = 20

_SKIPPED = re.compile(r"(?:\s|#[^\n]*)*")
_BAD = re.compile(r'"(?:\\.|[^"\\\n])*|``|`[^`\n]*|[^\s"`#]+')
_NESTING = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"?|`[^`\n]*`?|[\[({]|[\])}]')
_UNREADABLE = frozenset(("BAD", "BAD_NAME", "BAD_STRING"))
_BEFORE_ROW = frozenset(("EQUAL", "LSQB", "COMMA", "COLON"))  # where no index can stand
_SURROGATE = re.compile("[\ud800-\udfff]")
_HELP = {
    "→⇒": "write `->`",
    "≤⩽": "write `<=`",
    "≥⩾": "write `>=`",
    "≠!": "write `!=`",
    "\N{MULTIPLICATION SIGN}·\N{ASTERISK OPERATOR}": "write `*`",
    "\N{MINUS SIGN}\N{EN DASH}—": "write `-`",
    "'“”«»\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}": (
        'a string stands between double quotes: `"`'
    ),
    ";": "statements end without a semicolon",
    "|": "write a rule for each alternative",
    "&∧": "conditions are separated by commas",
    "^": "there are no powers: write a product",
    "…": "write the list out",
}


class Token(str):
    """The text of a token, with its type and its start."""

    __slots__ = ("start", "type")
    type: str
    start: int

    @property
    def span(self) -> Span:
        """The span of the token."""
        return Span(self.start, self.start + len(self))


class Tokens:
    """The tokens of a text, kept as arrays because there may be very many."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.types: list[str] = []
        self.starts = array("I")
        self.ends = array("I")
        self._columns: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.types)

    @overload
    def __getitem__(self, place: int) -> Token: ...
    @overload
    def __getitem__(self, place: slice) -> list[Token]: ...
    def __getitem__(self, place: int | slice) -> Token | list[Token]:
        if isinstance(place, slice):
            return [self[p] for p in range(len(self))[place]]
        token = Token(self.text[self.starts[place] : self.ends[place]])
        token.type = self.types[place]
        token.start = self.starts[place]
        return token

    def span(self, place: int) -> Span:
        """Return the span of a token."""
        return Span(self.starts[place], self.ends[place])

    def begins_line(self, place: int) -> bool:
        """Return whether a token is the first of its line."""
        before = self.ends[place - 1] if place > 0 else 0
        return place == 0 or self.text.find("\n", before, self.starts[place]) >= 0

    def column(self, place: int) -> int:
        """Return the number of characters before a token on its line."""
        if place not in self._columns:
            start = self.starts[place]
            self._columns[place] = start - self.text.rfind("\n", 0, start) - 1
        return self._columns[place]

    def expand(self, place: int) -> None:
        """Replace a flat list by the tokens that it consists of."""
        inner = Tokens(self.text)
        _scan(inner, self.starts[place], self.ends[place], whole=False)
        self.types[place : place + 1] = inner.types
        self.starts[place : place + 1] = inner.starts
        self.ends[place : place + 1] = inner.ends


def is_sane(text: str, report: Report) -> bool:
    """Return whether a text is short and shallow enough to be parsed; report if not."""
    # Checked before parsing so that nothing later needs to fear deep recursion.
    if len(text) > MAX_CHARACTERS:
        report.add(
            "F008",
            f"the text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read",
            help='put large tables into files: `factor f(A, B) = load("f.npy")`',
        )
        return False
    surrogate = find_surrogate(text)
    if surrogate is not None:
        report.add("F003", "the text contains half a character, a lone surrogate", surrogate)
        return False
    depth = 0
    for match in _NESTING.finditer(text):
        if match.group() in "[({":
            depth += 1
        elif match.group() in "])}":
            depth = max(0, depth - 1)
        if depth > MAX_NESTING:
            span = Span(match.start(), match.end())
            report.add("F007", f"brackets are nested more than {MAX_NESTING} deep", span)
            return False
    return True


def with_line_ends(text: str) -> str:
    """Return the text with `\\n` at the end of each line; positions do not change."""
    return text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text


def lex(text: str, report: Report) -> tuple[Tokens, list[Span]] | None:
    """Return the tokens of a text and the spans of unreadable text, which is reported.

    Returns None, and reports it, if there are too many tokens.
    """
    tokens = Tokens(text)
    good = _scan(tokens, 0, len(text), whole=True)
    if len(tokens) > MAX_TOKENS:
        report.add(
            "F008",
            f"the text has more than {MAX_TOKENS:,} words, numbers and signs",
            tokens.span(MAX_TOKENS),
            "the rest is not read",
        )
        return None
    bad = [] if good else list(_gaps(tokens))
    for span in bad[:MAX_SYNTAX_ERRORS]:
        _describe(text[span.start : span.end], span, report)
    return tokens, bad


@cache
def _pattern() -> re.Pattern[str]:
    """Return one pattern for space and comments and the token behind them."""
    terminals = [t for t in surface().terminals if t.name not in ("SPACE", "COMMENT")]
    terminals = [t for t in terminals if t.pattern.type == "re" or len(t.pattern.value) == 2]
    terminals.sort(key=lambda t: (-t.priority, -t.pattern.max_width, t.name))
    parts = [f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in terminals]
    place = next(n for n, t in enumerate(terminals) if t.priority < 0)
    parts.insert(place, f"(?P<SINGLE>[{re.escape(''.join(_singles()))}])")
    return re.compile(rf"(?:\s++|#[^\n]*+)*+(?:{'|'.join(parts)}|\Z)")


@cache
def _singles() -> dict[str, str]:
    """Return the types of signs of one character, by sign."""
    strings = [t for t in surface().terminals if t.pattern.type == "str"]
    return {t.pattern.value: t.name for t in strings if len(t.pattern.value) == 1}


@cache
def _words() -> dict[str, str]:
    """Return the types of reserved words, by word."""
    strings = [t for t in surface().terminals if t.pattern.type == "str"]
    return {t.pattern.value: t.name for t in strings if t.pattern.value.isalpha()}


def _scan(tokens: Tokens, start: int, end: int, *, whole: bool) -> bool:
    """Add the tokens of a part of the text, and return whether all of it can be read.

    With `whole`, a flat list is one token. Stops after `MAX_TOKENS + 1` tokens.
    """
    match, words, singles = _pattern().match, _words(), _singles()
    text, types, starts, ends = tokens.text, tokens.types, tokens.starts, tokens.ends
    good = True
    before = ""
    while len(types) <= MAX_TOKENS:
        token = match(text, start, end)
        if token is None or token.lastgroup is None:
            break
        kind = token.lastgroup
        first, start = token.span(kind)
        if kind == "NAME":
            kind = words.get(text[first:start], kind)
        elif kind == "SINGLE":
            kind = singles[text[first]]
            if whole and (kind == "LSQB" or kind == "LBRACE"):
                kind, start = _flat_list(text, kind, first, before)
        elif kind == "PART" and before != "NAME":
            kind = "DECIMAL"
        elif kind in _UNREADABLE:
            good = False
            continue
        types.append(kind)
        starts.append(first)
        ends.append(start)
        before = kind
    return good


def _flat_list(text: str, kind: str, start: int, before: str) -> tuple[str, int]:
    """Return the type and the end of a flat list that begins at a bracket, or of the bracket."""
    if kind == "LSQB" and before in _BEFORE_ROW:
        end = row_end(text, start)
        if end is not None:
            return "ROW", end
    elif kind == "LBRACE" and before == "EQUAL":
        end = values_end(text, start)
        if end is not None:
            return "VALUES", end
    return kind, start + 1


def _gaps(tokens: Tokens) -> Iterator[Span]:
    """Yield the spans between tokens that are neither space nor comment."""
    text = tokens.text
    end = 0
    for begins, ends in zip((*tokens.starts, len(text)), (*tokens.ends, len(text)), strict=True):
        while (start := _skip(text, end, begins)) < begins:
            bad = _BAD.match(text, start, begins)
            assert bad is not None
            end = bad.end()
            yield Span(start, end)
        end = ends


def _skip(text: str, start: int, end: int) -> int:
    if start == 0 and text.startswith("\ufeff"):  # a byte order mark
        start = 1
    skipped = _SKIPPED.match(text, start, end)
    return skipped.end() if skipped else start


def _describe(text: str, span: Span, report: Report) -> None:
    if text[0] == '"':
        report.add("F004", "a string is not closed on its line", span, help='add a `"`')
    elif text == "``":
        report.add("F004", "a name between backquotes is empty", span)
    elif text[0] == "`":
        report.add(
            "F004",
            "a name between backquotes is not closed on its line",
            span,
            help="add a backquote",
        )
    else:
        help_text = next((known for signs, known in _HELP.items() if text[0] in signs), "")
        what = "character" if len(text) == 1 else "text"
        report.add("F003", f"unexpected {what} {show_text(text)}", span, help=help_text)


def show_text(text: str) -> str:
    """Return text as a message can quote it: short, and without control codes."""
    if not text.isprintable():
        return " ".join(f"U+{ord(char):04X}" for char in text[:4])
    return f"`{text}`" if len(text) <= 40 else f"`{text[:40]}…`"


def find_surrogate(text: str) -> Span | None:
    """Return the span of the first lone surrogate, half a character; None if there is none."""
    match = _SURROGATE.search(text)
    return Span(match.start(), match.end()) if match else None
