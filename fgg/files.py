"""Reading files that may be endless, unreadable, or not what they seem; writing them whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from fgg.diagnostics import Diagnostic, GrammarError


def read_limited(path: Path, limit: int) -> bytes:
    """The bytes of a file. Raises OSError, or ValueError if there are more than `limit`."""
    if path.is_dir():
        raise IsADirectoryError(0, "it is a folder")
    with open(path, "rb") as file:
        return read_stream(file, limit)


def read_stream(file: BinaryIO, limit: int) -> bytes:
    """The bytes of a stream. Raises ValueError if there are more than `limit`."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def check_writable(path: str | Path | None) -> None:
    """Raise GrammarError (F413) if a file cannot be written, before the work that it is for."""
    if path is None:
        return
    target = Path(path).resolve()
    reason = ""
    if target.is_dir():
        reason = "it is a folder"
    elif not target.parent.is_dir():
        reason = f"there is no folder `{Path(path).parent}`"
    elif (not target.exists() or target.is_file()) and not os.access(target.parent, os.W_OK):
        reason = "permission denied"
    if reason:
        message = f"`{path}` cannot be written: {reason}"
        raise GrammarError([Diagnostic(code="F413", message=message)])


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all. Raises GrammarError.

    Links are followed, modes kept, and what is no regular file (a pipe, a device) is written to.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            target.write_bytes(data)
            return
        if not target.parent.is_dir():
            raise NotADirectoryError(0, f"there is no folder `{path.parent}`")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(name, target.stat().st_mode & 0o7777 if target.exists() else _default_mode())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GrammarError(
            [Diagnostic(code="F413", message=f"`{path}` cannot be written: {reason}")]
        ) from None
