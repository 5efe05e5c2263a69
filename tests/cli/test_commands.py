"""The commands as a user runs them: output, exit codes, files."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fgg.cli import main
from fgg.library import library_names


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    return code, out.out, out.err


def feed(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("name", library_names())
def test_library_grammars_are_clean(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", name)
    # These read positions of their inputs in several rules, which matters if tokens are missing.
    codes = ["F209"] if name in ("lexpcfg_rank", "pcfg_la", "qcfg") else []
    assert (code, re.findall(r"\[(F\d+)\]", err)) == (0, codes)
    assert out.startswith(f"{name}: {'1 warning' if codes else 'ok'}\n")


def test_check_reports_all_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.fgg"
    file.write_text("domain T = 2\nnonterminal X(U)\nstart Y\nrule a: X(t) -> f(t)\n")
    code, out, err = run(capsys, "check", str(file))
    assert code == 1
    assert all(c in err for c in ("F102", "F106", "F103"))
    assert "broken.fgg: 3 errors" in out


def test_check_says_which_rule_is_not_a_b_fragment(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "dep_i", "--json")
    report = json.loads(out)
    assert code == 0 and report["ok"] and not report["bfgg"]
    wrong = next(r for r in report["rules"] if not r["holds"])
    assert wrong["reason"] and wrong["line"]


def test_strict_makes_warnings_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "domain T = 2 factor f(T) nonterminal S() start S rule S ->"
    feed(monkeypatch, text)
    assert run(capsys, "check", "-")[0] == 0
    feed(monkeypatch, text)
    assert run(capsys, "check", "-", "--strict")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "exit_code", "wanted"),
    [
        (["chekc", "pcfg"], 2, "did you mean `check`?"),
        (["check"], 2, "F415"),
        (["check", "pcgf"], 2, "did you mean `pcfg`?"),
        (["check", "no/such/file.fgg"], 2, "F401"),
        (["check", "."], 2, "F401"),
        (["check", "pcfg", "--set", "nt"], 2, "F415"),
        (["check", "pcfg", "--set", "nt=x"], 2, "F415"),
        (["check", "pcfg", "--set", "tn=3"], 2, "F410"),
        (["check", "pcfg", "--set", "nt=1000000000000"], 1, "F120"),
        (["check", "pcfg", "--set", "nt=" + "9" * 10000], 2, "F415"),
        (["check", "pcfg", "--nonsense"], 2, "F415"),
        (["show", "pcfg", "--query", "strnig"], 2, "did you mean `string`?"),
        (["show", "pcfg", "--length", "m=3"], 2, "F411"),
        (["show", "hmm", "--input", "w=0,1000"], 2, "F411"),
        (["show", "hmm", "--input", "w=@no-such-file"], 2, "F401"),
        (["show", "crf", "--query", "tags", "--emit", "json"], 2, "F303"),
        (["explain", "F999"], 2, "F414"),
        (["draw", "pcfg", "-o", "x.jpg"], 2, "F415"),
        (["draw", "pcfg", "--rule", "bniary"], 2, "did you mean `binary`?"),
        (["draw", "hmm", "-o", "/dev/null/x.svg"], 2, "F413"),
    ],
)
def test_wrong_commands(
    arguments: list[str], exit_code: int, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, wanted in err) == (exit_code, True)
    assert out == "" or (arguments[0] == "check" and out.endswith("1 error\n"))
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (exit_code, "")
    report = json.loads(out)
    assert report["ok"] is False and report["diagnostics"]


def test_binary_input_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for data in (b"\xff\xfe\x00", b"size m\x00= 3"):
        feed(monkeypatch, data)
        code, _, err = run(capsys, "check", "-")
        assert code == 2 and "F402" in err


@pytest.mark.parametrize("name", [n for n in library_names() if n not in ("ctc",)])
def test_json_round_trip_through_pipes(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`fggc show NAME --emit json | fggc show - --emit fgg | fggc check -`."""
    selection = (
        [] if name not in ("eisner", "crf", "semicrf", "lexpcfg_rank") else ["--length", "n=3"]
    )
    code, out, _ = run(capsys, "show", name, "--emit", "json", *selection)
    assert code == 0
    feed(monkeypatch, out)
    code, out, _ = run(capsys, "show", "-", "--emit", "fgg")
    assert code == 0
    feed(monkeypatch, out)
    code, out, _ = run(capsys, "check", "-")
    assert code == 0


def test_show_equations(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", "pcfg", "--query", "string", "--emit", "equations")
    assert "X[i, j](a) += Σ_{k} Σ_{b, c} binary(a.N, b, c) · X[i, k](b) · X[k, j](c)" in out


def test_show_lists_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show")
    assert [line.split()[0] for line in out.splitlines()] == list(library_names())


def test_explain_tells_a_grammars_story(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain", "hmm")
    assert code == 0 and "the probability of W given T" in out and "X[i + 1]" in out


@pytest.mark.parametrize("form", ["svg", "dot", "tikz", "png"])
def test_draw_writes_whole_files(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "picture"
    code, _, err = run(capsys, "draw", "pcfg", "--format", form, "-o", str(path))
    assert code == 0 and f"wrote {path}" in err
    assert path.stat().st_size > 500
    assert list(path.parent.iterdir()) == [path]  # no temporary file left


def test_draw_each_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "draw", "pcfg", "--each", "-o", str(tmp_path), "--json")
    assert code == 0
    assert [Path(f).name for f in json.loads(out)["files"]] == [
        "01_root.svg",
        "02_binary.svg",
        "03_word.svg",
    ]


def test_help_is_quick_and_does_not_load_the_compiler() -> None:
    code = "import fgg.cli, sys; fgg.cli.main(['--help']); print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = out.stdout.rsplit("[", 1)[1]
    assert "lark" not in modules and "numpy" not in modules and "torch" not in modules


def test_check_does_not_load_torch() -> None:
    code = "import fgg.cli, sys; fgg.cli.main(['check', 'pcfg']); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.endswith("False\n")


def test_two_thousand_rules_are_checked() -> None:
    lines = ["domain T = 3", "factor f(T -> T)", "nonterminal S()", "start S"]
    lines += [f"nonterminal X{i}(T)" for i in range(1000)]
    lines += ["rule S -> X0(t)"]
    lines += [f"rule a{i}: X{i}(t) -> f(t, u) X{(i * 7 + 1) % 1000}(u)" for i in range(1000)]
    lines += [f"rule b{i}: X{i}(t) ->" for i in range(1000)]
    from fgg.compiler import load_text

    grammar, diagnostics, _ = load_text("\n".join(lines))
    assert grammar is not None and len(grammar.rules) == 2001
    assert all(not d.is_error for d in diagnostics)
