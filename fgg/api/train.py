"""Training runs in folders: start or resume one, load its model, read data as it did."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgg.api.compile import only_query
from fgg.api.saved import MODEL, load_model
from fgg.api.start_run import EPOCHS, start
from fgg.data import read
from fgg.data.preprocessing import Preprocessing, preprocessed
from fgg.diagnostics import refuse
from fgg.files import write_whole
from fgg.inputs.written import WrittenWords
from fgg.plan.backend import AUTO
from fgg.runtime.train.feed import Feed
from fgg.runtime.train.run_folder import CURVES, METRICS, history, load_feed
from fgg.runtime.train.run_settings import RunSettings

if TYPE_CHECKING:
    from fgg.grammar import Grammar
    from fgg.runtime.model.model import Model


def train(
    grammar: Grammar,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    query: str | None = None,
    method: str = "em",
    epochs: int = EPOCHS,
    valid: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    potentials: str | os.PathLike[str] = "",
    valid_potentials: str | os.PathLike[str] = "",
    seed: int = 0,
    dtype: str | None = None,
    space: str = "auto",
    tokens: int = 4096,
    patience: int = 0,
    checks: int = 1,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    preprocessing: Mapping[str, object] | None = None,
    resume: bool = False,
    migrate: bool = False,
    backend: str = AUTO,
    **options: object,
) -> Model:
    """Train a grammar on data files, in a folder that can be resumed; return the model.

    It is what `fggc train` does: `data` and `valid` are files, `tokens` is the size of a batch,
    `potentials` is a file with the log-potentials of input factors for each item of the data, and
    `preprocessing` has the options that change the data (`{"lower": True, "min_count": 2}`), and
    `options` are the method's own. Held-out data are looked at `checks` times an epoch; training
    stops after `patience` checks without progress (0: never). A run chooses its `backend` once, by
    the amount of data, and keeps it. A run is resumed only with the data and options that it began
    with, or with `migrate`: then it continues with the model as it is, and drops the counts of the
    old data. `fgg.learn` takes data in memory and keeps no folder.
    """
    from fgg.runtime.model.saving import self_contained

    settings = RunSettings(
        grammar=str(self_contained(grammar)),
        name=grammar.name,
        query=query or only_query(grammar),
        method=method,
        epochs=epochs,
        seed=seed,
        dtype=dtype or ("float32" if method == "adam" else "float64"),
        space=space,
        backend=backend,
        budget=0 if method in ("cvb", "variable-cvb", "exact-cvb", "hastings") else tokens,
        options=options,
        data=_paths(data),
        valid=_paths(valid),
        potentials=os.fspath(potentials),
        valid_potentials=os.fspath(valid_potentials),
        format=format,
        fields=fields or {},
        changes={**(preprocessing or {}), "sizes": {}},
        patience=patience,
        checks=checks,
    )
    trainer = start(Path(folder), settings, resume=resume, migrate=migrate)
    trainer.run()
    return load_model(folder)


def _paths(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """One file or several, as texts."""
    several = [files] if isinstance(files, str | os.PathLike) else files
    return tuple(os.fspath(path) for path in several)


def file_inputs(
    preprocessing: Preprocessing, grammar: Grammar, path: str, format: str | None = None
) -> tuple[dict[str, list[list[int] | list[list[int]]]], WrittenWords]:
    """The inputs of the items in a data file, and their words as they are written there.

    The file is read as the model's training data were. No item is left out for its length.
    `grammar` is the model joined with a query. Raises GrammarError.
    """
    feed = Feed.of(grammar, preprocessing.fields)
    lengths = ("min_length", "max_length")
    changes = {name: value for name, value in preprocessing.changes.items() if name not in lengths}
    examples = list(preprocessed(read(path, format=format or preprocessing.format), changes))
    if not examples:
        refuse("F478", f"`{path}` has no items")
    ids = {name: [feed.ids(name, example) for example in examples] for name in feed.fields}
    return ids, feed.written(examples)


def curves(folder: Path, epochs: list[dict[str, Any]]) -> None:
    """Draw the objective and the perplexities of a run, one point an epoch, from its metrics."""
    from fgg.draw.fit import fit_picture

    objectives = [(e["epoch"] + 1, e["kind"], e["objective"]) for e in epochs]
    perplexities = {
        label: [(float(e["epoch"] + 1), float(e[name])) for e in epochs if e[name] is not None]
        for name, label in (("perplexity", "training"), ("valid", "held out"))
    }
    picture = fit_picture(folder.name, objectives, perplexities, unit="epoch")
    write_whole(folder / CURVES, picture.svg().encode())


__all__ = [
    "CURVES",
    "METRICS",
    "MODEL",
    "curves",
    "file_inputs",
    "history",
    "load_feed",
    "start",
]
