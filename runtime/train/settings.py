"""What a run of training is: all that decides how it ends, kept beside its results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fgg.diagnostics import refuse
from fgg.files import read_limited, write_whole

NAME = "settings.json"
MAX_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices of a run. `options` are those of the method; `fields` says what each input is.

    A run is the same if its settings, its grammar and its data are.
    """

    grammar: str  # its text, with the sizes that the run uses
    name: str = "run"  # the grammar's
    query: str | None = None
    method: str = "em"
    epochs: int = 10
    seed: int = 0
    dtype: str = "float32"
    space: str = "auto"
    budget: int = 4096
    options: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    format: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    skip: bool = False
    patience: int = 0
    world: int = 1

    def save(self, folder: Path) -> None:
        """Write them into the folder of a run."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        write_whole(folder / NAME, text.encode() + b"\n")

    def differences(self, other: Settings) -> list[str]:
        """The names of the settings that differ, apart from those that only say when to stop."""
        own, theirs = asdict(self), asdict(other)
        free = ("name", "epochs", "patience")
        return [name for name in own if name not in free and own[name] != theirs[name]]


def load_settings(folder: Path) -> Settings:
    """The settings of a run. Raises GrammarError (F479) if the folder holds none."""
    try:
        data = json.loads(read_limited(folder / NAME, MAX_BYTES))
        known = {item.name for item in fields(Settings)}
        if not isinstance(data, dict) or {"name", *data} != known:
            raise ValueError("it has other entries")
        lists = {name: tuple(data[name]) for name in ("data", "valid")}
        return Settings(**{**data, **lists})
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"`{folder}` holds no training run: {NAME}: {reason}"
        refuse("F479", message)
