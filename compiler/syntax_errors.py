"""Messages for syntax errors, in the language's words instead of the parser's."""

from __future__ import annotations

from collections.abc import Callable

from lark import Token

from fgg.compiler.lex import show_text, token_span
from fgg.compiler.syntax_failure import PUNCTUATION, Failure, begins_line, expectation, in_words
from fgg.diagnostics import Label, Report, did_you_mean
from fgg.index import RESERVED
from fgg.spans import Span

CLOSING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
STATEMENTS = sorted(RESERVED - {"for", "with"})
OPERANDS = ("NAME", "INT", "DECIMAL", "STRING", "RPAR", "RSQB", "RBRACE")

Explanation = Callable[[Failure, Report], bool]


def describe(failure: Failure, report: Report) -> None:
    """Report an unexpected token, as the mistake that it most likely is."""
    for explain in _EXPLANATIONS:
        if explain(failure, report):
            return
    found = "the text ends too early" if failure.type() == "$END" else f"unexpected {failure.found}"
    code = "F002" if failure.type() == "$END" else "F001"
    label = "the text ends here" if code == "F002" else ""
    report.add(code, f"{found}: {expectation(failure)}", failure.span, label)


def _brackets(failure: Failure, report: Report) -> bool:
    """A bracket that is not closed, closed by another one, or closes nothing."""
    closes = failure.type() in CLOSING.values()
    if not failure.open:
        if closes:
            report.add("F017", f"{failure.found} closes nothing", failure.span)
        return closes
    bracket = failure.tokens[failure.open[-1]]
    opened = Label(token_span(bracket), "opened here")
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
    if beyond and _may_close(failure, bracket) and not _is_second_arrow(failure):
        report.add(
            "F017",
            f"`{bracket}` is not closed",
            token_span(bracket),
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


def _is_second_arrow(failure: Failure) -> bool:
    inner = failure.tokens[failure.first : failure.position]
    return failure.type() == "ARROW" and any(token.type == "ARROW" for token in inner)


def _arrows(failure: Failure, report: Report) -> bool:
    if not _is_second_arrow(failure):
        return False
    what = "rule" if failure.statement == "rule" else "factor"
    report.add("F001", f"a second `->`: a {what} has one arrow", failure.span)
    return True


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
        token_span(word),
        "a name was expected" if place == failure.position else "",
        help=help_text,
    )
    return True


def _clauses(failure: Failure, report: Report) -> bool:
    """A clause in a place where it cannot stand."""
    if failure.type() == "WITH" and (failure.is_complete or failure.query is not None):
        report.add("F011", "a `with` clause must follow the factor it speaks of", failure.span)
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
    if failure.type() == "EQUAL" and "COMPARISON" in failure.accepts:
        report.add("F009", "`=` does not compare", failure.span, help="write `==` for equality")
        return True
    equality = failure.type() == "COMPARISON" and str(failure.token) == "=="
    if equality and "EQUAL" in failure.accepts:
        report.add("F009", "`==` compares", failure.span, help="write `=` here")
        return True
    return False


def _rule_parts(failure: Failure, report: Report) -> bool:
    """A rule without its colon or its arrow."""
    if failure.statement != "rule" or "ARROW" not in failure.accepts or failure.open:
        return False
    rest = failure.tokens[failure.position :]
    end = next((i for i, token in enumerate(rest) if str(token) in RESERVED), len(rest))
    has_arrow = any(token.type == "ARROW" for token in rest[:end])
    if failure.type() == "NAME" and "COLON" in failure.accepts and has_arrow:
        name = failure.tokens[failure.position - 1]
        report.add(
            "F020",
            "a rule's name is followed by a colon",
            token_span(name),
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


def _product(failure: Failure, report: Report) -> bool:
    adjacent = failure.span.start == token_span(failure.tokens[failure.position - 1]).end
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


def misspelt(tokens: list[Token], place: int, first: int, report: Report) -> bool:
    """Whether a word looks like the beginning of a statement but is none; then it is reported.

    It stands at the beginning of a line, below the statement that begins at `first`.
    """
    token = tokens[place]
    if token.type != "NAME" or not begins_line(tokens, place):
        return False
    help_text = did_you_mean(str(token), STATEMENTS)
    if not help_text or token.column != tokens[first].column:
        return False
    report.add(
        "F006",
        f"{show_text(str(token))} does not begin a statement",
        token_span(token),
        "expected a reserved word, such as `rule`",
        help=help_text,
    )
    return True


def _unknown_statement(failure: Failure, report: Report) -> bool:
    """A word in the place of a statement, or one that was meant to begin one."""
    if failure.type() == "$END":
        return False
    for place in range(failure.position, failure.first - 1, -1):
        if failure.begins_line(place):
            if misspelt(failure.tokens, place, failure.first, report):
                return True
            break
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


def _habits(failure: Failure, report: Report) -> bool:
    """What other languages write."""
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
    elif failure.type() == failure.type(-1) == "NAME" and failure.accepts == {"COLON"}:
        name = failure.tokens[failure.position - 1]
        report.add(
            "F020",
            "an input's name is followed by a colon and its domain",
            token_span(name),
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


def _unfinished(failure: Failure, report: Report) -> bool:
    """A statement that the next one interrupts."""
    if not failure.is_reserved or failure.is_complete or not failure.begins_line(failure.position):
        return False
    report.add(
        "F001",
        f"the `{failure.statement}` statement ends too early: {expectation(failure)}",
        Span(*[token_span(failure.tokens[failure.position - 1]).end - n for n in (1, 0)]),
        "expected more after this",
        labels=[Label(failure.span, "the next statement begins here")],
    )
    return True


_EXPLANATIONS: tuple[Explanation, ...] = (
    _unknown_statement,
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


def unclosed_query(failure: Failure, report: Report) -> None:
    """Report a query without its `}`."""
    assert failure.query is not None
    place = token_span(failure.tokens[failure.query])
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
        labels=[Label(token_span(failure.tokens[failure.query]), "the query begins here")],
        help="a query contains `nonterminal`, `input`, `start` and `rule` statements",
    )
