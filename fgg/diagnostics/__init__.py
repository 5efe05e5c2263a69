"""Errors and warnings as values, their codes and their pages."""

from fgg.diagnostics.diagnostics import (
    MAX_LINE,
    Diagnostic,
    GrammarError,
    GrammarWarning,
    InternalError,
    Label,
    Report,
    as_json,
    did_you_mean,
    is_out_of_memory,
    refuse,
    render,
    render_all,
    sort_diagnostics,
    warn,
)

__all__ = [
    "MAX_LINE",
    "Diagnostic",
    "GrammarError",
    "GrammarWarning",
    "InternalError",
    "Label",
    "Report",
    "as_json",
    "did_you_mean",
    "is_out_of_memory",
    "refuse",
    "render",
    "render_all",
    "sort_diagnostics",
    "warn",
]
