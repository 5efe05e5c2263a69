"""Renaming a symbol everywhere in a text, if the text then still says the same."""

from __future__ import annotations

from fgg.compiler.editing.symbols import LOCAL, Occurrence
from fgg.diagnostics import refuse
from fgg.grammar.index import is_plain_name, quote_name
from fgg.grammar.names import is_safe
from fgg.grammar.print_values import print_constant
from fgg.grammar.spans import Span
from fgg.lsp.analysis import Analysis


def renaming(analysis: Analysis, occurrence: Occurrence, name: str) -> list[tuple[Span, str]]:
    """The changes that give a symbol a new name. Raises GrammarError (F304) if it cannot be."""
    symbol = occurrence.symbol
    name = name.strip("`") if symbol.kind != "value" else name.strip('`"')
    if not name or not is_safe(name):
        refuse("F304", f"`{name}` is not a name")
    places = analysis.index.of(symbol)
    if not all(analysis.is_here(place.span) for place in places):
        refuse("F304", f"`{symbol.name}` is declared in another file: rename it there")
    changes = [(place.span, _written(analysis, place, name)) for place in places]
    before = [d.code for d in analysis.loaded.diagnostics if d.is_error]
    text = analysis.text
    for span, new in sorted(changes, key=lambda c: -c[0].start):
        text = text[: span.start] + new + text[span.end :]
    renamed = Analysis(text, analysis.path)
    after = [d.code for d in renamed.loaded.diagnostics if d.is_error]
    if after != before or len(renamed.index.occurrences) != len(analysis.index.occurrences):
        refuse("F304", f"`{symbol.name}` cannot be called `{name}`: the name is taken")
    if not _same_groups(analysis, renamed):
        refuse("F304", f"`{symbol.name}` cannot be called `{name}`: it would mean something else")
    return changes


def _written(analysis: Analysis, place: Occurrence, name: str) -> str:
    if place.symbol.kind != "value":
        return quote_name(name)
    quoted = analysis.text[place.span.start] == '"'
    return f'"{name}"' if quoted and is_plain_name(name) else print_constant(name)


def _same_groups(old: Analysis, new: Analysis) -> bool:
    """Whether occurrences that named one thing still do, and no others."""
    first: dict[object, int] = {}
    second: dict[object, int] = {}
    for number, (a, b) in enumerate(zip(old.index.occurrences, new.index.occurrences, strict=True)):
        if a.symbol.kind != b.symbol.kind:
            return False
        if a.symbol.kind in LOCAL or not a.symbol.owner:
            if first.setdefault(a.symbol, number) != second.setdefault(b.symbol, number):
                return False
    return True
