"""Messages for syntax errors, in the language's words instead of the parser's."""

from __future__ import annotations

from fgg.compiler.syntax.failure import Failure, expectation, form
from fgg.compiler.syntax.mistakes import MISTAKES
from fgg.diagnostics import Label, Report


def describe(failure: Failure, report: Report) -> None:
    """Report an unexpected token, as the mistake that it most likely is."""
    for recognise in MISTAKES:
        if recognise(failure, report):
            return
    found = "the text ends too early" if failure.type() == "$END" else f"unexpected {failure.found}"
    code = "F002" if failure.type() == "$END" else "F001"
    label = "the text ends here" if code == "F002" else ""
    report.add(code, f"{found}: {expectation(failure)}", failure.span, label, help=form(failure))


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
