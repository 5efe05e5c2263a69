"""The public surface: every name that `fgg` and its public modules promise, with its signature."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import fgg
from docs.site.public import CLASSES, MODULES, public_names
from tests.conftest import Golden


def signature(value: object) -> str:
    """The parameters of a function or class, without the types that Python versions spell apart."""
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return ""
    try:
        names = []
        for parameter in inspect.signature(value).parameters.values():
            star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
            default = "" if parameter.default is parameter.empty else "=…"
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names:
                names.append("*")
            names.append(f"{star}{parameter.name}{default}")
    except ValueError:
        return "(…)"
    return f"({', '.join(names)})"


def test_the_surface_changes_only_on_purpose(golden: Golden) -> None:
    lines: list[str] = []
    for name in MODULES:
        module = import_module(name)
        for member in public_names(module):
            lines.append(f"{name}.{member}{signature(getattr(module, member))}")
    for name in CLASSES:
        kind = getattr(fgg, name)
        for member, value in sorted(vars(kind).items()):
            if not member.startswith("_"):
                lines.append(f"fgg.{name}.{member}{signature(value)}")
    golden("\n".join(lines) + "\n")


def test_every_name_is_documented() -> None:
    for name in MODULES:
        module = import_module(name)
        assert module.__doc__, name
        for member in public_names(module):
            value = getattr(module, member)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert inspect.getdoc(value), f"{name}.{member}"


def test_names_are_where_they_say() -> None:
    assert set(fgg.__all__) <= set(dir(fgg))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        fgg.nonsense  # noqa: B018


def test_importing_fgg_is_cheap() -> None:
    code = "import sys, fgg; print(len([m for m in sys.modules if m.startswith('fgg')]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert int(done.stdout) <= 2, done.stderr
