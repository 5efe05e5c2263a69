"""Passes as machine code give what tensor operations give, and what the reference engine gives.

Many programs are built as one library: compilers take most of their time to begin.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import fgg
from fgg.compiler import loads
from fgg.compiler.emit.cpp import loops
from fgg.compiler.emit.cpp.names import Names
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.runtime.native import build as native_build
from fgg.runtime.native import engine as native_engine
from fgg.runtime.program.program import Program
from tests.compiler.test_compiled import COMPILED, NOT_RANK_SPACE, SPACES, source
from tests.generators.indexed import write_grammar
from tests.helpers.found_grammars import HEAD, STEPPED
from tests.helpers.native import (
    cpp_of,
    in_cpp,
    items_of,
    needs_compiler,
    random_run,
    same,
    together,
)
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
CASES = [case for case in SPACES if case[2] != "rank" or case[0] not in NOT_RANK_SPACE]
NO_TREES = ("pcfg_la", "pcfg_i", "pcfg_ie")
"""Random tables are no trees."""


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """However little there is to do, every thread gets a share of it."""
    monkeypatch.setattr(native_engine, "WORTH", 1)
    before = torch.get_num_threads()
    yield monkeypatch
    torch.set_num_threads(before)


def check_programs(
    cases: Sequence[tuple[str, str | None, str]], threads: pytest.MonkeyPatch
) -> None:
    """Compare programs of the library with their modules, with one, two and three threads."""
    programs = {case: in_cpp(source(*case[:2]), space=case[2]) for case in cases}
    threads.setattr(native_engine, "library", together(list(programs.values())))
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        for (name, _, _), program in programs.items():
            rng, finite = random.Random(7), 0
            for sizes in ([3, 3], [5, 1, 4], [0, 2], [4]):
                missing = 0.0 if count == 2 else 0.2
                items = items_of(program.grammar, sizes, rng, missing=missing)
                run = random_run(program, items, torch.float64, seed=len(sizes))
                finite += int(torch.isfinite(same(run)).sum())
            assert finite or name in NO_TREES


@needs_compiler
def test_library(threads: pytest.MonkeyPatch) -> None:
    check_programs([case for case in CASES if case[:2] in QUICK], threads)


@needs_compiler
@pytest.mark.slow
def test_the_whole_library(threads: pytest.MonkeyPatch) -> None:
    check_programs([case for case in CASES if case[:2] not in QUICK], threads)


def test_quick_ones_are_in_the_library() -> None:
    assert QUICK <= set(COMPILED)


# random grammars


def random_programs(seeds: Sequence[int]) -> dict[int, Program]:
    """Programs of random grammars, by seed; not all grammars have a schedule."""
    programs: dict[int, Program] = {}
    for seed in seeds:
        made = write_grammar(random.Random(seed).choice)
        try:
            programs |= {} if made is None else {seed: in_cpp(made[0])}
        except GrammarError:
            continue
    return programs


def against_reference(program: Program, seed: int) -> bool:
    """Compare a program with the reference engine; whether it has any derivation."""
    grammar, rng = program.grammar, random.Random(seed)
    pieces = cpd(grammar)
    weights = random_weights(pieces, rng, zero=0.1)
    known = []
    for size in (3, 4, 1):
        item = random_item(grammar, {n: size for n in lengths_of(grammar)}, rng)
        answer = reference(pieces, item, weights)
        if answer is not None:
            known.append((item, answer))
    if known:
        compare(program, [i for i, _ in known], [a for _, a in known], weights)
    return any(np.isfinite(a.log_z) for _, a in known)


def check_random_grammars(seeds: Sequence[int], threads: pytest.MonkeyPatch) -> int:
    """Compare random grammars with their modules and with the reference engine."""
    programs = random_programs(seeds)
    threads.setattr(native_engine, "library", together(list(programs.values())))
    finite = 0
    for seed, program in programs.items():
        torch.set_num_threads(1 + seed % 3)
        items = items_of(program.grammar, [3, 4, 1], random.Random(seed))
        same(random_run(program, items, torch.float64, seed=seed))
        same(random_run(program, items[:1], torch.float64, seed=seed))
        finite += against_reference(program, seed)
    return finite


@needs_compiler
@pytest.mark.parametrize("number", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_random_grammars(number: int, threads: pytest.MonkeyPatch) -> None:
    assert check_random_grammars(range(number), threads) >= 5


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_grammars(block: int, threads: pytest.MonkeyPatch) -> None:
    check_random_grammars(range(100 + 50 * block, 150 + 50 * block), threads)


@needs_compiler
def test_a_term_that_is_there_for_some_lengths_may_be_a_parameter() -> None:
    program = in_cpp(
        loads(
            "domain T = 2 domain W = 3 input w: W[n] factor init(T) factor emit(T, W) "
            "nonterminal S() nonterminal Y(T) start S rule top: S -> Y(t) "
            "rule short: Y(t) -> init(t) for n == 1 rule seen: Y(t) -> emit(t, w[0])"
        )
    )
    assert re.search(r"\? init\.at : nullptr", cpp_of(program))
    for lengths in ([1, 1], [2, 3], [2, 1]):
        items = items_of(program.grammar, lengths, random.Random(1))
        same(random_run(program, items, torch.float64, seed=0))


@needs_compiler
def test_heads_with_coefficients(threads: pytest.MonkeyPatch) -> None:
    texts = [STEPPED["two indices"], STEPPED["two indices and a level"]]
    programs = [in_cpp(loads(HEAD + text)) for text in texts]
    threads.setattr(native_engine, "library", together(programs))
    for program in programs:
        for count in (1, 2):
            torch.set_num_threads(count)
            rng = random.Random(1)
            weights = random_weights(program.grammar, rng)
            items = [random_item(program.grammar, {"n": n}, rng) for n in (5, 2, 4, 0)]
            answers = [reference(program.grammar, item, weights) for item in items]
            compare(program, items, [a for a in answers if a is not None], weights)


# matrix products


@needs_compiler
def test_matrix_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of torch, and without them."""
    grammar = fgg.load("pcfg", sizes={"nt": 40, "pt": 50, "r": 60, "words": 30})
    programs = [in_cpp(grammar, space=space) for space in ("state", "rank")]
    monkeypatch.setattr(native_engine, "library", together(programs))
    items = items_of(programs[0].grammar, [6, 9, 2], random.Random(2), missing=0.1)
    host = native_build.host("float64")
    alone = native_build.Host(None, *(getattr(host, name) for name, *_ in host._fields_[1:]))
    for program in programs:
        same(random_run(program, items, torch.float64, seed=1))
        with monkeypatch.context() as patched:
            patched.setattr(native_engine, "host", lambda dtype: alone)
            same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_the_smallest_products_can_be_matrix_products(threads: pytest.MonkeyPatch) -> None:
    """Also one for each value of a node that both factors have."""
    for bound in ("LEAST_SIDE", "LEAST_WORK", "LEAST_EACH"):
        threads.setattr(loops, bound, 2)
    names = {"lexpcfg", "pcfg_la"}
    check_programs([case for case in CASES if case[0] in names and case[:2] in QUICK], threads)
    assert check_random_grammars(range(8), threads)


# threads


def passes_of(program: Program, items: list[object]) -> list[Tensor]:
    """All that an inside and an outside pass compute."""
    run = random_run(program, items, torch.float32, seed=3)  # type: ignore[arg-type]
    engine = program.compiled.engines.native
    with torch.no_grad():
        charts = engine.inside(run.leaves, run.scales, run.batch)
        gradient = torch.ones(run.batch.size)
        slopes = engine.outside(run.leaves, run.scales, *charts, run.batch, gradient)
    return [x for group in (*charts, *slopes) for x in group.values()]


@needs_compiler
def test_results_are_the_same_every_time(threads: pytest.MonkeyPatch) -> None:
    """Bit for bit for a number of threads, and nearly so for another one."""
    sizes = {"nt": 12, "pt": 13, "r": 14, "words": 30}
    programs = [
        in_cpp(fgg.load("pcfg", sizes=sizes), space="rank"),
        in_cpp(fgg.load("eisner")),
        in_cpp(fgg.load("hmm", sizes={"k": 20, "d": 9})),
    ]
    threads.setattr(native_engine, "library", together(programs, "float32"))
    for program in programs:
        for count in (5, 1):  # shared items, shared positions
            items = items_of(program.grammar, [12, 9, 12, 7, 11][:count], random.Random(4))
            found = {}
            for number in (1, 2, 3):
                torch.set_num_threads(number)
                found[number] = passes_of(program, items)
                again = passes_of(program, items)
                assert all(torch.equal(a, b) for a, b in zip(found[number], again, strict=True))
                for one, other in zip(found[1], found[number], strict=True):
                    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@needs_compiler
def test_small_work_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are not asked for where they would only wait."""
    program = in_cpp(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    items = items_of(program.grammar, [3] * 4, random.Random(1))
    host = native_build.host("float64")
    fields = {name: getattr(host, name) for name, *_ in host._fields_}
    never = native_build.Host(**{**fields, "start": 1})  # calling it would end the process
    monkeypatch.setattr(native_engine, "host", lambda dtype: never)
    same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_fewer_threads_than_promised(threads: pytest.MonkeyPatch) -> None:
    """Where no threads can be started, the first one does it all."""
    program = in_cpp(fgg.load("eisner"))
    items = items_of(program.grammar, [5, 3, 4], random.Random(1))
    host = native_build.host("float64")
    fields = {name: getattr(host, name) for name, *_ in host._fields_}
    none = native_build.Host(**{**fields, "start": None, "place": None, "count": None})
    threads.setattr(native_engine, "host", lambda dtype: none)
    torch.set_num_threads(2)
    same(random_run(program, items, torch.float64, seed=1))


# names


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
    assert not any("system" in line or "main(" in line for line in code)
    items = items_of(grammar, [3, 4], random.Random(1))
    same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_users_may_call_things_what_the_prelude_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program can have a member for every word of the prelude and of C++."""
    program = in_cpp(fgg.load("eisner"))
    cpp = program.compiled.cpp
    words = sorted(set(re.findall(r"\b[A-Za-z]\w*", cpp.prelude)))
    taken = set(re.findall(r"\w+", cpp.source))
    names = Names()
    members = [names.get(word, word) for word in words]
    lines = "".join(f"  const int {name} = 0;\n" for name in members if name not in taken)
    mark = "  using Pass::Pass;\n"
    assert len(lines) > 1000 and mark in cpp.source
    odd = replace(cpp, source=cpp.source.replace(mark, mark + lines, 1))
    monkeypatch.setitem(program.compiled.__dict__, "cpp", odd)
    items = items_of(program.grammar, [5, 3, 4], random.Random(1))
    same(random_run(program, items, torch.float64, seed=1))
