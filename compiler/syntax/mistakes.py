"""Messages for syntax errors: the mistakes that people make most often are recognised.

Each recogniser reports its mistake and returns True, or returns False if it is another one.
"""

from __future__ import annotations

from collections.abc import Callable

from fgg.compiler.syntax.errors import PUNCTUATION, Failure, expectation, form, in_words
from fgg.compiler.syntax.lex import Token, Tokens, show_text
from fgg.diagnostics import Label, Report, did_you_mean
from fgg.grammar.index import RESERVED
from fgg.grammar.spans import Span

CLOSING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
STATEMENTS = sorted(RESERVED - {"for", "with"})
MAX_WORD = 2 * max(map(len, STATEMENTS))
OPERANDS = ("NAME", "INT", "DECIMAL", "STRING", "RPAR", "RSQB", "RBRACE", "ROW", "VALUES")


def misspelt(tokens: Tokens, place: int, first: int, report: Report) -> bool:
    """Report a word that looks like a misspelt reserved word, and return whether it is one.

    It is at the beginning of a line, in the column of the statement that begins at `first`.
    """
    if tokens.types[place] != "NAME" or not tokens.begins_line(place):
        return False
    token = tokens[place]
    if len(token) > MAX_WORD or tokens.column(place) != tokens.column(first):
        return False
    help_text = did_you_mean(token, STATEMENTS)
    if not help_text:
        return False
    report.add(
        "F006",
        f"{show_text(str(token))} does not begin a statement",
        token.span,
        "expected a reserved word, such as `rule`",
        help=help_text,
    )
    return True


def _brackets(failure: Failure, report: Report) -> bool:
    """A bracket that is not closed, closed by another one, or closes nothing."""
    closes = failure.type() in CLOSING.values()
    if not failure.open:
        if closes:
            report.add("F017", f"{failure.found} closes nothing", failure.span)
        return closes
    bracket = failure.tokens[failure.open[-1]]
    opened = Label(bracket.span, "opened here")
    if closes and failure.type() != CLOSING[bracket.type] and _may_close(failure, bracket):
        report.add(
            "F017",
            f"`{bracket}` is closed by {failure.found}",
            failure.span,
            f"expected {PUNCTUATION[CLOSING[bracket.type]]}",
            labels=[opened],
        )
        return True
    beyond = failure.type() in ("$END", "ARROW", "FOR", "WITH", "LBRACE")
    beyond |= failure.is_reserved and not failure.is_reserved_name
    beyond |= failure.type() == "NAME" and failure.type(1) == "LPAR" and bracket.type == "LPAR"
    if beyond and _may_close(failure, bracket) and not failure.is_second_arrow:
        report.add(
            "F017",
            f"`{bracket}` is not closed",
            bracket.span,
            "opened here",
            labels=[
                Label(failure.span, f"expected {PUNCTUATION[CLOSING[bracket.type]]} before this")
            ]
            if failure.type() != "$END"
            else [],
        )
        return True
    return False


def _may_close(failure: Failure, bracket: Token) -> bool:
    return CLOSING[bracket.type] in failure.accepts


def _arrows(failure: Failure, report: Report) -> bool:
    """A second arrow or colon in a statement, perhaps because `rule` is missing before it."""
    head = failure.heads_line
    if head is not None:
        name = failure.tokens[head]
        what = "a second `->`" if failure.type() == "ARROW" else f"unexpected {failure.found}"
        report.add(
            "F001",
            f"{what}: is `rule` missing before {show_text(name)}?",
            failure.span,
            labels=[Label(name.span, "expected `rule` before this")],
            help="every rule begins with `rule`",
        )
    elif failure.is_second_arrow:
        kind = "rule" if failure.statement == "rule" else "factor"
        report.add("F001", f"a second `->`: a {kind} has one arrow", failure.span)
    return head is not None or failure.is_second_arrow


def _reserved_name(failure: Failure, report: Report) -> bool:
    """A reserved word as a name, seen at the word itself or right after it."""
    place = failure.position
    if not failure.is_reserved_name:
        place -= 1
        begins = place == failure.first and failure.type(-1) != "WITH"
        if not begins or place == 0 or failure.begins_line(place) or failure.is_reserved:
            return False
        if failure.type() in ("NAME", "$END"):
            return False
    word = failure.tokens[place]
    if str(word) == "input" and failure.statement == "query":
        help_text = "in the parentheses of a query, inputs are written without `input`"
    else:
        help_text = f"choose another name, or write it between backquotes: `` `{word}` ``"
    report.add(
        "F005",
        f"`{word}` is a reserved word, not a name",
        word.span,
        "a name was expected" if place == failure.position else "",
        help=help_text,
    )
    return True


def _rule_parts(failure: Failure, report: Report) -> bool:
    """A rule without its colon or its arrow."""
    if failure.statement != "rule" or "ARROW" not in failure.accepts or failure.open:
        return False
    rest = failure.tokens.types[failure.position :]
    words = (n for n, kind in enumerate(rest) if kind.lower() in RESERVED)
    has_arrow = "ARROW" in rest[: next(words, len(rest))]
    if failure.type() == "NAME" and "COLON" in failure.accepts and has_arrow:
        name = failure.tokens[failure.position - 1]
        report.add(
            "F020",
            "a rule's name is followed by a colon",
            name.span,
            "expected `:` after this",
            help=f"write `rule {name}: {failure.token}`",
        )
        return True
    at_end = failure.type() == "$END"
    written = "".join(failure.tokens[failure.position : failure.position + 2])
    arrow = ":", "=", "=>", "==", "<-", "::"
    help_text = "write `->`" if written.startswith(arrow) else ""
    report.add(
        "F015",
        "a rule needs `->` after its head",
        failure.span,
        "the text ends here" if at_end else "expected `->`",
        help=help_text,
    )
    return True


def _commas(failure: Failure, report: Report) -> bool:
    """Two items of a list without a comma between them."""
    if "COMMA" not in failure.accepts or failure.type(-1) not in OPERANDS:
        return False
    if failure.type() not in ("NAME", "INT", "DECIMAL", "STRING", "LSQB", "LBRACE"):
        return False
    if _product(failure, report):
        return True
    # A `for` or `with` list is not bracketed: on a new line, something else may be meant.
    if not failure.open and failure.begins_line(failure.position):
        return False
    report.add("F019", f"a comma is missing before {failure.found}", failure.span, "expected `,`")
    return True


def _unknown_statement(failure: Failure, report: Report) -> bool:
    """A word in the place of a statement, or one that was meant to begin one."""
    if failure.type() == "$END":
        return False
    if misspelt(failure.tokens, failure.line_start, failure.first, report):
        return True
    complete = failure.is_complete and not failure.open
    if not (complete and failure.type() == "NAME" and failure.begins_line(failure.position)):
        return False
    report.add(
        "F006",
        f"{failure.found} does not begin a statement",
        failure.span,
        "expected a reserved word, such as `rule`",
        help="statements begin with " + in_words([f"`{word}`" for word in STATEMENTS]),
    )
    return True


def _unfinished(failure: Failure, report: Report) -> bool:
    """A statement that the next one interrupts."""
    if not failure.is_reserved or failure.is_complete or not failure.begins_line(failure.position):
        return False
    report.add(
        "F001",
        f"the `{failure.statement}` statement ends too early: {expectation(failure)}",
        Span(*[failure.tokens.ends[failure.position - 1] - n for n in (1, 0)]),
        "expected more after this",
        labels=[Label(failure.span, "the next statement begins here")],
        help=form(failure),
    )
    return True


def _clauses(failure: Failure, report: Report) -> bool:
    """A clause in a place where it cannot stand."""
    if failure.type() == "WITH" and (failure.is_complete or failure.query is not None):
        report.add(
            "F011", "a `with` clause must follow the factor that it belongs to", failure.span
        )
        return True
    if failure.type() == "FOR" and failure.is_complete:
        report.add(
            "F001",
            f"`for` cannot stand in a `{failure.statement}` statement",
            failure.span,
            help="conditions belong to rules, nonterminals and input factors",
        )
        return True
    value = failure.type(-1) == "EQUAL" and failure.statement == "rank"
    if value and failure.type() in ("LSQB", "LBRACE", "DECIMAL"):
        report.add(
            "F011",
            "a factor's value comes before its rank",
            failure.span,
            help="write `factor f(A, B) = value rank r`",
        )
        return True
    return False


def _comparisons(failure: Failure, report: Report) -> bool:
    """An equals sign too few or too many."""
    if failure.type() == "EQUAL" and "COMPARISON" in failure.accepts:
        report.add("F009", "`=` is not a comparison", failure.span, help="write `==` for equality")
        return True
    if failure.is_equality:
        in_body = failure.statement == "rule"
        help_text = "write a single `=` to fix a node to an input" if in_body else "write `=` here"
        report.add("F009", "`==` is a comparison", failure.span, help=help_text)
        return True
    return False


def _positions(failure: Failure, report: Report) -> bool:
    """An input without an index where a node is fixed to it."""
    clamp = failure.statement == "rule" and failure.accepts == {"LSQB"}
    if not clamp or failure.type() == "RSQB":
        return False
    if (failure.type(-2), failure.type(-1)) != ("EQUAL", "NAME"):
        return False
    name = failure.tokens[failure.position - 1]
    report.add(
        "F001",
        f"`{name.strip('`')}` needs a position: a node is fixed to one value of an input",
        name.span,
        "expected `[…]` after this",
        help=f"write `{name}[i]`" if "`" not in name else "write an index in brackets",
    )
    return True


def _habits(failure: Failure, report: Report) -> bool:
    """Notation of other languages."""
    if failure.type() == "STAR" and failure.type(-1) == "STAR":
        report.add("F016", "there are no powers", failure.span, help="write a product")
    elif failure.type() == "SLASH" and failure.type(1) in ("SLASH", "STAR"):
        report.add("F001", "unexpected `/`", failure.span, help="comments begin with `#`")
    elif (
        failure.type() == "LSQB" and failure.statement == "factor" and failure.type(-2) == "FACTOR"
    ):
        report.add(
            "F001",
            "a factor has no indices",
            failure.span,
            help="only input factors are families: `input factor phi[i](T)`",
        )
    elif failure.type() == "LSQB" and failure.type(-1) == "RPAR" and not failure.open:
        report.add(
            "F001", "unexpected `[`", failure.span, help="indices come before nodes: `X[i](a)`"
        )
    elif failure.type() == "LPAR" and failure.statement == "start":
        report.add(
            "F001", "unexpected `(`", failure.span, help="the start symbol is written without nodes"
        )
    elif failure.type() == "LSQB" and failure.statement == "domain":
        report.add(
            "F001", "unexpected `[`", failure.span, help="values are listed in braces: `{a, b}`"
        )
    elif failure.type() in ("COMMA", "STAR", "SIGN") and _between_edges(failure):
        report.add(
            "F001",
            f"unexpected {failure.found}: expected an edge",
            failure.span,
            help="edges are written side by side, with nothing between them",
        )
    elif failure.statement == "rule" and failure.type(-1) == "RULE" and failure.type() == "COLON":
        report.add(
            "F001",
            "unexpected `:`: expected the rule's name",
            failure.span,
            help="a rule without a name has no colon: `rule X(a) -> f(a)`",
        )
    elif failure.type() == failure.type(-1) == "NAME" and failure.accepts == {"COLON"}:
        name = failure.tokens[failure.position - 1]
        report.add(
            "F020",
            "an input's name is followed by a colon and its domain",
            name.span,
            "expected `:` after this",
            help=f"write `{name}: {failure.token}[…]`",
        )
    elif failure.type() in ("INT", "DECIMAL") and failure.accepts == {"NAME"}:
        report.add(
            "F001",
            f"unexpected {failure.found}: expected a name",
            failure.span,
            help="a name begins with a letter; others stand between backquotes",
        )
    else:
        return _product(failure, report)
    return True


def _between_edges(failure: Failure) -> bool:
    after = failure.is_after("ARROW") and not failure.is_after("FOR")
    return failure.statement == "rule" and failure.is_complete and after and not failure.open


def _product(failure: Failure, report: Report) -> bool:
    """A number right before a name, `3k`."""
    adjacent = failure.span.start == failure.tokens.ends[failure.position - 1]
    numbers = failure.type(-1) == "INT" and failure.type() in ("NAME", "LPAR")
    if not (numbers and adjacent and "STAR" in failure.accepts):
        return False
    number = failure.tokens[failure.position - 1]
    report.add(
        "F001",
        f"a product is written with `*`, but {failure.found} follows `{number}`",
        failure.span,
        help=f"write `{number}*{failure.token}`",
    )
    return True


MISTAKES: tuple[Callable[[Failure, Report], bool], ...] = (
    _unknown_statement,
    _positions,
    _arrows,
    _brackets,
    _reserved_name,
    _clauses,
    _comparisons,
    _rule_parts,
    _commas,
    _habits,
    _unfinished,
)


def describe(failure: Failure, report: Report) -> None:
    """Report an unexpected token as the mistake that it most likely is."""
    for recognise in MISTAKES:
        if recognise(failure, report):
            return
    at_end = failure.type() == "$END"
    problem = "the text ends too early" if at_end else f"unexpected {failure.found}"
    report.add(
        "F002" if at_end else "F001",
        f"{problem}: {expectation(failure)}",
        failure.span,
        "the text ends here" if at_end else "",
        help=form(failure),
    )


def unclosed_query(failure: Failure, report: Report) -> None:
    """Report a query without its `}`."""
    assert failure.query is not None
    place = failure.tokens.span(failure.query)
    labels = []
    if failure.position < len(failure.tokens):
        labels.append(Label(failure.span, "this statement cannot stand in a query"))
    report.add("F018", "this query is not closed", place, labels=labels, help="add a `}`")


def statement_in_query(failure: Failure, report: Report) -> None:
    """Report a statement that belongs outside of queries."""
    assert failure.query is not None
    report.add(
        "F021",
        f"a `{failure.token}` statement cannot stand in a query",
        failure.span,
        labels=[Label(failure.tokens.span(failure.query), "the query begins here")],
        help="a query contains `nonterminal`, `input`, `start` and `rule` statements",
    )
