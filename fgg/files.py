"""Reading files within limits, and writing files atomically."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fgg.diagnostics import Diagnostic, GrammarError, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES = 1 << 30
"""The most bytes that are read from a vocabulary, map or table of results."""

_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
}


class _Confined:
    """The folder that files may be read from; None: no file may be read."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder.resolve()

    def check(self, path: str | os.PathLike[str]) -> None:
        """Raise OSError, without looking at the file, for a path that leads elsewhere."""
        if self.folder is None:
            raise PermissionError(0, "no files can be read here")
        if not Path(os.path.realpath(path)).is_relative_to(self.folder):
            raise PermissionError(0, "it is outside of the grammar's folder")


_confined: ContextVar[_Confined | None] = ContextVar("confined", default=None)


@contextlib.contextmanager
def confined_to(folder: Path | None) -> Iterator[None]:
    """Within this context, files that users name are read from below a folder only, or not at all.

    It is for texts that come from elsewhere than their author's own command line.
    """
    token = _confined.set(_Confined(folder))
    try:
        yield
    finally:
        _confined.reset(token)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless a path leads to a regular file that may be read.

    Whatever opens a file that a user named calls this first: opening a pipe blocks until somebody
    writes to it, and reading a device may never end.
    """
    confined = _confined.get()
    if confined is not None:
        confined.check(path)
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        raise OSError(0, _KINDS.get(kind, "it is not a regular file"))


def reason_of(error: Exception) -> str:
    """The reason of an error, in lower case, to end a message with."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def unreadable(path: str | os.PathLike[str], error: Exception) -> GrammarError:
    """The error (F401) for a file that could not be read."""
    name = os.fspath(path)
    if isinstance(error, FileNotFoundError):
        message = f"there is no file `{name}`"
    else:
        message = f"`{name}` cannot be read: {reason_of(error)}"
    return GrammarError([Diagnostic(code="F401", message=message)])


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, opened for reading. Raises OSError."""
    check_regular(path)
    return open(path, "rb")


def read_limited(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file. Raises OSError, or ValueError beyond `limit` bytes."""
    with open_regular(path) as file:
        return read_stream(file, limit)


def map_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a `.npy` file, mapped into memory. Raises OSError or ValueError."""

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
    """The rest of a stream. Raises ValueError beyond `limit` bytes."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


def digest_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a regular file. Raises OSError."""
    check_regular(path)
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def remove_temporaries(folder: Path, names: Iterable[str]) -> None:
    """Remove what writers of these files that were killed have left in a folder."""
    kept = tuple(f".{name}." for name in names)
    for path in folder.glob(".*"):
        if path.name.startswith(kept) and len(path.suffix) == 9 and path.is_file():
            with contextlib.suppress(OSError):
                path.unlink()


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def check_writable(path: str | Path | None) -> None:
    """Raise GrammarError (F413) if a file cannot be written: called before long work."""
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
        refuse("F413", f"`{path}` cannot be written: {reason}")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: it appears on disk whole or not at all. Raises GrammarError (F413).

    Links are followed and modes are kept. A pipe or a device is simply written to.
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
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, target.stat().st_mode & 0o7777 if target.exists() else _default_mode())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        refuse("F413", f"`{path}` cannot be written: {reason_of(error)}")
