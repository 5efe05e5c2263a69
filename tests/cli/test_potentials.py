"""Log-potentials from files, for decoding and drawing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import fgg
from fgg.cli import main

TEXT = """
domain T = {a, b}
input factor phi[i](T, T) for 0 <= i < n-1
nonterminal S()
nonterminal X[i](T) for 0 <= i < n
start S
rule begin: S       -> X[0](t)
rule step:  X[i](t) -> phi[i](t, u) X[i+1](u)   for i < n-1
rule last:  X[n-1](t) ->
"""


def test_items_have_their_log_potentials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chain.fgg").write_text(TEXT)
    scores = np.random.default_rng(1).normal(size=(2, 3, 2, 2))
    np.savez("all.npz", phi=scores)
    save_file({"phi.0": scores[0], "phi.1": scores[1, :2].copy()}, "each.safetensors")
    program = fgg.compile(fgg.loads(TEXT))
    for file, given in (("all.npz", scores), ("each.safetensors", [scores[0], scores[1, :2]])):
        best = program.posterior({}, {"phi": given}).best()
        assert main(["decode", "chain.fgg", "--potentials", file, "--json"]) == 0
        items = json.loads(capsys.readouterr().out)["items"]
        assert [d["log_weight"] for (d,) in items] == pytest.approx([d.log_weight for d in best])
        assert main(["sample", "chain.fgg", "--potentials", file, "--number", "3"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 6


@pytest.mark.parametrize(
    ("name", "text"),
    [("psi", "no input factor or length `psi`"), ("phi.1", "numbered from 0")],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / "chain.fgg").write_text(TEXT)
    path = str(tmp_path / "bad.safetensors")
    save_file({name: np.zeros((1, 2, 2))}, path)
    assert main(["decode", str(tmp_path / "chain.fgg"), "--potentials", path]) == 2
    assert text in capsys.readouterr().err
    assert main(["decode", str(tmp_path / "chain.fgg"), "--potentials", "none.npz"]) == 2


SCORED = """
domain T = {a, b}
domain W = {x, y}
nonterminal S()
nonterminal X[i](T) for 0 <= i < n
input w: W[n]
input factor phi[i](T, W) for 0 <= i < n
start S
rule begin: S       -> X[0](t)
rule step:  X[i](t) -> phi[i](t, w[i]) X[i+1](u)   for i < n-1
rule last:  X[n-1](t) -> phi[n-1](t, w[n-1])
"""


@pytest.mark.parametrize("command", ["decode", "sample"])
def test_log_potentials_too_short_for_one_item_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scored.fgg").write_text(SCORED)
    Path("items.txt").write_text("x y x\ny y\n")
    wide = np.zeros((3, 2, 2))
    save_file({"phi.0": wide, "phi.1": wide[:1].copy()}, "short.safetensors")
    items = ["scored.fgg", "--data", "items.txt", "--potentials"]
    assert main([command, *items, "short.safetensors"]) == 2
    message = "error[F411]: `phi`: item 1 has (1,) positions; its lengths need (2,)\n"
    assert capsys.readouterr().err.startswith(message)
    save_file({"phi.0": wide, "phi.1": wide[:2].copy()}, "long.safetensors")
    assert main([command, *items, "long.safetensors"]) == 0
    bad = np.where(np.arange(12).reshape(3, 2, 2) == 7, np.nan, 0.0)
    np.savez("bad.npz", phi=np.stack([wide, bad]))
    assert main([command, *items, "bad.npz"]) == 2
    assert "item 1 has log-potentials that are NaN" in capsys.readouterr().err
