"""Mistakes in small things: clauses out of place, `=` for `==`, what other languages write.

Each function reports its mistake and returns True, or returns False if it is another one.
"""

from __future__ import annotations

from fgg.compiler.syntax.failure import Failure
from fgg.diagnostics import Report


def clauses(failure: Failure, report: Report) -> bool:
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


def comparisons(failure: Failure, report: Report) -> bool:
    """An equals sign too few or too many."""
    if failure.type() == "EQUAL" and "COMPARISON" in failure.accepts:
        report.add("F009", "`=` does not compare", failure.span, help="write `==` for equality")
        return True
    if failure.is_equality:
        in_body = failure.statement == "rule"
        help_text = "write a single `=` to fix a node to an input" if in_body else "write `=` here"
        report.add("F009", "`==` compares", failure.span, help=help_text)
        return True
    return False


def positions(failure: Failure, report: Report) -> bool:
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


def habits(failure: Failure, report: Report) -> bool:
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
        return product(failure, report)
    return True


def _between_edges(failure: Failure) -> bool:
    after = failure.is_after("ARROW") and not failure.is_after("FOR")
    return failure.statement == "rule" and failure.is_complete and after and not failure.open


def product(failure: Failure, report: Report) -> bool:
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
