"""Digests of what a run began with: a run is only resumed with the same data and options.

The grammar, the options and the vocabularies have one digest each, and every data file has one, of
its content. So files may be moved, but not changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from fgg.diagnostics import refuse
from fgg.files import digest_of, unreadable
from fgg.runtime.train.feed import Feed
from fgg.runtime.train.run_settings import FREE, MODEL_OF, RunSettings, as_json


@dataclass(frozen=True)
class FileDigest:
    """The size of a file in bytes, and the SHA-256 of its content."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class RunDigests:
    """What a run began with. `options` are the settings, without those that are `FREE`."""

    grammar: str
    options: str
    vocabulary: str
    data: tuple[FileDigest, ...] = ()
    valid: tuple[FileDigest, ...] = ()

    def changes(self, now: RunDigests) -> list[str]:
        """The names of the digests that differ from those of now."""
        return [name for name, digest in vars(self).items() if digest != getattr(now, name)]

    @classmethod
    def from_json(cls, entries: Mapping[str, object]) -> RunDigests:
        """Digests as `asdict` gives them. Raises TypeError."""
        plain = dict(entries)
        for name in ("data", "valid"):
            plain[name] = tuple(FileDigest(**each) for each in plain[name])  # type: ignore
        return cls(**plain)  # type: ignore[arg-type]


@dataclass
class WatchedFiles:
    """Data files, their digests, and when they were last seen to be the same."""

    paths: tuple[Path, ...]
    digests: tuple[FileDigest, ...] = ()
    seen: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen = list(map(_stamp, self.paths))
        self.digests = tuple(map(file_digest, self.paths))

    def check(self) -> None:
        """Raise GrammarError (F479) if a file is another than at first.

        Only files with another size or time of change are read.
        """
        for place, path in enumerate(self.paths):
            stamp = _stamp(path)
            if stamp != self.seen[place]:
                now = file_digest(path)
                if now != self.digests[place]:
                    message = f"`{path}` has changed while the run was reading it"
                    help = "restore the file, and resume the run from its last checkpoint"
                    refuse("F479", message, help)
                self.seen[place] = stamp


def file_digest(path: Path) -> FileDigest:
    """The digest of a file. Raises GrammarError (F401)."""
    try:
        return FileDigest(os.stat(path).st_size, digest_of(path))
    except OSError as error:
        raise unreadable(path, error) from None


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from None
    return status.st_size, status.st_mtime_ns


def run_digests(
    settings: RunSettings, feed: Feed, data: WatchedFiles, valid: WatchedFiles
) -> RunDigests:
    """The digests of a run."""
    options = {n: value for n, value in asdict(settings).items() if n not in (*FREE, *MODEL_OF)}
    vocabularies = {domain: asdict(words) for domain, words in feed.vocabularies.items()}
    return RunDigests(
        grammar=digest([settings.grammar, settings.query]),
        options=digest(options),
        vocabulary=digest([feed.fields, feed.domains, vocabularies]),
        data=data.digests,
        valid=valid.digests,
    )


def digest(value: object) -> str:
    """The SHA-256 of a value that JSON can hold; the order of entries does not matter."""
    return sha256(as_json(value).encode()).hexdigest()


def data_change(
    before: Sequence[FileDigest], now: Sequence[FileDigest], paths: Sequence[Path]
) -> str:
    """What has changed in data files, in words."""
    if len(before) != len(now):
        return f"it began with {len(before)} data files, not {len(now)}"
    if {each.sha256 for each in before} == {each.sha256 for each in now}:
        return "its data files are in another order"
    pairs = zip(before, now, paths, strict=True)
    old, new, path = next((a, b, path) for a, b, path in pairs if a != b)
    if old.size == new.size:
        return f"`{path}` has been changed: it has as many bytes as before, but other ones"
    return f"`{path}` has been changed: it had {old.size:,} bytes and has {new.size:,}"
