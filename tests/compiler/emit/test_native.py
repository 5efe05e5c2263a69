"""Passes as machine code give what tensor operations give, and what the reference engine gives."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import fgg
from fgg.compiler import loads
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from tests.compiler.test_compiled import COMPILED, SPACES, source
from tests.generators.indexed import write_grammar
from tests.helpers.found_grammars import HEAD, STEPPED
from tests.helpers.native import cpp_of, in_cpp, items_of, needs_compiler, random_run, same
from tests.oracles.comparing import (
    compare,
    lengths_of,
    random_item,
    random_weights,
    reference,
)

# Every kind of plan in the usual run; the others take as long to build and have nothing new.
QUICK = {
    ("crf", "tags"),
    ("ctc", None),
    ("dmv", "string"),
    ("eisner", None),
    ("hmm", "string"),
    ("hmm_blocks", "string"),
    ("hsmm", "string"),
    ("lexpcfg", "string"),
    ("morphology", "word"),
    ("pair_hmm", "pair"),
    ("pcfg", "string"),
    ("pcfg_dense", "string"),
    ("pcfg_la", "tree"),
    ("rna", "string"),
    ("semicrf", "segments"),
}


def check_program(name: str, query: str | None, space: str) -> None:
    grammar = source(name, query)
    program = in_cpp(grammar, space=space)
    rng = random.Random(7)
    finite = 0
    for sizes in ([3, 3], [5, 1, 4], [0, 2]):
        for missing in (0.0, 0.2):
            items = items_of(grammar, sizes, rng, missing=missing)
            run = random_run(program, items, torch.float64, seed=len(sizes))
            finite += int(torch.isfinite(same(run)).sum())
    assert finite or name in ("pcfg_la", "pcfg_i", "pcfg_ie")  # random tables are no trees


@needs_compiler
@pytest.mark.parametrize(
    ("name", "query", "space"), [case for case in SPACES if case[:2] in QUICK and case[0] != "pcfg"]
)
def test_library(name: str, query: str | None, space: str) -> None:
    check_program(name, query, space)


@needs_compiler
@pytest.mark.parametrize("space", ["dense", "state", "rank"])
def test_spaces(space: str) -> None:
    check_program("pcfg", "string", space)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "query", "space"), [case for case in SPACES if case[:2] not in QUICK]
)
def test_the_whole_library(name: str, query: str | None, space: str) -> None:
    check_program(name, query, space)


def test_quick_ones_are_in_the_library() -> None:
    assert QUICK <= set(COMPILED)


def against_reference(seed: int) -> bool:
    """Whether a random grammar could be compared with the reference engine."""
    made = write_grammar(random.Random(seed).choice)
    if made is None:
        return False
    grammar, rng = made[0], random.Random(seed)
    try:
        program = in_cpp(grammar)
    except GrammarError:
        return False
    pieces = cpd(grammar)
    weights = random_weights(pieces, rng, zero=0.1)
    known = []
    for size in (3, 4, 1):
        item = random_item(grammar, {n: size for n in lengths_of(grammar)}, rng)
        answer = reference(pieces, item, weights)
        if answer is not None:
            known.append((item, answer))
    if not known:
        return False
    compare(program, [i for i, _ in known], [a for _, a in known], weights)
    return any(np.isfinite(a.log_z) for _, a in known)


@needs_compiler
@pytest.mark.parametrize("claim", ["two indices", "two indices and a level"])
def test_heads_with_coefficients(claim: str) -> None:
    grammar, rng = loads(HEAD + STEPPED[claim]), random.Random(1)
    weights = random_weights(grammar, rng)
    items = [random_item(grammar, {"n": n}, rng) for n in (5, 2, 4, 0)]
    answers = [reference(grammar, item, weights) for item in items]
    compare(in_cpp(grammar), items, [a for a in answers if a is not None], weights)


@needs_compiler
@pytest.mark.parametrize("number", [11, pytest.param(20, marks=pytest.mark.slow)])
def test_random_grammars(number: int) -> None:
    assert sum(against_reference(seed) for seed in range(number)) >= 5


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_grammars(block: int) -> None:
    for seed in range(100 + 50 * block, 150 + 50 * block):
        against_reference(seed)


@needs_compiler
@pytest.mark.parametrize("sizes", [{"nt": 40, "pt": 50, "r": 60, "words": 30}])
def test_large_states_are_matrix_products(sizes: dict[str, int]) -> None:
    for space in ("state", "rank"):
        program = in_cpp(fgg.load("pcfg", sizes=sizes), space=space)
        assert "matmul(blas" in cpp_of(program)
        rng = random.Random(2)
        items = items_of(program.grammar, [6, 9, 2], rng, missing=0.1)
        same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_without_a_matrix_product_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    target = "fgg.runtime.native.engine.matrix_product"
    monkeypatch.setattr(target, lambda dtype: ctypes.c_void_p(None))
    program = in_cpp(
        fgg.load("pcfg", sizes={"nt": 20, "pt": 30, "r": 25, "words": 9}), space="rank"
    )
    items = items_of(program.grammar, [5, 7], random.Random(2))
    same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_names_do_not_reach_the_text() -> None:
    text = """
    domain T = 2
    domain `*/ system("x"); /*` = 3
    factor `int main(` (T -> `*/ system("x"); /*`)
    factor `T`(T -> T)
    input w: `*/ system("x"); /*`[n]
    nonterminal S()
    nonterminal `return`[i](T) for 0 <= i < n
    start S
    rule `// \\`: S -> `return`[0](t)
    rule step: `return`[i](t) -> `int main(`(t, w[i]) `T`(t, u) `return`[i+1](u)  for i < n - 1
    rule last: `return`[n-1](t) -> `int main(`(t, w[n-1])
    """
    grammar = loads(text)
    program = in_cpp(grammar)
    code = [line.partition("//")[0] for line in cpp_of(program).splitlines()]
    assert not any("system" in line or "main" in line for line in code)
    items = items_of(grammar, [3, 4], random.Random(1))
    same(random_run(program, items, torch.float64, seed=1))
