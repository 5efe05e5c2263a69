"""Completion in real shells: commands, options, their values, and library grammars."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_commands import run

Capture = pytest.CaptureFixture[str]

CASES = [
    ("fggc dec", {"decode", "decompose"}),
    ("fggc decode --kb", {"--kbest"}),
    ("fggc decode hmm --method ", {"viterbi", "mbr"}),
    ("fggc run hmm_", {"hmm_blocks", "hmm_rank"}),
    ("fggc completion ", {"bash", "zsh", "fish"}),
    ("fggc train hmm --sp", {"--space"}),
]


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: Capture) -> Path:
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    code, out, err = run(capsys, "completion", shell)
    assert (code, err) == (0, "")
    path = tmp_path / f"fggc.{shell}"
    path.write_text(out)
    return path


def output(shell: str, text: str, folder: Path) -> set[str]:
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *flags, "-c", text],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(("line", "expected"), CASES, ids=[line for line, _ in CASES])
def test_bash_completes(script: Path, line: str, expected: set[str], tmp_path: Path) -> None:
    words = line.split(" ")
    listed = " ".join(f"'{word}'" for word in words)
    text = f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _fggc\n"
    text += 'printf "%s\\n" "${COMPREPLY[@]}"'
    assert output("bash", text, tmp_path) == expected


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_leaves_files_to_the_shell(script: Path, tmp_path: Path) -> None:
    text = f"source {script}; complete -p fggc; COMP_WORDS=(fggc decode hmm --data x);"
    text += " COMP_CWORD=4; _fggc; echo ${#COMPREPLY[@]}"
    assert output("bash", text, tmp_path) == {"complete -o default -F _fggc fggc", "0"}


@pytest.mark.parametrize("script", ["fish"], indirect=True)
@pytest.mark.parametrize(("line", "expected"), CASES, ids=[line for line, _ in CASES])
def test_fish_completes(script: Path, line: str, expected: set[str], tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    found = output("fish", f"source {script}; complete -C '{line}'", folder)
    assert {text.split("\t")[0] for text in found} == expected


ZSH = """
compdef() {{ }}
compadd() {{ shift; print -l -- ${{(M)@:#${{words[CURRENT]}}*}} }}
_describe() {{
  local name=${{@[-1]}}; local -a pairs; pairs=(${{(P)name}})
  for pair in $pairs; do
    [[ ${{pair%%:*}} == ${{words[CURRENT]}}* ]] && print -- ${{pair%%:*}}
  done
  return 0
}}
_files() {{ }}
source {script}
words=({words}); CURRENT={current}
_fggc
"""


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
@pytest.mark.parametrize(("line", "expected"), CASES, ids=[line for line, _ in CASES])
def test_zsh_completes(script: Path, line: str, expected: set[str], tmp_path: Path) -> None:
    words = line.split(" ")
    listed = " ".join(f"'{word}'" for word in words)
    text = ZSH.format(script=script, words=listed, current=len(words))
    assert output("zsh", text, tmp_path) == expected
