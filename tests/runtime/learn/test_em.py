"""EM: against a plain implementation, against enumeration, and where it must refuse."""

from __future__ import annotations

from collections import Counter as Multiset
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import fgg
from fgg.runtime.learn import EM, VB, Items, learn
from fgg.runtime.learn.collapsed.sampled_counts import entries_of
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

Floats = NDArray[np.float64]
SENTENCES = [[0, 1, 2], [3, 1], [2, 2, 0, 1, 3], [1], [0, 3, 3, 2]]


def hmm(**sizes: int) -> Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4, **sizes}))


def forward_backward(
    start: Floats, trans: Floats, emit: Floats, sentences: list[list[int]]
) -> tuple[float, Floats, Floats, Floats]:
    """The log-likelihood and the expected counts of an HMM, as textbooks have them."""
    total, first, pairs, words = 0.0, 0 * start, 0 * trans, 0 * emit
    for s in sentences:
        n, k = len(s), len(start)
        alpha, beta = np.zeros((n, k)), np.ones((n, k))
        alpha[0] = start * emit[:, s[0]]
        for i in range(1, n):
            alpha[i] = (alpha[i - 1] @ trans) * emit[:, s[i]]
        for i in range(n - 2, -1, -1):
            beta[i] = trans @ (emit[:, s[i + 1]] * beta[i + 1])
        z = alpha[-1].sum()
        total += np.log(z)
        states = alpha * beta / z
        first += states[0]
        for i, word in enumerate(s):
            words[:, word] += states[i]
        for i in range(1, n):
            pairs += np.outer(alpha[i - 1], emit[:, s[i]] * beta[i]) * trans / z
    return total, first, pairs, words


def test_an_hmm_is_fitted_as_by_forward_backward() -> None:
    model = hmm().model(seed=3, dtype=torch.float64)
    start, trans, emit = (model.weight(n).detach().numpy() for n in ("init", "trans", "emit"))
    em = EM(model)
    batch = em.ready(Items({"w": SENTENCES}))
    for _ in range(30):
        total, first, pairs, words = forward_backward(start, trans, emit, SENTENCES)
        report = em.sweep([batch])
        assert report.kind == "log-likelihood"
        assert report.objective == pytest.approx(total, abs=1e-9)
        start = first / first.sum()
        trans = pairs / pairs.sum(1, keepdims=True)
        emit = words / words.sum(1, keepdims=True)
        weights = model.detached()
        for name, wanted in (("init", start), ("trans", trans), ("emit", emit)):
            np.testing.assert_allclose(weights[name].numpy(), wanted, atol=1e-9)


def test_an_hmm_is_fitted_as_by_hmmlearn() -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    model = hmm().model(seed=3, dtype=torch.float64)
    theirs = hmmlearn.CategoricalHMM(n_components=3, n_features=4, init_params="", n_iter=1)
    weights = {n: w.numpy().copy() for n, w in model.detached().items()}
    theirs.startprob_, theirs.transmat_ = weights["init"], weights["trans"]
    theirs.emissionprob_ = weights["emit"]
    em = EM(model)
    batch = em.ready(Items({"w": SENTENCES}))
    flat = np.concatenate(SENTENCES).reshape(-1, 1)
    for _ in range(20):
        score = theirs.score(flat, [len(s) for s in SENTENCES])
        assert em.sweep([batch]).objective == pytest.approx(score, abs=1e-6)
        theirs.fit(flat, [len(s) for s in SENTENCES])
        for name, wanted in (
            ("init", theirs.startprob_),
            ("trans", theirs.transmat_),
            ("emit", theirs.emissionprob_),
        ):
            np.testing.assert_allclose(model.weight(name).detach().numpy(), wanted, atol=1e-6)


def enumerated(model: Model, sentences: list[list[int]]) -> dict[str, Tensor]:
    """Expected counts by enumeration of all derivations."""
    program, weights = model.program, model.detached()
    counts = {n: torch.zeros_like(w) for n, w in weights.items()}
    for derivations in program.posterior(weights, {"w": sentences}).k_best(100_000):
        chances = torch.tensor([d.log_weight for d in derivations], dtype=torch.float64).softmax(0)
        for derivation, chance in zip(derivations, chances, strict=True):
            for name, place in entries_of(derivation, program):
                counts[name][place] += chance
    return counts


def test_a_pcfg_is_counted_as_by_enumeration() -> None:
    program = fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 2, "pt": 2, "words": 3}))
    model = program.model(seed=1, dtype=torch.float64)
    sentences = [[0, 1], [2, 0, 1], [1, 1, 2, 0]]
    em = EM(model)
    for _ in range(4):
        wanted = enumerated(model, sentences)
        em.begin()
        em.step(Items({"w": sentences}))
        for name, group in em.distributions.items():
            torch.testing.assert_close(
                em.sums[name], group.table(wanted[name]), atol=1e-9, rtol=1e-9
            )
        em.end()


@pytest.mark.parametrize("space", ["dense", "state", "rank"])
def test_pieces_of_low_rank_are_distributions_like_others(space: str) -> None:
    grammar = fgg.load("pcfg", sizes={"nt": 3, "pt": 3, "words": 4, "r": 2})
    sentences = [[0, 1, 2], [3, 1], [2, 2, 0, 1, 3]]
    learned = learn(fgg.compile(grammar, space=space), sentences, epochs=6, seed=5)
    other = learn(fgg.compile(grammar, space="state"), sentences, epochs=6, seed=5)
    for one, two in zip(learned.history, other.history, strict=True):
        assert one.objective == pytest.approx(two.objective, abs=1e-8)
    assert learned.history[-1].objective > learned.history[0].objective + 1
    for name in ("binary_0", "binary_1", "binary_2", "emit", "root"):
        torch.testing.assert_close(
            learned.model.weight(name), other.model.weight(name), atol=1e-8, rtol=1e-8
        )


def test_batches_of_all_sizes_give_the_same() -> None:
    program = hmm()
    runs = [learn(program, SENTENCES, epochs=5, seed=1, budget=budget) for budget in (1, 6, 100)]
    for other in runs[1:]:
        for one, two in zip(runs[0].history, other.history, strict=True):
            assert one.objective == pytest.approx(two.objective, abs=1e-9)


def test_what_is_frozen_or_has_a_value_stays() -> None:
    text = """
    domain T = 2 domain W = 3
    factor init(-> T) = [0.3, 0.7]
    factor trans(T -> T) with frozen = yes
    factor emit(T -> W)
    nonterminal S() nonterminal X(T) start S
    rule begin: S    -> init(t) X(t)
    rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
    rule last:  X(t) -> emit(t, o)
    query string(w: W[n]) {
      rule begin: S      -> X[0]
      rule step:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
      rule last:  X[n-1] -> o = w[n-1]
    }"""
    program = fgg.compile(fgg.loads(text))
    for method in ("em", "vb", "cvb", "hastings", "online-em", "adam"):
        model = program.model(seed=0, dtype=torch.float64)
        before = model.detached()
        learn(model, [[0, 1, 2], [2, 2]], method=method, epochs=2)
        after = model.detached()
        assert torch.equal(before["trans"], after["trans"])
        assert torch.equal(before["init"], after["init"])
        assert not torch.equal(before["emit"], after["emit"])


def test_a_stationary_start_takes_part_in_the_m_step() -> None:
    program = fgg.compile(fgg.load("dep_ies", sizes={"d": 3}))
    model = program.model(seed=2, dtype=torch.float64)
    em = EM(model)
    batch = em.ready(Items({"w": [[0, 1, 2], [2, 1], [0, 0, 1]]}))
    values = [em.sweep([batch]).objective for _ in range(8)]
    assert values == sorted(values) and values[-1] > values[0]
    weights = model.detached()
    torch.testing.assert_close(weights["root"] @ weights["arc"], weights["root"])
    with torch.no_grad():
        log_z = model(w=[[0, 1, 2], [2, 1], [0, 0, 1]]).sum()
    assert em.sweep([batch]).objective == pytest.approx(float(log_z), abs=1e-9)
    with pytest.raises(fgg.GrammarError, match="F473"):
        VB(model)


def test_pseudo_counts_are_a_prior() -> None:
    model = hmm().model(seed=0, dtype=torch.float64)
    em = EM(model, pseudo=0.5)
    batch = em.ready(Items({"w": SENTENCES}))
    reports = [em.sweep([batch]) for _ in range(10)]
    assert {f.kind for f in reports} == {"log-posterior"}
    assert [f.objective for f in reports] == sorted(f.objective for f in reports)
    assert all((model.weight(n) > 0.01).all() for n in ("init", "trans", "emit"))


def test_online_em_comes_near_to_em() -> None:
    program = hmm(d=6)
    generator = torch.Generator().manual_seed(0)
    truth = program.model(seed=7, dtype=torch.float64)
    sentences = sampled(truth, 200, generator)
    batch_em = learn(program, sentences, epochs=20, seed=1)
    online = learn(program, sentences, method="online-em", epochs=20, seed=1, budget=64)
    best = batch_em.history[-1].objective
    assert online.history[-1].objective == pytest.approx(best, rel=0.03)


def sampled(model: Model, number: int, generator: torch.Generator) -> list[list[int]]:
    """Sentences drawn from an HMM."""
    weights = model.detached()
    sentences = []
    for _ in range(number):
        length = int(torch.randint(3, 9, (), generator=generator))
        state = int(torch.multinomial(weights["init"], 1, generator=generator))
        words = []
        for _ in range(length):
            words.append(int(torch.multinomial(weights["emit"][state], 1, generator=generator)))
            state = int(torch.multinomial(weights["trans"][state], 1, generator=generator))
        sentences.append(words)
    return sentences


def test_a_row_without_counts_stays() -> None:
    weights = {"init": [1.0, 0.0, 0.0], "trans": torch.eye(3), "emit": [[0.25] * 4] * 3}
    model = hmm().model(dtype=torch.float64, weights=weights)
    learn(model, [[0, 1], [2]], epochs=1)
    torch.testing.assert_close(model.weight("trans"), torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(model.weight("emit")[0], torch.tensor([1, 1, 1, 0]).double() / 3)
    torch.testing.assert_close(model.weight("emit")[1], torch.full((4,), 0.25).double())


def test_items_without_derivations_are_named_or_skipped() -> None:
    weights = {"init": [1.0, 0, 0], "trans": torch.eye(3), "emit": [[0.5, 0.5, 0, 0]] * 3}
    for method in ("em", "adam", "cvb"):
        model = hmm().model(dtype=torch.float64, weights=weights)
        with pytest.raises(fgg.GrammarError, match=r"F474.*item 1 "):
            learn(model, [[0, 1], [2]], method=method, epochs=1)
        model = hmm().model(dtype=torch.float64, weights=weights)
        learned = learn(model, [[0, 1], [2]], method=method, epochs=1, skip=True)
        assert learned.history[0].items == 1


def test_an_objective_that_falls_is_an_error() -> None:
    em = EM(hmm().model(seed=0, dtype=torch.float64))
    em.sweep([Items({"w": SENTENCES[:2]})])
    with pytest.raises(fgg.GrammarError, match="F475"):
        em.sweep([Items({"w": [*SENTENCES[:2], [3, 2, 1, 0]]})])  # other data


def test_potentials_and_networks_are_refused() -> None:
    text = """
    domain T = 2
    factor a(T)
    factor b(-> T) with net = residual(dim=4)
    nonterminal S() start S
    rule S -> a(x) b(x)"""
    program = fgg.compile(fgg.loads(text))
    with pytest.raises(fgg.GrammarError) as error:
        EM(program.model())
    assert [d.code for d in error.value.diagnostics] == ["F473", "F473"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "emm"}, "there is no method `emm`"),
        ({"rate": 1.0}, "`em` has no option `rate`"),
        ({"prior": 1.0}, "`em` has no option `prior`"),
        ({"method": "vb", "prior": -1.0}, "negative"),
        ({"method": "vb", "prior": {"emti": 1.0}}, "did you mean `emit`"),
        ({"method": "adam", "rate": -1.0}, "`rate`"),
        ({"epochs": -1}, "`epochs`"),
        ({"budget": 0}, "`budget`"),
        ({"method": "online-em", "power": 0.1}, "`power`"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fgg.GrammarError, match="F476") as error:
        learn(hmm(), SENTENCES, **options)
    assert message in str(error.value)


def test_supervised_em_is_relative_frequency() -> None:
    program = fgg.compile(fgg.load("tagger", sizes={"tags": 3, "words": 4}), "tagged")
    words, tags = [[0, 1, 2], [3, 1]], [[0, 1, 2], [0, 2]]
    learned = learn(program, {"w": words, "tag": tags}, epochs=2)
    weights = learned.model.detached()
    pairs = Multiset(p for t in tags for p in pairwise(t))
    seen = Multiset(p for t, w in zip(tags, words, strict=True) for p in zip(t, w, strict=True))
    for (a, b), count in pairs.items():
        total = sum(c for (x, _), c in pairs.items() if x == a)
        assert float(weights["trans"][a, b]) == pytest.approx(count / total)
    for (a, b), count in seen.items():
        total = sum(c for (x, _), c in seen.items() if x == a)
        assert float(weights["emit"][a, b]) == pytest.approx(count / total)
    assert weights["init"].tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert learned.history[1].objective == pytest.approx(likelihood(weights, words, tags))


def likelihood(weights: dict[str, Tensor], words: list[list[int]], tags: list[list[int]]) -> float:
    total = 0.0
    for w, t in zip(words, tags, strict=True):
        total += float(weights["init"][t[0]].log())
        total += sum(float(weights["emit"][a, b].log()) for a, b in zip(t, w, strict=True))
        total += sum(float(weights["trans"][a, b].log()) for a, b in pairwise(t))
    return total


def test_supervised_em_on_trees_is_relative_frequency() -> None:
    sizes = {"nt": 2, "pt": 2, "h": 1, "words": 3}
    program = fgg.compile(fgg.load("pcfg_la", sizes=sizes), "tree")
    # (0 (0' w0) (1 (1' w1) (0' w2))) and (0 (1' w1) (1' w0)), nodes from the root downwards
    data = {
        "phrase": [[0, -2, 1, -2, -2], [0, -2, -2]],
        "tag": [[-2, 0, -2, 1, 0], [-2, 1, 1]],
        "w": [[-2, 0, -2, 1, 2], [-2, 1, 0]],
        "left": [[1, -1, 3, -1, -1], [1, -1, -1]],
        "right": [[2, -1, 4, -1, -1], [2, -1, -1]],
    }
    learned = learn(program, data, epochs=1)
    weights = learned.model.detached()
    assert weights["root"].tolist() == pytest.approx([1.0, 0.0])
    binary = weights["binary"]  # children: phrases 0, 1, tags 2, 3
    assert float(binary[0, 2, 1]) == pytest.approx(0.5)
    assert float(binary[0, 3, 3]) == pytest.approx(0.5)
    assert float(binary[1, 3, 2]) == pytest.approx(1.0)
    assert weights["emit"].flatten().tolist() == pytest.approx([0.5, 0, 0.5, 1 / 3, 2 / 3, 0])


def test_text_and_tagged_text_are_learned_from_together() -> None:
    grammar = fgg.load("tagger", sizes={"tags": 2, "words": 3})
    program = fgg.compile(grammar, "string")
    tagged = {"w": [[0, 1]], "tag": [[0, 1]]}
    model = program.model(seed=0, dtype=torch.float64)
    learned = learn(model, [[0, 1, 2]], others={"tagged": tagged}, epochs=10)
    values = [p.objective for p in learned.history]
    assert values == sorted(values)
    assert learned.history[0].items == 2
    # With half of the tags missing the rest is summed out.
    half = fgg.compile(grammar, "tagged")
    some = half.log_z(model.detached(), {"w": [[0, 1]], "tag": [[0, -1]]})
    each = half.log_z(model.detached(), {"w": [[0, 1]] * 2, "tag": [[0, 0], [0, 1]]})
    torch.testing.assert_close(some[0], each.logsumexp(0))


def test_partial_brackets_guide_learning() -> None:
    sizes = {"nt": 2, "pt": 2, "h": 1, "words": 3}
    program = fgg.compile(fgg.load("pcfg_la", sizes=sizes), "bracketed")
    allowed = torch.zeros(4, 5)
    for i in range(4):
        for j in range(i + 1, 5):
            if i < 2 < j and (i, j) != (0, 4):  # crosses the brackets [0,2) and [2,4)
                allowed[i, j] = -torch.inf
    model = program.model(seed=0, dtype=torch.float64)
    data = {"w": [[0, 1, 2, 0]], "allowed": [allowed.tolist()]}
    learned = learn(model, data, epochs=5)
    assert learned.history[-1].objective > learned.history[0].objective
    inputs = {"w": [[0, 1, 2, 0]], "allowed": allowed[None]}
    (best,) = program.posterior(model.detached(), inputs).best()
    spans = {indices for _, indices, _ in best.spans()}
    assert {(0, 2), (2, 4)} <= spans


def test_partial_brackets_of_sentences_of_several_lengths_go_together() -> None:
    sizes = {"nt": 2, "pt": 2, "h": 1, "words": 3}
    grammar = fgg.load("pcfg_la", sizes=sizes)
    program = fgg.compile(grammar, "bracketed")
    words = [[0, 1, 2, 0], [1, 2, 0], [2, 1]]
    each = [torch.zeros(len(s), len(s) + 1) for s in words]
    each[0][1, 3] = each[1][1, 3] = -torch.inf
    padded = torch.zeros(3, 4, 5)
    for row, square in zip(padded, each, strict=True):
        row[: square.shape[0], : square.shape[1]] = square
    ends = []
    for allowed in (each, padded, [square.tolist() for square in each]):
        learned = learn(program, {"w": words, "allowed": allowed}, epochs=3, method="vb", prior=0.5)
        ends.append([sweep.objective for sweep in learned.history])
    assert ends[0] == pytest.approx(ends[1]) and ends[0] == pytest.approx(ends[2])
    alone = program.model(seed=0, dtype=torch.float64).detached()
    whole = program.log_z(alone, {"w": words, "allowed": each})
    for i, (sentence, square) in enumerate(zip(words, each, strict=True)):
        one = program.log_z(alone, {"w": [sentence], "allowed": square[None]})
        torch.testing.assert_close(whole[i], one[0])
    text = fgg.compile(grammar, "string")
    both = learn(text, words, others={"bracketed": {"w": words, "allowed": each}}, epochs=3)
    values = [sweep.objective for sweep in both.history]
    assert values == sorted(values)
