"""A lexer for Pygments, so that Sphinx and others colour grammars: the language is called `fgg`."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from fgg.grammar.index import RESERVED

NAME = r"(?:[^\W\d]\w*|`[^`\n]+`)"
BUILTINS = ("dirichlet", "exp", "eye", "file", "load", "map", "residual", "uniform", "zero")


class FggLexer(RegexLexer):
    """Factor graph grammars, as `docs/reference/language.md` describes them."""

    name = "FGG"
    aliases: ClassVar[list[str]] = ["fgg"]
    filenames: ClassVar[list[str]] = ["*.fgg"]
    mimetypes: ClassVar[list[str]] = ["text/x-fgg"]

    tokens: ClassVar[dict[str, list[tuple[object, ...]]]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"#[^\n]*", Comment.Single),
            (r'"(\\.|[^"\\\n])*"', String.Double),
            (r"(input)(\s+)(table)\b", bygroups(Keyword, Whitespace, Keyword)),
            (rf"(rule|query)(\s+)({NAME})(?=\s*[:({{])", bygroups(Keyword, Whitespace, Name.Label)),
            (
                rf"(factor|nonterminal)(\s+)({NAME})",
                bygroups(Keyword.Declaration, Whitespace, Name.Function),
            ),
            (
                rf"(domain|size|rank)(\s+)({NAME})(?=\s*=)",
                bygroups(Keyword.Declaration, Whitespace, Name.Class),
            ),
            (words(sorted(RESERVED), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(BUILTINS, prefix=r"\b", suffix=r"\b"), Name.Builtin),
            (rf"{NAME}(?=\s*(?:\[[^\[\]]*\]\s*)?\()", Name.Function),
            (NAME, Name),
            (r"(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+", Number.Float),
            (r"\d+", Number.Integer),
            (r"->|<=|>=|==|!=|[<>=+\-*/]", Operator),
            (r"[()\[\]{},.:]", Punctuation),
        ]
    }
