"""The settings of a training run, kept as JSON in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from fgg.data.preprocessing import Changes
from fgg.diagnostics import refuse
from fgg.files import read_limited, write_whole
from fgg.plan.backend import AUTO

SETTINGS = "settings.json"
MAX_SETTINGS = 1 << 24  # bytes
PATHS = ("data", "valid", "potentials", "valid_potentials")
OPTIONAL = frozenset({"name", "potentials", "valid_potentials", "checks"})
"""The settings that folders of earlier versions may lack."""
FREE = frozenset({"name", "epochs", "patience", "backend_reason", *PATHS})
"""The settings that may differ when a run is resumed: names, and when to stop.

The paths of data files are free because digests say whether the files are the same.
"""
MODEL_OF = ("grammar", "query", "fields")
"""The settings that a model depends on: with others, it is another model."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The choices of a run. Equal settings, grammar and data give the same run.

    `options` are those of the method; `fields` says which field of an example each input is.
    `backend` is `auto` only until the run begins: then it is what was chosen, and
    `backend_reason` says why.
    """

    grammar: str  # its text, with the sizes that the run uses
    name: str = "run"  # that of the grammar
    query: str | None = None
    method: str = "em"
    epochs: int = 10
    seed: int = 0
    dtype: str = "float32"
    space: str = "auto"
    backend: str = AUTO
    backend_reason: str = ""
    budget: int = 4096
    options: Mapping[str, object] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    potentials: str = ""  # the file of log-potentials of the data
    valid_potentials: str = ""
    format: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    skip: bool = False
    patience: int = 0
    checks: int = 1  # how often an epoch held-out data are looked at
    world: int = 1
    initial: str = ""  # the model that the run began with

    def save(self, folder: Path) -> None:
        """Write the settings into the folder of a run."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        write_whole(folder / SETTINGS, text.encode() + b"\n")

    def differences(self, other: RunSettings) -> list[str]:
        """The names of the settings that differ, without those that are `FREE`.

        `auto` may be any backend.
        """
        free = {*FREE, "backend"} if AUTO in (self.backend, other.backend) else FREE
        ours, theirs = asdict(self), asdict(other)
        return [n for n in ours if n not in free and as_json(ours[n]) != as_json(theirs[n])]


def as_json(value: object) -> str:
    """A value as JSON; equal values have equal texts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)


def load_settings(folder: Path) -> RunSettings:
    """The settings of a run. Raises GrammarError (F479) if the folder holds none."""
    try:
        data = json.loads(read_limited(folder / SETTINGS, MAX_SETTINGS))
        known = {item.name for item in fields(RunSettings)}
        if not isinstance(data, dict) or {*OPTIONAL, *data} != known:
            raise ValueError("it has other entries")
        lists = {name: tuple(data[name]) for name in ("data", "valid")}
        return RunSettings(**{**data, **lists})
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        refuse("F479", f"`{folder}` holds no training run: {SETTINGS}: {reason}")
