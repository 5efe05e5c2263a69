"""A run folder belongs to one process at a time, and to nobody once that is dead."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from platform import node
from typing import Any

import pytest

from fgg import GrammarError
from fgg.runtime.train.folder_lock import LOCK, FolderLock

HOLD = """
import sys, time
from pathlib import Path
from fgg.runtime.train.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def code_of(folder: Path) -> str:
    with pytest.raises(GrammarError) as caught:
        FolderLock(folder)
    return caught.value.diagnostics[0].code


def test_a_locked_folder_is_refused_and_the_process_named(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "run"), pytest.raises(GrammarError) as caught:
        FolderLock(tmp_path / "run")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "F496" and f"process {os.getpid()}, `" in diagnostic.message
    FolderLock(tmp_path / "run").release()


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        with pytest.raises(GrammarError, match=f"process {process.pid}"):
            FolderLock(folder)
        process.send_signal(signal.SIGKILL)
    assert (folder / LOCK).exists()
    with FolderLock(folder):
        assert json.loads((folder / LOCK).read_text())["process"] == os.getpid()


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "new"):
        assert (tmp_path / "new" / LOCK).exists()
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    with FolderLock(tmp_path / "old"):
        pass
    assert list((tmp_path / "old").iterdir()) == []


def test_a_lock_that_nobody_holds_on_to_is_free(tmp_path: Path) -> None:
    FolderLock(tmp_path / "run")
    FolderLock(tmp_path / "run").release()


def test_a_forked_process_does_not_free_the_lock_of_its_parent(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "run")
    child = os.fork()
    if not child:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert code_of(tmp_path / "run") == "F496"
    lock.release()


@pytest.mark.parametrize("place", ["file", "file/run"])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    assert code_of(tmp_path / place) == "F413"


@pytest.mark.parametrize(
    ("holder", "held"),
    [
        ("", False),
        ("{cut off", False),
        ({"host": node(), "process": os.getpid()}, True),
        ({"host": node(), "process": 2**22 + 1}, False),  # above the greatest number of Linux
        ({"host": "elsewhere", "process": 1}, True),
    ],
)
def test_on_disks_without_locks_the_process_in_the_file_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holder: Any, held: bool
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", unsupported)
    (tmp_path / LOCK).write_text(holder if isinstance(holder, str) else json.dumps(holder))
    if held:
        assert code_of(tmp_path) == "F496"
        assert (tmp_path / LOCK).exists()
    else:
        FolderLock(tmp_path).release()
