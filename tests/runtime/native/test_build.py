"""Building machine code: no compiler, one that refuses, broken files, where code is kept."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pytest
import torch

import fgg
from fgg.api.compile import compile
from fgg.grammar.domains import with_sizes
from fgg.runtime.native import build as native_build
from tests.helpers.native import in_cpp, items_of, needs_compiler, random_run, same


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    grammar = with_sizes(fgg.load("hmm"), {"k": 5, "d": 7})
    program = in_cpp(grammar)
    weights, inputs = program.weights(seed=1), {"w": [[0, 1, 2]]}
    with pytest.warns(UserWarning, match=r"F435.*no C\+\+ compiler"):
        found = program.log_z(weights, inputs)
    torch.testing.assert_close(found, compile(grammar).log_z(weights, inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.log_z(weights, inputs)  # it is said once


def test_a_compiler_that_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*) echo broken 1.0; exit 0;; esac\n'
        'echo "error: I will not" >&2\nexit 1\n'
    )
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    program = in_cpp(with_sizes(fgg.load("hmm"), {"k": 6, "d": 5}))
    with pytest.warns(UserWarning, match="I will not"):
        program.log_z(program.weights(seed=1), {"w": [[0, 1, 4]]})
    assert not [p for p in native_build.folder().iterdir() if p.name.startswith("build-")]


@needs_compiler
@pytest.mark.parametrize("size", [0, 10, 5000, 12000])
def test_a_broken_file_is_made_again(size: int) -> None:
    others = "int prepare() { return 0; } int outside() { return 0; } int through() { return 0; }"
    source = f'extern "C" {{ int inside() {{ return {size}; }} {others} }}\n'
    path = native_build.path_of(source, "float32")
    native_build.build(source, "float32", path)
    whole = path.read_bytes()
    assert len(whole) > 12000
    path.write_bytes(whole[:size])  # as after a crash: loading it would end the process
    made = native_build.library(source, "float32")
    assert len(path.read_bytes()) > 12000 and made.inside() == size


@needs_compiler
def test_arguments_of_the_compiler_count(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = set()
    for named in ("", "c++ -ffast-math", "c++ -g"):
        monkeypatch.setenv("CXX", named)
        paths.add(native_build.path_of("text", "float32"))
    assert len(paths) == 3
    # Infinities mean something, whatever the compiler is told.
    monkeypatch.setenv("CXX", "c++ -ffast-math")
    program = in_cpp(with_sizes(fgg.load("pair_hmm"), {"letters": 2}))
    items = items_of(program.grammar, [2, 3], random.Random(2), missing=0.0)
    same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_machine_code_is_kept_where_only_the_user_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    native_build.folder.cache_clear()
    try:
        mine = tmp_path / "mine"
        monkeypatch.setenv("FGG_CACHE", str(mine))
        assert native_build.folder() == mine and mine.stat().st_mode & 0o077 == 0
        native_build.folder.cache_clear()
        mine.chmod(0o777)
        assert native_build.folder() != mine
        native_build.folder.cache_clear()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("FGG_CACHE", "near")
        assert native_build.folder() == tmp_path / "near"
        native_build.folder.cache_clear()
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("FGG_CACHE", str(tmp_path / "file"))
        assert native_build.folder() != tmp_path / "file"
    finally:
        native_build.folder.cache_clear()
