"""Loading grammars in Python: what `fggc check` warns of becomes Python warnings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from fgg.compiler.resolve.load import Loaded, load_content, load_file
from fgg.diagnostics import GrammarError, warn
from fgg.grammar import Grammar


def load(
    name: str | os.PathLike[str],
    *,
    sizes: Mapping[str, int] | None = None,
    strict: bool = False,
) -> Grammar:
    """The grammar of a file (`.fgg` or FGG JSON), or of the library by its bare name.

    Raises GrammarError with all errors of the grammar. What `fggc check` warns of is a
    GrammarWarning, and stays in `grammar.warnings`; with `strict` it is an error.
    """
    return _checked(load_file(os.fsdecode(name), sizes=sizes), strict)


def loads(
    text: str,
    *,
    name: str = "<text>",
    sizes: Mapping[str, int] | None = None,
    strict: bool = False,
) -> Grammar:
    """The grammar that a text describes; errors and warnings are those of `load`."""
    return _checked(load_content(text, name, sizes=sizes), strict)


def _checked(loaded: Loaded, strict: bool) -> Grammar:
    if strict and loaded.diagnostics:
        raise GrammarError(loaded.diagnostics, loaded.source)
    grammar = loaded.checked()
    for warning in grammar.warnings:
        warn(warning, loaded.source, stacklevel=4)
    return grammar
