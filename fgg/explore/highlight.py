"""The lexer of `fgg.highlighting` as data, so that the page colours texts by the same rules.

A rule is a pattern and the class of its text; a pattern with groups has a class for each of them.
"""

from __future__ import annotations

from pygments.lexer import words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String

from fgg.explore.asked import Json
from fgg.highlighting import FggLexer

CLASSES = {
    Comment: "comment",
    String: "string",
    Keyword: "keyword",
    Name.Label: "label",
    Name.Function: "function",
    Name.Class: "type",
    Name.Builtin: "builtin",
    Number: "number",
    Operator: "operator",
    Punctuation: "punctuation",
}


def lexer_rules() -> list[Json]:
    """The rules in the order in which they are tried."""
    rules: list[Json] = []
    for pattern, kind in FggLexer.tokens["root"]:
        text = pattern.get() if isinstance(pattern, words) else str(pattern)
        rules.append([_for_browsers(text), _classes(kind)])
    return rules


def _for_browsers(pattern: str) -> str:
    r"""A pattern of Python as one of JavaScript, where `\w` knows ASCII alone."""
    return pattern.replace(r"[^\W\d]", r"[\p{L}_]").replace(r"\w", r"[\p{L}\p{N}_]")


def _classes(kind: object) -> Json:
    """The class of a token, or those of its groups."""
    groups = getattr(kind, "__closure__", None)
    if groups is not None:  # what `bygroups` returns
        return [_class(token) for token in groups[0].cell_contents]
    return _class(kind)


def _class(token: object) -> str:
    while token is not None:
        if token in CLASSES:
            return CLASSES[token]
        token = getattr(token, "parent", None)
    return ""
