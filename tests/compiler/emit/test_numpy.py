"""NumPy modules give the numbers of torch programs, need NumPy alone, and are formatted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.api.compile import compile, selected
from fgg.compiler import load, loads
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.numpy import emit
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.plan import Plan
from fgg.runtime.program.prepared_batch import start
from fgg.runtime.program.program import Program
from tests.generators.indexed import write_grammar
from tests.helpers.compiled import SMALL, programs
from tests.helpers.found_grammars import FOUND, HEAD, STEPPED
from tests.helpers.kernels import library_plans, spaces_of
from tests.helpers.places import ROOT
from tests.helpers.plans import OWN
from tests.oracles.comparing import Item, collated, lengths_of, random_item, random_weights


def module_of(plan: Plan) -> Any:
    """The module of a plan, loaded."""
    module = ModuleType("emitted")
    exec(emit(plan), module.__dict__)
    return module


def assert_same(program: Program, items: Sequence[Item], weights: Mapping[str, Any]) -> str:
    """Assert that a NumPy module and a torch program agree; what became of the items."""
    inputs, lengths = collated(items, torch.float64)
    leaves = program.weights(dict(weights), dtype=torch.float64)
    run = start(program.compiled, leaves, inputs, lengths or None)
    wholes = {n: w.detach().double().requires_grad_() for n, w in run.weights.items()}
    log_z = run.program.log_z(wholes, inputs, lengths or None)
    sides: dict[str, Any] = {**wholes, **{n: x for n, x in inputs.items() if x.requires_grad}}
    module = module_of(run.program.plan)
    given: Any = (
        {n: w.detach().numpy() for n, w in wholes.items()},
        {n: x.detach().numpy() for n, x in run.collated.inputs.items()},
        dict(run.collated.lengths),
    )
    found = module.log_z(*given)
    np.testing.assert_allclose(found, log_z.detach().numpy(), rtol=1e-9, atol=1e-9)
    upstream = np.arange(1.0, len(items) + 1)
    slopes = module.gradients(*given, upstream)
    wanted: dict[str, Any] = {}
    if log_z.requires_grad:
        total = (torch.where(torch.isfinite(log_z), log_z, 0.0) * torch.tensor(upstream)).sum()
        gradients = torch.autograd.grad(total, list(sides.values()), allow_unused=True)
        wanted = dict(zip(sides, gradients, strict=True))
    for name, slope in slopes.items():
        want = np.zeros(slope.shape) if wanted.get(name) is None else wanted[name].numpy()
        # Cells of zeros pass nothing on, also to the weights that made them zero.
        live = sides[name].detach().numpy() != 0 if name in wholes else np.full(want.shape, True)
        size = 1e-8 * max(1.0, np.abs(want).max(initial=0.0))
        np.testing.assert_allclose(slope[live], want[live], rtol=1e-8, atol=size, err_msg=name)
    return "finite" if np.isfinite(found).any() else "zero"


def agrees(grammar: Grammar, seed: int, space: str, query: str | None = None) -> str:
    """Assert that both agree on random items of mixed lengths; what became of the grammar."""
    try:
        program = compile(grammar, query, space=space, fallback=False)
    except GrammarError as error:
        assert [d.code for d in error.diagnostics] == ["F425"]
        return "refused"
    rng = random.Random(seed)
    source = program.grammar
    weights = random_weights(cpd(source), rng, zero=0.1)
    lengths = [{n: rng.randint(0, 5) for n in lengths_of(source)} for _ in range(3)]
    missing = rng.choice([0.0, 0.15])
    items = [random_item(source, own, rng, missing=missing) for own in lengths]
    return assert_same(program, items, weights)


@pytest.mark.parametrize("name", programs())
def test_the_library_in_all_spaces(name: str) -> None:
    family, _, query = name.partition(":")
    sizes = {k: v for k, v in SMALL.items() if k in load(family).size}
    grammar = load(family, sizes=sizes)
    for seed, space in enumerate(spaces_of(selected(grammar, query or None))):
        agrees(grammar, seed, space, query or None)


ODD = {**OWN, **{claim: HEAD + rules for claim, rules in (FOUND | STEPPED).items()}}


@pytest.mark.parametrize("claim", ODD)
def test_odd_grammars(claim: str) -> None:
    assert agrees(loads(ODD[claim]), 1, "dense") != "refused"


@pytest.mark.parametrize(
    "seeds",
    [
        range(110),
        *(pytest.param(range(n, n + 500), marks=pytest.mark.slow) for n in range(110, 2110, 500)),
    ],
)
def test_random_grammars(seeds: range) -> None:
    done: Counter[str] = Counter()
    for seed in seeds:
        made = write_grammar(random.Random(seed).choice)
        assert made is not None
        spaces = spaces_of(made[0])
        try:
            done[agrees(made[0], seed, spaces[seed % len(spaces)])] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{made[1]}") from error
    assert done["finite"] >= len(seeds) // 4, done


def hmm(**sizes: int) -> Plan:
    return plan_of(selected(load("hmm", sizes=sizes), None), Expected(), "dense")


ALONE = """
import json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "fgg", "scipy"):
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import emitted

given = json.load(sys.stdin)
log_z, slopes = emitted.log_z(*given), emitted.gradients(*given)
assert not {"torch", "fgg"} & sys.modules.keys()
json.dump([log_z.tolist(), {name: slope.tolist() for name, slope in slopes.items()}], sys.stdout)
"""


def test_a_module_needs_numpy_alone(tmp_path: Path) -> None:
    (tmp_path / "emitted.py").write_text(emit(hmm(k=3, d=4)), encoding="utf-8")
    program = fgg.compile(load("hmm", sizes={"k": 3, "d": 4}))
    weights = program.weights(seed=0, dtype=torch.float64)
    words = [[0, 1, 2, 3], [3, 1, 0, 0]]
    given = [{n: w.tolist() for n, w in weights.items()}, {"w": words}, {"n": [4, 3]}]
    run = subprocess.run(
        [sys.executable, "-c", ALONE],
        input=json.dumps(given),
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    found, slopes = json.loads(run.stdout)
    log_z = program.log_z(weights, {"w": torch.tensor(words)}, {"n": [4, 3]})
    assert found == pytest.approx(log_z.tolist())
    assert sum(
        np.sum(np.array(slopes[n]) * w.numpy()) for n, w in weights.items()
    ) == pytest.approx(14)


FORMATTED = ("hmm:", "pcfg:", "eisner", "ctc", "hmm_blocks", "semicrf", "rna")


@pytest.mark.parametrize("families", [FORMATTED, pytest.param(("",), marks=pytest.mark.slow)])
def test_modules_are_formatted(families: tuple[str, ...], tmp_path: Path) -> None:
    for name in programs():
        for number, plan in enumerate(library_plans(name) if name.startswith(families) else ()):
            file = tmp_path / f"{name.replace(':', '_')}_{number}.py"
            file.write_text(emit(plan), encoding="utf-8")
    options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", str(tmp_path)]
    for command in (["format", "--diff"], ["check"]):
        ruff = [sys.executable, "-m", "ruff", *command, *options]
        run = subprocess.run(ruff, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]


def test_the_printer_is_small() -> None:
    """An exercise of the kernels' sufficiency: another backend is a printer of a few pages."""
    folder = ROOT / "compiler" / "emit" / "numpy"
    files = [file for file in folder.glob("*.py") if file.name != "prelude.py"]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 300


def test_a_module_has_what_it_uses_and_no_more() -> None:
    text = emit(hmm(k=3, d=4))
    assert "def gather(" in text and "def log_potential(" not in text and "def cut(" not in text


STUCK = {
    "init": [0.5, 0.5],
    "trans": [[1.0, 0.0], [0.0, 1.0]],
    "emit": [[0.999, 0.001], [0.001, 0.999]],
}


def test_numbers_that_leave_the_range_are_refused() -> None:
    module = module_of(hmm(k=2, d=2))
    words = [[0] * 60 + [1] * 50]
    wanted = fgg.compile(load("hmm", sizes={"k": 2, "d": 2})).log_z(STUCK, {"w": words})
    assert module.log_z(STUCK, {"w": words}) == pytest.approx(wanted.tolist())
    with pytest.raises(ArithmeticError, match="more range than float64 has"):
        module.log_z(STUCK, {"w": [[0] * 600 + [1] * 500]})
    small = {**STUCK, "emit": [[5e-324, 1.0], [5e-324, 1.0]]}
    with pytest.raises(ArithmeticError, match="more range than float64 has"):
        module.log_z(small, {"w": [[0, 1]]})


def test_what_is_wrong_is_said() -> None:
    module = module_of(hmm(k=2, d=2))
    words = {"w": [[0, 1]]}
    for weights, inputs, message in (
        ({}, words, "no weights for 'init'"),
        ({**STUCK, "init": [1.0]}, words, r"'init' has the shape \(1,\), not \[2\]"),
        ({**STUCK, "init": [-1.0, 2.0]}, words, "weights of 'init' are negative or not finite"),
        (STUCK, {}, "input 'w' is not given"),
        (STUCK, {"w": [[0, 2]]}, "a token is not between -2 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            module.log_z(weights, inputs)
    eisner = module_of(plan_of(selected(load("eisner"), None), Expected(), "dense"))
    with pytest.raises(ValueError, match="length 'n' is not known"):
        eisner.log_z({}, {"root": np.zeros((1, 2)), "arc": np.zeros((1, 2, 2))})


def test_missing_tokens_are_refused_where_the_plan_takes_them_as_known() -> None:
    plan = library_plans("hmm_blocks:string")[0]
    assert plan.known
    module = module_of(plan)
    weights = {name: np.ones(shape) for name, shape in module.PARAMETERS.items()}
    inputs = {name: np.full((1, *[3] * len(shape)), -1) for name, shape in module.INPUTS.items()}
    with pytest.raises(ValueError, match="compile it with `--missing`"):
        module.log_z(weights, inputs)


NAMES = """
domain `{T}` = 2
domain W = 3
input `{w}`: W[`{n}`]
factor `{f}`(`{T}`, `{T}`) factor `{g}`(`{T}`, W)
nonterminal S()
nonterminal `{X}`[`{i}`, `{j}`](`{T}`) for 0 <= `{i}` < `{j}` <= `{n}`
start S
rule first: S -> `{X}`[0, `{n}`](`{i}`)
rule `{a}`: `{X}`[`{i}`, `{i}`+1](`{i}`) -> `{g}`(`{i}`, `{w}`[`{i}`])
rule last: `{X}`[`{i}`, `{j}`](`{i}`) -> `{X}`[`{i}`, k](k) `{X}`[k, `{j}`](`{j}`) `{f}`(k, `{i}`)
    for `{i}` < k < `{j}`
"""
HOSTILE = (
    ("class", "v1", "np", "cells", "batch", "level", "x", "w1", "\\", '"""'),
    ("e1", "Named", "n_hi", "span", "it's", "lambda", "None", "d2", "b", "{0}"),
    ("变量", "ß", "a-b", "a_b", "a b", "range", "max", "min", "seeds", "# no"),
)


@pytest.mark.parametrize("names", HOSTILE)
def test_any_names_can_be_printed(names: Sequence[str]) -> None:
    roles = "T w f g X i j n a".split()
    results = []
    for own in (roles, names[: len(roles)]):
        grammar = loads(NAMES.format(**dict(zip(roles, own, strict=True))))
        module = module_of(plan_of(grammar, Expected(), "dense"))
        weights = {
            name: 1 / (1 + np.arange(np.prod(s)).reshape(s))
            for name, s in module.PARAMETERS.items()
        }
        words = {next(iter(module.INPUTS)): [[0, 1, 2, 1]]}
        slopes = module.gradients(weights, words)
        results.append([module.log_z(weights, words), *(slopes[name] for name in weights)])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two)
