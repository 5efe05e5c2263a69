"""Decomposition and rank space: the value stays, the states go, and the cost is the paper's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fgg.bfgg import b_status, is_bfgg
from fgg.check import check_grammar
from fgg.compiler import load, loads
from fgg.compiler.cost import cost
from fgg.compiler.lower import plan
from fgg.compiler.options import matching
from fgg.compiler.passes.close import close
from fgg.compiler.passes.cpd import CpdImpossible, cpd
from fgg.compiler.passes.fold import fold
from fgg.compiler.passes.narrow import narrow
from fgg.compiler.passes.rank_space import kept, rank_space
from fgg.compiler.passes.split import split
from fgg.compiler.rank_nodes import NotRankSpace, state_uses
from fgg.compiling import compile, selected
from fgg.compose import rename
from fgg.diagnostics import GrammarError
from fgg.domains import domain_size
from fgg.grammar import Attribute, Grammar
from fgg.grounding import ground
from fgg.index import Expr
from fgg.pieces import Piece, piece_of, pieces
from fgg.printer import print_grammar
from fgg.runtime.solve import solve
from fgg.runtime.weights import bind
from fgg.semantics import brute_force
from fgg.summary import free_parameters
from fgg.values import Call, Word
from tests.conftest import Golden

CNF = """
size t = 3
size d = 4
size r = 2
domain N = t
domain W = d
factor root(-> N)
factor binary(N -> N, N) rank r
factor emit(N -> W)
nonterminal S()
nonterminal X(N)
start S
rule root:   S    -> root(a) X(a)
rule binary: X(a) -> binary(a, b, c) X(b) X(c)
rule word:   X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,m] X[m,j]   for i < m < j
  rule word:   X[i,i+1] -> o = w[i]
}
"""

TERNARY = """
size t = 3
size d = 4
size r = 2
size s = 3
domain N = t
domain W = d
factor root(-> N)
factor two(N -> N, N) rank r
factor three(N -> N, N, N) rank s
factor emit(N -> W)
nonterminal S()
nonterminal X(N)
start S
rule root:  S    -> root(a) X(a)
rule two:   X(a) -> two(a, b, c) X(b) X(c)
rule three: X(a) -> three(a, b, c, d) X(b) X(c) X(d)
rule word:  X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root:  S        -> X[0,n]
  rule two:   X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule three: X[i,j]   -> X[i,k] X[k,l] X[l,j]   for i < k < l < j
  rule word:  X[i,i+1] -> o = w[i]
}
"""

# Y's own rules are dense, X's of low rank; each uses the other.
MIXED = """
size t = 3
size d = 4
size r = 2
domain N = t
domain M = 2
domain W = d
factor root(-> M)
factor low(N -> N, M) rank r
factor dense(M -> N, N)
factor last(N -> W)
factor other(M -> W)
nonterminal S()
nonterminal X(N)
nonterminal Y(M)
start S
rule root: S    -> root(a) Y(a)
rule low:  X(a) -> low(a, b, c) X(b) Y(c)
rule high: Y(a) -> dense(a, b, c) X(b) X(c)
rule last: X(a) -> last(a, o)
rule word: Y(a) -> other(a, o)
query string(w: W[n]) {
  rule root: S        -> Y[0,n]
  rule low:  X[i,j]   -> X[i,k] Y[k,j]   for i < k < j
  rule high: Y[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule last: X[i,i+1] -> o = w[i]
  rule word: Y[i,i+1] -> o = w[i]
}
"""

# Two nonterminals touch one node; a potential of low rank; a start symbol with a node.
SHARED = """
size t = 3
size r = 2
domain T = t
domain W = 4
factor pair(T, T) rank r
factor step(T -> T, W) rank r
factor weigh(T)
nonterminal X(T)
nonterminal Y(T)
start X
rule both: X(a) -> pair(a, b) X(b) Y(b)
rule one:  X(a) -> weigh(a) pair(a, b) Y(b)
rule step: Y(a) -> step(a, b, o) Y(b)
rule end:  Y(a) -> weigh(a)
query string(w: W[n]) {
  nonterminal X[i] for 0 <= i <= n
  nonterminal Y[i] for 0 <= i <= n
  start X[0]
  rule both: X[i] -> X[i+1] Y[i]   for 0 <= i < n
  rule one:  X[i] -> Y[i]          for 0 <= i <= n
  rule step: Y[i] -> Y[i+1] o = w[i]   for 0 <= i < n
  rule end:  Y[n] ->
}
"""

# Several rules of one family with different factors, and unary chains on one level.
SEVERAL = """
size t = 3
size r = 2
domain T = t
domain W = 4
factor root(-> T)
factor f(T -> T, T) rank r
factor g(T -> T, W) rank r + 1
factor h(T, T) rank r
factor e(T -> W)
nonterminal S()
nonterminal X(T)
start S
rule root: S    -> root(a) X(a)
rule top:  S    -> root(a) h(a, b) X(b)
rule f:    X(a) -> f(a, b, c) X(b) X(c)
rule left: X(a) -> g(a, b, o) X(b)
rule turn: X(a) -> g(a, b, o) X(b)
rule free: X(a) -> h(a, b) X(c) (b: T)
rule word: X(a) -> e(a, o)
query string(w: W[n]) {
  rule root: S        -> X[0,n]
  rule top:  S        -> X[0,n]
  rule f:    X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule left: X[i,j]   -> X[i+1,j] o = w[i]   for i + 1 < j
  rule turn: X[i,j]   -> X[i,j-1] o = w[j-1]   for i + 1 < j
  rule free: X[i,j]   -> X[i+1,j]   for i + 1 < j
  rule word: X[i,i+1] -> o = w[i]
}
"""

OWN = {"cnf": CNF, "ternary": TERNARY, "mixed": MIXED, "shared": SHARED, "several": SEVERAL}
LIBRARY = ("pcfg", "lpcfg", "hmm_rank")
WHOLE = ("pcfg", "lpcfg", "hmm_rank", "cnf", "ternary", "several")
SIZES = {"pcfg": (2, 3, 4, 2), "lpcfg": (2, 3, 4, 2), "hmm_rank": (3, 4, 2), "lhmm": (3, 4, 2)}


def asked(name: str, sizes: Sequence[int] = ()) -> Grammar:
    """A grammar joined with its query."""
    if name in OWN:
        return selected(loads(OWN[name]), None)
    names = [size.name for size in load(name).sizes]
    return selected(load(name, sizes=dict(zip(names, sizes or SIZES[name], strict=True))), None)


def decomposed(grammar: Grammar) -> Grammar:
    return narrow(split(cpd(close(grammar)[0])))


def values(grammar: Grammar, semiring: str, seeds: Sequence[int] = (0, 1)) -> list[Any]:
    """Z for strings of several lengths, some words missing, with random weights."""
    found = []
    for seed in seeds:
        for n in range(6 if semiring == "real" else 5):
            words = random.Random(n + 10 * seed).choices([-1, 0, 1, 2, 3], k=n)
            flat = ground(grammar, inputs={"w": words})
            value = np.asarray(solve(flat, semiring, seed=seed).value).sum()
            found.append(value % (2**31 - 1) if semiring == "gf" else value)
    return found


def assert_same(one: Grammar, two: Grammar) -> None:
    """Assert that two grammars have the same values: in floating point, and exactly."""
    assert all(values(one, "real")[2:6])
    np.testing.assert_allclose(values(one, "real"), values(two, "real"), rtol=1e-10)
    for semiring in ("gf", "exact"):
        assert values(one, semiring, (3,)) == values(two, semiring, (3,)), semiring


def assert_well_formed(grammar: Grammar) -> None:
    assert not [d for d in check_grammar(grammar) if d.is_error or d.code == "F204"]
    assert loads(print_grammar(grammar)) == grammar


@pytest.mark.parametrize("name", [*LIBRARY, "lhmm", *OWN])
def test_decomposing_keeps_the_value(name: str) -> None:
    grammar = asked(name)
    result = cpd(grammar)
    assert_well_formed(result)
    assert (result is grammar) == (name == "lpcfg")
    assert cpd(result) is result
    used = {edge.label for rule in result.rules for edge in rule.rhs.edges}
    assert not [f for f in result.factors if f.rank is not None and f.name in used]
    assert_same(grammar, result)


@pytest.mark.parametrize("name", [*LIBRARY, *OWN])
def test_marginalising_states_keeps_the_value(name: str) -> None:
    grammar = asked(name)
    before = decomposed(grammar)
    result = rank_space(before)
    assert_well_formed(result)
    if name in WHOLE:
        assert not [*state_uses(result)] and not kept(before)
        assert rank_space(result) is result
    else:
        assert kept(before)
    assert_same(grammar, result)


@pytest.mark.parametrize("name", [*LIBRARY, *OWN])
def test_messages_in_rank_space_keep_the_value(name: str) -> None:
    before = decomposed(asked(name))
    result = fold(rank_space(before))
    assert_well_formed(result)
    assert values(before, "gf", (4,)) == values(result, "gf", (4,))


@pytest.mark.parametrize("name", ["pcfg", "hmm_rank", "lpcfg", "ternary"])
def test_rank_space_writes(name: str, golden: Golden) -> None:
    golden(print_grammar(rank_space(decomposed(asked(name)))), "fgg")


@pytest.mark.parametrize("name", ["pcfg", "hmm_rank", "several"])
def test_programs_in_rank_space_agree_with_the_source(name: str) -> None:
    grammar = asked(name)
    program = compile(rank_space(decomposed(grammar)), fallback=False)
    weights = program.weights(seed=7)
    words = [[0, 1, 2, 3, 1], [3, -1, 1, 0], [2, 1]]
    for value, row in zip(program.log_z(weights, {"w": words}), words, strict=True):
        flat = ground(grammar, inputs={"w": row})
        assert float(value) == pytest.approx(float(solve(flat, "log", seed=7).value), rel=1e-5)


def random_grammar(rng: random.Random) -> Grammar:
    """A grammar over spans: families with rules of low rank, dense ones, shared nodes, weights."""
    families = [f"X{i}" for i in range(rng.randint(1, 3))]
    domain = {name: rng.choice("TU") for name in families}
    factors: dict[str, str] = {}
    rules: list[str] = []

    def factor(domains: Sequence[str], low: float = 0.7) -> str:
        names = [n for n, text in factors.items() if text.startswith(f"({'|'.join(domains)})")]
        if names and rng.random() < 0.3:
            return rng.choice(names)
        name = f"f{len(factors)}"
        rank = f" rank {rng.randint(1, 3)}" if len(domains) > 1 and rng.random() < low else ""
        given = rng.choice([None, 0, 1, 1, 1]) if len(domains) > 1 else None
        arrow = ", ".join(domains)
        if given is not None:
            arrow = f"{', '.join(domains[:given])} -> {', '.join(domains[given:])}"
        factors[name] = f"({'|'.join(domains)})factor {name}({arrow}){rank}"
        return name

    def rule(head: str, indices: str, children: Sequence[tuple[str, str]], tail: str) -> None:
        nodes = {"a": domain[head]}
        edges = []
        for number, (child, at) in enumerate(children):
            node = f"b{number}"
            shared = [n for n in nodes if n != "a" and nodes[n] == domain[child]]
            if shared and rng.random() < 0.15:
                node = shared[0]
            nodes[node] = domain[child]
            edges.append(f"{child}[{at}]({node})")
        if "w[" in tail:
            nodes["o"] = "W"
        names = [*nodes]
        if rng.random() < 0.85:
            edges.insert(0, f"{factor([nodes[n] for n in names])}({', '.join(names)})")
        else:
            for one, two in pairwise(names):
                edges.insert(0, f"{factor([nodes[one], nodes[two]], 0.9)}({one}, {two})")
        for name in names:
            if rng.random() < 0.1:
                edges.append(f"{factor([nodes[name]])}({name})")
        rules.append(f"rule {head}[{indices}](a) -> {' '.join(edges)} {tail}")

    for name in families:
        rule(name, "i,i+1", (), "o = w[i]")
        for _ in range(rng.randint(1, 3)):
            one, two = rng.choice(families), rng.choice(families)
            kind = rng.randrange(4)
            if kind < 2:
                rule(name, "i,j", ((one, "i,m"), (two, "m,j")), "for i < m < j")
            elif kind == 2:
                rule(name, "i,j", ((one, "i+1,j"),), "o = w[i] for i + 1 < j")
            else:
                rule(name, "i,j", ((one, "i,j-1"),), "for i + 1 < j")
    for top in families:
        root = f"{factor([domain[top]])}(a) " if rng.random() < 0.7 else ""
        rules.append(f"rule S -> {root}{top}[0,n](a)")
    lines = ["domain T = 3", "domain U = 2", "domain W = 2", "input w: W[n]"]
    lines += [text.split(")", 1)[1] for text in factors.values()]
    lines += ["nonterminal S()", "start S"]
    lines += [f"nonterminal {x}[i,j]({domain[x]}) for 0 <= i < j <= n" for x in families]
    return loads("\n".join([*lines, *rules]) + "\n")


def keeps_its_value(seed: int) -> bool:
    """Whether a random grammar has a rank space; assert that its value is the same there."""
    grammar = random_grammar(random.Random(seed))
    before = decomposed(grammar)
    try:
        result = rank_space(before)
    except NotRankSpace:
        return False
    assert_well_formed(result)
    for words in ([0, -1], [1, 1, 0]):
        wanted, *found = (
            solve(ground(g, inputs={"w": words}), "gf", seed=seed).value.item()
            for g in (grammar, result, fold(result))
        )
        assert found == [wanted] * 2 and wanted, seed
    return True


def test_random_grammars_keep_their_values() -> None:
    assert 8 < sum(map(keeps_its_value, range(16))) < 16


@pytest.mark.slow
def test_many_random_grammars_keep_their_values() -> None:
    assert sum(map(keeps_its_value, range(100, 400))) > 150


def rules_without(grammar: Grammar) -> list[Grammar]:
    """The grammar without one of its rules, for each."""
    return [
        replace(grammar, rules=tuple(r for r in grammar.rules if r is not gone))
        for gone in grammar.rules
    ]


def relabelled(grammar: Grammar, old: str, new: str) -> list[Grammar]:
    """The grammar with another label on one edge, for each edge with the old label."""
    found = []
    for rule in grammar.rules:
        for edge in rule.rhs.edges:
            if edge.label == old:
                edges = tuple(replace(e, label=new) if e is edge else e for e in rule.rhs.edges)
                wrong = replace(rule, rhs=replace(rule.rhs, edges=edges))
                rules = tuple(wrong if r is rule else r for r in grammar.rules)
                found.append(replace(grammar, rules=rules))
    return found


def test_a_wrong_rewrite_is_caught() -> None:
    right = rank_space(decomposed(asked("pcfg")))
    want = values(right, "gf", (3,))
    wrong = rules_without(right)
    for number in "NP":
        one, two = f"binary_1_R_binary_{number}", f"binary_2_R_binary_{number}"
        wrong += relabelled(right, one, two) + relabelled(right, two, one)
    for kind in "NP":
        one, two = (f"X_{kind}_binary_{i}_R_binary_{kind}" for i in (1, 2))
        wrong += relabelled(right, one, two)
    assert len(wrong) > 12
    for planted in wrong:
        assert values(planted, "gf", (3,)) != want


@pytest.mark.parametrize(
    ("change", "rule", "node", "reason"),
    [
        (lambda: asked("lhmm"), "step", "t", "`emit` depends on the input"),
        (lambda: small_dense("cnf"), "root", "a", "no rule has a rank node"),
        (lambda: small_dense("hmm"), "begin", "t", "no rule has a rank node"),
        (lambda: cpd(small_dense("hsmm"), {"trans": 2}), "next_None", None, "2 external nodes"),
    ],
)
def test_grammars_outside_the_class_are_refused(
    change: Callable[[], Grammar], rule: str, node: str | None, reason: str
) -> None:
    with pytest.raises(NotRankSpace) as caught:
        rank_space(decomposed(change()))
    assert (caught.value.rule, caught.value.node) == (rule, node)
    assert reason in caught.value.reason and f"rule `{caught.value.rule}`" in str(caught.value)


def small_dense(name: str) -> Grammar:
    grammar = load(name)
    sizes = {s.name: 2 for s in grammar.sizes if not [*s.value.names()]}
    return selected(load(name, sizes=sizes), None)


def test_unions_are_split_before_states_go() -> None:
    with pytest.raises(NotRankSpace, match="split"):
        rank_space(cpd(asked("pcfg")))


def test_what_stays_in_state_space_is_said() -> None:
    (dense,) = kept(decomposed(asked("mixed")))
    assert (dense.rule, dense.node) == ("high", "a") and "no factor leads" in dense.reason
    reasons = {(item.rule, item.reason) for item in kept(decomposed(asked("shared")))}
    assert ("both", "two nonterminals touch it") in reasons
    result = rank_space(decomposed(asked("shared")))
    assert {x.name for x in result.nonterminals} >= {"X", "X_rank", "Y", "Y_rank"}


@pytest.mark.parametrize("name", ["pcfg", "lpcfg", "hmm_rank", "cnf", "ternary"])
def test_only_messages_touch_external_nodes(name: str) -> None:
    """Decomposition leaves a B-FGG one; in rank space messages are all that does."""
    grammar = decomposed(asked(name))
    assert is_bfgg(grammar)
    result = rank_space(grammar)
    for status in b_status(result):
        assert status.holds or (status.edge or "").startswith("X_"), status


def orders(grammar: Grammar) -> list[str]:
    planned = plan(fold(grammar))
    found = cost(planned, dict.fromkeys(planned.lengths, 32), batch=16, width=4)
    return found.text(found.order).split(" + ")


LARGE = {
    "pcfg": (300, 600, 10000, 20),
    "lpcfg": (300, 600, 1000, 20),
    "hmm_rank": (500, 10000, 20),
    "lhmm": (500, 10000, 20),
}


def test_state_space_costs_what_the_literature_says() -> None:
    # [RS eq. 10]: O(n^3 r + n^2 m r); [LR]: O(n m r).
    terms = orders(decomposed(asked("pcfg", LARGE["pcfg"])))
    assert terms == ["n^3*r", "n^2*nt*r", "n*pt*r"]
    assert orders(decomposed(asked("lhmm", LARGE["lhmm"]))) == ["n*k*r"]
    assert orders(decomposed(asked("hmm_rank", LARGE["hmm_rank"]))) == ["n*k*r"]


def test_rank_space_costs_what_the_paper_says() -> None:
    # [RS §4.2]: O(n^3 r + n^2 r^2), besides words (J, K at n tokens) and weights (H, I), once.
    terms = orders(rank_space(decomposed(asked("pcfg", LARGE["pcfg"]))))
    assert terms == ["n^3*r", "n^2*r^2", "n*pt*r", "nt*r^2"]
    # [RS §4.3]: O(n r^2), besides the product of weights.
    assert orders(rank_space(decomposed(asked("hmm_rank", LARGE["hmm_rank"])))) == [
        "n*r^2",
        "k*r^2",
    ]
    terms = orders(rank_space(decomposed(asked("lpcfg", LARGE["lpcfg"]))))
    assert terms[:2] == ["n^3*r^2", "n^2*r^3"]


def test_where_states_are_fewer_than_ranks_the_plan_stays_with_states() -> None:
    terms = orders(rank_space(decomposed(asked("pcfg", (30, 60, 10000, 100)))))
    assert terms[:2] == ["n^3*r", "n^2*nt*r"]


def test_pieces_are_drawn_as_the_product_draws_them() -> None:
    for name in ("pcfg", "hmm_rank", "shared", "several"):
        grammar = asked(name)
        result = cpd(grammar)
        for exactly in (False, True):
            whole = bind(grammar, seed=3, exactly=exactly)
            parts = bind(result, seed=3, exactly=exactly)
            for factor in grammar.factors:
                if factor.rank is None:
                    assert (parts[factor.name] == whole[factor.name]).all()
                    continue
                own = [parts[x] for _, (x,) in sorted(pieces(result, factor.name).items())]
                given = factor.given or 0
                letters = "abc"[: len(factor.domains)]
                terms = [f"{letters[:given]}q", *(f"q{x}" for x in letters[given:])]
                product = np.einsum(f"{','.join(terms)}->{letters}", *own)
                np.testing.assert_array_equal(product, whole[factor.name])


def test_dense_weights_of_a_decomposed_factor_are_refused() -> None:
    grammar = cpd(asked("hmm_rank"))
    with pytest.raises(GrammarError) as caught:
        bind(grammar, {"step": np.ones((3, 3, 4))}, seed=0)
    (found,) = caught.value.diagnostics
    assert found.code == "F417" and "`step`, which is decomposed" in found.message
    assert found.help == "give its pieces: `step_0`, `step_1`, `step_2`"
    with pytest.raises(GrammarError, match=r"`step_0`, `step_1`, `step_2`"):
        bind(grammar)


def test_pieces_can_be_given() -> None:
    grammar = cpd(asked("hmm_rank"))
    drawn = bind(grammar, seed=0)
    given = {name: drawn[name] for name in ("step_0", "step_1", "step_2", "init")}
    assert {n: a.tolist() for n, a in bind(grammar, given).items()} == {
        n: a.tolist() for n, a in drawn.items()
    }
    one = np.full((3, 2), 0.5)
    mixed = bind(grammar, {"step_0": one}, seed=0)
    assert (mixed["step_0"] == one).all() and (mixed["step_1"] == drawn["step_1"]).all()


TIED = """
domain T = 3
factor trans(T -> T) rank 2
factor first(-> T) with tied = stationary(trans)
nonterminal S()
start S
rule S -> first(a) trans(a, b) trans(b, c)
"""


def test_what_is_tied_to_a_decomposed_factor_follows_its_product() -> None:
    grammar = loads(TIED)
    result = cpd(grammar)
    assert solve(result, "exact", seed=1).value == solve(grammar, "exact", seed=1).value == 1
    whole, parts = bind(grammar, seed=1), bind(result, seed=1)
    np.testing.assert_allclose(whole["first"], parts["first"])
    given = {name: parts[name] for name in ("trans_0", "trans_1")}
    np.testing.assert_allclose(bind(result, given)["first"], whole["first"])


def test_the_definition_agrees_on_decomposed_grammars() -> None:
    grammar = asked("cnf")
    flat, other = (ground(g, inputs={"w": [0, 2, -1]}) for g in (grammar, cpd(grammar)))
    assert brute_force(other, bind(other, seed=2)) == pytest.approx(
        brute_force(flat, bind(flat, seed=2))
    )


def test_attributes_go_to_the_pieces() -> None:
    grammar = loads(
        "domain A = 2\ndomain B = 3\n"
        "factor f(A -> B, B) rank 2 with prior = dirichlet(0.5), net = residual(dim=8)\n"
        "factor g(A, B) rank 2 with frozen = yes\n"
        "factor h(A, B) = 1 rank 2\n"
        "factor b(A, B) rank 2 with blocks = clusters\n"
        "nonterminal S()\nstart S\nrule S -> f(a, b, b) g(a, b) h(a, b) b(a, b)\n"
    )
    result = cpd(grammar)
    assert_well_formed(result)
    for factor in result.factors:
        piece = piece_of(factor)
        keys = [attribute.key for attribute in factor.attributes]
        if piece is not None:
            assert keys == (
                ["prior", "net", "piece"] if piece.source == "f" else ["frozen", "piece"]
            )
    (rule,) = result.rules
    assert [e.label for e in rule.rhs.edges][-2:] == ["h", "b"]
    assert result.factor["g_0"].domains == ("R_g",) and result.factor["g_0"].given is None
    assert result.factor["f_0"].given == result.factor["f_1"].given == 1


def test_ranks_can_be_declared_where_there_are_none() -> None:
    dense = asked("cnf")
    dense = replace(
        dense, factors=tuple(replace(f, rank=None) for f in dense.factors), domains=dense.domains
    )
    result = cpd(dense, {"binary": 2})
    assert domain_size(result, "R_binary") == 2
    assert_same(rank_space(decomposed(result)), asked("cnf"))
    for ranks, reason in (
        ({"nothing": 2}, "no factor `nothing`"),
        ({"binary": 0}, "not positive"),
        ({"root": 2}, "fewer than two nodes"),
    ):
        with pytest.raises(CpdImpossible, match=reason):
            cpd(dense, ranks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("factor p(A -> R) with piece = g(0)", "there is no factor `g`"),
        ("factor p(A -> R) with piece = f(1)", "cannot be piece 1 of `f`"),
        ("factor p(A, R) with piece = f(0)", "cannot be piece 0 of `f`"),
        ("factor p(A -> B) with piece = f(0)", "cannot be piece 0 of `f`"),
        ("factor p(R -> B) with piece = f(7)", "cannot be piece 7 of `f`"),
        ("factor p(A -> R) = uniform with piece = f(0)", "cannot be piece 0 of `f`"),
        ("factor p(A -> R) with piece = f", "attribute `piece` cannot have this value"),
        ("factor p(A -> R) with piece = f(0.5)", "attribute `piece` cannot have this value"),
        ("factor p(A -> R) with piece = f(-1)", "attribute `piece` cannot have this value"),
    ],
)
def test_what_cannot_be_a_piece_is_an_error(text: str, message: str) -> None:
    source = (
        "domain A = 2\ndomain B = 2\nrank R = 3\nfactor f(A -> B) rank 3\n"
        f"{text}\nnonterminal S()\nstart S\nrule S -> p(a, b) f(c, d)\n"
    )
    with pytest.raises(GrammarError) as caught:
        loads(source)
    assert any(d.code == "F134" and message in d.message for d in caught.value.diagnostics)


def test_pieces_say_what_they_are() -> None:
    assert Piece("f", 2).attribute() == Attribute(key="piece", value=Call("f", (2.0,)))
    grammar = cpd(asked("hmm_rank"))
    assert piece_of(grammar.factor["step_2"]) == Piece("step", 2)
    assert grammar.factor["step_2"].attribute("frozen") != Word("yes")


def test_indices_are_matched() -> None:
    i, j, n, x = map(Expr.of, ("i", "j", "n", "x"))
    assert matching([i, i + 1], [x, x + 1], {"i"}) == ({"i": x}, ())
    assert matching([i, i + 1], [x, x + 2], {"i"}) is None
    assert matching([n], [Expr.of(0)], {"i"}) == ({}, (n.equals(0),))
    assert matching([i + j, j], [x, n], {"i", "j"}) == ({"j": n, "i": x - n}, ())
    assert matching([i * 2], [x], {"i"}) == ({}, ((i * 2 - x).equals(0),))


def test_pieces_are_renamed_and_counted_as_the_whole() -> None:
    grammar = asked("pcfg")
    result = cpd(grammar)
    renamed = rename(result, factors={"binary": "two"})
    assert piece_of(renamed.factor["binary_1"]) == Piece("two", 1)
    assert_well_formed(renamed)
    assert [free_parameters(result, f) for f in result.factors if piece_of(f) is None] == [
        free_parameters(grammar, f) for f in grammar.factors
    ]
    assert not any(free_parameters(result, f) for f in result.factors if piece_of(f))
