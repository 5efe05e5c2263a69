"""Files that users name: pipes, sockets, devices and folders are refused wherever they stand."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fgg.cli import main
from fgg.files import map_array, read_limited
from tests.helpers.limits import time_limit

CHAIN = """
domain W = {w} factor emit(-> W){v} nonterminal S() start S rule S -> emit(o)
query string(w: W[n]) {{ rule S -> o = w[0] }}
"""
BLOCKS = """
domain W = 3 domain B = 2 factor block(W -> B) = map({m}) factor f(-> W)
nonterminal S() start S rule S -> f(w) block(w, b)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a pipe that nobody writes to, a socket, and grammars that name them."""
    monkeypatch.chdir(tmp_path)
    for name in ("pipe", "pipe.txt", "pipe.npy", "pipe.json", "pipe.safetensors"):
        os.mkfifo(name)
    Path("run").mkdir()
    os.mkfifo("run/settings.json")
    os.mkfifo("run/model.safetensors")
    Path("vocabulary.fgg").write_text(CHAIN.format(w='file("pipe")', v=""))
    Path("array.fgg").write_text(CHAIN.format(w="3", v=' = load("pipe.npy")'))
    Path("words.fgg").write_text(CHAIN.format(w="3", v=""))
    Path("lines.fgg").write_text(BLOCKS.format(m='"pipe"'))
    Path("map.fgg").write_text(BLOCKS.format(m='"pipe.npy"'))
    with time_limit(60):
        yield tmp_path


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check pipe", "F401"),
        ("check ./pipe.json", "F401"),
        ("check vocabulary.fgg", "F403"),
        ("check array.fgg", "F404"),
        ("check lines.fgg", "F490"),
        ("check map.fgg", "F490"),
        ("run words.fgg --input w=@pipe", "F401"),
        ("run words.fgg --input w=0 --params pipe.safetensors", "F401"),
        ("verify words.fgg --against pipe", "F401"),
        ("decode words.fgg --seed 1 --data pipe", "F401"),
        ("sample words.fgg --seed 1 --data pipe", "F401"),
        ("identify words.fgg --sweep n=1 --results pipe", "F401"),
        ("cluster pipe.txt --clusters 2", "F401"),
        ("unmix pcfg_ie --data pipe", "F401"),
        ("train words.fgg --data pipe.txt --out new", "F401"),
        ("eval run --data pipe", "F401"),
        ("train --resume --out run", "F479"),
        ("bench --from pipe.json", "F401"),
    ],
)
def test_no_command_waits_for_a_pipe(
    command: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) in (1, 2)
    told = capsys.readouterr().err
    assert f"error[{code}]" in told and "it is a pipe" in told


def test_what_is_no_regular_file_is_named() -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.bind("socket")
        for name, reason in (
            ("socket", "it is a socket"),
            ("/dev/null", "it is a device"),
            ("run", "it is a folder"),
            ("pipe", "it is a pipe"),
            ("missing", "No such file"),
        ):
            with pytest.raises(OSError, match=reason):
                read_limited(name)
            with pytest.raises(OSError, match=reason):
                map_array(name)


def test_a_file_that_is_too_large_is_not_read_to_its_end() -> None:
    with open("large", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        read_limited("large", 1000)


def test_a_map_of_the_wrong_length_is_refused_before_its_numbers_are_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    header = np.lib.format.open_memmap("huge.npy", mode="w+", dtype=np.int8, shape=(1 << 36,))
    del header
    Path("huge.fgg").write_text(BLOCKS.format(m='"huge.npy"'))
    assert main(["check", "huge.fgg"]) in (1, 2)
    assert "68719476736 blocks, but `W` has 3 values" in capsys.readouterr().err
