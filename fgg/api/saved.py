"""Saved models: from a file to a program with its parameters. Joins the compiler to the runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.diagnostics import refuse
from fgg.plan.backend import AUTO

if TYPE_CHECKING:
    from torch import nn

    from fgg.runtime.model.model import Model

MODEL, SETTINGS = "model.safetensors", "settings.json"
"""The files in the folder of a training run: the best model, and what was asked for."""


def is_model(name: str | os.PathLike[str]) -> bool:
    """Return whether a name leads to a trained model: the folder of a run, or a file.

    A file of any name is one if it begins as safetensors files do, with the length of a header and
    a brace.
    """
    path = Path(name)
    if path.is_dir():
        return (path / SETTINGS).exists() or (path / MODEL).exists()
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            begin = file.read(9)
    except OSError:
        return False
    return len(begin) == 9 and begin[8:] == b"{" and b"\0" in begin


def model_file(name: str | os.PathLike[str]) -> Path:
    """Return the file of a trained model. Raises GrammarError (F471) if a run has none yet."""
    path = Path(name)
    if not path.is_dir():
        return path
    if not (path / MODEL).exists():
        if not (path / SETTINGS).exists():
            refuse("F471", f"the folder `{name}` holds no model", "a run has one: `fggc train`")
        help = f"`fggc train --resume --out {name}` goes on with it"
        refuse("F471", f"the run in `{name}` has no model yet: no epoch has ended", help)
    return path / MODEL


def load_model(
    path: str | os.PathLike[str],
    *,
    query: str | None = None,
    space: str | None = None,
    nets: Mapping[str, nn.Module] | None = None,
    backend: str = AUTO,
) -> Model:
    """The model that `model.save` or a training run wrote, compiled anew from its own grammar.

    `path` is a file or the folder of a run. `query` and `space` may be others than those it was
    saved with. Networks of the user's own have to be given again: their parameters are in the file,
    their code is not. `backend` is as in `fgg.compile`.
    """
    import torch

    from fgg.api.compile import compile
    from fgg.compiler.resolve.load import loads
    from fgg.runtime.model.saving import read, take

    saved = read(model_file(path))
    absent = [name for name in saved.nets if name not in (nets or {})]
    if absent:
        message = f"`{saved.path}` was saved with a network of your own for `{absent[0]}`"
        help = f'give it: `fgg.load_model(…, nets={{"{absent[0]}": module}})`'
        refuse("F470", message, help)
    grammar = loads(saved.text, name=f"{saved.name}.fgg")
    program = compile(
        grammar, query=query or saved.query, space=space or saved.space, backend=backend
    )
    dtype = torch.float64 if saved.dtype == "float64" else torch.float32
    model = program.model(dtype=dtype, nets=nets)
    take(model, saved)
    model.preprocessing = saved.preprocessing
    return model
