"""From text to a syntax tree, with recovery at statements.

After a syntax error, parsing goes on at the next reserved word that can begin a statement. So all
errors of a file are reported together.
"""

from __future__ import annotations

from typing import cast

from fgg.compiler.syntax.build_statements import TreeBuilder
from fgg.compiler.syntax.errors import Failure
from fgg.compiler.syntax.lalr import HIDDEN, Automaton
from fgg.compiler.syntax.lex import MAX_CHARACTERS as MAX_CHARACTERS
from fgg.compiler.syntax.lex import MAX_SYNTAX_ERRORS, Tokens, is_sane, lex, with_line_ends
from fgg.compiler.syntax.mistakes import describe, misspelt, statement_in_query, unclosed_query
from fgg.compiler.syntax.tree import Statement
from fgg.diagnostics import Report
from fgg.grammar.spans import Source, Span

QUERY_WORDS = frozenset(("NONTERMINAL", "INPUT", "START", "RULE"))
STATEMENT_WORDS = QUERY_WORDS | {"USE", "SIZE", "DOMAIN", "RANK", "FACTOR", "QUERY"}


# Tokens that also change the state of `_Parse`.
SPECIAL = STATEMENT_WORDS | {"WITH", "LBRACE", "RBRACE"}
OPENING = frozenset(("LPAR", "LSQB"))
CLOSING = frozenset(("RPAR", "RSQB"))
MAX_LOOKS = 10_000  # at words that may be misspelt


def parse(source: Source, report: Report) -> tuple[Statement, ...]:
    """Return the statements of a source text; syntax errors go to `report`."""
    text = with_line_ends(source.text)
    if not is_sane(text, report):
        return ()
    text = " " * source.start + text  # so that every span begins where the source does
    lexed = lex(text, report)
    return _Parse(*lexed, report).run() if lexed is not None else ()


class _Parse:
    """Feeds tokens to the automaton one by one; after an error drops the statement it is in."""

    def __init__(self, tokens: Tokens, bad: list[Span], report: Report) -> None:
        self.tokens = tokens
        self.types = tokens.types
        self.bad = bad
        self.report = report
        self.built = Report()  # errors in the nodes that have been built
        self.automaton = Automaton(TreeBuilder(tokens, self.built))
        self.first = 0  # where the current statement begins
        self.base = 0  # the automaton's height before it
        self.reported = 0  # the number of reports before it
        self.open: list[int] = []  # its open brackets
        self.query: int | None = None  # where the current query begins
        self.skipping = False
        self.failures = 0
        self.looks = 0

    def run(self) -> tuple[Statement, ...]:
        """Return all statements without syntax errors."""
        position = 0
        types, feed = self.types, self.automaton.feed
        while position < len(types) and self.failures < MAX_SYNTAX_ERRORS:
            kind = types[position]
            if self.skipping or kind in SPECIAL or not feed(kind, position):
                position = self.step(position)
                continue
            if kind in OPENING:
                self.open.append(position)
            elif kind in CLOSING and self.open:
                self.open.pop()
            position += 1
        if self.failures >= MAX_SYNTAX_ERRORS:
            self.drop()
        statements = self.finish()
        self.report.diagnostics += self.built.diagnostics
        return statements

    def step(self, position: int) -> int:
        """Feed the token at `position`, or skip it; return the position to go on from."""
        kind = self.types[position]
        if self.begins(position):
            if self.query is not None and kind not in QUERY_WORDS:
                resume = self.leave_query(position)
                if resume > position:
                    return resume
        elif self.skipping and not self.ends_query(kind):
            if self.looks < MAX_LOOKS and self.tokens.begins_line(position):
                self.looks += 1
                self.failures += misspelt(self.tokens, position, self.first, self.report)
            return position + 1
        return self.feed(position)

    def begins(self, position: int) -> bool:
        """Return whether the token begins a statement, or a clause that is parsed as one."""
        kind = self.types[position]
        if kind == "WITH":
            return not self.skipping
        if kind == "FACTOR" and position > 0 and self.types[position - 1] == "INPUT":
            return False
        if kind == "RANK" and self.skipping and self.types[self.first] == "FACTOR":
            return any(self.types[p] == "EQUAL" for p in self.statement_after(position))
        return kind in STATEMENT_WORDS

    def statement_after(self, position: int) -> range:
        """Return the positions after a reserved word that belong to its statement."""
        end = position + 1
        while end < len(self.types) and self.types[end] not in STATEMENT_WORDS:
            end += 1
        return range(position + 1, end)

    def ends_query(self, kind: str) -> bool:
        """Return whether the token is the `}` of the current query."""
        if kind != "RBRACE" or self.query is None:
            return False
        return not any(self.types[p] == "LBRACE" for p in self.open)

    def feed(self, position: int) -> int:
        """Feed a token and keep track of brackets; return the position to go on from."""
        kind = self.types[position]
        begins = self.begins(position)
        ends = self.ends_query(kind)
        if not self.automaton.feed(kind, position):
            return self.recover(position)
        self.skipping = False
        if begins:
            self.first = position
            self.base = self.automaton.height - 1
            self.reported = len(self.built.diagnostics)
            self.open = []
        elif ends:
            self.query = None
        elif kind == "LBRACE" and self.in_header:
            self.open_query()
        elif kind in ("LPAR", "LSQB", "LBRACE"):
            self.open.append(position)
        elif kind in ("RPAR", "RSQB", "RBRACE") and self.open:
            self.open.pop()
        return position + 1

    @property
    def in_header(self) -> bool:
        """Whether the current statement is a query before its `{`."""
        return self.types[self.first] == "QUERY" and self.query is None

    def open_query(self) -> None:
        """Begin the body of a query; errors in the body do not drop its header."""
        self.query = self.first
        self.base = self.automaton.height
        self.reported = len(self.built.diagnostics)
        self.open = []

    def failure(self, position: int, accepts: set[str]) -> Failure:
        """Return the failure for an unexpected token at `position`."""
        return Failure(
            tokens=self.tokens,
            position=position,
            first=self.first,
            accepts=frozenset(accepts),
            open=tuple(self.open),
            query=self.query,
        )

    def recover(self, position: int) -> int:
        """Report an unexpected token and get ready for the next statement."""
        if self.types[position] in HIDDEN:
            self.tokens.expand(position)
            return position
        accepts = self.automaton.accepts()
        failure = self.failure(position, accepts)
        restart = self.begins(position) and not failure.is_reserved_name
        self.failures += 1
        self.describe(failure)
        kind = self.types[position]
        if "LBRACE" in accepts and self.in_header and restart and kind in QUERY_WORDS:
            self.automaton.feed("LBRACE", self.automaton.last)
            self.open_query()
            return position
        # Else the statement is complete, and what follows is too much.
        if "RULE" not in accepts or failure.is_spoilt:
            nesting = len(self.open)
            self.drop()
            if self.in_header and (not restart or kind in QUERY_WORDS):
                self.skipping = True
                return self.after_query(position, nesting)
        if restart and self.skipping:
            return position + 1
        self.skipping = True
        return position if restart or self.ends_query(kind) else position + 1

    def describe(self, failure: Failure) -> None:
        """Report an error, unless unreadable text in the statement explains it."""
        start = self.tokens.starts[self.first] if self.types else 0
        end = failure.span.start if failure.type() != "$END" else len(self.tokens.text)
        if not any(start <= span.start < end for span in self.bad):
            describe(failure, self.report)

    def drop(self) -> None:
        """Drop the current statement."""
        self.automaton.drop(self.base)
        del self.built.diagnostics[self.reported :]
        self.open = []

    def after_query(self, position: int, nesting: int) -> int:
        """Return where a query ends whose header is wrong; its body is skipped.

        `nesting` is the number of brackets that are open in the header.
        """
        braces = 0
        for end in range(position, len(self.types)):
            kind = self.types[end]
            braces += (kind == "LBRACE") - (kind == "RBRACE")
            nesting += (kind == "LPAR") - (kind == "RPAR")
            if kind == "RBRACE" and braces <= 0:
                return end + 1
            inside = nesting > 0 and kind in QUERY_WORDS
            if end > position and braces == 0 and kind in STATEMENT_WORDS and not inside:
                return end
        return len(self.types)

    def leave_query(self, position: int) -> int:
        """Handle a statement that cannot stand in a query; return the position to go on from."""
        self.failures += 1
        if self.query_closes_after(position):
            statement_in_query(self.failure(position, set()), self.report)
            if "RULE" not in self.automaton.accepts():
                self.drop()
            self.skipping = True
            self.first = position
            return position + 1
        unclosed_query(self.failure(position, set()), self.report)
        self.close_query()
        return position

    def query_closes_after(self, position: int) -> bool:
        """Return whether a `}` that belongs to no statement comes before the next query."""
        depth = 0
        for place in range(position, len(self.types)):
            kind = self.types[place]
            if kind in STATEMENT_WORDS:
                depth = 0
            if kind == "QUERY":
                return False
            depth += (kind == "LBRACE") - (kind == "RBRACE")
            if depth < 0:
                return True
        return False

    def close_query(self) -> None:
        """Supply the `}` that is missing."""
        if "RBRACE" not in self.automaton.accepts():
            self.drop()
        self.automaton.feed("RBRACE", self.automaton.last)
        self.query = None

    def finish(self) -> tuple[Statement, ...]:
        """End the parse and return the statements; an unfinished last one is dropped."""
        end = len(self.types)
        if not self.automaton.feed("$END", end):
            accepts = self.automaton.accepts()
            if "RULE" not in accepts and not self.skipping:
                if self.failures < MAX_SYNTAX_ERRORS:
                    self.describe(self.failure(end, accepts))
                self.drop()
            if self.query is not None:
                if self.failures < MAX_SYNTAX_ERRORS:
                    unclosed_query(self.failure(end, set()), self.report)
                self.close_query()
            if not self.automaton.feed("$END", end):
                # Only an empty text is sure to end here: drop all statements.
                if not self.report.has_errors:
                    self.describe(self.failure(end, self.automaton.accepts()))
                return ()
        return cast(tuple[Statement, ...], self.automaton.values[-2])
