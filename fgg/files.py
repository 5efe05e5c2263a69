"""Reading files that may be endless, unreadable, or not what they seem; writing them whole."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fgg.diagnostics import Diagnostic, GrammarError, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 1 << 30
"""More than any vocabulary, map or table of results has."""

_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
}


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless a path leads to a regular file.

    Opening a pipe waits for somebody to write to it, and a device may have no end, so whatever
    opens a file that a user named asks here first.
    """
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        raise OSError(0, _KINDS.get(kind, "it is no regular file"))


def why_unreadable(error: Exception) -> str:
    """The reason an error gives, as the end of a message."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def unreadable(path: str | os.PathLike[str], error: Exception) -> GrammarError:
    """The error (F401) for a file that could not be read."""
    name = os.fspath(path)
    if isinstance(error, FileNotFoundError):
        message = f"there is no file `{name}`"
    else:
        message = f"`{name}` cannot be read: {why_unreadable(error)}"
    return GrammarError([Diagnostic(code="F401", message=message)])


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, opened for reading. Raises OSError."""
    check_regular(path)
    return open(path, "rb")


def read_limited(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file. Raises OSError, or ValueError if there are more than `limit`."""
    with open_regular(path) as file:
        return read_stream(file, limit)


def map_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a `.npy` file, mapped, not read. Raises OSError or ValueError."""
    import numpy as np

    check_regular(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError("it is not an array file") from None
    if not isinstance(array, np.ndarray):
        raise ValueError("it holds several arrays")
    return array


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
        refuse("F413", message)


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
        refuse("F413", f"`{path}` cannot be written: {reason}")
