"""Saved models: from a file to a program with its parameters. Joins the compiler to the runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fgg.diagnostics import refuse
from fgg.plan.backend import AUTO

if TYPE_CHECKING:
    from torch import nn

    from fgg.runtime.model.model import Model


def load_model(
    path: str | os.PathLike[str],
    *,
    query: str | None = None,
    space: str | None = None,
    nets: Mapping[str, nn.Module] | None = None,
    backend: str = AUTO,
) -> Model:
    """The model that `model.save` wrote, compiled anew from the grammar inside the file.

    `query` and `space` may be others than those it was saved with. Networks of the user's own have
    to be given again: their parameters are in the file, their code is not. `model.vocabulary` is
    the saved vocabulary. `backend` is as in `fgg.compile`.
    """
    import torch

    from fgg.api.compile import compile
    from fgg.compiler.resolve.load import loads
    from fgg.runtime.model.saving import read, take

    saved = read(path)
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
    model.vocabulary = dict(saved.vocabulary)
    return model
