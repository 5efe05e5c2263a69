"""What is known about a text: its symbols, its grammar as far as it goes, its diagnostics."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from fgg.compiler.editing.formatter import Layout, format_pieces, format_text
from fgg.compiler.editing.pieces import Piece, pieces
from fgg.compiler.editing.symbols import Placed, SymbolIndex, index_symbols
from fgg.compiler.resolve.files import Files, Unusable
from fgg.compiler.resolve.load import Loaded, analyse
from fgg.compiler.syntax import tree
from fgg.diagnostics import GrammarError, Report
from fgg.grammar import Grammar
from fgg.grammar.spans import Source, Span
from fgg.library import library_names, library_path
from fgg.lsp.places import Places


class Analysis:
    """A version of a text. What is asked for is found out once, when it is asked for first.

    What is known about the statements of an earlier version, and depends on their own text alone,
    is taken over: how they parse, and how they are laid out.
    """

    def __init__(
        self,
        text: str,
        path: str,
        version: int | None = None,
        earlier: Analysis | None = None,
    ) -> None:
        self.text = text
        self.path = path
        self.folder = os.path.dirname(path) or "."
        self.version = version
        self.places = Places(text)
        known = {piece.text: piece for _, piece in earlier.pieces} if earlier else {}
        self.pieces: list[tuple[int, Piece]] = pieces(text, known)
        layouts = earlier.layouts if earlier else {}
        self.layouts: dict[Piece, Layout] = {
            piece: layouts[piece] for _, piece in self.pieces if piece in layouts
        }

    @cached_property
    def loaded(self) -> Loaded:
        """The grammar, without what has errors, and the diagnostics."""
        return analyse(self.text, self.path, folder=self.folder)

    @cached_property
    def statements(self) -> tuple[Placed, ...]:
        """The statements of the text, each with the offset that its spans count from."""
        return tuple((start, s) for start, piece in self.pieces for s in piece.statements)

    @cached_property
    def files(self) -> Files:
        """The files that the text uses, parsed."""
        files = Files(Source(self.path, self.text), Report())
        _enter_all(files, [_moved(s, start) for start, s in self.uses], self.folder)
        return files

    @property
    def uses(self) -> list[tuple[int, tree.UseDecl]]:
        """The statements `use`, each with the offset that its spans count from."""
        return [(start, s) for start, s in self.statements if isinstance(s, tree.UseDecl)]

    def formatted(self) -> str | None:
        """The text in the house style; None if it has syntax errors."""
        parts = [piece for _, piece in self.pieces]
        if all(piece.is_parsed for piece in parts):
            return format_pieces(parts, self.layouts)
        try:
            return format_text(self.text)  # it may have been cut at the wrong places
        except GrammarError:
            return None

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The text, and those of the files that it uses."""
        source = self.files.source
        return (source, *source.used)

    def source_of(self, span: Span) -> Source:
        """The text that a span lies in."""
        return (
            Source("", "", 0, self.sources).at(span) if len(self.sources) > 1 else self.sources[0]
        )

    @cached_property
    def index(self) -> SymbolIndex:
        """The symbols of the text and of the files that it uses."""
        used = [_brought(self.files, statement, start) for start, statement in self.uses]
        return index_symbols(self.statements, [u for u in used if u is not None])

    @cached_property
    def grammar(self) -> Grammar | None:
        """The grammar, without what has errors; None if nothing can be said."""
        return self.loaded.grammar

    def where(self, span: Span) -> tuple[str, Places]:
        """The path of the file that a span lies in, and its lines."""
        source = self.source_of(span)
        if source.start == 0:
            return self.path, self.places
        path = Path(source.name)
        if path.name == source.name and path.stem in library_names() and not path.exists():
            path = Path(library_path(path.stem))
        return str(path.resolve()), Places(source.text, source.start)

    def is_here(self, span: Span) -> bool:
        """Whether a span lies in the text itself, not in a file that it uses."""
        return span.start <= len(self.text)


def _moved(use: tree.UseDecl, offset: int) -> tree.UseDecl:
    """A statement with the spans that it has in the whole text."""
    path = replace(use.path, span=_shifted(use.path.span, offset))
    return replace(use, path=path, span=_shifted(use.span, offset))


def _shifted(span: Span, offset: int) -> Span:
    return Span(span.start + offset, span.end + offset)


def _enter_all(files: Files, uses: Iterable[tree.Statement], folder: str) -> None:
    """Read the files that statements use, and those that these use."""
    for statement in uses:
        if isinstance(statement, tree.UseDecl):
            try:
                file = files.enter(statement, folder)
            except Unusable:
                continue
            _enter_all(files, file.statements, file.folder)
            files.leave()


def _brought(files: Files, use: tree.UseDecl, offset: int = 0) -> tuple[str, SymbolIndex] | None:
    """The prefix that a file is used with, and its symbols; None if it is unreadable."""
    file = files.entered.get(use.span.start + offset)
    if file is None:
        return None
    inner = [_brought(files, s) for s in file.statements if isinstance(s, tree.UseDecl)]
    index = index_symbols([(0, s) for s in file.statements], [i for i in inner if i is not None])
    return f"{use.prefix.text}_" if use.prefix else "", index
