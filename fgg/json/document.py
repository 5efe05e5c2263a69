"""JSON documents: parsing their text, their values with paths, and the flat form of a grammar.

A path such as `grammar.rules[3].rhs` says where in the document a value is. Every problem is
reported with the path of the value it is about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn, ParamSpec, TypeGuard, TypeVar

from fgg.diagnostics import Diagnostic, Report
from fgg.grammar.spans import Span

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")

MAX_REPORTS = 50
MAX_SYNTAX_REPORTS = 20


def parse_json(text: str) -> tuple[object, tuple[Diagnostic, ...]]:
    """The data of a JSON text, and the errors in it (F405).

    A key that occurs twice in one object is an error, and so are NaN and the infinities.
    """
    report = Report()

    def fail(message: str) -> None:
        if len(report.diagnostics) < MAX_SYNTAX_REPORTS:
            report.add("F405", message)

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        entries: dict[str, object] = {}
        for key, value in pairs:
            if key in entries:
                fail(f"key `{key}` occurs twice in one object")
            entries[key] = value
        return entries

    def constant(literal: str) -> float:
        fail(f"`{literal}` is not a number of JSON")
        return 0.0

    data: object = None
    body = text.removeprefix("\ufeff")  # a byte order mark
    try:
        data = json.loads(body, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as error:
        start = error.pos + len(text) - len(body)
        reason = (error.msg[:1].lower() + error.msg[1:]).removesuffix(" at")
        report.add("F405", f"this is not JSON: {reason}", Span(start, start + 1))
    except RecursionError:
        report.add("F405", "the document is nested too deep")
    except ValueError:
        report.add("F405", "a number has too many digits")
    return data, tuple(report.diagnostics)


class Malformed(Exception):
    """Part of a document cannot be read; the reason has been reported."""


@dataclass
class Problems(Report):
    """The first reports of a document, and the number of those left out."""

    left_out: int = 0

    def all(self) -> tuple[Diagnostic, ...]:
        """The reports; the last one says how many were left out."""
        message = f"{self.left_out} more problems of this kind"
        more = [Diagnostic(code="F406", message=message)] if self.left_out else []
        return (*self.diagnostics, *more)


@dataclass(frozen=True)
class Located:
    """A value of a document with its path. Its methods raise Malformed after reporting why."""

    value: object
    path: str = ""
    problems: Problems = field(default_factory=Problems)
    code: str = "F406"

    def report(self, message: str, help: str = "") -> None:
        """Report a problem of this value, and go on."""
        if len(self.problems.diagnostics) >= MAX_REPORTS:
            self.problems.left_out += 1
            return
        where = f"`{self.path}`" if self.path else "the document"
        self.problems.add(self.code, f"{where}: {message}", help=help)

    def fail(self, message: str, help: str = "") -> NoReturn:
        """Report a problem of this value, and give up reading it."""
        self.report(message, help)
        raise Malformed

    def expected(self, wanted: str) -> NoReturn:
        """Report that this value has the wrong type."""
        kinds = (name for kind, name in _KINDS.items() if isinstance(self.value, kind))
        self.fail(f"{wanted} was expected, not {next(kinds, 'something that is not JSON')}")

    @property
    def entries(self) -> Mapping[str, object]:
        """The entries of an object; none if the value is something else."""
        return self.value if isinstance(self.value, dict) else {}

    def child(self, key: str, default: object = None, code: str = "") -> Located:
        """The entry under a key, or the default."""
        if not key.isidentifier():
            path = f"{self.path}[{json.dumps(key)}]"
        else:
            path = f"{self.path}.{key}" if self.path else key
        return Located(self.entries.get(key, default), path, self.problems, code or self.code)

    def required(self, key: str) -> Located:
        """The entry under a key, which is not null."""
        if key not in self.entries:
            self.fail(f"there is no `{key}`")
        child = self.child(key)
        if child.value is None:
            child.fail("null")
        return child

    def as_object(self) -> Located:
        """This value, which is an object."""
        if not isinstance(self.value, dict):
            self.expected("an object")
        return self

    def fields(self) -> dict[str, Located]:
        """The entries of an object by key."""
        return {key: self.child(key) for key in self.as_object().entries}

    def items(self) -> list[Located]:
        """The items of a list."""
        return [self.item(number, value) for number, value in enumerate(self.raw_list())]

    def raw_list(self) -> Sequence[object]:
        """The items of a list without their paths."""
        if not isinstance(self.value, list):
            self.expected("a list")
        return self.value

    def item(self, number: int, value: object) -> Located:
        """The value as the item of this list with the given number."""
        return Located(value, f"{self.path}[{number}]", self.problems, self.code)

    def text(self) -> str:
        """The value as a text."""
        if not isinstance(self.value, str):
            self.expected("a text")
        return self.value


def attempt(read: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | None:
    """The result of `read` for the arguments, or None if it raises Malformed."""
    try:
        return read(*arguments, **options)
    except Malformed:
        return None


def read_each(items: Iterable[Located], read: Callable[[Located], T]) -> list[T]:
    """The results of `read` for the items that are well formed."""
    return list(read_fields(dict(enumerate(items)), lambda _, item: read(item)).values())


def read_fields(fields: Mapping[K, Located], read: Callable[[K, Located], T]) -> dict[K, T]:
    """The results of `read` for the entries that are well formed, by key."""
    results = {}
    for key, entry in fields.items():
        with suppress(Malformed):
            results[key] = read(key, entry)
    return results


# The first that fits counts: a truth value of Python is an int.
_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "true or false",
    str: "a text",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def is_number(data: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a number; truth values are not."""
    return isinstance(data, int | float) and not isinstance(data, bool)


def whole_number(data: object) -> TypeGuard[int]:
    """Whether a JSON value is a whole number from 0 up; truth values are not."""
    return isinstance(data, int) and not isinstance(data, bool) and data >= 0


def unflatten(data: object) -> object:
    """A document of the flat form, which names its nodes, in the form of the `fggs` library.

        {"domains": {"T": 2, "W": ["a", "b"]}, "nonterminals": {"S": [], "X": ["T"]}, "start": "S",
         "factors": {"f": {"type": ["T", "W"], "weights": [[…]]}},
         "rules": [{"lhs": "X", "ext": ["t"], "nodes": {"t": "T"},
                    "edges": [{"label": "f", "nodes": ["t", "w"]}]}]}

    Any other document is returned as it is; malformed entries stay so, for the reader to report.
    """
    if not isinstance(data, Mapping) or "grammar" in data or "rules" not in data:
        return data
    factors = data.get("factors")
    if not isinstance(factors, Mapping):
        return data
    interpretation = {
        "domains": _each_value(data.get("domains"), _flat_domain),
        "factors": {
            name: {"function": "finite", "weights": factor["weights"]}
            for name, factor in factors.items()
            if isinstance(factor, Mapping) and "weights" in factor
        },
    }
    grammar = {
        "terminals": _each_value(factors, lambda factor: _selected(factor, "type")),
        "nonterminals": _each_value(data.get("nonterminals"), lambda domains: {"type": domains}),
        "rules": _each_item(data["rules"], _flat_rule),
        **_selected(data, "start"),
    }
    return {"grammar": grammar, "interpretation": interpretation}


def _each_item(items: object, convert: Callable[[object], object]) -> object:
    return [convert(item) for item in items] if isinstance(items, list) else items


def _each_value(data: object, convert: Callable[[object], object]) -> dict[str, object]:
    entries = data.items() if isinstance(data, Mapping) else ()
    return {key: convert(value) for key, value in entries}


def _selected(data: object, *keys: str) -> dict[str, object]:
    """The entries under some keys, as far as there are any."""
    return {key: data[key] for key in keys if isinstance(data, Mapping) and key in data}


def _flat_domain(domain: object) -> object:
    if isinstance(domain, list):
        return {"class": "finite", "values": domain}
    return {"class": "range", "size": domain}


def _flat_rule(rule: object) -> object:
    if not isinstance(rule, Mapping) or not isinstance(rule.get("nodes"), Mapping):
        return rule
    numbers = {name: number for number, name in enumerate(rule["nodes"])}

    def node_number(name: object) -> object:
        return numbers.get(name, name) if isinstance(name, str) else name

    def edge(data: object) -> object:
        if not isinstance(data, Mapping) or not isinstance(data.get("nodes", []), list):
            return data
        nodes = _each_item(data.get("nodes", []), node_number)
        return {"label": data.get("label"), "attachments": nodes}

    rhs = {
        "nodes": [{"label": label, "id": name} for name, label in rule["nodes"].items()],
        "edges": _each_item(rule.get("edges", []), edge),
        "externals": _each_item(rule.get("ext", []), node_number),
    }
    return {"rhs": rhs, **_selected(rule, "lhs", "name")}
