"""Loading grammars: from files, from the library and from text, in `.fgg` or FGG JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fgg.check.grammar import check_grammar
from fgg.check.values import check_values
from fgg.compiler.resolve.files import Files, Text, Unusable, read_named
from fgg.compiler.resolve.resolve import resolve
from fgg.compiler.syntax.tree import ValueSpans
from fgg.diagnostics import Diagnostic, GrammarError, Report, sort_diagnostics
from fgg.grammar import Grammar
from fgg.grammar.spans import Source


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

    Raises GrammarError with all errors of the grammar. Its warnings are in `grammar.warnings`;
    `fgg.load` reports them.
    """
    return load_file(os.fsdecode(name), sizes=sizes).checked()


def loads(text: str, *, name: str = "<text>", sizes: Mapping[str, int] | None = None) -> Grammar:
    """Return the grammar that a text describes. Raises GrammarError with all of its errors."""
    return load_content(text, name, sizes=sizes).checked()


def load_file(name: str, *, sizes: Mapping[str, int] | None = None) -> Loaded:
    """Load a file, or a library grammar by its bare name. Raises GrammarError if unreadable."""
    text = read_named(name)
    return load_content(text.text, text.name, folder=text.folder, sizes=sizes)


def load_content(
    text: str, name: str, *, folder: str = ".", sizes: Mapping[str, int] | None = None
) -> Loaded:
    """Load a grammar from text, which is FGG JSON if it begins with a brace."""
    if not isinstance(text, str):
        raise TypeError(f"the text of a grammar is expected, not {text!r}")
    if Text(name, text, folder).is_json:
        return _load_json(text, name, sizes)
    return Loaded(*load_text(text, name, folder=folder, sizes=sizes))


def load_text(
    text: str, name: str = "<text>", *, folder: str = ".", sizes: Mapping[str, int] | None = None
) -> tuple[Grammar | None, tuple[Diagnostic, ...], Source]:
    """Parse, resolve and check a text; return the grammar, the diagnostics and the source.

    The grammar is None exactly if one of the diagnostics is an error. Paths in the text are
    relative to `folder`; `sizes` replace the sizes in the text.
    """
    analysed = analyse(text, name, folder=folder, sizes=sizes)
    failed = any(d.is_error for d in analysed.diagnostics)
    return None if failed else analysed.grammar, analysed.diagnostics, analysed.source


def analyse(
    text: str, name: str = "<text>", *, folder: str = ".", sizes: Mapping[str, int] | None = None
) -> Loaded:
    """Parse, resolve and check a text; the grammar lacks what has errors.

    The grammar is None if nothing in the text can be read, or a file that it uses.
    """
    report = Report()
    files = Files(Source(name, text), report)
    file = files.file(files.source, folder)
    if not file.statements and report.has_errors:
        return Loaded(None, sort_diagnostics(report.diagnostics), files.source)
    try:
        grammar = resolve(file, files, name=_stem(name), sizes=sizes)
    except Unusable:
        return Loaded(None, sort_diagnostics(report.diagnostics), files.source)
    check = check_values if report.has_errors else check_grammar
    report.diagnostics += check(grammar, ValueSpans(file.statements).locate)
    diagnostics = sort_diagnostics(report.diagnostics)
    warnings = tuple(diagnostic for diagnostic in diagnostics if not diagnostic.is_error)
    return Loaded(replace(grammar, warnings=warnings), diagnostics, files.source)


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
