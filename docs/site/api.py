"""The reference of the Python interface, made from docstrings and signatures."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import pairwise

from docs.site.markdown import escaped, fenced
from docs.site.public import CLASSES, MODULES, public_names

SHORT = re.compile(r"\b(?:fgg|torch|np|numpy|collections|typing)(?:\.\w+)*\.(?=[A-Z])")
"""Modules before the names of types."""

PYTHON = re.compile(r"^ {4}(?:import|from|>>>|b =) .*\n?(?:(?: {4}.*)?\n)*(?: {4}.*)?", re.M)
"""Indented Python in a docstring."""


def pages() -> dict[str, str]:
    """A page for each module and each main class, by their places in the site."""
    each = {f"reference/api/{name}.md": module_page(name) for name in MODULES}
    classes = {f"reference/api/fgg.{name}.md": class_page(name) for name in CLASSES}
    return {"reference/api/index.md": overview(), **each, **classes}


def overview() -> str:
    """All modules and main classes."""
    lines = ["# Python", "", "| module | holds |", "|---|---|"]
    for name in MODULES:
        lines.append(f"| [`{name}`]({name}.md) | {first_line(import_module(name))} |")
    lines += ["", "The main classes have pages of their own:", "", "| class | is |", "|---|---|"]
    for name in CLASSES:
        value = getattr(import_module("fgg"), name)
        lines.append(f"| [`fgg.{name}`](fgg.{name}.md) | {first_line(value)} |")
    lines += ["", "```{toctree}", ":hidden:", "", *MODULES]
    return "\n".join([*lines, *(f"fgg.{name}" for name in CLASSES), "```", ""])


def first_line(value: object) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n", 1)[0].split())
    return text.replace("|", "\\|")


def module_page(name: str) -> str:
    """A module: what it says of itself, and its public names."""
    module = import_module(name)
    lines = [f"# {name}", "", f"```{{py:module}} {name}\n```", "", document(module), ""]
    modules = []
    for member in public_names(module):
        value = getattr(module, member)
        if inspect.ismodule(value):
            modules.append(member)
        elif name == "fgg" and member in CLASSES:
            heading, text = f"## [{member}]({name}.{member}.md)", first_line(value)
            lines += [heading, "", text, ""]
        else:
            lines += [f"## {escaped(member)}", "", *described(name, member, value), ""]
    if modules:
        lines += ["## Modules", ""]
        lines += [f"- [`fgg.{member}`](fgg.{member}.md)" for member in modules]
    return "\n".join([*lines, ""])


def class_page(name: str) -> str:
    """A main class with its members."""
    value = getattr(import_module("fgg"), name)
    lines = [f"# fgg.{name}", "", *described("fgg", name, value)]
    return "\n".join([*lines, ""])


def described(home: str, name: str, value: object) -> Iterator[str]:
    """The entry of a function, a class or a constant."""
    if inspect.isclass(value):
        yield f"::::{{py:class}} {name}{'' if is_error(value) else signature(value)}"
        yield f":module: {home}"
        yield ""
        yield document(value)
        yield from members(value)
        yield "::::"
    elif inspect.isroutine(value):
        yield f"::::{{py:function}} {name}{signature(value)}"
        yield f":module: {home}"
        yield ""
        yield document(value)
        yield "::::"
    else:
        yield f"::::{{py:data}} {name}"
        yield f":module: {home}"
        yield ""
        yield constant_document(home, name)
        yield "::::"


def is_error(kind: type) -> bool:
    """Whether a class is an error or a warning: these are raised by fgg, not made by users."""
    return issubclass(kind, BaseException)


@dataclass(frozen=True)
class Fields:
    """The fields of a class with what is written below each."""

    kind: type

    @cached_property
    def texts(self) -> dict[str, str]:
        """The documentation of each field that has one."""
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(self.kind)))
        except (OSError, TypeError):
            return {}
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        return dict(documented(body))


def documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Names that are assigned to, with the strings below them."""
    for statement, after in pairwise(body):
        target: ast.expr | None = None
        if isinstance(statement, ast.AnnAssign):
            target = statement.target
        elif isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if isinstance(target, ast.Name) and isinstance(after, ast.Expr):
            value = after.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield target.id, inspect.cleandoc(value.value)


def constant_document(home: str, name: str) -> str:
    """What stands below a constant in the module that defines it."""
    module = import_module(home)
    for place in (module, *(inspect.getmodule(v) for v in vars(module).values())):
        if inspect.ismodule(place) and vars(place).get(name) is getattr(module, name):
            texts = dict(documented(ast.parse(inspect.getsource(place)).body))
            if name in texts:
                return texts[name]
    return ""


def members(kind: type) -> Iterator[str]:
    """The public fields, properties and methods of a class and of those it derives from in fgg."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("fgg"):
            continue
        for name, text in Fields(base).texts.items():
            if not name.startswith("_") and name not in seen:
                seen.add(name)
                yield from entry("attribute", name, field_type(base, name), text)
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            yield from member(name, value)


def member(name: str, value: object) -> Iterator[str]:
    """The entry of a property or a method; nothing for what has no documentation."""
    if isinstance(value, (property, cached_property)):
        function = value.fget if isinstance(value, property) else value.func
        result = inspect.signature(function).return_annotation if function else ""
        kind = f":type: {short(str(result))}\n" if isinstance(result, str) and result else ""
        yield from entry("property", name, kind, inspect.getdoc(value) or "")
    elif isinstance(value, (classmethod, staticmethod)):
        marks = ":classmethod:\n" if isinstance(value, classmethod) else ":staticmethod:\n"
        function = value.__func__
        skipped = 1 if isinstance(value, classmethod) else 0
        yield from entry("method", name + signature(function, skipped), marks, document(function))
    elif inspect.isfunction(value):
        yield from entry("method", name + signature(value, 1), "", document(value))


def field_type(kind: type, name: str) -> str:
    """The option of an entry that gives the type of a field."""
    written = kind.__annotations__.get(name)
    return f":type: {short(written)}\n" if isinstance(written, str) else ""


def entry(kind: str, written: str, options: str, text: str) -> Iterator[str]:
    """A member of a class; nothing if nothing is said of it."""
    if text:
        yield f"\n:::{{py:{kind}}} {written}\n{options}\n{text}\n:::"


def document(value: object) -> str:
    """A docstring; where there is Python in it, it is coloured."""
    return PYTHON.sub(coloured, inspect.getdoc(value) or "")


def coloured(match: re.Match[str]) -> str:
    """Indented Python as a fenced block."""
    code = textwrap.dedent(match[0]).strip()
    return fenced(code, "pycon" if code.startswith(">>>") else "python") + "\n\n"


def short(annotation: str) -> str:
    """A type without the modules of its names."""
    return SHORT.sub("", annotation.strip("'\""))


def signature(value: object, skip: int = 0) -> str:
    """The parameters of a function or class with their types, and what it returns.

    The first `skip` parameters, such as `self`, are left out.
    """
    try:
        whole = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "()"
    parameters = [readable(each) for each in list(whole.parameters.values())[skip:]]
    result = whole.return_annotation
    if inspect.isclass(value) or not isinstance(result, str):
        result = inspect.Signature.empty
    else:
        result = Bare(short(result))
    return str(whole.replace(parameters=parameters, return_annotation=result))


def readable(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter with a short type; values that do not print as Python become an ellipsis."""
    kind, default = parameter.annotation, parameter.default
    if isinstance(kind, str):
        kind = Bare(short(kind))
    plain = isinstance(default, (str, int, float, bool, tuple, type(None)))
    if default is not parameter.empty and not plain:
        default = Bare("...")
    return parameter.replace(annotation=kind, default=default)


class Bare(str):
    """Text that a signature shows without quotes."""

    def __repr__(self) -> str:
        return str(self)
