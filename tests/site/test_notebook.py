"""Pages as notebooks: what their cells show."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site import notebook

PAGE = "```sh\nfggc draw dyck -o rule.svg\n```\n"


def test_pictures_that_commands_write_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ((said, picture),) = notebook.run(PAGE, "page.md")
    assert said.content == "wrote rule.svg\n"
    assert picture.kind == "svg" and picture.content == Path("rule.svg").read_text("utf-8")


def test_jupyter_shows_them_too() -> None:
    (cell,) = notebook.cells(PAGE)
    source = notebook.jupyter_source(cell)
    assert "!fggc draw dyck" in source and 'display(SVG("rule.svg"))' in source
    (plain,) = notebook.cells("```sh\nfggc check dyck\n```\n")
    assert notebook.jupyter_source(plain) == "!fggc check dyck\n"
