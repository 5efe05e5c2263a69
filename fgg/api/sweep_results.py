"""The entries of a sweep on disk: one a line, added as they come, read again to go on."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fgg.api.sweep_ranges import refused
from fgg.api.sweep_table import Entry
from fgg.diagnostics import refuse
from fgg.files import read_limited, unreadable

BEGIN = '{"mark": "'

Sizes = tuple[tuple[str, int], ...]
Key = tuple[str, Sizes, int, str, int]
"""What tells grammars apart, sizes, length, observation function, seed."""


def line_of(key: Key, entry: Entry) -> str:
    """An entry as a line."""
    mark, _, _, _, seed = key
    return json.dumps({"mark": mark, "seed": seed, **entry.as_json()}, ensure_ascii=False)


def read_results(path: Path) -> list[tuple[Key, Entry]]:
    """The entries that a file has. A line that is not whole is left out. Raises GrammarError."""
    try:
        text = read_limited(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise unreadable(path, ValueError("it is no file of text")) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    found = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_entry(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError):
            if number < len(lines) or not _is_begun(line):
                raise refused(f"`{path}` has no entry of a sweep on line {number}") from None
    return found


def _is_begun(line: str) -> bool:
    """Whether a line is the beginning of an entry, the rest of which was not written."""
    return line.startswith(BEGIN) or BEGIN.startswith(line)


def _entry(data: Any) -> tuple[Key, Entry]:
    sizes = {str(name): int(value) for name, value in data["sizes"].items()}
    entry = Entry(
        str(data["grammar"]),
        sizes,
        int(data["length"]),
        str(data["observed"]),
        int(data["parameters"]),
        int(data["moments"]),
        None if data["rank"] is None else int(data["rank"]),
        str(data["verdict"]),
        float(data["error"]),
        data["query"],
    )
    key = (str(data["mark"]), tuple(sizes.items()), entry.length, entry.observed, int(data["seed"]))
    return key, entry


@contextlib.contextmanager
def appending(path: Path | None) -> Iterator[Callable[[Sequence[str]], None]]:
    """A function that adds lines to a file, all of them in one piece."""
    if path is None:
        yield lambda lines: None
        return
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"`{path}` cannot be written: {reason}"
        refuse("F413", message)
    try:
        # An entry that an earlier run left unfinished goes; reading has seen that it is one.
        text = path.read_bytes()
        os.ftruncate(handle, text.rfind(b"\n") + 1)

        def write(lines: Sequence[str]) -> None:
            os.write(handle, "".join(line + "\n" for line in lines).encode())

        yield write
    finally:
        os.close(handle)
