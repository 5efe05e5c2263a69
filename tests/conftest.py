"""Golden files, Hypothesis profiles, and where machine code goes."""

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).resolve().parent

# `ci` tries the same examples on every run; `--hypothesis-profile=explore` looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    """Keep machine code that tests build in a folder of their process, from collection on."""
    folder = tempfile.TemporaryDirectory(prefix="fgg-tests-")
    config.add_cleanup(folder.cleanup)
    os.environ["FGG_CACHE"] = folder.name


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands do not say how far they are, however busy the machine."""
    monkeypatch.setattr("fgg.cli.progress.PATIENCE", 1e6)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The types of numbers for which machine code is built, in a cache that is empty at first."""
    from fgg.runtime.native import build as native

    dtypes: list[str] = []
    build = native.build

    def counted(source: str, dtype: str, path: Path) -> None:
        dtypes.append(dtype)
        build(source, dtype, path)

    monkeypatch.setattr(native, "build", counted)
    monkeypatch.setenv("FGG_CACHE", str(tmp_path / "cache"))
    native.folder.cache_clear()
    native.library.cache_clear()
    yield dtypes
    native.folder.cache_clear()
    native.library.cache_clear()


@dataclass(frozen=True)
class Golden:
    """Compares texts with the files of one test, or rewrites these files."""

    stem: Path
    update: bool

    def __call__(self, text: str, suffix: str = "txt") -> None:
        path = self.stem.with_name(f"{self.stem.name}.{suffix}")
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        if not path.exists():
            pytest.fail(f"{path} is missing; `pytest --update-golden` writes it", pytrace=False)
        # Bytes, so that no line end is translated; the repository keeps `\n`.
        assert text == path.read_bytes().decode(), f"{path} differs"


def golden_stem(tests: Path, module: Path, names: tuple[str, ...]) -> Path:
    """Return where the golden files of a test lie, without suffix.

    `tests/check/test_values.py::test_chain[a b]` gives `tests/golden/check/values/chain-a-b`.
    """
    folder = tests / "golden" / module.relative_to(tests).parent / module.stem.removeprefix("test_")
    plain = (re.sub(r"[^\w.-]+", "-", name.removeprefix("test_")).strip("-") for name in names)
    return folder / "-".join(plain)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    cls = request.cls
    names = ((cls.__name__,) if cls is not None else ()) + (request.node.name,)
    update = bool(request.config.getoption("--update-golden"))
    return Golden(golden_stem(TESTS, request.path, names), update)
