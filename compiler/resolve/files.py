"""The files of a grammar: its own text, and those that `use` names, each read once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fgg.compiler.syntax.parse import MAX_CHARACTERS, parse
from fgg.compiler.syntax.tree import Statement, UseDecl
from fgg.diagnostics import GrammarError, Report, did_you_mean, refuse
from fgg.files import read_limited, unreadable
from fgg.grammar.spans import Source
from fgg.library import library_names, library_text

MAX_BYTES = 64 * 1024 * 1024
MAX_USES = 100

_ATTEMPT = re.compile(
    r"\b(?:input\s+(?=factor|table))?"
    r"(?P<kind>size|domain|rank|factor|nonterminal|input|table|rule|start)\b"
    r"\s*(?P<name>[^\W\d]\w*|`[^`\n]+`)?"
    r"(?:\s*:\s*\w+\s*\[(?P<shape>[^\]\n]*))?"
)


class Unusable(Exception):
    """A file that is used cannot be read; the report says why."""


@dataclass(frozen=True)
class Text:
    """A text with the name that messages call it by, and the folder that its paths start from."""

    name: str
    text: str
    folder: str

    @property
    def is_json(self) -> bool:
        """Whether the text is FGG JSON, which begins with a brace."""
        return self.name.endswith(".json") or self.text.lstrip()[:1] == "{"


@dataclass(frozen=True)
class File:
    """A file that has been parsed: its statements, and names whose declarations are wrong."""

    statements: tuple[Statement, ...]
    broken: frozenset[str]
    folder: str


class Files:
    """Reads and parses the files that a grammar uses, and lays them out behind its own text."""

    def __init__(self, source: Source, report: Report) -> None:
        self.source = source
        self.report = report
        self.parsed: dict[str, File] = {}
        self.open = [_key(source.name)]
        self.uses = 0
        self.entered: dict[int, File] = {}  # by where the statement `use` stands

    def file(self, source: Source, folder: str) -> File:
        """Parse a text."""
        statements = parse(source, self.report)
        broken = frozenset(attempted(source.text) if self.report.has_errors else ())
        return File(statements, broken, folder)

    def enter(self, statement: UseDecl, folder: str) -> File:
        """Return the file that a statement uses, until `leave`. Raises Unusable."""
        self.uses += 1
        try:
            if self.uses > MAX_USES:
                refuse("F151", f"more than {MAX_USES} files are used, counted each time")
            text = read_named(statement.path.text, folder)
            key = _key(text.name)
            if key in self.open:
                refuse(
                    "F151",
                    f"`{text.name}` uses itself"
                    + (", through other files" if key != self.open[-1] else ""),
                    "what both need can be a file of its own",
                )
            if text.is_json:
                help = f"write it as text first: `fggc show {text.name} --emit fgg`"
                refuse("F151", f"`{text.name}` is JSON", help)
        except GrammarError as error:
            for diagnostic in error.diagnostics:
                placed = replace(diagnostic, span=statement.path.span)
                self.report.diagnostics.append(placed)
            raise Unusable from None
        if key not in self.parsed:
            self.parsed[key] = self.add(text)
        self.open.append(key)
        self.entered[statement.span.start] = self.parsed[key]
        return self.parsed[key]

    def add(self, text: Text) -> File:
        """Parse one more file. Raises Unusable if nothing in it can be read."""
        last = self.source.used[-1] if self.source.used else self.source
        source = Source(text.name, text.text, last.start + len(last.text) + 1)
        self.source = replace(self.source, used=(*self.source.used, source))
        file = self.file(source, text.folder)
        if not file.statements and self.report.has_errors:
            raise Unusable
        return file

    def leave(self) -> None:
        """End what `enter` began."""
        self.open.pop()


def attempted(text: str) -> Iterator[str]:
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


def _key(name: str) -> str:
    return os.path.realpath(name) if os.path.lexists(name) else name


def read_named(name: str, folder: str = "") -> Text:
    """Read a file, or a library grammar by its bare name. Raises GrammarError if unreadable.

    A relative name is relative to `folder`. A folder does not hide the library grammar of its name.
    """
    if not name:
        refuse("F401", "the file's name is empty")
    place = os.path.normpath(os.path.join(folder, name)) if folder else name
    is_bare = "/" not in name and "." not in name
    if is_bare and (not os.path.lexists(place) or _is_hidden(name, place)):
        if name not in library_names():
            known = library_names()
            refuse(
                "F408",
                f"there is no file `{name}`, and no grammar of that name in the library",
                did_you_mean(name, known) or "the library has " + ", ".join(known),
            )
        return Text(f"{name}.fgg", library_text(name), ".")
    path = Path(place)
    return Text(place, read_text(path), str(path.parent))


def _is_hidden(name: str, place: str) -> bool:
    """Return whether a folder lies where a library grammar could be meant."""
    return os.path.isdir(place) and name in library_names()


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
