"""Posteriors: one value for all questions, whose passes are made once."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
import torch

import fgg
from fgg.runtime.program import chart_reader
from fgg.runtime.program.item_groups import Group
from fgg.runtime.program.program import Program

WORDS = [[0, 2, 1], [1, 1, 2, 0]]


@pytest.fixture(scope="module")
def pcfg() -> Program:
    sizes = {"nt": 2, "pt": 2, "words": 3, "r": 2}
    return fgg.compile(fgg.load("pcfg", sizes=sizes), space="state")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the passes that were made, in order."""
    made: list[str] = []
    inside, outside = Group._inside, Group.outside

    def counting_inside(*arguments: object) -> object:
        made.append("inside")
        return inside(*arguments)  # type: ignore[arg-type]

    def counting_outside(*arguments: object) -> object:
        made.append("outside")
        return outside(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Group, "_inside", staticmethod(counting_inside))
    monkeypatch.setattr(Group, "outside", counting_outside)
    return made


def test_questions_share_one_inside_and_one_outside_pass(pcfg: Program, passes: list[str]) -> None:
    post = pcfg.posterior(pcfg.weights(seed=0, dtype=torch.float64), {"w": WORDS})
    assert post.log_z.shape == (2,)
    assert passes == ["inside"]
    assert post.marginals["X"].shape[0] == 2
    assert set(post.counts) == set(pcfg.parameter_names)
    assert post.marginals is post.marginals and post.log_z is post.log_z
    assert passes == ["inside", "outside"]


@pytest.mark.parametrize("space", ["dense", "state"])
def test_questions_about_derivations_share_their_charts(
    space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []

    def counted(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            computed.append(name)
            return function(*arguments)

        return call

    # It has a name of its own for what is counted below, if it is loaded before.
    import_module("fgg.runtime.derive.mbr")
    for name in ("best_charts", "_sum_pass", "_log_charts"):
        monkeypatch.setattr(chart_reader, name, counted(name, getattr(chart_reader, name)))
    sizes = {"nt": 2, "pt": 2, "words": 3, "r": 2}
    program = fgg.compile(fgg.load("pcfg", sizes=sizes), space=space)
    weights = program.weights(seed=0, dtype=torch.float64)
    post = program.posterior(weights, {"w": WORDS})
    ranked = post.k_best(3)
    assert [best.key for best in post.best()] == [item[0].key for item in ranked]
    assert post.k_best(2)[1][1].key == ranked[1][1].key
    assert computed == ["best_charts"]
    drawn = post.sample(5, seed=0)
    assert [d.key for d in post.sample(2, seed=0)[0]] == [d.key for d in drawn[0][:2]]
    assert computed == ["best_charts", "_sum_pass", "_log_charts"]
    # Minimum Bayes risk reads marginals off the same sums; its maxima are of other weights.
    risk = post.mbr()
    assert computed == ["best_charts", "_sum_pass", "_log_charts"]
    asked_alone = program.posterior(weights, {"w": WORDS}).mbr()
    assert [d.key for d in risk] == [d.key for d in asked_alone]


def test_counts_are_the_gradient_in_log_weights(pcfg: Program) -> None:
    logs = {n: w.log().requires_grad_() for n, w in pcfg.weights(seed=1).items()}
    logs = {n: x.detach().double().requires_grad_() for n, x in logs.items()}
    weights = {n: x.exp() for n, x in logs.items()}
    post = pcfg.posterior(weights, {"w": WORDS})
    counts = post.counts
    torch.autograd.backward(post.log_z.sum())
    for name, x in logs.items():
        torch.testing.assert_close(x.grad, counts[name])


def test_log_z_is_in_the_graph_only_where_weights_are(pcfg: Program) -> None:
    weights = pcfg.weights(seed=1)
    assert not pcfg.posterior(weights, {"w": WORDS}).log_z.requires_grad
    weights = {n: w.requires_grad_() for n, w in weights.items()}
    assert pcfg.posterior(weights, {"w": WORDS}).log_z.requires_grad
    with torch.no_grad():
        assert not pcfg.posterior(weights, {"w": WORDS}).log_z.requires_grad


def test_a_posterior_is_shown_by_its_items(pcfg: Program) -> None:
    post = pcfg.model(seed=0).posterior(w=WORDS)
    assert repr(post) == "Posterior('pcfg_string', items=2)"
    shown = post._repr_html_()
    assert shown.count("<tr>") == 3 and f"{float(post.log_z[1].detach()):.6g}" in shown
    assert shown.count("<svg") == 1


def test_divergence_is_refused_between_different_batches(pcfg: Program) -> None:
    model = pcfg.model(seed=0)
    one, two = model.posterior(w=WORDS), model.posterior(w=WORDS[:1])
    with pytest.raises(fgg.GrammarError, match="F415"):
        one.kl(two)


def test_a_way_to_decode_that_does_not_exist_is_refused(pcfg: Program) -> None:
    with pytest.raises(fgg.GrammarError, match="F415"):
        pcfg.model(seed=0).posterior(w=WORDS).decode("beam")


def test_log_potentials_of_items_of_several_lengths_may_be_a_list() -> None:
    program = fgg.compile(fgg.load("crf", sizes={"k": 2}))
    weights = program.weights(seed=1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(2)
    rows = [torch.randn(n, 2, generator=generator, dtype=torch.float64) for n in (3, 1)]
    tags = [[-1, 0, -1], [-1]]
    post = program.posterior(weights, {"score": [row.numpy() for row in rows], "y": tags})
    for number, row in enumerate(rows):
        alone = program.posterior(weights, {"score": row[None], "y": tags[number : number + 1]})
        assert torch.allclose(post.log_z[number], alone.log_z[0])
        counts = post.counts["score"][number]
        assert torch.allclose(counts[: len(row)], alone.counts["score"][0])
        assert not counts[len(row) :].any()
    leaves = [row.requires_grad_() for row in rows]
    asked = program.posterior(weights, {"score": leaves, "y": tags})
    for number, slope in enumerate(torch.autograd.grad(asked.log_z.sum(), leaves)):
        assert torch.allclose(slope, post.counts["score"][number, : len(rows[number])])


@pytest.mark.parametrize("seed", range(4))
def test_an_entropy_that_is_0_is_not_printed_as_negative(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    grammar = fgg.load("hmm", sizes={"k": 3, "d": 3})
    weights = {
        "init": torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64),
        "trans": torch.eye(3, dtype=torch.float64)[torch.randperm(3, generator=generator)],
        "emit": torch.rand(3, 3, generator=generator, dtype=torch.float64).softmax(-1),
    }
    words = [0, 1, 2] * 9
    post = fgg.compile(grammar).posterior(weights, {"w": [words, words[:5]]})
    ground = fgg.rewrite.ground(grammar, query="string", inputs={"w": words})
    reference = fgg.reference.posterior(ground, weights=weights).entropy
    for entropy in (*post.entropy().tolist(), *post.kl(post).tolist(), reference):
        assert 0.0 <= entropy < 1e-9 and not str(entropy).startswith("-")
