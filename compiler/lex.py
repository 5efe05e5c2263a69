"""From text to tokens, with a report of everything that is not one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from lark import Lark, Token

from fgg.diagnostics import Report
from fgg.spans import Source, Span

MAX_CHARACTERS = 2 * 1024 * 1024
MAX_NESTING = 100
MAX_SYNTAX_ERRORS = 20

_SKIPPED = re.compile(r"(?:\s|#[^\n]*)*")
_BAD = re.compile(r'"(?:\\.|[^"\\\n])*|``|`[^`\n]*|[^\s"`#]+')
_NESTING = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"?|`[^`\n]*`?|[\[({]|[\])}]')
_SURROGATE = re.compile("[\ud800-\udfff]")
_HELP = {
    "→⇒": "write `->`",
    "≤⩽": "write `<=`",
    "≥⩾": "write `>=`",
    "≠!": "there is no `!=`: write two rules, one with `<` and one with `>`",
    "\N{MULTIPLICATION SIGN}·\N{ASTERISK OPERATOR}": "write `*`",
    "\N{MINUS SIGN}\N{EN DASH}—": "write `-`",
    "'“”«»\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}": (
        'a string stands between double quotes: `"`'
    ),
    ";": "statements need nothing at their end",
    "|": "write a rule for each alternative",
    "&∧": "conditions are separated by commas",
    "^": "there are no powers: write a product",
    "…": "write the list out",
}


@cache
def surface() -> Lark:
    """The parser of the surface syntax."""
    grammar = resources.files("fgg.compiler").joinpath("surface.lark").read_text("utf-8")
    return Lark(
        grammar, parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=True
    )


def is_sane(source: Source, report: Report) -> bool:
    """Whether a text is short and shallow enough to be parsed; else a report."""
    # Checked before parsing so that nothing later needs to fear deep recursion.
    if len(source.text) > MAX_CHARACTERS:
        report.add(
            "F008",
            f"the text has {len(source.text):,} characters; at most {MAX_CHARACTERS:,} are read",
            help='put large tables into files: `factor f(A, B) = load("f.npy")`',
        )
        return False
    surrogate = find_surrogate(source.text)
    if surrogate is not None:
        report.add("F003", "the text contains half a character, a lone surrogate", surrogate)
        return False
    depth = 0
    for match in _NESTING.finditer(source.text):
        if match.group() in "[({":
            depth += 1
        elif match.group() in "])}":
            depth = max(0, depth - 1)
        if depth > MAX_NESTING:
            span = Span(match.start(), match.end())
            report.add("F007", f"brackets are nested more than {MAX_NESTING} deep", span)
            return False
    return True


def token_span(token: Token) -> Span:
    """Where a token stands."""
    assert token.start_pos is not None and token.end_pos is not None
    return Span(token.start_pos, token.end_pos)


def lex(source: Source, report: Report) -> tuple[list[Token], list[Span]]:
    """The tokens of a text, and the places of what could not be read, which is reported."""
    # Not `Lark.lex`, which makes a new lexer every time.
    reader = surface().parse_interactive(source.text)
    found: Iterator[Token] = reader.lexer_thread.lex(  # type: ignore[no-untyped-call]
        reader.parser_state
    )
    tokens = list(found)
    bad = list(_gaps(source.text, tokens))
    for span in bad[:MAX_SYNTAX_ERRORS]:
        _describe(source.text[span.start : span.end], span, report)
    return tokens, bad


def _gaps(text: str, tokens: list[Token]) -> Iterator[Span]:
    """What lies between tokens and is neither space nor comment."""
    end = 0
    places = [token_span(token) for token in tokens]
    for place in (*places, Span(len(text), len(text))):
        while (start := _skip(text, end, place.start)) < place.start:
            found = _BAD.match(text, start, place.start)
            assert found is not None
            end = found.end()
            yield Span(start, end)
        end = place.end


def _skip(text: str, start: int, end: int) -> int:
    if start == 0 and text.startswith("\ufeff"):  # a byte order mark
        start = 1
    found = _SKIPPED.match(text, start, end)
    return found.end() if found else start


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
    """Some text of the user's, as a message can quote it: short, and without control codes."""
    if not text.isprintable():
        return " ".join(f"U+{ord(char):04X}" for char in text[:4])
    return f"`{text}`" if len(text) <= 40 else f"`{text[:40]}…`"


def find_surrogate(text: str) -> Span | None:
    """The first character that is half of one and cannot be written to any file."""
    found = _SURROGATE.search(text)
    return Span(found.start(), found.end()) if found else None
