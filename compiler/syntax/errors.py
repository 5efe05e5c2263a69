"""A syntax error: the unexpected token, and the tokens that were expected."""

from __future__ import annotations

from dataclasses import dataclass

from fgg.compiler.syntax.lex import Token, Tokens, show_text
from fgg.grammar.index import RESERVED
from fgg.grammar.spans import Span

PUNCTUATION = {
    "EQUAL": "`=`",
    "COLON": "`:`",
    "ARROW": "`->`",
    "COMMA": "`,`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "RBRACE": "`}`",
    "LBRACE": "`{`",
    "LSQB": "`[`",
    "LPAR": "`(`",
    "COMPARISON": "a comparison",
    "STRING": "a string",
}

# How each statement is written, for errors without a more specific help.
FORMS = {
    "size": "`size k = 8`",
    "domain": '`domain T = k`, `domain T = {a, b}`, `domain C = A + B` or `domain W = file("w")`',
    "rank": "`rank R = 100`",
    "factor": "`factor f(A -> B)`, then `= value`, `rank r` and `with key = value`, if any",
    "with": "`with key = value, key = value`",
    "nonterminal": "`nonterminal X(T)` or `nonterminal X[i](T) for 0 <= i < n`",
    "input": "`input w: W[n]`, `input factor phi[i](T)` or `input table left[m]`",
    "start": "`start S` or `start X[0, n]`",
    "rule": "`rule name: X[i](a) -> f(a, b) X[i+1](b) for i < n`",
    "query": "`query name(w: W[n]) { rule name: X[i] -> X[i+1] o = w[i] }`",
}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An unexpected token: where it is, what could have stood there, which brackets are open."""

    tokens: Tokens
    position: int
    first: int
    accepts: frozenset[str]
    open: tuple[int, ...]
    query: int | None

    def type(self, offset: int = 0) -> str:
        """Return the type of the token at an offset from the unexpected one."""
        place = self.position + offset
        return self.tokens.types[place] if 0 <= place < len(self.tokens) else "$END"

    @property
    def token(self) -> Token:
        """The unexpected token."""
        return self.tokens[self.position]

    @property
    def span(self) -> Span:
        """Where the unexpected token is; the last character if the text ends."""
        if self.position < len(self.tokens):
            return self.tokens.span(self.position)
        end = self.tokens.ends[-1] if self.tokens else 0
        return Span(max(end - 1, 0), end)

    @property
    def statement(self) -> str:
        """The reserved word that begins the statement."""
        return str(self.tokens[self.first]) if self.first < len(self.tokens) else ""

    @property
    def is_reserved(self) -> bool:
        """Whether the unexpected token is a reserved word."""
        return self.type() != "$END" and str(self.token) in RESERVED

    @property
    def is_complete(self) -> bool:
        """Whether the statement could end before the unexpected token."""
        return "RULE" in self.accepts

    @property
    def is_reserved_name(self) -> bool:
        """Whether the unexpected token is a reserved word in the place of a name.

        At the beginning of a line it rather begins a statement, and the one before is incomplete.
        """
        wanted = "NAME" in self.accepts and not self.is_complete
        return self.is_reserved and wanted and not self.begins_line(self.position)

    def begins_line(self, place: int) -> bool:
        """Whether the token at `place` is the first of its line."""
        return self.tokens.begins_line(place)

    @property
    def line_start(self) -> int:
        """The first token of the line, or of the statement if that begins on the same line."""
        place = min(self.position, len(self.tokens) - 1)
        while place > self.first and not self.begins_line(place):
            place -= 1
        return place

    @property
    def is_second_arrow(self) -> bool:
        """Whether the unexpected token is an arrow in a statement that has one already."""
        return self.type() == "ARROW" and self.is_after("ARROW")

    @property
    def is_equality(self) -> bool:
        """Whether the unexpected token is a `==` where `=` is right."""
        equality = self.type() == "COMPARISON" and str(self.token) == "=="
        return equality and "EQUAL" in self.accepts

    @property
    def heads_line(self) -> int | None:
        """The name at the beginning of the line if the line looks like a rule without `rule`."""
        place = self.line_start
        if self.statement != "rule" or not self.is_after("ARROW"):
            return None
        if self.type() not in ("ARROW", "COLON") or not self.first < place < self.position:
            return None
        inner = self.tokens.types[place : self.position]
        whole = inner.count("LPAR") == inner.count("RPAR")
        return place if inner[0] == "NAME" and whole else None

    @property
    def is_spoilt(self) -> bool:
        """Whether the statement is wrong although it could end before the unexpected token."""
        return self.is_second_arrow or self.is_equality or self.heads_line is not None

    def is_after(self, kind: str) -> bool:
        """Whether a token of that type stands in the statement before the unexpected one."""
        return kind in self.tokens.types[self.first : self.position]

    @property
    def quoted(self) -> str:
        """The unexpected token, quoted."""
        return show_text(str(self.token))


def expectation(failure: Failure) -> str:
    """Return what is expected in place of the unexpected token: `expected …`."""
    accepts = set(failure.accepts)
    words = []
    if failure.is_complete:
        if failure.statement == "rule" and "NAME" in accepts and "ARROW" not in accepts:
            words.append("an edge")
        if "FOR" in accepts:
            words.append("`for`")
        accepts &= {"COMMA", "RBRACE", "COMPARISON"}
    elif accepts >= {"INT", "NAME", "LPAR"}:
        words.append("an expression")
        accepts -= {"LPAR", "LSQB"} if "LBRACE" not in accepts else {"LPAR"}
    elif accepts >= {"INT", "DECIMAL", "NAME"} or accepts >= {"INT", "STRING", "NAME"}:
        words.append("a value")
        accepts -= {"LSQB", "LBRACE", "STRING", "RSQB"}
    elif "NAME" in accepts:
        words.append("a name")
    elif "INT" in accepts:
        words.append("a number")
    words += [shown for kind, shown in PUNCTUATION.items() if kind in accepts]
    if failure.is_complete:
        words.append("a new statement")
    if not words:
        words = sorted(f"`{kind.lower()}`" for kind in accepts)
    return "expected " + in_words(list(dict.fromkeys(words)))


def form(failure: Failure) -> str:
    """Return how to write the statement that has the error."""
    shown = FORMS.get(failure.statement, "")
    inside = [failure.tokens.types[place] for place in failure.open]
    if failure.statement == "factor" and inside[-1:] == ["LBRACE"]:
        shown = "a map as `{dog: 0.5, cat: 0.5}`"
    return f"write {shown}" if shown else ""


def in_words(words: list[str]) -> str:
    """Return a list as part of a sentence: `a, b or c`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]
