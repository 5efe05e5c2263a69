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


def test_long_lines_and_wide_pictures_are_marked() -> None:
    def shown(kind: str, content: str) -> str:
        return notebook.with_output(notebook.Output(kind, content))

    assert ":class: output\n" in shown("text", "short\n")
    assert ":class: output long\n" in shown("text", f"short\n{'x' * 111}\n")
    assert 'class="picture"' in shown("svg", '<svg xmlns="x" width="200" height="9"></svg>')
    assert 'class="picture wide"' in shown("svg", '<svg xmlns="x" width="640.5" height="9"></svg>')
