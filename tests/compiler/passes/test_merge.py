"""Merging factors: the value stays, arrows are kept where they are proved, text round-trips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fgg
from fgg.api.compile import compile, selected
from fgg.check.describe import free_parameters
from fgg.check.grammar import check_grammar
from fgg.compiler import load, load_text, loads
from fgg.compiler.driver import Expected, after
from fgg.compiler.passes.cpd import CpdImpossible, cpd, declared
from fgg.compiler.passes.merge import merge
from fgg.diagnostics import GrammarError
from fgg.factors.product_factors import given_axes
from fgg.grammar import Factor, Grammar
from fgg.grammar.definitions import ProductOf, ProductPart
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.json import from_json, to_json
from fgg.library import library_names
from fgg.rewrite.ground import ground
from fgg.rewrite.rename import rename
from fgg.runtime.program.bind import bind
from fgg.runtime.reference.solve import solve
from tests.conftest import Golden

SMALL = {
    "hmm": {"k": 3, "d": 4},
    "pcfg_i": {"k": 3, "d": 4},
    "pcfg_ie": {"k": 3, "d": 4},
    "hsmm": {},
    "pair_hmm": {},
    "dmv": {},
    "lexpcfg": {},
    "rna": {},
    "dyck": {},
    "morphology": {},
}

# A chain of arrows, a node that only factors touch, parts of a union, and potentials.
MIXED = """
domain N = 2
domain P = 2
domain C = N + P
domain W = 3
factor root(-> C)
factor trans(C -> C)
factor emit(C -> W)
factor again(C -> C)
factor phrase(N, W)
factor word(P -> W)
factor loop(C, C)
nonterminal S()
nonterminal X(C)
start S
rule root:  S    -> root(a) trans(a, b) emit(b, o) X(b)
rule step:  X(a) -> trans(a, b) emit(b, o) X(b)
rule twice: X(a) -> trans(a, b) again(b, c) emit(c, o) X(c)
rule part:  X(a) -> phrase(a.N, o) trans(a, b) word(b.P, p) X(b)
rule loop:  X(a) -> loop(a, a) emit(a, o) trans(a, b) X(b)
rule end:   X(a) ->
query string(w: W[n]) {
  rule root:  S    -> X[1] o = w[0]
  rule step:  X[i] -> X[i+1] o = w[i]   for 1 <= i < n
  rule twice: X[i] -> X[i+1] o = w[i]   for 1 <= i < n
  rule part:  X[i] -> X[i+1] o = w[i]   for 1 <= i < n
  rule loop:  X[i] -> X[i+1] o = w[i]   for 1 <= i < n
  rule end:   X[n] ->
}
"""


def grammar_of(name: str) -> Grammar:
    if name == "mixed":
        return loads(MIXED)
    sizes = {k: v for k, v in SMALL[name].items() if k in load(name).size}
    return load(name, sizes=sizes)


def value(grammar: Grammar, words: Sequence[int], semiring: str) -> Any:
    flat = ground(selected(grammar, None), inputs={"w": list(words)})
    return np.asarray(solve(flat, semiring, seed=3).value).sum()


@pytest.mark.parametrize("name", ["hmm", "pcfg_i", "pcfg_ie", "mixed"])
@pytest.mark.parametrize("words", [[1], [0, 2], [2, -1, 0]])
def test_merging_keeps_z_exactly(name: str, words: list[int]) -> None:
    source = grammar_of(name)
    merged = merge(source)
    assert merged != source
    for semiring in ("exact", "gf", "counting"):
        assert value(source, words, semiring) == value(merged, words, semiring)
    np.testing.assert_allclose(value(source, words, "real"), value(merged, words, "real"))


def test_the_definition_agrees() -> None:
    source = grammar_of("hmm")
    flat = ground(selected(merge(source), None), inputs={"w": [1, 2]})
    weights = bind(ground(selected(source, None), inputs={"w": [1, 2]}), seed=0)
    wanted = brute_force(ground(selected(source, None), inputs={"w": [1, 2]}), weights)
    np.testing.assert_allclose(brute_force(flat, weights), wanted)


@pytest.mark.parametrize("name", library_names())
def test_merged_library_grammars_are_well_formed_and_round_trip(name: str) -> None:
    source = load(name)
    merged = merge(source)
    assert not [d for d in check_grammar(merged) if d.is_error or d.code == "F204"]
    assert loads(print_grammar(merged)) == merged
    assert merge(merged) == merged
    new = [f for f in merged.factors if f.name not in source.factor]
    assert all(isinstance(f.definition, ProductOf) and not free_parameters(merged, f) for f in new)


def test_merged_hmm(golden: Golden) -> None:
    golden(print_grammar(merge(load("hmm"))), "fgg")


def test_merged_mixed(golden: Golden) -> None:
    golden(print_grammar(merge(loads(MIXED))), "fgg")


def test_a_merged_hmm_of_low_rank_in_rank_space(golden: Golden) -> None:
    """Figure 5(c) of [RS]: states are gone from the recursion."""
    low = declared(merge(load("hmm")), {"emit_trans": 2})
    golden(print_grammar(after(selected(low, None), "rank_space", Expected(), "rank")), "fgg")


@pytest.mark.parametrize("words", [[1], [0, 2], [2, -1, 0, 3]])
def test_rank_space_of_the_merged_hmm_keeps_z(words: list[int]) -> None:
    low = declared(merge(grammar_of("hmm")), {"emit_trans": 2})
    moved = after(selected(low, None), "rank_space", Expected(), "rank")
    for semiring in ("gf", "exact"):
        prime = 2**31 - 1 if semiring == "gf" else None
        one, two = value(low, words, semiring), value(moved, words, semiring)
        assert one == two if prime is None else (one - two) % prime == 0


def test_merging_is_limited_to_rules() -> None:
    source = loads(MIXED)
    merged = merge(source, ["step"])
    changed = [a.name for a, b in zip(source.rules, merged.rules, strict=True) if a != b]
    assert changed == ["step"]
    assert merge(source, []) is source


def test_what_has_a_rank_is_left_alone() -> None:
    for name in ("pcfg", "hmm_rank", "lhmm", "crf"):
        source = load(name)
        assert merge(source) is source
    low = cpd(selected(load("pcfg"), None))
    assert merge(low) is low


def test_arrows_are_kept_where_they_are_proved() -> None:
    merged = merge(loads(MIXED))
    found = {f.name: (f.domains, f.given) for f in merged.factors if f.definition}
    assert found["trans_emit"] == (("C", "C", "W"), 1)
    assert found["root_trans_emit"] == (("C", "C", "W"), 0)
    assert found["trans_again_emit"] == (("C", "C", "C", "W"), 1)
    assert found["phrase_trans_word"][1] is None  # a potential is part of it
    weights = bind(merged, seed=0)
    for name, (domains, left) in found.items():
        if left is not None:
            sums = weights[name].sum(axis=tuple(range(left, len(domains))))
            np.testing.assert_allclose(sums, 1)


@given(
    parts=st.lists(
        st.tuples(st.permutations(range(4)), st.integers(1, 3), st.integers(0, 2)),
        min_size=1,
        max_size=4,
    ),
    seed=st.integers(0, 99),
)
def test_a_product_is_a_distribution_where_the_arrows_say_so(
    parts: list[tuple[list[int], int, int]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    factors: dict[str, Factor] = {}
    arrays: list[Any] = []
    found: list[ProductPart] = []
    for number, (axes, count, left) in enumerate(parts):
        given = min(left, count - 1)
        array = random.random((2,) * count)
        arrays += [array / array.sum(axis=tuple(range(given, count)), keepdims=True), axes[:count]]
        factors[f"f{number}"] = Factor(name=f"f{number}", domains=("B",) * count, given=given)
        found.append(ProductPart(f"f{number}", tuple(axes[:count])))
    left_axes = given_axes(factors, found)
    if left_axes is not None:
        sums = np.einsum(*arrays, sorted(left_axes))
        np.testing.assert_allclose(sums, 1)


@pytest.mark.parametrize("name", ["hmm", "mixed"])
def test_programs_of_merged_grammars_learn_the_parts(name: str) -> None:
    source = grammar_of(name)
    one, two = compile(source), compile(merge(source))
    assert set(one.parameter_names) == set(two.parameter_names)
    weights = one.weights(seed=0, dtype=torch.float64)
    given = {n: w.requires_grad_() for n, w in weights.items()}
    words = {"w": [[0, 1, 2], [2, 1], [0]]}
    results = []
    for program in (one, two):
        log_z = program.log_z(given, words)
        grads = torch.autograd.grad(log_z.sum(), list(given.values()))
        results.append((log_z, *grads))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    counts = [
        p.posterior({n: w.detach() for n, w in given.items()}, words).counts for p in (one, two)
    ]
    for factor in counts[0]:
        torch.testing.assert_close(counts[0][factor], counts[1][factor])
    best = [p.posterior(weights, words).best() for p in (one, two)]
    assert [d.log_weight for d in best[0]] == pytest.approx([d.log_weight for d in best[1]])
    assert two.model(seed=0)(**words).shape == (3,)


def test_the_reference_engine_gives_gradients_of_the_parts() -> None:
    source = grammar_of("hmm")
    flat = ground(selected(source, None), inputs={"w": [0, 1, 2]})
    joined = ground(selected(merge(source), None), inputs={"w": [0, 1, 2]})
    weights = {n: torch.as_tensor(w).requires_grad_() for n, w in bind(flat, seed=0).items()}
    used = [weights[n] for n in ("init", "trans", "emit")]
    one = torch.autograd.grad(solve(flat, "log", weights=weights).value, used)
    two = torch.autograd.grad(solve(joined, "log", weights=weights).value, used)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b)


def test_json_and_new_names_keep_what_a_joint_factor_is() -> None:
    flat = ground(selected(merge(grammar_of("hmm")), None), inputs={"w": [0, 1]})
    again, diagnostics = from_json(to_json(flat))
    assert again is not None and not diagnostics
    assert [f.definition for f in again.factors] == [f.definition for f in flat.factors]
    renamed = rename(flat, factors={"emit": "say"})
    joint = renamed.factor["emit_trans"].definition
    assert joint is not None and joint.sources == ("say", "trans")


def test_a_name_that_is_taken_gets_a_number() -> None:
    text = print_grammar(load("hmm")).replace("init", "emit_trans")
    assert "emit_trans_2" in merge(loads(text)).factor


def test_a_joint_factor_that_is_too_large_is_refused_before_it_is_made() -> None:
    merged = merge(load("hmm", sizes={"k": 5000, "d": 5000}))
    small = {"init": np.ones(5000), "trans": np.ones((5000, 5000)), "emit": np.ones((5000, 5000))}
    with pytest.raises(GrammarError) as error:
        bind(merged, small)
    assert error.value.diagnostics[0].code == "F420"


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("of(emit(0, 1), tran(0, 2))", "there is no factor `tran`"),
        ("of(emit(0, 1), trans(0, 1))", "cannot be this product"),
        ("of(emit(0, 1), trans(2, 0))", "cannot be this product"),
        ("of(emit(0, 1), trans(0, 3))", "cannot be this product"),
        ("of(emit(0, 1), emit(0, 1))", "cannot be this product"),
        ("of(emit(0, 1))", "cannot have this value"),
        ("of(emit(0, 0), trans(0, 2))", "cannot have this value"),
        ("of(emit(0, 1.5), trans(0, 2))", "cannot have this value"),
        ("emit(0)", "cannot have this value"),
    ],
)
def test_a_wrong_product_is_an_error(attribute: str, message: str) -> None:
    text = print_grammar(merge(load("hmm")))
    text = text.replace("of(emit(0, 1), trans(0, 2))", attribute)
    _, diagnostics, _ = load_text(text)
    found = [d for d in diagnostics if d.code == "F134"]
    assert found and message in found[0].message


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ({"trans": 0}, "not positive"),
        ({"tran": 2}, "there is no factor"),
        ({"init": 2}, "fewer than two nodes"),
    ],
)
def test_ranks_that_cannot_be_declared_are_refused(ranks: dict[str, int], message: str) -> None:
    with pytest.raises(CpdImpossible, match=message):
        declared(load("hmm"), ranks)


def test_a_declared_joint_factor_is_a_parameter_of_its_own() -> None:
    low = declared(fgg.low_rank.merge(load("hmm")), {"emit_trans": 2})
    assert low.factor["emit_trans"].definition is None
    assert free_parameters(low, low.factor["emit_trans"]) > 0
    assert declared(low, {"emit_trans": 2}) is low
