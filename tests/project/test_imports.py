"""Who may import whom: core <- compiler, core <- runtime, and the doors import all, lazily."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.helpers.places import ROOT

MAPPED = ("compiler", "runtime", "grammars")  # beside fgg/ on disk, inside it when imported
LAYERS = {
    "compiler": ("fgg.runtime", "fgg.cli", "torch"),
    "runtime": ("fgg.compiler", "fgg.cli"),
    "core": ("fgg.compiler", "fgg.runtime", "fgg.cli"),
    "door": ("fgg.cli",),
    "command line": (),
}


DOORS = (
    "fgg/__init__.py",
    "fgg/api/",
    "fgg/build.py",
    "fgg/explore/",
    "fgg/lsp/",
    "fgg/low_rank.py",
    "fgg/reference.py",
    "fgg/results.py",
)


def layer_of(path: str) -> str:
    """Return the layer of a source file, given its path from the root of the checkout."""
    parts = path.split("/")
    if parts[0] in ("compiler", "runtime"):
        return parts[0]
    if parts[:2] == ["fgg", "cli"] or path == "fgg/__main__.py":
        return "command line"
    return "door" if path.startswith(DOORS) else "core"


def package_of(path: str) -> list[str]:
    """Return the parts of the name of the package that a source file belongs to."""
    parts = path.split("/")[:-1]
    return ["fgg", *parts] if parts[0] in MAPPED else parts


def imported_names(source: str, path: str) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) for all imports anywhere in a source, lazy ones included."""
    for node in ast.walk(ast.parse(source, path)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node.lineno, alias.name
            case ast.ImportFrom(module=module, names=names, level=level):
                package = package_of(path)
                above = package[: len(package) - level + 1] if level else []
                origin = ".".join([*above, *([module] if module else [])])
                for alias in names:
                    # What is imported may be a module (`from fgg import runtime`) or a value.
                    yield node.lineno, f"{origin}.{alias.name}"
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def violations(source: str, path: str) -> list[str]:
    """Return `file:line: message` for each import that the layer of this file forbids."""
    layer = layer_of(path)
    return [
        f"{path}:{line}: {layer} must not import {banned}"
        for line, name in imported_names(source, path)
        for banned in LAYERS[layer]
        if f"{name}.".startswith(f"{banned}.")
    ]


def sources() -> list[str]:
    """Return the paths of all modules of the project; links are not followed."""
    found = [path for top in ("fgg", *MAPPED) for path in (ROOT / top).rglob("*.py")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def test_imports_go_one_way() -> None:
    found = [
        problem
        for path in sources()
        for problem in violations((ROOT / path).read_text(encoding="utf-8"), path)
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_layer_is_read_once() -> None:
    paths = sources()
    assert {"fgg/__init__.py", "compiler/__init__.py", "runtime/__init__.py"} <= set(paths)
    assert not [path for path in paths if path.startswith(("fgg/compiler/", "fgg/runtime/"))]


@pytest.mark.parametrize(
    ("path", "source", "line", "banned"),
    [
        ("compiler/driver.py", "import ast\nimport torch.nn as nn", 2, "torch"),
        (
            "compiler/driver.py",
            "def f():\n    from fgg.runtime.memory import g",
            2,
            "fgg.runtime",
        ),
        ("compiler/passes/fold.py", "from ...runtime import solve", 1, "fgg.runtime"),
        ("compiler/passes/__init__.py", "from ... import runtime", 1, "fgg.runtime"),
        (
            "compiler/driver.py",
            "import importlib\nimportlib.import_module('torch')",
            2,
            "torch",
        ),
        ("runtime/reference/solve.py", "\n\nfrom fgg import grammar, compiler", 3, "fgg.compiler"),
        ("runtime/reference/solve.py", "import fgg.cli", 1, "fgg.cli"),
        ("fgg/library.py", "from .compiler.parse import parse", 1, "fgg.compiler"),
        ("fgg/draw/writers/svg.py", "from fgg import runtime", 1, "fgg.runtime"),
        ("fgg/library.py", "from fgg.cli import main", 1, "fgg.cli"),
        ("fgg/__init__.py", "from fgg.cli import main", 1, "fgg.cli"),
    ],
)
def test_planted_import_is_found(path: str, source: str, line: int, banned: str) -> None:
    assert violations(source, path) == [
        f"{path}:{line}: {layer_of(path)} must not import {banned}",
    ]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "compiler/driver.py",
            "import torchy\nfrom . import passes\nfrom fgg.grammar import Rule",
        ),
        ("runtime/reference/solve.py", "import torch\nfrom fgg.program import Program"),
        ("fgg/__init__.py", "from fgg.compiler import driver\nfrom fgg.runtime import solve"),
        ("fgg/__main__.py", "from fgg.cli import main"),
        ("fgg/cli/commands/check.py", "from fgg.cli import main\nfrom fgg.compiler import parse"),
    ],
)
def test_allowed_import_is_not_reported(path: str, source: str) -> None:
    assert violations(source, path) == []


def test_importing_the_doors_loads_no_heavy_library() -> None:
    code = "import sys, fgg, fgg.cli; print(*{'torch', 'networkx', 'scipy'} & sys.modules.keys())"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (loaded.stdout.strip(), loaded.stderr) == ("", "")
