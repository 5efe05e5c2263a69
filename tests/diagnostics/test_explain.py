"""Every code has a page, and its examples do what they say.

A page has a section `Wrong` and a section `Right`. Each holds a grammar (```` ```fgg ````), or
commands (```` ```console ````, or ```` ```python ```` where there is none) and the files
(```` ```file NAME ````) that they need, which may be written in another way than as they stand:
`in latin-1`, `as an array`, `N times`. The files of the wrong example are there for the right one
too.
"""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fgg.cli import main
from fgg.cli.commands.explain import page
from fgg.compiler import load_text
from fgg.diagnostics import Diagnostic, GrammarError, render
from fgg.diagnostics.codes import CODES
from tests.conftest import Golden
from tests.helpers.places import ROOT

PAGES = ROOT / "fgg" / "diagnostics" / "explain"
WITHOUT_PLACE = {"F136"}  # what is missing has no place

_FENCE = re.compile(r"^```(\w+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_CODE = re.compile(r"^(?:error|warning)\[(F\d{3})\]", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    kind: str
    note: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """The codes and the text of what was reported, and whether all went well."""

    codes: tuple[str, ...]
    text: str
    good: bool
    diagnostics: tuple[Diagnostic, ...] = ()


Run = Callable[[tuple[Block, ...]], Outcome]


def blocks(code: str, title: str) -> tuple[Block, ...]:
    """The fenced blocks of a section."""
    section = page(code).split(f"\n## {title}\n")[1].split("\n## ")[0]
    return tuple(Block(*found.groups()) for found in _FENCE.finditer(section))


def write(block: Block) -> None:
    """Write the file that a block describes."""
    name, _, how = block.note.partition(" ")
    if how == "as an array":
        np.save(name, np.array(json.loads(block.text)))
    elif how.endswith(" times"):
        Path(name).write_text(block.text * int(how.removesuffix(" times")), "utf-8")
    else:
        Path(name).write_text(block.text, how.removeprefix("in ") or "utf-8")


def run_python(text: str) -> Outcome:
    """What a script that uses the package reports."""
    try:
        exec(compile(text, "<example>", "exec"), {})
    except GrammarError as error:
        found = error.diagnostics
        return Outcome(tuple(d.code for d in found), str(error), False)
    return Outcome((), "", True)


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Run the blocks of a section in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_section(section: tuple[Block, ...]) -> Outcome:
        if [block.kind for block in section] == ["fgg"]:
            grammar, found, source = load_text(section[0].text, "example.fgg")
            text = "\n\n".join(render(d, source) for d in found)
            return Outcome(tuple(d.code for d in found), text, grammar is not None, found)
        *files, commands = section
        assert {block.kind for block in files} <= {"file"}
        assert commands.kind in ("console", "python")
        for block in files:
            write(block)
        if commands.kind == "python":
            return run_python(commands.text)
        text, good = "", True
        for line in commands.text.splitlines():
            words = shlex.split(line.removeprefix("$ "))
            while "=" in words[0]:
                monkeypatch.setenv(*words.pop(0).split("=", 1))
            assert words.pop(0) == "fggc", line
            status = main(words)
            good &= status == 0
            text += f"{line}\n{capfdbinary.readouterr().err.decode()}"
        return Outcome(tuple(_CODE.findall(text)), text.rstrip("\n"), good)

    return run_section


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_first_line_is_the_title(code: str) -> None:
    text = page(code)
    assert text.split("\n", 1)[0] == f"# {code}: {CODES[code].title}"
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Wrong", "Right"]
    prose = text.split("\n## Wrong\n")[0].split("\n", 1)[1]
    assert len(prose.split()) >= 8, "a page says what the code means"
    assert all(len(line) <= 100 for line in prose.splitlines())


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_wrong_example_is_wrong(code: str, run: Run) -> None:
    outcome = run(blocks(code, "Wrong"))
    assert code in outcome.codes
    assert len(set(outcome.codes)) <= 2, "one mistake, not a flood of messages"
    assert outcome.good == (CODES[code].severity == "warning")
    for diagnostic in outcome.diagnostics:
        assert diagnostic.span is not None or diagnostic.code in WITHOUT_PLACE
        assert_style(diagnostic)


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_right_example_is_right(code: str, run: Run) -> None:
    wrong, right = blocks(code, "Wrong"), blocks(code, "Right")
    if wrong[0].kind == "file":
        run(wrong)
    outcome = run(right)
    assert outcome.good
    assert outcome.codes == ()


@pytest.mark.parametrize("group", sorted({code[:2] for code in CODES}))
def test_the_texts_of_all_wrong_examples(group: str, run: Run, golden: Golden) -> None:
    codes = [code for code in sorted(CODES) if code.startswith(group)]
    text = "\n\n".join(run(blocks(code, "Wrong")).text for code in codes) + "\n"
    text = re.sub(r"process \d+, `[^`]*`", "process 4321, `fggc train hmm`", text)
    golden(re.sub(r"`kill \d+`", "`kill 4321`", text))


def assert_style(diagnostic: Diagnostic) -> None:
    """Lower case, no full stop, names in backticks, the words of the language."""
    for text in (diagnostic.message, diagnostic.label, diagnostic.help):
        assert not text.endswith((".", " ")), text
        assert text.count("`") % 2 == 0, text
        assert not re.search(
            r"(?i)\b(python|torch|lark|numpy|token|nan|none type|exception)\b", text
        )
    assert not re.match(r"[A-Z][a-z]", diagnostic.message), diagnostic.message
