"""Trained models as targets of commands: the folder of a run stands for its grammar and weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fgg.compiler.resolve.load import Loaded, load_content
from fgg.diagnostics import refuse
from fgg.grammar import Enumerated, Grammar, Sized

MODEL = "model.safetensors"


def is_run(file: str | None) -> bool:
    """Whether what a command is given is the folder of a training run."""
    return bool(file) and file != "-" and (Path(str(file)) / "settings.json").is_file()


def load_run_grammar(folder: str, sizes: dict[str, int]) -> Loaded:
    """The grammar of a run, with the words of its vocabulary. Raises GrammarError."""
    from fgg.runtime.model.saving import read

    if sizes:
        message = "the sizes of a trained model are fixed"
        refuse("F410", message)
    saved = read(Path(folder) / MODEL)
    loaded = load_content(saved.text, f"{saved.name}.fgg", sizes={})
    if loaded.grammar is None:
        return loaded
    return replace(loaded, grammar=_named(loaded.grammar, dict(saved.vocabulary)))


def _named(grammar: Grammar, vocabulary: dict[str, Any]) -> Grammar:
    """The grammar with names for the values of domains that have none."""
    domains = []
    for domain in grammar.domains:
        values = vocabulary.get(domain.name)
        if values and isinstance(domain.shape, Sized):
            domain = replace(domain, shape=Enumerated(tuple(values)))
        domains.append(domain)
    return replace(grammar, domains=tuple(domains))


def run_query(folder: str) -> str | None:
    """The query that a run was trained by."""
    from fgg.runtime.train.run_folder import load_settings

    return load_settings(Path(folder)).query


def run_weights(folder: str) -> dict[str, Any]:
    """The weights of a run's best model."""
    from fgg.api.saved import load_model

    return load_model(Path(folder) / MODEL).detached()
