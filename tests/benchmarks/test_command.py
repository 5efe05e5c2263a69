"""`fggc bench` refuses what it cannot do before it measures anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fgg.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no suite `nothing`"),
        (["hmm", "--against", "suparr"], "there is no peer `suparr`"),
        (["dependency", "--against", "suparr"], "supar"),
        (["--from", "missing.json"], "there is no file `missing.json`"),
        (["--from", "other.json"], "has no numbers"),
        (["--from", "text.json"], "has no numbers"),
        (["--json", "nowhere/out.json"], "no folder `nowhere`"),
        (["--page", "folder.md"], "it is a folder"),
        (["--plot", "out.png"], "`--plot` writes .svg"),
        (["--page", "page.txt"], "`--page` writes .md"),
        (["--budget", "0"], "more than 0"),
        (["--repeats", "0"], "at least 1"),
    ],
)
def test_refused(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.json").write_text(json.dumps({"records": [{}]}))
    Path("text.json").write_text("no json")
    Path("folder.md").mkdir()
    assert main(["bench", *arguments]) in (1, 2)
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
