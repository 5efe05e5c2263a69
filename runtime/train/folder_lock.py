"""The lock of a run folder: only one training run at a time writes into it.

The operating system holds the lock, and frees it when the process ends, however that happens. The
file `lock` names the process for messages. One that a killed process left behind locks nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from platform import node
from typing import Any

from fgg.diagnostics import refuse
from fgg.files import reason_of

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
MAX_BYTES = 1 << 16
MAX_COMMAND = 500
HELD = (errno.EWOULDBLOCK, errno.EACCES)
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class FolderLock:
    """The lock of a folder, which is made if it does not exist. Raises GrammarError (F496, F413).

    It is held until `release`, or until this object or the process is gone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / LOCK
        self.owner = os.getpid()
        self.handle: int | None = None
        self.made = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.handle = self._locked()
            os.ftruncate(self.handle, 0)
            os.pwrite(self.handle, json.dumps(_this_process()).encode(), 0)
        except OSError as error:
            self.release()
            refuse("F413", f"`{folder}` cannot be written: {reason_of(error)}")

    def _locked(self) -> int:
        """The lock file, opened and locked."""
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                holder = _entries(os.pread(handle, MAX_BYTES, 0))
                if not _lock(handle, holder):
                    self._refuse(holder)
                # The file may have been removed since it was opened: then this is no lock.
                if _is_at(handle, self.path):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _refuse(self, holder: Mapping[str, Any]) -> None:
        """Raise GrammarError (F496), which names the process that holds the folder."""
        message = f"another training run is writing into `{self.folder}`"
        help = "a run of its own needs another folder"
        process, host = holder.get("process"), holder.get("host")
        if process is not None:
            where = "" if host == node() else f" on `{host}`"
            message += f": process {process}{where}, `{holder.get('command')}`"
            help = f"wait until it ends, or stop it with `kill {process}`; {help}"
        refuse("F496", message, help)

    def release(self) -> None:
        """Free the folder, and remove it if it was made for the lock and is empty."""
        if self.handle is not None:
            if os.getpid() == self.owner:
                with contextlib.suppress(OSError):
                    self.path.unlink()  # nobody else can hold it
            os.close(self.handle)
            self.handle = None
        if self.made and os.getpid() == self.owner:
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.release()


def _lock(handle: int, holder: Mapping[str, Any]) -> bool:
    """Lock an open file; returns False if another process holds it. Raises OSError."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno in HELD:
                return False
            if error.errno not in UNSUPPORTED:
                raise
    # Some network disks have no locks: there it counts whether the process in the file is alive.
    return not holder or (holder.get("host") == node() and not _lives(holder.get("process")))


def _lives(process: object) -> bool:
    """Whether a process of this machine is alive."""
    try:
        os.kill(process if isinstance(process, int) else 0, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether a path leads to an open file."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _this_process() -> dict[str, object]:
    words = [Path(word).name if number == 0 else word for number, word in enumerate(sys.argv)]
    return {"process": os.getpid(), "host": node(), "command": shlex.join(words)[:MAX_COMMAND]}


def _entries(data: bytes) -> Mapping[str, Any]:
    """The entries of a lock file; none if it is empty or was cut off."""
    try:
        entries = json.loads(data)
    except ValueError:
        return {}
    return entries if isinstance(entries, dict) else {}
