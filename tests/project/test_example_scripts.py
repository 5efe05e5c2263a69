"""The examples on real data: each runs small, and what they are made of is right."""

from __future__ import annotations

import json
import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import fgg
from examples import dmv_dependencies, hmm_language_model, morphology_methods, rna_folding
from examples.word_segmentation import base, gold_parts
from fgg.data import Example
from fgg.runtime.learn import METHODS
from tests.helpers.places import EXAMPLES
from tests.helpers.real_data import real

SCRIPTS = {
    "morphology_methods": "nguni_verbs/isizulu.train.tsv",
    "hmm_language_model": "wikitext2/train.txt.xz",
    "pcfg_induction": "craft_trees/train.trees.xz",
    "pcfg_tags": "craft_trees/train.len10.trees",
    "rank_space_hmm": "wikitext2/train.txt.xz",
    "dmv_dependencies": "ewt/dmv10.train.tsv",
    "latent_trees.compare_methods": "craft_trees/train.sup.trees.xz",
    "rna_folding": "rna/trna.train.dbn",
    "word_segmentation": "hkcancor/train.txt",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_small(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real(SCRIPTS[name])
    report = import_module(f"examples.{name}").main(["--small", "--out", str(tmp_path)])
    assert report.text() == capsys.readouterr().out[: len(report.text())]
    assert len(report.rows) >= 3
    assert all(len(row) == len(report.columns) for row in report.rows)
    saved = json.loads((tmp_path / f"{report.name}.json").read_text("utf-8"))
    assert saved["rows"] == report.rows and saved["numbers"]
    assert (tmp_path / f"{report.name}.svg").read_text("utf-8").startswith("<svg")
    assert not any(cell in ("nan", "inf") for row in report.rows for cell in row)


RESULTS = EXAMPLES / "results"


@pytest.mark.parametrize("name", [path.stem for path in sorted(RESULTS.glob("*.json"))])
def test_results_that_are_kept_are_those_of_the_command(name: str) -> None:
    folder = EXAMPLES / "results"
    saved = json.loads((folder / f"{name}.json").read_text("utf-8"))
    command = saved["command"]
    assert command.startswith("python -m examples.")
    module = command.split()[2]
    assert find_spec(module) is not None
    # An example that is a package has several commands, and results of each.
    assert name == module.split(".")[1] or name.startswith(module.split(".")[1] + "_")
    readme = (folder.parent / "README.md").read_text("utf-8")
    assert f"`{command}`" in readme


def test_kneser_ney_is_a_distribution() -> None:
    text = [[3, 1, 2, 0], [1, 1, 3, 0], [2, 0], [4, 3, 1, 0]]
    bigram = hmm_language_model.kneser_ney(text, 7)
    for word in range(7):
        total = math.fsum(bigram.probability(other, (word,)) for other in range(7))
        assert total == pytest.approx(1.0)
    assert bigram.probability(1, (3,)) > bigram.probability(4, (3,)) > 0


def test_harmonic_weights_are_distributions_that_prefer_neighbours() -> None:
    found = dmv_dependencies.harmonic([[0, 1, 2], [0, 1, 2, 3]] * 20, 4)
    for name, table in found.items():
        torch.testing.assert_close(table.sum(-1), torch.ones_like(table.sum(-1)), msg=name)
    assert found["left"][2, 1] > found["left"][2, 0]
    assert found["right"][0, 1] > found["right"][0, 3]


def test_one_sweep_over_known_structures_counts_them() -> None:
    example = Example(words=tuple("GGAAACCA"), pairs=((0, 6), (1, 5)))
    grammar = fgg.load(rna_folding.GRAMMAR)
    model = fgg.compile(grammar, query="folded").model(seed=0, dtype=torch.float64)
    METHODS["em"](model).sweep(rna_folding.structures([example]))
    weights = model.detached()
    g, c = "ACGU".index("G"), "ACGU".index("C")
    assert float(weights["pair"][g, c]) == pytest.approx(1.0)
    assert float(weights["stacked"][g, c, g, c]) == pytest.approx(1.0)
    assert weights["base"].tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0])
    assert weights["stem"].tolist() == pytest.approx([0.5, 0.5])


def test_at_the_start_all_segmentations_are_about_as_likely() -> None:
    program = fgg.compile(fgg.load("morphology", sizes={"substrings": 50}))
    start = morphology_methods.start(program, 0)
    stem = float(start["template"][0])
    assert float(start["template"][1]) == pytest.approx(50 * stem)
    assert all(float(table.sum()) == pytest.approx(1.0) for table in start.values())


def test_gold_words_alone_are_parts() -> None:
    example = Example(words=("a", "b", "c"), segments=((0, 2), (2, 3)))
    ids = [[-2, 0, 1, 2], [-2, -2, 3, 4], [-2, -2, -2, 5]]
    assert gold_parts(ids, example) == [[-2, -2, 1, -2], [-2] * 4, [-2, -2, -2, 5]]


def test_long_words_are_unlikely_beforehand() -> None:
    from collections import Counter

    found = base(["a", "b", "ab", "aab"], Counter("aab"))
    assert found.tolist() == sorted(found.tolist(), reverse=True)
    assert float(found.sum()) == pytest.approx(1.0)
