"""What is known about a text: its symbols, its grammar as far as it goes, its diagnostics."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from fgg.compiler.editing.symbols import SymbolIndex, index_symbols
from fgg.compiler.resolve.files import File, Files, Unusable
from fgg.compiler.resolve.load import Loaded, analyse
from fgg.compiler.syntax import tree
from fgg.diagnostics import Report
from fgg.grammar import Grammar
from fgg.grammar.spans import Source, Span
from fgg.lsp.places import Places


class Analysis:
    """A version of a text. What is asked for is found out once, when it is asked for first.

    An analysis is `provisional` if its symbols are those of an earlier version, moved along with
    the text around an edit: so an answer need not wait until the text has been read again.
    """

    def __init__(self, text: str, path: str, version: int | None = None) -> None:
        self.text = text
        self.path = path
        self.folder = os.path.dirname(path) or "."
        self.version = version
        self.places = Places(text)
        self.provisional = False

    def edited(self, text: str, version: int | None) -> Analysis:
        """The provisional analysis of the text after an edit."""
        after = Analysis(text, self.path, version)
        first = _shared(self.text, text)
        last = len(self.text) - _shared(self.text[first:][::-1], text[first:][::-1])
        after.provisional = True
        after.statements = self.statements
        after.index = self.index.moved(first, last, len(text) - len(self.text))
        main, *used = self.sources
        shift = len(text) - len(self.text)
        moved = (replace(source, start=source.start + shift) for source in used)
        after.sources = (replace(main, text=text), *moved)
        return after

    @cached_property
    def loaded(self) -> Loaded:
        """The grammar, without what has errors, and the diagnostics."""
        return analyse(self.text, self.path, folder=self.folder)

    @cached_property
    def files(self) -> tuple[Files, File]:
        """The files of the grammar, parsed, and the text's own."""
        files = Files(Source(self.path, self.text), Report())
        file = files.file(files.source, self.folder)
        _enter_all(files, file)
        return files, file

    @property
    def is_parsed(self) -> bool:
        """Whether the text, and what it uses, has no syntax errors."""
        return not self.files[0].report.has_errors

    @cached_property
    def statements(self) -> tuple[tree.Statement, ...]:
        """The statements of the text."""
        return self.files[1].statements

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The text, and those of the files that it uses."""
        source = self.files[0].source
        return (source, *source.used)

    def source_of(self, span: Span) -> Source:
        """The text that a span lies in."""
        return (
            Source("", "", 0, self.sources).at(span) if len(self.sources) > 1 else self.sources[0]
        )

    @cached_property
    def index(self) -> SymbolIndex:
        """The symbols of the text and of the files that it uses."""
        files, file = self.files
        return _index(files, file)

    @cached_property
    def grammar(self) -> Grammar | None:
        """The grammar, without what has errors; None if nothing can be said."""
        return self.loaded.grammar

    def where(self, span: Span) -> tuple[str, Places]:
        """The path of the file that a span lies in, and its lines."""
        source = self.source_of(span)
        if source.start == 0:
            return self.path, self.places
        return str(Path(source.name).resolve()), Places(source.text, source.start)

    def is_here(self, span: Span) -> bool:
        """Whether a span lies in the text itself, not in a file that it uses."""
        return self.source_of(span).start == 0


def _shared(first: str, second: str) -> int:
    """The number of characters with which both texts begin."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first.startswith(second[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _enter_all(files: Files, file: File) -> None:
    for statement in file.statements:
        if isinstance(statement, tree.UseDecl):
            try:
                inner = files.enter(statement, file.folder)
            except Unusable:
                continue
            _enter_all(files, inner)
            files.leave()


def _index(files: Files, file: File) -> SymbolIndex:
    used = []
    for statement in file.statements:
        if isinstance(statement, tree.UseDecl) and statement.span.start in files.entered:
            prefix = f"{statement.prefix.text}_" if statement.prefix else ""
            used.append((prefix, _index(files, files.entered[statement.span.start])))
    return index_symbols(file.statements, used)
