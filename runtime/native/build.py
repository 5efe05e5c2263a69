"""Programs in C++ as machine code: compiled once, kept on disk, loaded when they are needed."""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fgg.diagnostics import Diagnostic
from fgg.progress import note, stage

FLAGS = (
    "-fno-fast-math",  # whatever `CXX` says: infinities mean something
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
TYPES = {"float32": "float", "float64": "double"}
PRODUCTS = {"float32": "sgemm_", "float64": "dgemm_"}
PASSES = ("prepare", "inside", "outside", "through")
SECONDS = 600


COMPILER = "install a C++ compiler or name one in `CXX`, or leave the backend to `auto`"
FOLDER = "name a folder of your own in `FGG_CACHE`, or leave the backend to `auto`"
BUILDING = "building machine code: this takes some seconds, once"


class CannotBuild(Exception):
    """There is no C++ compiler, or it refused a program, or the result cannot be kept."""

    def __init__(self, reason: str, help: str = COMPILER) -> None:
        super().__init__(reason)
        self.help = help

    def note(self) -> Diagnostic:
        """The warning that passes are tensor operations, and why."""
        message = f"{self}; passes are tensor operations"
        return Diagnostic(code="F435", message=message, help=self.help)


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


def no_compiler() -> str:
    """Why there is no C++ compiler; empty if there is one."""
    try:
        compiler()
    except CannotBuild as error:
        return str(error)
    return ""


def flags() -> tuple[str, ...]:
    """The arguments of the compiler."""
    return FLAGS if "clang" in _version(compiler()) else FLAGS + GNU_FLAGS


@cache
def _version(command: tuple[str, ...]) -> str:
    return _run([*command, "--version"])


def _machine() -> str:
    """What machine code depends on besides its source: the compiler and the processor."""
    return "\n".join([*compiler(), _version(compiler()), _features(), sys.platform])


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
    """Where machine code is kept: `$FGG_CACHE`, or the user's own cache. Raises OSError.

    Code from it is run: if anyone else could write there, a folder for this process is taken.
    """
    given = os.environ.get("FGG_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    wanted = (Path(given) if given else Path(base) / "fgg").expanduser().absolute()
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = wanted.stat()
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not others and found.st_uid == os.getuid() and os.access(wanted, os.W_OK):
            return wanted
    except (OSError, AttributeError, RuntimeError):
        pass
    own = Path(tempfile.mkdtemp(prefix="fgg-"))
    atexit.register(_remove, own, os.getpid())
    return own


def _remove(path: Path, owner: int) -> None:
    """Remove the folder of a process at its end; a process forked from it leaves it alone."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def path_of(source: str, dtype: str) -> Path:
    """Where the machine code of a program is kept."""
    own = "\n".join([source, *flags(), TYPES[dtype], _machine()])
    return folder() / f"{sha256(own.encode()).hexdigest()[:32]}.so"


def is_kept(source: str, dtype: str) -> bool:
    """Whether the machine code of a program is there already."""
    try:
        return _is_whole(path_of(source, dtype))
    except (CannotBuild, OSError):
        return False


@cache
def library(source: str, dtype: str, functions: tuple[str, ...] = PASSES) -> ctypes.PyDLL:
    """The machine code of a program for numbers of a type, with its functions. Raises CannotBuild.

    It lets go of Python's lock by itself while it works.
    """
    try:
        path = path_of(source, dtype)
        if not _is_whole(path):
            with _alone(path):
                if not _is_whole(path):
                    note(BUILDING)
                    with stage("building machine code"):
                        build(source, dtype, path)
        found = ctypes.PyDLL(str(path))
        for name in functions:
            getattr(found, name)
        return found
    except AttributeError:
        raise CannotBuild("the machine code lacks a function", FOLDER) from None
    except OSError as error:
        if "symbol" in str(error):
            raise CannotBuild(f"the C++ compiler made no library: {error}") from None
        raise CannotBuild(f"the machine code cannot be kept or loaded: {error}", FOLDER) from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process builds this file, where files can be locked."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path.with_suffix(".lock"), "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_whole(path: Path) -> bool:
    """Whether a file is what was once built: loading half of one would end the process."""
    try:
        return _sum_of(path) == path.with_suffix(".sum").read_text(encoding="ascii")
    except (OSError, ValueError):
        return False


def _sum_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def build(source: str, dtype: str, path: Path) -> None:
    """Compile to a file beside, then give it its name: nobody sees half of it."""
    with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as work:
        text = Path(work) / "program.cpp"
        text.write_text(source, encoding="utf-8")
        result = Path(work) / "program.so"
        _run([*compiler(), *flags(), f"-DT={TYPES[dtype]}", "-o", str(result), str(text)])
        if not result.is_file():
            raise CannotBuild(f"`{shlex.join(compiler())}` wrote no file: it is no C++ compiler")
        check = Path(work) / "program.sum"
        check.write_text(_sum_of(result), encoding="ascii")
        os.replace(result, path)
        os.replace(check, path.with_suffix(".sum"))


def _run(command: list[str]) -> str:
    """What a command prints. Raises CannotBuild."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"the C++ compiler did not run: {error}") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        told = [line for line in lines if "error" in line] or lines[-1:] or ["it gives no reason"]
        raise CannotBuild(f"the C++ compiler refused the program: {told[0]}")
    return done.stdout


class Host(ctypes.Structure):
    """What machine code asks of others: as the prelude of programs in C++ has it."""

    _fields_ = (
        ("multiply", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("place", ctypes.c_void_p),
        ("count", ctypes.c_void_p),
        ("save", ctypes.c_void_p),
        ("restore", ctypes.c_void_p),
        ("check", ctypes.c_void_p),
    )


THREADS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")


@cache
def host(dtype: str) -> Host:
    """The matrix product and the threads of torch, and the functions of this Python.

    torch's own OpenMP runtime is asked for threads, so that there is one pool of them, as large as
    torch says. Where torch has another kind of threads, machine code has one.
    """
    threads = [torch_function(name) for name in THREADS]
    found = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in PYTHON]
    if None in threads:
        threads = [None] * len(THREADS)
    return Host(torch_function(PRODUCTS[dtype]), *threads, *(f.value for f in found))


@cache
def torch_function(name: str) -> int | None:
    """The address of a function that torch itself uses, if it can be found."""
    ending = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return None
    path = Path(torch.origin).parent / "lib" / f"libtorch_cpu.{ending}"
    try:
        return ctypes.cast(getattr(ctypes.CDLL(str(path)), name), ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None
