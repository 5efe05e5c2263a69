"""Renaming a symbol everywhere in a text, if the text then still says the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fgg.compiler.editing.symbols import LOCAL, Occurrence, Symbol
from fgg.diagnostics import refuse
from fgg.grammar.index import is_plain_name, quote_name
from fgg.grammar.names import is_safe
from fgg.grammar.print_values import print_constant
from fgg.grammar.spans import Span
from fgg.lsp.analysis import Analysis

NUMBERS = ("size", "domain")
LABELS = ("factor", "nonterminal", "input factor")
INPUTS = ("input", "table")
NAMESPACES = (NUMBERS, LABELS, INPUTS, ("rule",), ("query",))
CONFUSABLE = {
    "node": ("value",),
    "index": (*NUMBERS, "length", "table"),
    "length": (*NUMBERS, "length", "index", "table"),
    "size": (*NUMBERS, *LABELS, "length", "index", "table"),
    "domain": (*NUMBERS, *LABELS, "length", "index", "table"),
    "factor": (*LABELS, *NUMBERS),
    "input factor": (*LABELS, *NUMBERS),
    "nonterminal": (*LABELS, *NUMBERS, "rule"),
    "input": (*INPUTS, *NUMBERS, "length", "index"),
    "table": (*INPUTS, *NUMBERS, "length", "index"),
    "rule": ("rule", "nonterminal"),
    "query": ("query",),
    "value": ("value", "node"),
}
"""For a kind of symbol, the kinds whose names stand where its own could stand."""

_NUMBERED = re.compile(r"\d+$|.*_\d+$")  # values of sized domains, and rules without a name


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
    if name == symbol.name:
        return []
    if any(_is_taken(symbol, other) for other in analysis.index.named(name)):
        refuse("F304", f"`{symbol.name}` cannot be called `{name}`: the name is taken")
    if not _is_certain(analysis, symbol, name):
        _read_again(analysis, symbol, name, changes)
    return changes


def _is_taken(symbol: Symbol, other: Symbol) -> bool:
    """Whether two symbols would be one if they had the same name."""
    if symbol.kind in LOCAL or symbol.kind == "value":
        return symbol.kind == other.kind and symbol.owner == other.owner
    together = any(symbol.kind in kinds and other.kind in kinds for kinds in NAMESPACES)
    return together and (symbol.owner == other.owner or not symbol.owner or not other.owner)


def _is_certain(analysis: Analysis, symbol: Symbol, name: str) -> bool:
    """Whether the text says the same after renaming, as far as the names in it tell.

    It does if each mention of the old name has a known meaning, and nothing that is called by the
    new name could be mistaken for the symbol.
    """
    if _NUMBERED.match(name) or len(analysis.sources) > 1:
        return False
    if symbol.kind == "value" and any(_mentions(analysis.text, "file")):
        return False  # its words are values, too
    old = [_meaning(analysis, place) for place in _mentions(analysis.text, symbol.name)]
    new = [_meaning(analysis, place) for place in _mentions(analysis.text, name)]
    confusable = CONFUSABLE[symbol.kind]
    return None not in old and all(other and other.kind not in confusable for other in new)


def _meaning(analysis: Analysis, offset: int) -> Symbol | None:
    """The symbol that is named where a mention starts."""
    occurrence = analysis.index.at(offset)
    return occurrence.symbol if occurrence and occurrence.start == offset else None


def _mentions(text: str, name: str) -> Iterator[int]:
    """Where a name stands in a text, bare or quoted, but not in a comment."""
    bare = rf"(?<!\w){re.escape(name)}(?!\w)"
    pattern = rf'#[^\n]*|"(?:\\.|[^"\\\n])*"?|`[^`\n]*`?|{bare}'
    for match in re.finditer(pattern, text):
        if match[0].strip('"`') == name or (match[0][0] == '"' and "\\" in match[0]):
            yield match.start()


def _read_again(
    analysis: Analysis, symbol: Symbol, name: str, changes: list[tuple[Span, str]]
) -> None:
    """Make sure that the changed text has the same errors, and that its names mean the same."""
    before = [d.code for d in analysis.loaded.diagnostics if d.is_error]
    text = analysis.text
    for span, new in sorted(changes, key=lambda c: -c[0].start):
        text = text[: span.start] + new + text[span.end :]
    renamed = Analysis(text, analysis.path, earlier=analysis)
    after = [d.code for d in renamed.loaded.diagnostics if d.is_error]
    if after != before or len(renamed.index.occurrences) != len(analysis.index.occurrences):
        refuse("F304", f"`{symbol.name}` cannot be called `{name}`: the name is taken")
    if not _same_groups(analysis, renamed):
        refuse("F304", f"`{symbol.name}` cannot be called `{name}`: it would mean something else")


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
