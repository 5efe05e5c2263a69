"""Emitted programs as text: golden files, the same on every run, safe for any names."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch

import fgg
from fgg.api.compile import selected
from fgg.compiler import load, loads
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit import triton
from fgg.compiler.emit.python import emit
from fgg.compiler.emit.python.layout import fit
from fgg.compiler.emit.readable import quoted
from fgg.compiler.passes.split import SplitImpossible
from fgg.compiler.plan.lower import CannotCompile
from fgg.compiler.plan.text import plan_lines
from fgg.compiler.rank.uses import NotRankSpace
from fgg.grammar import Grammar
from fgg.library import library_names
from tests.conftest import Golden

GOLDEN = ("hmm", "pcfg_dense", "eisner", "pair_hmm")


def text_of(grammar: Grammar, query: str | None = None) -> str:
    return emit(plan_of(selected(grammar, query), Expected(), "dense"))


@pytest.mark.parametrize(("name", "space"), [*((n, "dense") for n in GOLDEN), ("pcfg", "rank")])
def test_program(name: str, space: str, golden: Golden) -> None:
    """`pytest --update-golden tests/compiler/emit/test_emit.py` writes the files anew."""
    golden(emit(plan_of(selected(load(name), None), Expected(), space)), "py.txt")


def test_best_program(golden: Golden) -> None:
    """The same with maxima in place of sums, for best derivations."""
    golden(emit(plan_of(selected(load("hmm"), None), Expected(), "dense"), best=True), "py.txt")


def test_the_showpiece_fits_on_two_screens() -> None:
    """Inside and outside of the rank-space PCFG together, with their comments."""
    text = emit(plan_of(selected(load("pcfg"), None), Expected(), "rank"))
    lines = text.splitlines()
    functions = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    passes = [functions["inside"], functions["outside"]]
    count = sum((f.end_lineno or 0) - f.lineno + 1 for f in passes)
    assert count <= 120
    assert max(map(len, lines)) <= 100


def library_programs() -> list[tuple[str, str | None, str]]:
    return [
        (name, query, space)
        for name in library_names()
        for query in (*load(name).query, *(() if load(name).queries else (None,)))
        for space in ("dense", "state", "rank")
    ]


def test_programs_of_the_library_are_formatted(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text("line-length = 100\n[lint]\nselect = ['E', 'F', 'I']\n")
    for name, query, space in library_programs():
        if name == "lexpcfg_rank":
            continue  # it takes as long to plan as all others
        try:
            plan = plan_of(selected(load(name), query), Expected(), space)
        except (CannotCompile, NotRankSpace, SplitImpossible):
            continue
        for best in (False, True):
            path = tmp_path / f"{name}_{query}_{space}_{best}.py"
            path.write_text(emit(plan, best=best), encoding="utf-8")
        path = tmp_path / f"{name}_{query}_{space}_triton.py"
        path.write_text(triton.emit(plan), encoding="utf-8")
    for command in (["format", "--check"], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", "ruff.toml", "."],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("name", GOLDEN)
def test_plan(name: str, golden: Golden) -> None:
    golden("\n".join(plan_lines(plan_of(selected(load(name), None), Expected(), "dense"))) + "\n")


def test_a_plan_adds_only_rules_of_the_same_head() -> None:
    heads: dict[str, str] = {}
    for line in plan_lines(plan_of(selected(load("eisner"), None), Expected(), "dense")):
        if line.startswith("  rule "):
            rule = line.split()[1].rstrip(":")
        elif line.strip().startswith("puts "):
            heads[rule] = line.split()[1].split("[")[0].rstrip(",")
            if "added to the result of" in line:
                assert heads[line.split("`")[1]] == heads[rule], line
    assert len(set(heads.values())) > 3


def test_emitting_is_the_same_on_every_run() -> None:
    code = (
        "from fgg.compiler import load\nfrom fgg.compiler.driver import Expected, plan_of\n"
        "from fgg.compiler.emit.python import emit\nfrom fgg.api.compile import selected\n"
        "for name in ('rna', 'pair_hmm', 'pcfg', 'dmv', 'eisner', 'hsmm', 'ctc', 'crf'):\n"
        "    print(emit(plan_of(selected(load(name), None), Expected(), 'dense')))\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


HOSTILE = (
    "class",
    "None",
    "lambda",
    "it's",
    'say "hi"',
    '"""',
    '""""); raise SystemExit  #',
    "'); raise SystemExit  #",
    "\\",
    "\\n",
    "a\\",
    "{torch}",
    "{0!r}",
    "%s",
    "# no",
    "v1",
    "e1",
    "a1",
    "torch",
    "batch",
    "level",
    "log_z",
    "inputs",
    "sys",
    "ß",
    "变量",
    "a-b",
    "a_b",
    "1",
    " ",
    ";",
    "n.hi",
    "x0",
)

MODEL = """
size {k} = 3
domain {T} = {k}
domain {W} = 4
factor {init}(-> {T})
factor {trans}({T} -> {T})
factor {emit}({T} -> {W})
nonterminal {S}()
nonterminal {X}({T})
start {S}
rule {begin}: {S} -> {init}({t}) {X}({t})
rule {step}: {X}({t}) -> {emit}({t}, {o}) {trans}({t}, {u}) {X}({u})
rule {last}: {X}({t}) -> {emit}({t}, {o})
query {q}({w}: {W}[{n}]) {{
  rule {begin}: {S} -> {X}[0]
  rule {step}: {X}[{i}] -> {X}[{i}+1] {o} = {w}[{i}] for 0 <= {i} < {n}-1
  rule {last}: {X}[{n}-1] -> {o} = {w}[{n}-1]
}}
"""
ROLES = "k T W init trans emit S X t u o begin step last q w n i".split()


def named(names: Mapping[str, str]) -> Grammar:
    return loads(MODEL.format(**{role: f"`{name}`" for role, name in names.items()}))


def shape(source: str) -> tuple[list[str], set[str], set[str]]:
    """What a module consists of, whatever things are called.

    Long names may get statements of their own, so that these are not counted.
    """
    tree = ast.parse(source)
    top = [type(node).__name__ for node in tree.body]
    calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    called = {f.id for f in calls if isinstance(f, ast.Name)}
    called |= {f.attr for f in calls if isinstance(f, ast.Attribute)}
    return top, {type(node).__name__ for node in ast.walk(tree)}, called


def log_z(grammar: Grammar, names: Mapping[str, str]) -> torch.Tensor:
    program = fgg.compile(grammar)
    shapes = {"init": (3,), "trans": (3, 3), "emit": (3, 4)}
    generator = torch.Generator().manual_seed(0)
    weights = {
        names[role]: torch.rand(size, generator=generator, dtype=torch.float64)
        for role, size in shapes.items()
    }
    return program.log_z(weights, {names["w"]: [[0, 1, 2, 3], [3, 1, 0]]})


@pytest.mark.parametrize("turn", range(0, len(HOSTILE), 3))
def test_any_names_can_be_compiled(turn: int) -> None:
    plain = {role: role for role in ROLES}
    hostile = {role: HOSTILE[(turn + i) % len(HOSTILE)] for i, role in enumerate(ROLES)}
    one, two = named(plain), named(hostile)
    assert shape(text_of(one)) == shape(text_of(two))
    torch.testing.assert_close(log_z(one, plain), log_z(two, hostile))


SPANS = """
size k = 2
domain T = k domain W = 3 input w: W[n]
factor {f}(T, T, T) factor {g}(T, T) factor {h}(T, W)
nonterminal S()
nonterminal {P}[i, j](T) for 0 <= i < j <= n
nonterminal {Q}[i, j](T) for 0 <= i < j <= n
nonterminal {R}[i, j](T) for 0 <= i < j <= n
start S
rule s: S -> {P}[0, n](a)
rule pq: {P}[i, j](a) -> {f}(a, b, c) {Q}[i, k](b) {R}[k, j](c) for i < k < j
rule pg: {P}[i, j](a) -> {g}(a, b) {Q}[i, j](b)
rule qp: {Q}[i, j](a) -> {g}(b, a) {P}[i, k](b) {R}[k, j](b) for i < k < j
rule qw: {Q}[i, i+1](a) -> {h}(a, w[i])
rule rq: {R}[i, j](a) -> {g}(a, b) {Q}[i, j](b)
"""


@pytest.mark.parametrize(
    "names",
    [
        ("f", "f_T", "p_f_T", "X", "X_0", "X_1"),
        ("p_g_T", "g", "g_T", "X", "X_t", "X_s"),
        ("p", "p_p", "p_p_p", "v_X", "X", "e_X"),
        ("a-b", "a_b", "a+b", "a*b", "a b", "a_b_2"),
        ("v1", "v2", "v3", "v4", "v5", "v6"),
        ("n_lo", "n_hi", "n_item", "n", "n_n", "i_n"),
    ],
)
def test_names_that_look_like_ours_are_kept_apart(names: tuple[str, ...]) -> None:
    roles = ("f", "g", "h", "P", "Q", "R")
    quoted = [f"`{name}`" for name in names]
    if "n" in names:
        quoted[3] = "`nn`"
    one = loads(SPANS.format(**dict(zip(roles, roles, strict=True))))
    two = loads(SPANS.format(**dict(zip(roles, quoted, strict=True))))
    weights = [torch.rand(s, dtype=torch.float64) for s in ((2, 2, 2), (2, 2), (2, 3))]
    found = []
    for grammar, factors in ((one, roles[:3]), (two, names[:3])):
        given = {f: w.clone().requires_grad_() for f, w in zip(factors, weights, strict=True)}
        log_z = fgg.compile(grammar).log_z(given, {"w": [[0, 1, 2, 1, 0], [2, 1]]})
        gradients = torch.autograd.grad(log_z.sum(), list(given.values()))
        found.append([log_z.detach(), *gradients])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", [*HOSTILE, "two\nlines", "end\n\nimport os", "\u2028x", "\0"])
def test_names_of_grammars_and_rules_stay_in_comments(name: str) -> None:
    grammar = selected(load("hmm"), None)
    rules = tuple(replace(rule, name=f"{name}{i}") for i, rule in enumerate(grammar.rules))
    changed = replace(grammar, name=name, rules=rules)
    assert shape(text_of(changed)) == shape(text_of(grammar))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_tables_are_quoted(name: str) -> None:
    text = (
        "domain T = 2 domain W = 3 input w: W[n] input table `{0}`[n] factor f(T -> W)"
        " nonterminal S() nonterminal X[i](T) for 0 <= i <= n start S"
        " rule s: S -> X[0](t) rule x: X[i](t) -> f(t, w[`{0}`[i]]) X[i+1](t) for 0 <= i < n"
        " rule e: X[n](t) ->"
    )
    one, two = text_of(loads(text.format("order"))), text_of(loads(text.format(name)))
    assert shape(one) == shape(two) and f"batch.entry({quoted(name)}" in two


@pytest.mark.parametrize("name", GOLDEN)
def test_standalone_modules_import_torch_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run where there is no fgg, and give what the program gives."""
    grammar = load(name)
    plan = plan_of(selected(grammar, None), Expected(), "dense")
    text = emit(plan, standalone=True)
    imports = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import | ast.ImportFrom)]
    modules = {a.name for n in imports if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module or "" for n in imports if isinstance(n, ast.ImportFrom)}
    standard = {"__future__", "collections", "dataclasses", "functools", "math", "typing"}
    assert {m.split(".")[0] for m in modules} <= {"torch", *standard}
    assert len(text) < 3 * len(emit(plan)) + 60_000
    (tmp_path / "standalone.py").write_text(text, encoding="utf-8")
    program = fgg.compile(grammar, space="dense")
    lengths = {n: torch.full((2,), 4) for n in plan.lengths}
    inputs = {
        item.name: torch.zeros((2, *(4 for _ in item.shape)), dtype=torch.long)
        for item in program.grammar.inputs
    }
    inputs |= {
        factor.name: torch.ones((2, *(5 for _ in factor.indices)), dtype=torch.float64)
        for factor in program.grammar.input_factors
    }
    weights = program.weights(seed=0, dtype=torch.float64)
    spec = importlib.util.spec_from_file_location("standalone", tmp_path / "standalone.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "standalone", module)
    spec.loader.exec_module(module)
    whole = {n: weights[n] for n in plan.parameters}
    torch.testing.assert_close(
        module.log_z(whole, inputs, lengths), program.log_z(weights, inputs, lengths)
    )


def test_a_long_term_in_brackets_is_no_tuple() -> None:
    tests = " & ".join(f"(4 * j{k} + level >= 2 * i{k} + n)" for k in range(5))
    text = "\n".join(fit(f"    e1 = tl.where(({tests}), tl.full([64], 0.0, tl.float64), NOTHING)"))
    assert max(map(len, text.splitlines())) <= 100
    tree = ast.parse(dedent(text))
    assert not any(isinstance(node, ast.Tuple) for node in ast.walk(tree))
