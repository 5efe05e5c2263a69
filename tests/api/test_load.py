"""What `fggc check` warns of reaches Python."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import fgg
from fgg import GrammarError, GrammarWarning, compiler
from fgg.cli import main

UNUSED = """
domain T = 2
factor f(-> T)
factor never(T)
nonterminal S()
start S
rule one: S -> f(t)
"""


def test_loading_warns_as_check_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unused.fgg"
    path.write_text(UNUSED)
    assert main(["check", str(path), "--json"]) == 0
    (checked,) = json.loads(capsys.readouterr().out)["diagnostics"]
    for from_file in (True, False):
        with pytest.warns(GrammarWarning, match="never") as caught:
            grammar = fgg.load(path) if from_file else fgg.loads(UNUSED)
        (warning,) = caught
        assert isinstance(warning.message, GrammarWarning)
        assert warning.message.code == checked["code"] == grammar.warnings[0].code
        assert str(warning.message).startswith(f"warning[{checked['code']}]: ")
        assert warning.filename == __file__, "the warning points at the caller"


def test_strict_loading_refuses_what_is_warned_of() -> None:
    with pytest.raises(GrammarError, match="never"):
        fgg.loads(UNUSED, strict=True)
    assert fgg.load("hmm", strict=True).warnings == ()


def test_warnings_take_no_part_in_equality() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grammar = fgg.loads(UNUSED)
        again = fgg.json.to_json(grammar)
    assert grammar.warnings
    assert grammar == compiler.loads(UNUSED) and again


def test_other_warnings_have_a_code_too() -> None:
    with pytest.warns(GrammarWarning, match="F434") as caught:
        fgg.compile(fgg.load("branching"))
    assert isinstance(caught[0].message, GrammarWarning) and caught[0].message.code == "F434"
    assert caught[0].filename == __file__


def test_names_may_be_bytes_and_texts_must_be_texts() -> None:
    assert fgg.load(b"hmm") == fgg.load("hmm")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the text of a grammar is expected, not None"):
        fgg.loads(None)  # type: ignore[arg-type]
