"""fit, score, predict and sample on a model with words; log-probabilities of derivations."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest
import torch

import fgg
from fgg import GrammarError

SENTENCES = ["the dog runs", "a dog sees the cat", "the cat sleeps", "a cat runs"] * 2


def hmm(**sizes: int) -> fgg.Model:
    grammar = fgg.load("hmm", sizes={"k": 3, **sizes})
    return fgg.compile(grammar).model(seed=1, dtype=torch.float64)


def test_a_model_is_fitted_to_words_scored_and_saved(tmp_path: Path) -> None:
    model = hmm()
    assert model.fit(SENTENCES, epochs=3, min_count=3) is model
    assert model.vocabulary == {"W": ("<unk>", "the", "cat", "dog", "runs", "a")}
    assert [report.items for report in model.history] == [8, 8, 8]
    before = model.score(SENTENCES)
    assert before == pytest.approx(float(model(w=SENTENCES).detach().sum()), rel=1e-9)
    model.fit(SENTENCES, epochs=2)  # goes on
    assert model.score(SENTENCES) > before
    words = [line.split() for line in SENTENCES]
    assert model.score(words) == pytest.approx(model.score({"w": words}), rel=1e-12)
    model.save(tmp_path / "hmm.fggm")
    again = fgg.load_model(tmp_path / "hmm.fggm")
    new = ["the bird sings", "a dog"]
    assert again.predict(new) == model.predict(new) and again.score(new) == model.score(new)
    assert [len(states) for states in again.predict(new)] == [3, 2]
    assert again.predict(new, method="mbr") == [
        d.cell_values() for d in again.posterior(w=new).mbr()
    ]


def test_the_order_of_sentences_is_that_of_predictions() -> None:
    model = hmm(d=5)
    items = [[0] * n for n in (5, 1, 300, 2, 900, 4)]
    assert [len(states) for states in model.predict(items)] == [5, 1, 300, 2, 900, 4]


def test_a_text_in_the_place_of_sentences_is_refused_and_changes_nothing() -> None:
    model = hmm()
    for data in ("the dog runs", Path("corpus.txt"), {"w": "the dog runs"}):
        for use in (model.fit, model.score, model.predict):
            with pytest.raises(GrammarError, match="a list of items, not one text"):
                use(data)  # type: ignore[arg-type]
        with pytest.raises(GrammarError, match="a list of items, not one text"):
            fgg.learn(model, data)  # type: ignore[arg-type]
    assert model.vocabulary == {}


def test_a_model_whose_factors_all_have_values_says_why_nothing_is_learned() -> None:
    text = "factor coin(-> D) = uniform nonterminal S() start S rule S -> coin(w[0])"
    grammar = fgg.loads(f"domain D = 2 input w: D[n] {text}")
    model = fgg.compile(grammar).model()
    for method in ("em", "adam"):
        with pytest.raises(GrammarError, match="nothing to learn") as caught:
            model.fit([[0, 0]], method=method)
        assert caught.value.diagnostics[0].help.startswith("a factor is learned if")


def test_tags_that_are_observed_name_the_states() -> None:
    tagger = fgg.load("tagger")
    model = fgg.compile(tagger, "tagged").model(seed=0, dtype=torch.float64)
    words = ["the dog runs", "a cat sees the dog"]
    model.fit({"w": words, "tag": ["D N V", "D N V D N"]}, epochs=2, pseudo=0.1)
    assert set(model.vocabulary["T"]) == {"D", "N", "V"} and model.vocabulary["W"][0] == "<unk>"
    assert model.predict({"w": ["the cat runs"]}) == [("D", "N", "V")]
    with pytest.raises(GrammarError, match="has several inputs"):
        model.predict(["the cat runs"])


def test_preprocessing_is_part_of_fitting(tmp_path: Path) -> None:
    data = tmp_path / "words.txt"
    data.write_text("the dog\nthe cat\n")
    grammar = fgg.load("hmm", sizes={"k": 2})
    model = fgg.train(grammar, data, tmp_path / "run", epochs=1, preprocessing={"lower": True})
    assert model.score(["THE Dog"]) == model.score(["the dog"])
    model.fit(["The CAT"], epochs=1)
    assert "cat" in model.vocabulary["W"] and "CAT" not in model.vocabulary["W"]


def test_given_weights_are_not_thrown_away() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    model = program.model(weights={"init": [0.5, 0.5]})
    with pytest.raises(GrammarError, match="the values of `W` have no names"):
        model.fit(["a b"])


@pytest.mark.parametrize("name", ["hmm", "pcfg", "dmv"])
def test_log_probabilities_of_derivations_sum_to_one(name: str) -> None:
    sizes = {"hmm": {"k": 2, "d": 3}, "pcfg": {"nt": 2, "pt": 2, "words": 3, "r": 2}}
    grammar = fgg.load(name, sizes=sizes.get(name, {}))
    model = fgg.compile(grammar).model(seed=2, dtype=torch.float64)
    post = model.posterior(w=[[0, 1, 2], [1, 1]])
    every = post.k_best(20_000)
    for item in range(2):
        assert sum(len(e) for e in every) < 40_000
        probabilities = [
            float(model.posterior(w=[[0, 1, 2], [1, 1]][item : item + 1]).log_prob(d).detach())
            for d in every[item][:50]
        ]
        weights = [d.log_weight - float(post.log_z[item].detach()) for d in every[item][:50]]
        assert probabilities == pytest.approx(weights, rel=1e-9, abs=1e-9)


def test_the_log_probability_is_differentiable_and_minus_infinity_for_other_inputs() -> None:
    model = hmm(d=4)
    post = model.posterior(w=[[0, 1, 2], [3, -1, -1]])
    best = post.best()
    value = post.log_prob(best).sum()
    value.backward()  # type: ignore[no-untyped-call]
    slope = model.logits["trans"].grad
    assert slope is not None and float(slope.abs().max()) > 0
    other = model.posterior(w=[[0, 1, 3], [3, 0, 0, 0]])
    assert other.log_prob(best).tolist() == [-torch.inf, -torch.inf]
    with pytest.raises(GrammarError, match="give one for each item"):
        post.log_prob(best[:1])


def test_the_cross_entropy_is_the_expected_log_probability() -> None:
    one, two = hmm(d=3), hmm(d=3)
    with torch.no_grad():
        two.logits["trans"].mul_(0.5)
    p, q = one.posterior(w=[[0, 1, 2]]), two.posterior(w=[[0, 1, 2]])
    want = sum(
        -float(p.log_prob(d).exp().detach()) * float(q.log_prob(d).detach())
        for d in p.k_best(100)[0]
    )
    assert float(p.cross_entropy(q).detach()) == pytest.approx(want, rel=1e-9)
    assert float(p.cross_entropy(p).detach()) == pytest.approx(float(p.entropy().detach()))
    assert log(27) > want / 2
