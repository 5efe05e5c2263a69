"""What loading a text says about it."""

from __future__ import annotations

from fgg.compiler import load_text
from fgg.diagnostics import Diagnostic, render
from fgg.grammar import Grammar


def grammar_of(text: str, **sizes: int) -> Grammar:
    grammar, diagnostics, source = load_text(text, "test.fgg", sizes=sizes)
    assert grammar is not None, "\n\n".join(render(d, source) for d in diagnostics)
    return grammar


def problems(text: str, folder: str = ".", **sizes: int) -> tuple[Diagnostic, ...]:
    grammar, diagnostics, _ = load_text(text, "test.fgg", folder=folder, sizes=sizes)
    assert (grammar is None) == any(d.is_error for d in diagnostics)
    return diagnostics


def problem(text: str, folder: str = ".", **sizes: int) -> Diagnostic:
    """The one problem of a text."""
    said = problems(text, folder, **sizes)
    assert len(said) == 1, [f"{d.code}: {d.message}" for d in said]
    return said[0]


def marked(text: str, diagnostic: Diagnostic) -> str:
    """What the carets of a message underline."""
    assert diagnostic.span is not None
    return text[diagnostic.span.start : diagnostic.span.end]


def codes(text: str, folder: str = ".") -> list[str]:
    return [d.code for d in problems(text, folder)]
