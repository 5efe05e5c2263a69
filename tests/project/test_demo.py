"""`make demo` does the main job from beginning to end, and leaves a page that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.demo import __main__ as demo
from examples.demo.page import marked


def test_the_demo_proves_trains_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(folder), "--epochs", "2"])
    assert demo.main() == 0
    told = capsys.readouterr().out
    assert "english: proved" in told and "not identifiable" in told
    costs = [float(x) for x in re.findall(r"multiply-adds +([\d.e]+)", told)]
    assert costs[0] > 10 * costs[1], "rank space is cheaper"
    page = (folder / "index.html").read_text()
    pictures = re.findall(r'<img src="([^"]+)"', page)
    assert len(pictures) == 4
    assert all((folder / name).read_text().lstrip().startswith("<") for name in pictures)
    assert not re.search(r"https?://", page), "nothing comes from elsewhere"


def test_a_folder_with_other_files_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="holds other files"):
        demo.main()
    assert (tmp_path / "thesis.tex").exists()


def test_text_of_a_step_is_escaped() -> None:
    assert marked("a < b, `x & y`") == "a &lt; b, <code>x &amp; y</code>"
