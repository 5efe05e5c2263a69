"""Grammars from files, library names and streams, in either format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fgg.compiler.resolve.front import load_text
from fgg.compiler.syntax.parse import MAX_CHARACTERS
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.files import read_limited, unreadable
from fgg.grammar import Grammar
from fgg.grammar.spans import Source
from fgg.library import library_names, library_text

MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Loaded:
    """A grammar, or None if it has errors; what there is to say about it; its source."""

    grammar: Grammar | None
    diagnostics: tuple[Diagnostic, ...]
    source: Source


def load(name: str | os.PathLike[str], *, sizes: Mapping[str, int] | None = None) -> Grammar:
    """The grammar of a file (`.fgg` or FGG JSON) or of the library, by bare name.

    Raises GrammarError with all that is wrong with it; warnings are passed over.
    """
    loaded = load_file(os.fspath(name), sizes=sizes)
    if loaded.grammar is None:
        raise GrammarError([d for d in loaded.diagnostics if d.is_error], loaded.source)
    return loaded.grammar


def loads(text: str, *, name: str = "<text>", sizes: Mapping[str, int] | None = None) -> Grammar:
    """The grammar that a text describes. Raises GrammarError with all that is wrong with it."""
    loaded = load_content(text, name, sizes=sizes)
    if loaded.grammar is None:
        raise GrammarError([d for d in loaded.diagnostics if d.is_error], loaded.source)
    return loaded.grammar


def load_file(name: str, *, sizes: Mapping[str, int] | None = None) -> Loaded:
    """A path, or else the bare name of a library grammar. Raises GrammarError if unreadable."""
    if not name:
        refuse("F401", "the file's name is empty")
    path = Path(name)
    if "/" not in name and "." not in name and not os.path.lexists(name):
        if name not in library_names():
            raise GrammarError([_not_in_library(name)])
        return load_content(library_text(name), f"{name}.fgg", sizes=sizes)
    return load_content(read_text(path), name, folder=str(path.parent), sizes=sizes)


def load_content(
    text: str, name: str, *, folder: str = ".", sizes: Mapping[str, int] | None = None
) -> Loaded:
    """A grammar from text, which is FGG JSON if it begins with a brace."""
    if name.endswith(".json") or text.lstrip()[:1] == "{":
        return _load_json(text, name, sizes)
    return Loaded(*load_text(text, name, folder=folder, sizes=sizes))


def _load_json(text: str, name: str, sizes: Mapping[str, int] | None) -> Loaded:
    from fgg.json import read_json_text

    grammar, diagnostics = read_json_text(text, Path(name).stem, domain_sizes=sizes)
    for size in sizes or {}:
        if grammar is not None and size not in grammar.domain:
            problem = Diagnostic(code="F410", message=f"the grammar has no domain `{size}`")
            return Loaded(None, (*diagnostics, problem), Source(name, text))
    return Loaded(grammar, diagnostics, Source(name, text))


def read_text(path: Path) -> str:
    """The text of a file. Raises GrammarError if it cannot be read or is not text."""
    try:
        data = read_limited(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return decode(data, str(path))


def decode(data: bytes, name: str) -> str:
    """Bytes as text. Raises GrammarError if they are not UTF-8, or hold control characters."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"`{name}` is not UTF-8 text (byte {error.start})"
        refuse("F402", problem)
    if "\0" in text[:MAX_CHARACTERS]:
        problem = f"`{name}` is a binary file, not text"
        refuse("F402", problem)
    return text


def _not_in_library(name: str) -> Diagnostic:
    return Diagnostic(
        code="F408",
        message=f"there is no file `{name}`, and no grammar of that name in the library",
        help=did_you_mean(name, library_names()) or "the library has " + ", ".join(library_names()),
    )
