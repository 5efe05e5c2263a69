"""Every code block in the README and the documentation works."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from textwrap import indent

import pytest

from docs.layers import SVG, picture
from fgg.cli import COMMANDS, main
from fgg.compiler import load_text
from tests.helpers.places import ROOT

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"^```file (\S+)\n(.*?)^```$", re.M | re.S)  # as in the pages of codes
TUTORIALS = ROOT / "docs" / "tutorials"  # their blocks share variables: see tests/site
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent != TUTORIALS),
]
DOCS = {path.stem: path for path in PAGES}
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
EXAMPLES = ROOT / "examples" / "README.md"

PREAMBLE = """
domain T = 2  domain N = 2  domain P = 2  domain C = N + P  domain W = 2  domain A = 2
domain B = 2  domain M = 2
"""


def blocks(page: Path, kind: str) -> list[str]:
    """The text of the blocks of a kind; `python picture` is Python, too."""
    found = BLOCK.findall(page.read_text("utf-8"))
    return [text for name, text in found if name in (kind, f"{kind} picture")]


def commands(page: Path) -> list[list[str]]:
    """The arguments of the commands in a page."""
    found = []
    for line in "".join(blocks(page, "sh")).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "fggc"
        found.append(arguments)
    return found


def file_name(text: str) -> str:
    match = re.match(r"# (\S+\.fgg):", text)
    return match.group(1) if match else "grammar.fgg"


@pytest.fixture
def readme_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for text in (text for page in PAGES for text in blocks(page, "fgg")):
        (tmp_path / file_name(text)).write_text(text, "utf-8")
    for page in PAGES:
        for name, text in FILE.findall(page.read_text("utf-8")):
            (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_readme_grammars_are_clean(readme_folder: Path) -> None:
    for path in readme_folder.glob("*.fgg"):
        _, diagnostics, _ = load_text(path.read_text("utf-8"))
        assert diagnostics == ()


def test_readme_commands_run(readme_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(commands(ROOT / "README.md")) >= 4
    for arguments in commands(ROOT / "README.md"):
        assert main(arguments) == 0, arguments
    assert (readme_folder / "weather.svg").exists()


def test_commands_of_training_run(readme_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in commands(DOCS["training"]):
        assert main(arguments) == 0, arguments
    assert (readme_folder / "run" / "curves.svg").exists()
    assert "perplexity" in capsys.readouterr().out


def test_readme_shows_what_check_prints(
    readme_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = blocks(ROOT / "README.md", "text")[1:3]
    assert main(["check", "weather.fgg"]) == 0
    assert capsys.readouterr().out == good
    path = readme_folder / "weather.fgg"
    path.write_text(
        path.read_text("utf-8").replace("last:  Day(t) -> mood", "last:  Day(t) -> mod")
    )
    assert main(["check", "weather.fgg"]) == 1
    assert bad in capsys.readouterr().err


PYTHON = [(page, text) for page in PAGES for text in blocks(page, "python")]


@pytest.mark.parametrize(("page", "text"), PYTHON, ids=[page.name for page, _ in PYTHON])
def test_python_blocks_run(
    page: Path, text: str, readme_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(readme_folder)
    written = [line for line in commands(page) if "compile" in line and "-o" in line]
    for arguments in written:  # the modules that a block may import
        assert main(arguments) == 0
        monkeypatch.delitem(sys.modules, Path(arguments[-1]).stem, raising=False)
    exec(compile(text, page.name, "exec"), {})


def test_the_cost_in_the_documentation_is_what_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, shown = blocks(DOCS["compiling"], "text")
    assert main(["compile", "eisner"]) == 0
    assert indent(program, "    ") in capsys.readouterr().out
    assert main(["compile", "pcfg_dense", "--emit", "cost"]) == 0
    assert capsys.readouterr().out.startswith(shown)


def test_the_report_in_the_documentation_is_what_is_printed(
    readme_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS["decomposing"]
    merged, shown = blocks(page, "text")
    assert main(["show", "hmm", "--merge", "--emit", "fgg"]) == 0
    assert merged in capsys.readouterr().out
    first = next(line for line in commands(page) if line[0] == "decompose")
    assert main(first) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_commands_of_the_documentation_run(page: Path, readme_folder: Path) -> None:
    for arguments in commands(page):
        assert main(arguments) == 0, arguments


def test_readme_says_how_large_the_library_is() -> None:
    from fgg.library import library_names

    assert f"The library has {len(library_names())} grammars" in (ROOT / "README.md").read_text()


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in COMMANDS:
        assert f"`{name}`" in text or f"fggc {name} " in text, name


NAMED = re.compile(r"`((?:fgg|compiler|docs|runtime|grammars|tests|examples)/[\w/.]+)`")


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    missing = {name for name in NAMED.findall(page.read_text("utf-8")) if not is_source(name)}
    assert missing == set()


def is_source(name: str) -> bool:
    """Whether a file or folder of this name exists in the repository."""
    return (ROOT / name).exists()


def test_the_pipeline_names_files_of_its_folders() -> None:
    section = CONTRIBUTING.read_text("utf-8").split("## Where a line of code lives")[1]
    rows = [line.split("|") for line in section.split("###")[0].splitlines() if "`" in line]
    assert len(rows) >= 12
    for _, stage, folder, start, *_ in rows:
        home = NAMED.findall(folder)[0]
        for name in re.findall(r"`([\w/.]+)`", start):
            assert is_source(f"{home}{name}") or is_source(name), f"{stage}: {name}"


def folders() -> list[str]:
    """The folders of modules right below the three tops, links left out."""
    tops = [ROOT / top for top in ("fgg", "compiler", "runtime")]
    paths = [path.parent for top in tops for path in sorted(top.glob("*/__init__.py"))]
    return [path.relative_to(ROOT).as_posix() for path in paths if not path.is_symlink()]


def test_the_tour_names_every_folder_of_modules() -> None:
    text = CONTRIBUTING.read_text("utf-8")
    for folder in folders():
        assert f"| `{folder}/` |" in text, folder


def test_the_picture_of_the_layers_is_up_to_date() -> None:
    assert picture() == SVG.read_text("utf-8"), "`python docs/layers.py` draws it again"


def test_the_picture_of_the_layers_names_every_folder() -> None:
    words = set(re.findall(r"\w+", picture()))
    assert {folder.split("/")[1] for folder in folders()} <= words


def test_language_page_blocks_parse() -> None:
    """The blocks are excerpts: each parses without a syntax error."""
    found = blocks(DOCS["language"], "fgg part")
    assert len(found) >= 6
    for text in found:
        _, diagnostics, _ = load_text(PREAMBLE + text)
        assert [d for d in diagnostics if d.code.startswith("F0")] == [], text


def test_examples_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for arguments in commands(EXAMPLES):
        assert main(arguments) == 0, arguments
    for text in blocks(EXAMPLES, "python"):
        exec(compile(text, "examples", "exec"), {})


def test_the_counterexample_in_the_documentation_is_what_is_printed(
    readme_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS["verifying"]
    verdict, shown = blocks(page, "text")
    exec(compile(blocks(page, "python")[1], "verifying", "exec"), {})
    assert capsys.readouterr().out == shown
    assert main(commands(page)[0]) == 0
    assert capsys.readouterr().out.startswith(verdict)


def test_what_identifying_prints_is_as_documented(
    readme_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS["identifiability"]
    *texts, _ = blocks(page, "text")
    (drawing,) = (text for text in texts if text.startswith("fggc"))
    texts.remove(drawing)
    for arguments in commands(page):
        assert main(arguments) == 0
    assert main(shlex.split(drawing)[1:]) == 1  # what moves is not identifiable
    exec(compile(blocks(page, "python")[0], "identifiability", "exec"), {})
    printed = re.sub(r"\de-\d+", "tiny", capsys.readouterr().out)
    for part in (part for text in texts for part in text.split("…\n")):
        assert re.sub(r"\de-\d+", "tiny", part) in printed
