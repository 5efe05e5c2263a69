"""Programs in C++ as machine code: compiled once, kept on disk, loaded when they are needed."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch

from fgg.diagnostics import Diagnostic

FLAGS = (
    "-std=c++17",
    "-O2",
    "-ftree-vectorize",
    "-march=native",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fPIC",
    "-shared",
    "-w",
)
GNU_FLAGS = ("-fvect-cost-model=dynamic",)
"""With `-O2` other compilers vectorise as much by themselves."""
TYPES = {torch.float32: "float", torch.float64: "double"}
PRODUCTS = {torch.float32: "sgemm_", torch.float64: "dgemm_"}
SECONDS = 600


class CannotBuild(Exception):
    """There is no C++ compiler, or it refused a program."""


def no_machine_code(reason: str) -> Diagnostic:
    """The warning that passes are tensor operations, and why."""
    return Diagnostic(
        code="F435",
        message=f"{reason}; passes are tensor operations",
        help="install a C++ compiler or name one in `CXX`, or leave `jit` out",
    )


def compiler() -> tuple[str, ...]:
    """The C++ compiler and its first arguments: `$CXX`, or what is there. Raises CannotBuild."""
    return _compiler(os.environ.get("CXX", ""))


@cache
def _compiler(named: str) -> tuple[str, ...]:
    try:
        given = shlex.split(named)
    except ValueError:
        raise CannotBuild(f"`CXX` is no command: {named}") from None
    for command in [given] if given else [["c++"], ["g++"], ["clang++"]]:
        found = shutil.which(command[0])
        if found is not None:
            return (found, *command[1:])
    raise CannotBuild(f"there is no C++ compiler ({shlex.join(given) or 'c++, g++, clang++'})")


def flags() -> tuple[str, ...]:
    """The arguments of the compiler."""
    return FLAGS if "clang" in _version(compiler()) else FLAGS + GNU_FLAGS


@cache
def _version(command: tuple[str, ...]) -> str:
    return _run([*command, "--version"])


def _machine() -> str:
    """What machine code depends on besides its source: the compiler and the processor."""
    return "\n".join([_version(compiler()), _features(), sys.platform])


@cache
def _features() -> str:
    """What the processor can do."""
    found = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found += next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        found += platform.processor()
    return found


@cache
def folder() -> Path:
    """Where machine code is kept: `$FGG_CACHE`, or the user's own cache.

    Code from it is run: if anyone else could write there, a folder for this process is taken.
    """
    given = os.environ.get("FGG_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    wanted = Path(given) if given else Path(base) / "fgg"
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = wanted.stat()
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not others and found.st_uid == os.getuid() and os.access(wanted, os.W_OK):
            return wanted
    except (OSError, AttributeError):
        pass
    _TEMPORARY.append(tempfile.TemporaryDirectory(prefix="fgg-"))
    return Path(_TEMPORARY[-1].name)


_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []


def path_of(source: str, dtype: torch.dtype) -> Path:
    """Where the machine code of a program is kept."""
    own = "\n".join([source, *flags(), TYPES[dtype], _machine()])
    return folder() / f"{sha256(own.encode()).hexdigest()[:32]}.so"


@cache
def library(source: str, dtype: torch.dtype) -> ctypes.CDLL:
    """The machine code of a program for numbers of a type. Raises CannotBuild."""
    path = path_of(source, dtype)
    if path.is_file():
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            pass  # a file that is no machine code any more: it is made again
    try:
        build(source, dtype, path)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CannotBuild(f"the machine code could not be kept or loaded: {error}") from None


def build(source: str, dtype: torch.dtype, path: Path) -> None:
    """Compile to a file beside, then give it its name: nobody sees half of it."""
    with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as work:
        text = Path(work) / "program.cpp"
        text.write_text(source, encoding="utf-8")
        result = Path(work) / "program.so"
        _run([*compiler(), *flags(), f"-DT={TYPES[dtype]}", "-o", str(result), str(text)])
        os.replace(result, path)


def _run(command: list[str]) -> str:
    """What a command prints. Raises CannotBuild."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"the C++ compiler did not run: {error}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [
            "no reason given"
        ]
        raise CannotBuild(f"the C++ compiler refused the program: {lines[0].strip()}")
    return done.stdout


@cache
def matrix_product(dtype: torch.dtype) -> ctypes.c_void_p:
    """The matrix product that torch itself uses, if it can be found; else null."""
    ending = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    path = Path(torch.__file__).parent / "lib" / f"libtorch_cpu.{ending}"
    try:
        found = getattr(ctypes.CDLL(str(path)), PRODUCTS[dtype])
    except (OSError, AttributeError):
        return ctypes.c_void_p(None)
    return ctypes.cast(found, ctypes.c_void_p)
