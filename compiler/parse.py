"""From text to a syntax tree, with recovery at statements.

A syntax error costs one statement: parsing goes on at the next reserved word that can begin one,
so all the errors of a file are reported together.
"""

from __future__ import annotations

from lark import Token, Tree
from lark.exceptions import UnexpectedToken

from fgg.compiler.build_tree import TreeBuilder
from fgg.compiler.lex import MAX_CHARACTERS as MAX_CHARACTERS
from fgg.compiler.lex import MAX_SYNTAX_ERRORS, is_sane, lex, surface, token_span
from fgg.compiler.syntax import Statement
from fgg.compiler.syntax_errors import describe, statement_in_query, unclosed_query
from fgg.compiler.syntax_failure import Failure
from fgg.compiler.syntax_mistakes import misspelt
from fgg.diagnostics import Report
from fgg.spans import Source, Span

QUERY_WORDS = frozenset(("NONTERMINAL", "INPUT", "START", "RULE"))
STATEMENT_WORDS = QUERY_WORDS | {"SIZE", "DOMAIN", "RANK", "FACTOR", "QUERY"}


def parse(source: Source, report: Report) -> tuple[Statement, ...]:
    """The statements of a source text; what is wrong with it goes to `report`."""
    if not is_sane(source, report):
        return ()
    tokens, bad = lex(source, report)
    tree = _Parse(source, tokens, bad, report).run()
    return TreeBuilder(report).statements(tree)


class _Parse:
    """Feeds tokens to the parser one by one; after an error drops the statement it is in."""

    def __init__(
        self, source: Source, tokens: list[Token], bad: list[Span], report: Report
    ) -> None:
        self.source = source
        self.tokens = tokens
        self.bad = bad
        self.report = report
        self.parser = surface().parse_interactive("")
        self.state = self.parser.parser_state
        self.first = 0  # where the statement under way begins
        self.base = len(self.state.state_stack)  # the stacks' height before it
        self.open: list[int] = []  # its open brackets
        self.query: int | None = None  # where the query under way begins
        self.skipping = False
        self.failures = 0

    def run(self) -> Tree[Token]:
        """The parse tree of all statements that are right."""
        position = 0
        while position < len(self.tokens) and self.failures < MAX_SYNTAX_ERRORS:
            position = self.step(position)
        if self.failures >= MAX_SYNTAX_ERRORS:
            self.drop()
        return self.finish()

    def step(self, position: int) -> int:
        """Feed the token at `position`, or skip it; the position to go on from."""
        token = self.tokens[position]
        if self.begins(position):
            if self.query is not None and token.type not in QUERY_WORDS:
                resume = self.leave_query(position)
                if resume > position:
                    return resume
        elif self.skipping and not self.ends_query(token):
            self.failures += misspelt(self.tokens, position, self.first, self.report)
            return position + 1
        return self.feed(position)

    def begins(self, position: int) -> bool:
        """Whether the token begins a statement, or a clause that is read as one."""
        token = self.tokens[position]
        if token.type == "WITH":
            return not self.skipping
        if token.type == "FACTOR" and position > 0 and self.tokens[position - 1].type == "INPUT":
            return False
        if token.type == "RANK" and self.skipping and self.tokens[self.first].type == "FACTOR":
            return any(self.tokens[p].type == "EQUAL" for p in self.statement_after(position))
        return token.type in STATEMENT_WORDS

    def statement_after(self, position: int) -> range:
        """The positions after a reserved word that belong to its statement."""
        end = position + 1
        while end < len(self.tokens) and self.tokens[end].type not in STATEMENT_WORDS:
            end += 1
        return range(position + 1, end)

    def ends_query(self, token: Token) -> bool:
        """Whether the token is the `}` of the query under way."""
        inner = any(self.tokens[p].type == "LBRACE" for p in self.open)
        return token.type == "RBRACE" and self.query is not None and not inner

    def feed(self, position: int) -> int:
        """Feed a token and keep account of brackets; the position to go on from."""
        token = self.tokens[position]
        begins = self.begins(position)
        ends = self.ends_query(token)
        try:
            self.parser.feed_token(token)
        except UnexpectedToken:
            return self.recover(position)
        self.skipping = False
        if begins:
            self.first = position
            self.base = len(self.state.state_stack) - 1
            self.open = []
        elif ends:
            self.query = None
        elif token.type == "LBRACE" and self.in_header:
            self.open_query()
        elif token.type in ("LPAR", "LSQB", "LBRACE"):
            self.open.append(position)
        elif token.type in ("RPAR", "RSQB", "RBRACE") and self.open:
            self.open.pop()
        return position + 1

    @property
    def in_header(self) -> bool:
        """Whether the statement under way is a query before its `{`."""
        return self.tokens[self.first].type == "QUERY" and self.query is None

    def open_query(self) -> None:
        """Begin the inside of a query, which later errors leave as it is."""
        self.query = self.first
        self.base = len(self.state.state_stack)
        self.open = []

    def accepts(self) -> set[str]:
        """The types of the tokens that could come next."""
        found: set[str] = self.parser.accepts()  # type: ignore[no-untyped-call]
        return found

    def failure(self, position: int, accepts: set[str]) -> Failure:
        """What is known of an error at `position`."""
        return Failure(
            source=self.source,
            tokens=self.tokens,
            position=position,
            first=self.first,
            accepts=frozenset(accepts),
            open=tuple(self.open),
            query=self.query,
        )

    def recover(self, position: int) -> int:
        """Report an unexpected token and get ready for the next statement."""
        accepts = self.accepts()
        failure = self.failure(position, accepts)
        restart = self.begins(position) and not failure.is_reserved_name
        self.failures += 1
        self.describe(failure)
        token = self.tokens[position]
        if "LBRACE" in accepts and self.in_header and restart and token.type in QUERY_WORDS:
            self.parser.feed_token(Token.new_borrow_pos("LBRACE", "{", token))
            self.open_query()
            return position
        if "RULE" not in accepts:  # else the statement is complete, and what follows is too much
            nesting = len(self.open)
            self.drop()
            if self.in_header and (not restart or token.type in QUERY_WORDS):
                self.skipping = True
                return self.after_query(position, nesting)
        if restart and self.skipping:
            return position + 1
        self.skipping = True
        return position if restart or self.ends_query(token) else position + 1

    def describe(self, failure: Failure) -> None:
        """Report an error, unless unreadable text before it in its statement is the reason."""
        start = token_span(self.tokens[self.first]).start if self.tokens else 0
        end = failure.span.start if failure.type() != "$END" else len(self.source.text)
        if not any(start <= span.start < end for span in self.bad):
            describe(failure, self.report)

    def drop(self) -> None:
        """Forget the statement under way."""
        while len(self.state.state_stack) > self.base:
            self.state.state_stack.pop()
            self.state.value_stack.pop()
        self.open = []

    def after_query(self, position: int, nesting: int) -> int:
        """Where a query ends whose header is wrong: nothing in it can be used.

        `nesting` is the number of brackets that are open in the header.
        """
        braces = 0
        for end in range(position, len(self.tokens)):
            kind = self.tokens[end].type
            braces += (kind == "LBRACE") - (kind == "RBRACE")
            nesting += (kind == "LPAR") - (kind == "RPAR")
            if kind == "RBRACE" and braces <= 0:
                return end + 1
            inside = nesting > 0 and kind in QUERY_WORDS
            if end > position and braces == 0 and kind in STATEMENT_WORDS and not inside:
                return end
        return len(self.tokens)

    def leave_query(self, position: int) -> int:
        """Deal with a statement that cannot stand in a query; the position to go on from."""
        self.failures += 1
        if self.query_closes_after(position):
            statement_in_query(self.failure(position, set()), self.report)
            if "RULE" not in self.accepts():
                self.drop()
            self.skipping = True
            self.first = position
            return position + 1
        unclosed_query(self.failure(position, set()), self.report)
        self.close_query(self.tokens[position])
        return position

    def query_closes_after(self, position: int) -> bool:
        """Whether a `}` that belongs to no statement follows before the next query."""
        depth = 0
        for token in self.tokens[position:]:
            if token.type in STATEMENT_WORDS:
                depth = 0
            if token.type == "QUERY":
                return False
            depth += (token.type == "LBRACE") - (token.type == "RBRACE")
            if depth < 0:
                return True
        return False

    def close_query(self, place: Token) -> None:
        """Supply the `}` that is missing."""
        if "RBRACE" not in self.accepts():
            self.drop()
        self.parser.feed_token(Token.new_borrow_pos("RBRACE", "}", place))
        self.query = None

    def finish(self) -> Tree[Token]:
        """Close the parse; where the text ends too early, give up the last statement."""
        last = self.tokens[-1] if self.tokens else None
        end = Token.new_borrow_pos("$END", "", last) if last is not None else Token("$END", "")
        try:
            return self.feed_end(end)
        except UnexpectedToken:
            accepts = self.accepts()
        if "RULE" not in accepts and not self.skipping:
            if self.failures < MAX_SYNTAX_ERRORS:
                self.describe(self.failure(len(self.tokens), accepts))
            self.drop()
        if self.query is not None:
            if self.failures < MAX_SYNTAX_ERRORS:
                unclosed_query(self.failure(len(self.tokens), set()), self.report)
            self.close_query(end)
        return self.feed_end(end)

    def feed_end(self, end: Token) -> Tree[Token]:
        """The parse tree; raises UnexpectedToken if the text is incomplete."""
        tree: Tree[Token] = self.parser.feed_token(end)
        return tree
