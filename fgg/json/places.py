"""Places in a JSON document, `grammar.rules[3].rhs`, and reports of what is wrong there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from fgg.diagnostics import Diagnostic, Report

Fail = Callable[[str, str], None]
"""Reports a problem: the path of the place, and what is wrong there."""

MAX_REPORTS = 50


@dataclass
class Document:
    """Collects what is wrong with a document, and gives the entries that have the right type."""

    report: Report = field(default_factory=Report)
    left_out: int = 0

    def fail(self, path: str, message: str, code: str = "F406", help: str = "") -> None:
        """Report a problem at a path, but not thousands of them."""
        if len(self.report.diagnostics) >= MAX_REPORTS:
            self.left_out += 1
            return
        where = f"`{path}`" if path else "the document"
        self.report.add(code, f"{where}: {message}", help=help)

    def fail_weights(self, path: str, message: str) -> None:
        """Report weights that cannot be used."""
        self.fail(path, message, "F407")

    def problems(self) -> tuple[Diagnostic, ...]:
        """Everything that has been reported."""
        if self.left_out:
            message = f"{self.left_out} more problems of this kind"
            self.report.add("F406", message)
            self.left_out = 0
        return tuple(self.report.diagnostics)

    def object_at(self, data: dict[str, object], key: str, path: str) -> dict[str, object] | None:
        """The object under a key; None, and a report, if there is none."""
        found = self._at(data, key, path)
        if isinstance(found, dict):
            return found
        if found is not None:
            self.wrong(join(path, key), "an object", found)
        return None

    def list_at(self, data: dict[str, object], key: str, path: str) -> list[object] | None:
        """The list under a key; None, and a report, if there is none."""
        found = self._at(data, key, path)
        if isinstance(found, list):
            return found
        if found is not None:
            self.wrong(join(path, key), "a list", found)
        return None

    def text_at(self, data: dict[str, object], key: str, path: str) -> str | None:
        """The text under a key; None, and a report, if there is none."""
        found = self._at(data, key, path)
        if isinstance(found, str):
            return found
        if found is not None:
            self.wrong(join(path, key), "a text", found)
        return None

    def as_object(self, data: object, path: str) -> dict[str, object] | None:
        """The data, if it is an object; else None, and a report."""
        if isinstance(data, dict):
            return data
        self.wrong(path, "an object", data)
        return None

    def texts_at(self, data: dict[str, object], key: str, path: str) -> tuple[str, ...] | None:
        """The list of texts under a key; None, and a report, if there is none."""
        found = self.list_at(data, key, path)
        texts = tuple(item for item in found or () if isinstance(item, str))
        for number, item in enumerate(found or ()):
            if not isinstance(item, str):
                self.wrong(f"{join(path, key)}[{number}]", "a text", item)
        return texts if found is not None and len(texts) == len(found) else None

    def _at(self, data: dict[str, object], key: str, path: str) -> object:
        if key not in data:
            self.fail(path, f"there is no `{key}`")
        elif data[key] is None:
            self.fail(join(path, key), "null")
        return data.get(key)

    def wrong(self, path: str, wanted: str, found: object) -> None:
        """Report something of the wrong type."""
        self.fail(path, f"{wanted} was expected, not {kind_of(found)}")


def join(path: str, key: str) -> str:
    """The path of an object's entry."""
    if not key.isidentifier():
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def kind_of(data: object) -> str:
    """What a JSON value is, in words."""
    match data:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "an object"
    return "something that is not JSON"


def whole_number(data: object) -> bool:
    """Whether a JSON value is a whole number from 0 up; truth values are not."""
    return isinstance(data, int) and not isinstance(data, bool) and data >= 0
