"""The grammars of `examples/`: nothing in the compiler knows of them, and they compile."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import fgg
from fgg.grammar.domains import domain_size, lengths, size_values
from tests.helpers.places import EXAMPLES

FILES = sorted(EXAMPLES.glob("*.fgg"))
SMALL = {"k": 2, "l": 2, "d": 3, "e": 3, "f": 3, "g": 3, "q": 2, "letters": 3}
SMALL |= {"lexicon": 4, "nt": 2, "pt": 2, "r": 2, "words": 3}
Tokens = list[int] | list[list[int]]


def tokens(generator: random.Random, size: int, extents: list[int]) -> Tokens:
    """Tokens of an input with one axis or two, some of them missing."""
    first, *rest = extents
    if rest:
        return [[generator.randrange(-1, size) for _ in range(rest[0])] for _ in range(first)]
    return [generator.randrange(-1, size) for _ in range(first)]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_compiled_is_reference(path: Path) -> None:
    loaded = fgg.load(path)
    grammar = fgg.load(path, sizes={n: v for n, v in SMALL.items() if n in loaded.size})
    program = fgg.compile(grammar, query=grammar.queries[0].name, fallback=False)
    weights = program.weights(seed=1, dtype=torch.float64)
    generator = random.Random(path.stem)
    names = sorted(lengths(program.grammar))
    # Lists cannot say how wide a table without rows is.
    least = max((len(item.shape) for item in program.grammar.inputs), default=1) - 1
    items = [{name: generator.randint(least, 3) for name in names} for _ in range(4)]
    items.append(dict.fromkeys(names, 3))
    inputs: dict[str, list[Tokens]] = {item.name: [] for item in program.grammar.inputs}
    expected = []
    for item in items:
        own = {}
        for source in program.grammar.inputs:
            known = {**size_values(grammar), **item}
            extents = [extent.evaluate(known) or 0 for extent in source.shape]
            own[source.name] = tokens(generator, domain_size(grammar, source.domain), extents)
            inputs[source.name].append(own[source.name])
        ground = fgg.rewrite.ground(program.grammar, lengths=item, inputs=own)
        solved = fgg.reference.solve(
            ground, "log", weights={n: w.numpy() for n, w in weights.items()}
        )
        expected.append(float(solved.log_z.detach()))
    found = program.log_z(weights, inputs, {n: [item[n] for item in items] for n in names})
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert torch.isfinite(found).any()


@pytest.mark.slow
def test_the_story_of_unmixing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A PCFG is not identifiable, PCFG-IE is, and its parameters come out of sentences."""
    if not hasattr(fgg, "identify"):
        pytest.skip("the story begins with fgg.identify")
    path = FILES[0].parent / "unmixing.py"
    names: dict[str, Any] = {"__name__": "story"}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)
    names["main"](tmp_path, (10_000, 1_000_000), 3, (10_000,))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("cnf") and shown[0].endswith("identifiable: no")
    assert "deficiency 2" in shown[0]  # k(k - 1)
    assert shown[1].startswith("pcfg_ie") and shown[1].endswith("identifiable: yes")
    few, many = (line for line in shown if " sentences: error" in line)
    errors = [float(line.split("error ")[1].split(",")[0]) for line in (few, many)]
    assert errors[1] < errors[0]
    (triples,) = (line for line in shown if " triples: error" in line)
    measured, expected = (float(x.split()[-1]) for x in triples.split(", ")[-2:])
    assert 0.4 < measured / expected < 2.5
    for name in ("samples.svg", "spectrum.svg", "precision.svg"):
        assert (tmp_path / name).read_text("utf-8").startswith("<svg")
