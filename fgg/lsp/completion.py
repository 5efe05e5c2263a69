"""What can be written at a place: names, reserved words, values, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from fgg.compiler.editing.symbols import Symbol
from fgg.compiler.syntax import tree
from fgg.grammar.index import RESERVED, quote_name
from fgg.library import library_names
from fgg.lsp.analysis import Analysis

ATTRIBUTES = ("blocks", "frozen", "init", "net", "piece", "prior", "product", "slice", "tied")
VALUES = ("exp", "eye", "load", "map", "uniform")
_STATEMENT = re.compile(
    r"\b(?:size|domain|rank|(?<!input )factor|nonterminal|input|start|rule|query|use)\b"
)
_WORD = re.compile(r"`?[\w]*$")
_NOISE = re.compile(r"#[^\n]*")

LABELS = ("factor", "nonterminal", "input factor")


def completions(analysis: Analysis, offset: int) -> list[tuple[str, str]]:
    """The texts that can stand at an offset, each with what it names."""
    before = _NOISE.sub("", analysis.text[max(0, offset - 4000) : offset])
    before = _WORD.sub("", before)
    starts = [m.start() for m in _STATEMENT.finditer(before)]
    statement = before[starts[-1] :] if starts else ""
    return sorted(set(_at(analysis, statement, offset)))


def _at(analysis: Analysis, statement: str, offset: int) -> Iterator[tuple[str, str]]:
    word = statement.split(None, 1)[0] if statement.strip() else ""
    index = analysis.index
    owner = _query_around(analysis, offset)
    rest = statement[len(word) :]
    if not word:
        yield from _words()
    elif word == "use":
        yield from _files(analysis)
    elif word in ("start",):
        yield from _named(index.symbols("nonterminal"))
    elif word in ("domain", "size", "rank"):
        yield from _named(index.symbols("domain", "size"))
        yield from _words()
    elif word in ("factor", "nonterminal", "input"):
        yield from _declaration(analysis, rest, owner)
    elif word == "rule":
        line = analysis.text[offset:].split("\n", 1)[0].split("#", 1)[0]
        yield from _rule(analysis, rest, line, owner)
    else:
        yield from _words()


def _declaration(analysis: Analysis, rest: str, owner: str) -> Iterator[tuple[str, str]]:
    index = analysis.index
    if rest.count("(") > rest.count(")") or rest.rstrip().endswith(":"):
        yield from _named(index.symbols("domain"))
    elif re.search(r"\bwith\b[^=]*$", rest):
        yield from ((name, "attribute") for name in ATTRIBUTES)
    elif re.search(r"=\s*$", rest):
        yield from ((name, "value") for name in VALUES)
        yield from _named(index.symbols("factor"))
    elif re.search(r"\bfor\b", rest):
        yield from _named(index.symbols("size", "length", owner=owner))
    else:
        yield from _words()
        yield from (("with", "reserved word"), ("for", "reserved word"))


def _rule(analysis: Analysis, rest: str, after: str, owner: str) -> Iterator[tuple[str, str]]:
    index = analysis.index
    head, arrow, body = rest.partition("->")
    if not arrow:
        kinds = ("nonterminal",) if ":" in head or not owner else ("rule", "nonterminal")
        yield from _named(index.symbols(*kinds))
        return
    if body.count("[") > body.count("]") or re.search(r"\bfor\b", body):
        yield from ((name, "index") for name in _indices(f"{rest} {after}"))
        yield from _named(index.symbols("size", "length", "table", owner=owner))
    elif body.count("(") > body.count(")"):
        yield from ((name, "node") for name in _nodes(f"{rest} {after}"))
        yield from _named(index.symbols("input", owner=owner))
        yield from _values(analysis, body)
    elif re.search(r"=\s*$", body):
        yield from _named(index.symbols("input", owner=owner))
    elif body.endswith("."):
        yield from _named(index.symbols("domain"))
    else:
        yield from _named(index.symbols(*LABELS, owner=owner))
        yield ("for", "reserved word")
        yield from _words()


def _values(analysis: Analysis, body: str) -> Iterator[tuple[str, str]]:
    """The values of the domain at the place of an edge that is being written."""
    call = re.search(r"([\w`]+)\s*(?:\[[^\]]*\]\s*)?\(([^()]*)$", body)
    if call is None:
        return
    for _, statement in analysis.statements:
        if isinstance(statement, tree.FactorDecl | tree.NonterminalDecl | tree.InputFactorDecl):
            if statement.name.text != call[1].strip("`"):
                continue
            if isinstance(statement, tree.FactorDecl):
                domains = (*(statement.given or ()), *statement.over)
            else:
                domains = statement.domains or ()
            place = call[2].count(",")
            if place < len(domains):
                values = analysis.index.symbols("value", owner=domains[place].text)
                yield from _named(v for v in values if v.owner == domains[place].text)


def _nodes(text: str) -> set[str]:
    inside = re.findall(r"\(([^()]*)\)?", text)
    return {name for part in inside for name in re.findall(r"(?<![\w.\[])[^\W\d]\w*", part)}


def _indices(text: str) -> set[str]:
    inside = re.findall(r"\[([^\[\]]*)", text)
    return {name for part in inside for name in re.findall(r"[^\W\d]\w*", part)}


def _named(symbols: Iterable[Symbol]) -> Iterator[tuple[str, str]]:
    return ((quote_name(symbol.name), symbol.kind) for symbol in symbols)


def _words() -> Iterator[tuple[str, str]]:
    return ((word, "reserved word") for word in sorted(RESERVED - {"for", "with"}))


def _files(analysis: Analysis) -> Iterator[tuple[str, str]]:
    for name in library_names():
        yield f'"{name}"', "library grammar"
    folder = Path(analysis.folder)
    for path in sorted(folder.glob("*.fgg"))[:200]:
        if path.name != Path(analysis.path).name:
            yield f'"{path.name}"', "file"


def _query_around(analysis: Analysis, offset: int) -> str:
    """The query whose text an offset lies in, or nothing."""
    for start, statement in analysis.statements:
        if isinstance(statement, tree.QueryDecl):
            if statement.span.start <= offset - start <= statement.span.end:
                return statement.name.text
    return ""
