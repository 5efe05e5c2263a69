"""What `pyproject.toml` declares is what lies on disk and what a wheel holds."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from fgg.cli import COMMANDS
from tests.helpers.places import ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
PACKAGES: list[str] = CONFIG["packages"]
PACKAGE_DIR: dict[str, str] = CONFIG["package-dir"]
PACKAGE_DATA: dict[str, list[str]] = CONFIG["package-data"]
LINKS = [name for name in PACKAGE_DIR if name != "fgg"]


def files_on_disk() -> Iterator[tuple[str, Path]]:
    """Yield (package, file) for all files below the mapped directories, not following links."""
    for top, directory in PACKAGE_DIR.items():
        for path in sorted((ROOT / directory).rglob("*")):
            inside = path.relative_to(ROOT / directory)
            link = top == "fgg" and f"fgg.{inside.parts[0]}" in LINKS
            if path.is_file() and not link and "__pycache__" not in inside.parts:
                yield ".".join((top, *inside.parts[:-1])), path


def directory_of(package: str) -> Path:
    """Return the directory that the map gives to a package."""
    top = max((name for name in PACKAGE_DIR if f"{package}.".startswith(f"{name}.")), key=len)
    return ROOT.joinpath(PACKAGE_DIR[top], *package.removeprefix(top).split(".")[1:])


def matches(path: Path, package: str) -> bool:
    return any(path.match(pattern) for pattern in PACKAGE_DATA.get(package, []))


def test_declared_packages_are_those_on_disk() -> None:
    on_disk = {package for package, _ in files_on_disk()}
    assert sorted(PACKAGES) == sorted(on_disk)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_has_an_init(package: str) -> None:
    assert (directory_of(package) / "__init__.py").is_file()


@pytest.mark.parametrize("package", LINKS)
def test_link_points_to_its_directory(package: str) -> None:
    link = ROOT.joinpath(*package.split("."))
    if link.is_file():
        pytest.skip("this checkout has plain files in place of links")
    assert link.is_symlink()
    assert link.readlink() == Path("..") / PACKAGE_DIR[package]
    assert link.resolve() == directory_of(package)


def test_data_files_are_declared() -> None:
    forgotten = [
        str(path.relative_to(ROOT))
        for package, path in files_on_disk()
        if path.suffix != ".py" and not matches(path, package)
    ]
    assert not forgotten, "add a pattern to package-data"


@pytest.mark.parametrize(
    ("package", "pattern"), [(p, pattern) for p, each in PACKAGE_DATA.items() for pattern in each]
)
def test_data_pattern_finds_a_file(package: str, pattern: str) -> None:
    assert any(directory_of(package).glob(pattern))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    # A copy, because setuptools packs whatever an earlier build left in build/.
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for directory in PACKAGE_DIR.values():
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / directory, source / directory, symlinks=True, ignore=ignore)
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(source),
    ]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return folder


@pytest.fixture(scope="module")
def unpacked(built: Path) -> Path:
    """What the wheel installs."""
    (wheel,) = built.glob("*.whl")
    folder = built / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.slow
def test_wheel_and_source_distribution_hold_each_file_once(built: Path, unpacked: Path) -> None:
    names = [
        path.relative_to(unpacked).as_posix()
        for path in unpacked.rglob("*")
        if path.is_file() and ".dist-info" not in path.parts[len(unpacked.parts)]
    ]
    expected = [f"{package.replace('.', '/')}/{path.name}" for package, path in files_on_disk()]
    assert sorted(names) == sorted(expected)
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        modules = [member.name for member in archive if member.name.endswith(".py")]
    assert len(modules) == len([name for name in names if name.endswith(".py")])


@pytest.mark.slow
def test_wheel_says_whose_it_is(unpacked: Path) -> None:
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    message = Parser().parsestr(metadata.read_text(encoding="utf-8"))
    assert message["License-Expression"] == "MIT"
    assert "Typing :: Typed" in message.get_all("Classifier", [])
    extras = {"bench", "dev", "docs", "draw", "explore", "gpu", "lsp", "plot"}
    assert set(message.get_all("Provides-Extra", [])) == extras
    assert "structured probabilistic model" in str(message.get_payload())


def run_unpacked(unpacked: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `fggc` as it was unpacked from the wheel, in a folder outside the checkout."""
    program = "import sys, fgg; assert fgg.__file__.startswith(sys.argv[1]), fgg.__file__\n"
    program += "from fgg.cli import main\nsys.exit(main(sys.argv[2:]))"
    command = [sys.executable, "-c", program, str(unpacked), *words]
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "FGG_CACHE": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "bench"])
def test_command_of_a_wheel_says_what_it_does(unpacked: Path, tmp_path: Path, name: str) -> None:
    outcome = run_unpacked(unpacked, tmp_path, name, "--help")
    assert outcome.returncode == 0, outcome.stderr
    assert f"fggc {name}" in outcome.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("check", "pcfg"),
        ("draw", "hmm", "-o", "hmm.svg"),
        ("compile", "hmm", "-o", "hmm.py"),
        ("verify", "hmm", "--length", "2"),
        ("identify", "hmm", "--length", "3", "--set", "k=2", "--set", "d=2"),
        ("run", "hmm", "--seed", "1", "--input", "w=0,1,2"),
        ("explain", "F103"),
        ("format", "--check", str(ROOT / "grammars" / "hmm.fgg")),
        ("explore", "hmm", "--export", "hmm.html"),
        ("completion", "bash"),
    ],
    ids=lambda words: words[0],
)
def test_wheel_does_its_work_outside_the_checkout(
    unpacked: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    outcome = run_unpacked(unpacked, tmp_path, *words)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout or list(tmp_path.iterdir())


@pytest.mark.slow
def test_benchmarks_outside_a_checkout_say_where_they_are(unpacked: Path, tmp_path: Path) -> None:
    outcome = run_unpacked(unpacked, tmp_path, "bench", "hmm")
    assert outcome.returncode == 2
    assert "checkout" in outcome.stderr
    assert "Traceback" not in outcome.stderr
