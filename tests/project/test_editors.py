"""Colours and settings for editors agree with the language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, Keyword, Name, String, Token

from fgg.grammar.index import RESERVED
from tests.helpers.places import LIBRARY, ROOT

EXTENSION = ROOT / "editors" / "vscode"


def tokens(text: str) -> list[tuple[object, str]]:
    return [
        (kind, word) for kind, word in get_lexer_by_name("fgg").get_tokens(text) if word.strip()
    ]


def test_pygments_knows_the_language_by_name_and_by_file() -> None:
    assert type(get_lexer_by_name("fgg")) is type(get_lexer_for_filename("a.fgg"))


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.fgg")), ids=lambda path: path.stem)
def test_library_grammars_are_coloured_without_errors(path: Path) -> None:
    text = path.read_text("utf-8")
    lexer = get_lexer_by_name("fgg", stripnl=False, ensurenl=False)
    found = list(lexer.get_tokens(text))
    assert "".join(word for _, word in found) == text
    assert Error not in {kind for kind, _ in found}


def test_words_have_the_colour_of_what_they_are() -> None:
    found = dict((word, kind) for kind, word in tokens('rule a: X(`b c`) -> f("d") # e'))
    assert found["rule"] is Keyword and found["a"] is Name.Label and found["f"] is Name.Function
    assert found["`b c`"] is Name and found['"d"'] is String.Double
    assert found["# e"] is Comment.Single


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_each_reserved_word_is_coloured(word: str) -> None:
    ((kind, _),) = tokens(word)
    assert kind in Keyword and kind is not Token
    grammar = json.loads((EXTENSION / "syntaxes" / "fgg.tmLanguage.json").read_text())
    patterns = [p["match"] for p in grammar["patterns"] if p.get("name") == "keyword.control.fgg"]
    assert any(re.fullmatch(pattern, word) for pattern in patterns)
    assert word in (ROOT / "docs" / "howto" / "editors.md").read_text("utf-8")


def test_the_extension_names_files_that_are_there() -> None:
    package = json.loads((EXTENSION / "package.json").read_text())
    contributed = package["contributes"]
    assert contributed["languages"][0]["extensions"] == [".fgg"]
    for item in (contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"]):
        json.loads((EXTENSION / item).read_text())
    assert contributed["configuration"]["properties"]["fgg.command"]["default"] == ["fggc", "lsp"]
