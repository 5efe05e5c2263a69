"""What `pyproject.toml` declares is what lies on disk and what a wheel holds."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_wheel_holds_fgg_and_nothing_else(tmp_path: Path) -> None:
    # A copy, because setuptools packs whatever an earlier build left in build/.
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for directory in PACKAGE_DIR.values():
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / directory, source / directory, symlinks=True, ignore=ignore)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    built = subprocess.run([*command, tmp_path, source], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    expected = [f"{package.replace('.', '/')}/{path.name}" for package, path in files_on_disk()]
    assert sorted(names) == sorted(expected)
    assert all(name.startswith("fgg/") for name in names)
