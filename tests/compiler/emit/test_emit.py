"""Emitted programs as text: golden files, the same on every run, safe for any names."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

import fgg
from fgg.api.compile import selected
from fgg.compiler import load, loads
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.python import emit
from fgg.compiler.emit.python.module import prelude_lines
from fgg.compiler.emit.python.peephole import product_of
from fgg.compiler.plan.text import plan_lines
from fgg.grammar import Grammar
from tests.conftest import Golden

GOLDEN = ("hmm", "pcfg_dense", "eisner", "pair_hmm")


def text_of(grammar: Grammar, query: str | None = None) -> str:
    return emit(plan_of(selected(grammar, query), Expected(), "dense"))


@pytest.mark.parametrize("name", GOLDEN)
def test_program(name: str, golden: Golden) -> None:
    """`pytest --update-golden tests/compiler/emit/test_emit.py` writes the files anew."""
    text = text_of(load(name))
    helpers = "\n".join(prelude_lines())
    assert helpers in text
    golden(text.replace(helpers, "# … the helpers of runtime/prelude/charts.py …"), "py.txt")


def test_best_program(golden: Golden) -> None:
    """The same with maxima in place of sums, for best derivations."""
    text = emit(plan_of(selected(load("hmm"), None), Expected(), "dense"), best=True)
    for name in ("charts", "best"):
        helpers = "\n".join(prelude_lines(name))
        assert helpers in text
        text = text.replace(helpers, f"# … the helpers of runtime/prelude/{name}.py …")
    golden(text, "py.txt")


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


@pytest.mark.parametrize(
    ("code", "product"),
    [
        ("v1 * w2[:, None]", ("v1", "*", "w2[:, None]")),
        ("a.mT @ b", ("a.mT", "@", "b")),
        ("a.as_strided((n,), (s,), k + (level - 1) * t).contiguous()", None),
        ("times(a, 2 * b)", None),
        ("a * b + c", None),
    ],
)
def test_a_product_is_told_from_what_contains_one(code: str, product: object) -> None:
    assert product_of(code) == product


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


def shape(source: str) -> Counter[str]:
    """What a module consists of, whatever things are called."""
    return Counter(type(node).__name__ for node in ast.walk(ast.parse(source)))


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
    assert shape(one) == shape(two) and f"batch.look_up({name!r}" in two


def test_modules_import_nothing_but_torch() -> None:
    for name in GOLDEN:
        tree = ast.parse(text_of(load(name)))
        found = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        modules = {a.name for n in found if isinstance(n, ast.Import) for a in n.names}
        modules |= {n.module or "" for n in found if isinstance(n, ast.ImportFrom)}
        assert {m.split(".")[0] for m in modules} <= {
            "__future__",
            "collections",
            "math",
            "torch",
            "types",
            "typing",
        }
