"""Help, suggestions for what is misspelt, and colours."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest

from fgg.cli import COMMANDS, GROUPS, main
from fgg.cli.help import EXAMPLES
from fgg.cli.terminal import painted, painted_diagnostic
from tests.cli.test_commands import run

Capture = pytest.CaptureFixture[str]
ESCAPE = "\x1b["


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_every_command_stands_in_one_group_of_the_overview(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)
    for title, commands in GROUPS.items():
        assert f"\n{title}:\n" in out
        for name, text in commands.items():
            assert f"  {name} " in out and text in out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.endswith(f"example:\n  {EXAMPLES[command]}\n")


def test_options_stand_in_sections_with_their_defaults(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["decode", "--help"])
    text = capsys.readouterr().out
    parts = text.split("\n\n")
    sections = {part.split("\n")[0]: " ".join(part.split()) for part in parts}
    assert list(sections)[-5:] == [
        *("what to compute on:", "data:", "how to compile:", "output:", "example:")
    ]
    assert "--query NAME" in sections["what to compute on:"]
    assert "(default: values)" in sections["output:"]
    assert "(default: viterbi)" in sections["options:"]
    assert "--space" in sections["how to compile:"] and "None" not in text


@pytest.mark.parametrize(
    "command", sorted(EXAMPLES.keys() - {"bench", "decompose", "completion", "explore", "lsp"})
)
def test_every_example_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "test.txt"):
        Path(name).write_text("the dog runs\na cat sees the dog\n")
    Path("model.fgg").write_text("size k = 2\n")
    if command == "eval":
        assert main(shlex.split(EXAMPLES["train"])[1:]) == 0
    if command == "check-certificate":
        words = "identify hmm --set k=2 d=2 --length 3 --no-float --certificate hmm.json"
        assert main(words.split()) == 0
    assert main(shlex.split(EXAMPLES[command])[1:]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message", "help"),
    [
        ("run hmm --marginal", "`fggc run` has no option `--marginal`", "mean `--marginals`"),
        ("run hmm --inptu=w=1", "no option `--inptu`", "mean `--input`"),
        ("train hmm --dat x", "no option `--dat`", "mean `--data`"),
        ("check hmm --qqqqqqqq", "no option `--qqqqqqqq`", "`fggc check --help`"),
        ("decode hmm --form valuess", "`--form` cannot be `valuess`", "mean `values`"),
        ("run hmm --semiring zzz", "`--semiring` cannot be `zzz`", "choices are `log`, `real`"),
        ("decod hmm", "there is no command `decod`", "mean `decode`"),
        ("completion bsh", "`shell` cannot be `bsh`", "mean `bash`"),
    ],
)
def test_what_is_misspelt_is_corrected(
    words: str, message: str, help: str, capsys: Capture
) -> None:
    code, out, err = run(capsys, *words.split())
    assert (code, out) == (2, "") and message in err and help in err


def test_colours_are_for_terminals_and_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    assert painted("x", "31", terminal) == "\x1b[31mx\x1b[0m"
    assert painted("x", "31", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("x", "31", terminal) == "x"
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert painted("x", "31", terminal) == "x"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert painted("x", "31", io.StringIO()) == "\x1b[31mx\x1b[0m"


def test_a_coloured_diagnostic_has_the_same_text() -> None:
    plain = "error[F103]: no `x`\n  --> g.fgg:1:2\n   |\n12 | a | b\n   |   ^^^ here\n   = help: y"
    colored = painted_diagnostic(plain, Terminal())
    assert colored.startswith("\x1b[1;31merror[F103]\x1b[0m")
    assert "\x1b[1;31m^^^ here\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_output_that_is_no_terminal_has_no_escapes(capsys: Capture) -> None:
    for words in (["--help"], ["check", "nosuch"], ["check", "hmm"]):
        _, out, err = run(capsys, *words)
        assert ESCAPE not in out + err


@pytest.mark.parametrize("words", [["bench"], ["bench", "pcfg"], ["bench", "--help"]])
def test_benchmarks_of_an_installed_package_are_explained(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    from fgg.cli.commands import bench

    monkeypatch.setattr(bench, "ROOT", tmp_path)
    (tmp_path / "benchmarks").mkdir()  # of another package
    (tmp_path / "benchmarks" / "__main__.py").write_text("raise SystemExit(5)")
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert "not part of the installed package" in err and "from a checkout" in err


def test_the_verdict_has_a_colour(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    words = ("verify", "hmm", "--length", "2", "--trials", "1", "--no-float")
    assert run(capsys, *words)[1].startswith("\x1b[32mhmm: proved\x1b[0m\n")
