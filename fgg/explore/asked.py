"""What a request of the page asks for: a text, its sizes and the choices of a view, checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fgg.api.compile import selected
from fgg.compiler.resolve.load import Loaded, analyse
from fgg.diagnostics import GrammarError, refuse
from fgg.grammar import Grammar
from fgg.plan.sizes import in_units

Json = object
"""A value that `json` can write."""
Answer = dict[str, Json]
Send = Callable[[Answer], None]
"""Sends a part of an answer to the page while the rest is being computed."""

MAX_TEXT = 200_000
MAX_SIZE = 10**9
_NAME = re.compile(r"[\w .+-]{1,80}\.fgg")
SPACES = ("auto", "dense", "state", "rank")


@dataclass(frozen=True)
class Home:
    """What the explorer was started with: the folder of its file, a trained model, a budget.

    Texts may read files below `folder`, and no others; without it they may read none. Computations
    that would need more bytes than `memory` are refused.
    """

    name: str = ""
    folder: str | None = None
    model: str | None = None
    memory: int = 4 * 2**30

    def as_json(self) -> Answer:
        """The home as a worker gets it."""
        return {
            "name": self.name,
            "folder": self.folder,
            "model": self.model,
            "memory": self.memory,
        }

    @property
    def place(self) -> Path | None:
        """The folder as a path."""
        return None if self.folder is None else Path(self.folder)

    def file(self, name: str) -> str:
        """The path of a file of the folder. Raises GrammarError (F401) for any other."""
        if self.model is not None and name == "":
            return self.model
        if self.place is None:
            refuse("F401", "files can only be read beside a grammar file", "`fggc explore FILE`")
        path = Path(os.path.realpath(self.place / name))
        if "\0" in name or not path.is_relative_to(self.place.resolve()):
            refuse("F401", f"`{name}` is outside of the grammar's folder")
        return str(path)

    def afford(self, needed: float, what: str) -> None:
        """Raise GrammarError (F420) if `what` needs more bytes than the budget."""
        if needed > self.memory:
            refuse(
                "F420",
                f"{what} needs about {in_units(int(needed))}; "
                f"the explorer allows {in_units(self.memory)}",
                "use smaller sizes or shorter inputs, or start it with a greater `--memory`",
            )


@dataclass(frozen=True)
class Asked:
    """A request: its text, the sizes that are set, the query, the space, and further options."""

    home: Home
    text: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    query: str | None = None
    space: str = "auto"
    options: Mapping[str, Json] = field(default_factory=dict)

    @staticmethod
    def of(home: Home, given: Json) -> Asked:
        """A request as JSON has it. Raises GrammarError (F415)."""
        if not isinstance(given, dict):
            refuse("F415", "a request is a JSON object")
        text = given.get("text", "")
        if not isinstance(text, str):
            refuse("F415", "the text of a request is a string")
        if len(text) > MAX_TEXT:
            refuse("F415", f"the text has more than {MAX_TEXT:,} characters")
        sizes = given.get("sizes") or {}
        if not isinstance(sizes, dict) or not all(map(_is_size, sizes.values())):
            refuse("F415", f"sizes are whole numbers from 1 to {MAX_SIZE:,}")
        query, space = given.get("query"), given.get("space", "auto")
        if query is not None and not isinstance(query, str):
            refuse("F415", "the name of a query is a string")
        if space not in SPACES:
            refuse(
                "F415", f"there is no space `{_short(space)}`", "spaces are " + ", ".join(SPACES)
            )
        return Asked(home, text, sizes, query, str(space), given)

    @cached_property
    def loaded(self) -> Loaded:
        """The text's grammar, as far as it goes, with its diagnostics.

        Sizes that the text does not declare are passed over: they were set for an earlier version.
        """
        folder = self.home.folder or "."
        name = self.name
        read = analyse(self.text, name, folder=folder)
        known = read.grammar.size if read.grammar is not None else {}
        sizes = {name: value for name, value in self.sizes.items() if name in known}
        return analyse(self.text, name, folder=folder, sizes=sizes) if sizes else read

    @property
    def name(self) -> str:
        """What the text is called: as the page says, or as the explorer was started."""
        given = self.options.get("name")
        if isinstance(given, str) and _NAME.fullmatch(given):
            return given
        return self.home.name or "grammar.fgg"

    @cached_property
    def grammar(self) -> Grammar:
        """The grammar. Raises GrammarError with all errors of the text."""
        loaded = self.loaded
        if loaded.grammar is None or any(d.is_error for d in loaded.diagnostics):
            raise GrammarError([d for d in loaded.diagnostics if d.is_error], loaded.source)
        return loaded.grammar

    @cached_property
    def query_name(self) -> str | None:
        """The query that is asked for if the grammar has it, else the grammar's first one."""
        names = list(self.grammar.query)
        return self.query if self.query in names else (names[0] if names else None)

    @cached_property
    def source(self) -> Grammar:
        """The grammar joined with the query."""
        return selected(self.grammar, self.query_name)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number among the options. Raises GrammarError (F415)."""
        value = self.options.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            refuse("F415", f"`{name}` is a whole number from {low:,} to {high:,}")
        return value

    def numbers(self, name: str, low: int, high: int) -> dict[str, int]:
        """Whole numbers by name among the options. Raises GrammarError (F415)."""
        values = self.options.get(name) or {}
        if not isinstance(values, dict):
            refuse("F415", f"`{name}` gives numbers by name")
        for key, value in values.items():
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                refuse("F415", f"`{_short(key)}` is a whole number from {low:,} to {high:,}")
        return values

    def word(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of several words among the options. Raises GrammarError (F415)."""
        value = self.options.get(name, default)
        if value not in choices:
            refuse("F415", f"`{name}` cannot be `{_short(value)}`", "one of " + ", ".join(choices))
        return str(value)

    def string(self, name: str, default: str = "") -> str:
        """A text among the options. Raises GrammarError (F415)."""
        value = self.options.get(name, default)
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            refuse("F415", f"`{name}` is a text")
        return value


def _is_size(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SIZE


def _short(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:60]
