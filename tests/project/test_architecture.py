"""The size of the house: modules in a folder, lines in a module and in a test file, untyped places.

Bounds only fall. What is above a bound is listed with the reason, and leaves the list once it fits.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.places import ROOT, TESTS

SOURCES = ("fgg", "compiler", "runtime")
MODULES = 17
LINES = 600
TEST_LINES = 450
ANY = 873

CROWDED = {
    "fgg/grammar": (21, "the grammar, its printer, its meaning and its index algebra in one"),
    "fgg/cli/commands": (21, "one module a command"),
}
LONG: dict[str, tuple[int, str]] = {}
LONG_TESTS: dict[str, tuple[int, str]] = {}


def modules() -> list[Path]:
    """All modules, each once: links inside the package are not followed."""
    return [p for source in SOURCES for p in sorted((ROOT / source).rglob("*.py")) if mine(p)]


def mine(path: Path) -> bool:
    return path.resolve() == path


def lines_of(path: Path) -> int:
    return path.read_text("utf-8").count("\n")


def folders() -> dict[str, int]:
    """The number of modules in each folder, `__init__.py` not counted."""
    counted: dict[str, int] = {}
    for path in modules():
        if path.name != "__init__.py":
            folder = path.parent.relative_to(ROOT).as_posix()
            counted[folder] = counted.get(folder, 0) + 1
    return counted


def above(
    sizes: dict[str, int], bound: int, exceptions: dict[str, tuple[int, str]]
) -> dict[str, int]:
    """What is larger than the bound, or than its exception says."""
    return {x: n for x, n in sizes.items() if n > exceptions.get(x, (bound, ""))[0]}


def test_all_modules_are_seen() -> None:
    seen = {path.relative_to(ROOT).as_posix() for path in modules()}
    assert {"fgg/library.py", "compiler/driver.py", "runtime/prelude/charts.py"} <= seen
    assert not any(path.startswith(("fgg/compiler", "fgg/runtime")) for path in seen)


def test_no_folder_is_crowded() -> None:
    assert not above(folders(), MODULES, CROWDED)


def test_no_module_is_long() -> None:
    sizes = {path.relative_to(ROOT).as_posix(): lines_of(path) for path in modules()}
    assert not above(sizes, LINES, LONG)


def test_no_test_file_is_long() -> None:
    paths = [path for path in TESTS.rglob("*.py") if path.is_file()]
    sizes = {path.relative_to(ROOT).as_posix(): lines_of(path) for path in paths}
    assert not above(sizes, TEST_LINES, LONG_TESTS)


def test_places_without_a_type_grow_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    number = sum(len(re.findall(r"\bAny\b", path.read_text("utf-8"))) for path in modules())
    assert number <= ANY, f"`Any` stands {number} times in {', '.join(SOURCES)}, more than {ANY}"
    if number < ANY:
        with capsys.disabled():
            print(f"\n`Any` stands {number} times: lower ANY in {Path(__file__).name} to it")


def test_what_is_too_large_is_found() -> None:
    assert above({"a": 3, "b": 9, "c": 5}, 4, {"c": (5, "for now")}) == {"b": 9}
    assert above({"c": 6}, 4, {"c": (5, "for now")}) == {"c": 6}
