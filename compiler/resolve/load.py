"""Loading grammars: from files, from the library and from text, in `.fgg` or FGG JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fgg.check.grammar import check_grammar
from fgg.check.values import check_values
from fgg.compiler.resolve.resolve import resolve
from fgg.compiler.syntax.parse import MAX_CHARACTERS, parse
from fgg.compiler.syntax.tree import ValueSpans
from fgg.diagnostics import Diagnostic, GrammarError, Report, did_you_mean, refuse, sort_diagnostics
from fgg.files import read_limited, unreadable
from fgg.grammar import Grammar
from fgg.grammar.spans import Source
from fgg.library import library_names, library_text

MAX_BYTES = 64 * 1024 * 1024

_ATTEMPT = re.compile(
    r"\b(?:input\s+(?=factor|table))?"
    r"(?P<kind>size|domain|rank|factor|nonterminal|input|table|rule|start)\b"
    r"\s*(?P<name>[^\W\d]\w*|`[^`\n]+`)?"
    r"(?:\s*:\s*\w+\s*\[(?P<shape>[^\]\n]*))?"
)


@dataclass(frozen=True)
class Loaded:
    """A loaded grammar, None if it has errors, with its diagnostics and its source."""

    grammar: Grammar | None
    diagnostics: tuple[Diagnostic, ...]
    source: Source

    def checked(self) -> Grammar:
        """Return the grammar. Raises GrammarError with all of its errors."""
        if self.grammar is None:
            raise GrammarError([d for d in self.diagnostics if d.is_error], self.source)
        return self.grammar


def load(name: str | os.PathLike[str], *, sizes: Mapping[str, int] | None = None) -> Grammar:
    """Return the grammar of a file (`.fgg` or FGG JSON), or of the library by its bare name.

    Raises GrammarError with all errors of the grammar. Warnings are not reported.
    """
    return load_file(os.fspath(name), sizes=sizes).checked()


def loads(text: str, *, name: str = "<text>", sizes: Mapping[str, int] | None = None) -> Grammar:
    """Return the grammar that a text describes. Raises GrammarError with all of its errors."""
    return load_content(text, name, sizes=sizes).checked()


def load_file(name: str, *, sizes: Mapping[str, int] | None = None) -> Loaded:
    """Load a file, or a library grammar by its bare name. Raises GrammarError if unreadable."""
    if not name:
        refuse("F401", "the file's name is empty")
    path = Path(name)
    if "/" not in name and "." not in name and not os.path.lexists(name):
        if name not in library_names():
            known = library_names()
            refuse(
                "F408",
                f"there is no file `{name}`, and no grammar of that name in the library",
                did_you_mean(name, known) or "the library has " + ", ".join(known),
            )
        return load_content(library_text(name), f"{name}.fgg", sizes=sizes)
    return load_content(read_text(path), name, folder=str(path.parent), sizes=sizes)


def load_content(
    text: str, name: str, *, folder: str = ".", sizes: Mapping[str, int] | None = None
) -> Loaded:
    """Load a grammar from text, which is FGG JSON if it begins with a brace."""
    if name.endswith(".json") or text.lstrip()[:1] == "{":
        return _load_json(text, name, sizes)
    return Loaded(*load_text(text, name, folder=folder, sizes=sizes))


def load_text(
    text: str, name: str = "<text>", *, folder: str = ".", sizes: Mapping[str, int] | None = None
) -> tuple[Grammar | None, tuple[Diagnostic, ...], Source]:
    """Parse, resolve and check a text; return the grammar, the diagnostics and the source.

    The grammar is None exactly if one of the diagnostics is an error. Paths in the text are
    relative to `folder`; `sizes` replace the sizes in the text.
    """
    source = Source(name, text)
    report = Report()
    statements = parse(source, report)
    if not statements and report.has_errors:
        return None, sort_diagnostics(report.diagnostics), source
    attempted = set(_attempted(text)) if report.has_errors else set()
    grammar = resolve(
        statements, report, name=_stem(name), folder=folder, sizes=sizes, broken=attempted
    )
    check = check_values if report.has_errors else check_grammar
    report.diagnostics += check(grammar, ValueSpans(statements).locate)
    diagnostics = sort_diagnostics(report.diagnostics)
    return None if report.has_errors else grammar, diagnostics, source


def _attempted(text: str) -> Iterator[str]:
    """Yield the names that a text with syntax errors seems to declare; they count as broken.

    A rule is written as `rule name`, a start symbol as `start symbol`.
    """
    for match in _ATTEMPT.finditer(text):
        name = (match["name"] or "").strip("`")
        if match["kind"] == "start":
            yield "start symbol"
        elif name:
            yield f"rule {name}" if match["kind"] == "rule" else name
        if match["kind"] == "input":
            yield from re.findall(r"[^\W\d]\w*", match["shape"] or "")


def _stem(name: str) -> str:
    return name.rsplit("/", 1)[-1].removesuffix(".fgg") or "grammar"


def _load_json(text: str, name: str, sizes: Mapping[str, int] | None) -> Loaded:
    from fgg.json import read_json_text

    grammar, diagnostics = read_json_text(text, Path(name).stem, domain_sizes=sizes)
    for size in sizes or {}:
        if grammar is not None and size not in grammar.domain:
            problem = Diagnostic(code="F410", message=f"the grammar has no domain `{size}`")
            return Loaded(None, (*diagnostics, problem), Source(name, text))
    return Loaded(grammar, diagnostics, Source(name, text))


def read_text(path: Path) -> str:
    """Return the text of a file. Raises GrammarError if it cannot be read or is not text."""
    try:
        data = read_limited(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return decode(data, str(path))


def decode(data: bytes, name: str) -> str:
    """Decode bytes as text. Raises GrammarError if they are not UTF-8 or contain a null byte."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse("F402", f"`{name}` is not UTF-8 text (byte {error.start})")
    if "\0" in text[:MAX_CHARACTERS]:
        refuse("F402", f"`{name}` is a binary file, not text")
    return text
