"""The examples of very large HMMs, at a very small size."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from tests.helpers.places import EXAMPLES

FOLDER = EXAMPLES / "large_hmm"


def module(name: str) -> Any:
    return importlib.import_module(f"examples.large_hmm.{name}")


def chain(many: int, seed: int) -> list[str]:
    """Lines in which nouns, verbs and articles follow each other."""
    draw = np.random.default_rng(seed)
    kinds = [["the", "a"], ["dog", "cat", "cow", "bird"], ["sees", "likes", "eats"]]
    return [
        " ".join(str(draw.choice(kinds[place])) for place in (0, 1, 2, 0, 1)) for _ in range(many)
    ]


def test_kneser_ney_is_a_distribution_and_what_is_known_by_hand() -> None:
    baselines = module("baselines")
    tokens = [0, 1, 2, 0, 1, 3, 0, 1, 2, 2, 0, 3, 1, 0]
    for order in (1, 2, 3, 5):
        model = baselines.KneserNey(tokens, order, 5)
        for history in ((), (0,), (1,), (2, 0), (3, 1), (0, 1, 2, 2), (4,), (4, 0)):
            total = sum(model.probability(word, history) for word in range(5))
            assert total == pytest.approx(1)
    # Bigrams by hand: 01 x3, 12 x2, 20 x2, 13, 30, 22, 03, 31, 10: six once, two twice.
    model = baselines.KneserNey(tokens, 2, 5)
    discount = 6 / (6 + 2 * 2)
    assert model.discounts[1] == pytest.approx(discount)
    # Words before 0: {2, 3, 1}, 1: {0, 3}, 2: {1, 2}, 3: {1, 0}; nine kinds of pairs, three twos.
    own = model.discounts[0]
    assert own == 0  # no word comes after one kind of word only
    assert model.probability(2, ()) == pytest.approx(2 / 9)
    assert model.probability(2, (1,)) == pytest.approx(
        (2 - discount) / 4 + 3 * discount / 4 * 2 / 9
    )
    assert model.probability(4, (1,)) == 0  # never seen, and nothing is discounted below


def test_networks_read_a_stream_as_if_it_were_not_cut() -> None:
    baselines = module("baselines")
    torch.manual_seed(0)
    ids = torch.randint(7, (2, 12))
    for net in (baselines.FeedForward(7, 8), baselines.Recurrent(7, 8)):
        net.eval()
        whole = net(ids)
        net.reset()
        parts = torch.cat([net(ids[:, :5]), net(ids[:, 5:6]), net(ids[:, 6:])], 1)
        torch.testing.assert_close(parts, whole)
        # A word is not told from itself.
        changed = ids.clone()
        changed[:, 8] = (changed[:, 8] + 1) % 7
        net.reset()
        torch.testing.assert_close(net(changed)[:, :9], whole[:, :9])
        assert not torch.allclose((net.reset(), net(changed))[1][:, 9], whole[:, 9])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    for name, seed in (("train.txt", 0), ("test.txt", 1)):
        (tmp_path / name).write_text("\n".join(chain(150, seed)) + "\n", "utf-8")
    return tmp_path / "train.txt", tmp_path / "test.txt"


@pytest.mark.slow
def test_the_language_models_learn(tmp_path: Path, files: tuple[Path, Path]) -> None:
    story, models = module("language_model"), module("models")
    own = module("text").text(*files)
    base = models.Setting(blocks=3, places=4, net="states(dim=8)", rate=0.03)
    every = list(dict.fromkeys(story.settings((6,), base)))
    assert len(every) == 9
    found = {row.name: row.perplexity for row in story.baselines(own, 0.5, 16)}
    assert len(found) == 5
    assert found["Kneser-Ney 2-gram"] < found["unigram"]
    for setting in (every[0], every[3], every[-1]):  # the base, the dense scalar one, fewer states
        fitted = models.train(setting, own, tmp_path, 0.5, every=0.2, note=lambda _: None)
        found[str(setting)] = fitted.perplexity
        assert fitted.seconds >= 0.5 and fitted.epochs > 0 and fitted.curve
    # Five words of 2, 4, 3, 2, 4 equally likely values, and an end: 192^(1/6) = 2.4 is the best.
    assert all(value > 2.3 for value in found.values())
    assert found[str(base)] < 0.8 * found["unigram"]
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--whole",)])
def test_the_command_writes_a_table_and_a_plot(
    tmp_path: Path, files: tuple[Path, Path], more: tuple[str, ...]
) -> None:
    story = module("language_model")
    own = ["--train", str(files[0]), "--test", str(files[1]), "--out", str(tmp_path)]
    found = story.main(["--small", "--seconds", "0.2", *own, *more])
    name = "large_hmm_whole" if more else "large_hmm"
    assert found.name == name and len(found.rows) == (6 if more else 5 + 9)
    saved = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
    assert saved["command"] == " ".join(["python -m examples.large_hmm.language_model", *more])
    assert saved["rows"] == found.rows
    svg = (tmp_path / f"{name}.svg").read_text("utf-8")
    assert ("by time" if more else "by states") in svg and "Kneser-Ney 5-gram" in svg


def test_rates_rise_and_then_fall_as_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = module("budget").Budget(100.0)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    rates = []
    for seconds in (0.0, 1.0, 2.0, 50.0, 100.0, 120.0):
        monkeypatch.setattr(budget, "spent", lambda seconds=seconds: seconds)
        budget.set_rate(optimizer, 0.1)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[0] < rates[1] < rates[2] > rates[3] > rates[4] == rates[5] == 0
    assert rates[3] == pytest.approx(0.05)


def test_ends_and_unknown_words_are_tokens(tmp_path: Path) -> None:
    story = module("text")
    (tmp_path / "a.txt").write_text("a b a\n\nc a\n", "utf-8")
    own = story.text(tmp_path / "a.txt", tmp_path / "a.txt", 100, 100, 2)
    words = [own.vocabulary.values[i] for i in own.train.ids]
    assert words == ["a", "b", "a", "<eos>", "<eos>", "<unk>", "a", "<eos>"]
    assert sum(int(w.lengths.sum()) for w in own.windows("test", rows=2, length=3)) == 8


def tsv(sentences: list[list[tuple[str, str]]]) -> str:
    rows = ["".join(f"{w}\t{t}\t{t}\t0\troot\n" for w, t in s) for s in sentences]
    return "\n".join(rows) + "\n"


@pytest.mark.slow
def test_tags_that_depend_on_the_word_before_are_found(tmp_path: Path) -> None:
    """`cut` is a noun after `the` and a verb after `we`, which no table of words can tell."""
    story = module("tagging")
    draw = np.random.default_rng(0)

    def sentence() -> list[tuple[str, str]]:
        if draw.random() < 0.5:
            return [("the", "D"), (str(draw.choice(["cut", "run", "fall"])), "N")]
        return [
            ("we", "P"),
            (str(draw.choice(["cut", "run", "fall"])), "V"),
            ("the", "D"),
            ("fall", "N"),
        ]

    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text(tsv([sentence() for _ in range(200)]), "utf-8")
    files = (tmp_path / "train.tsv", tmp_path / "test.tsv")
    sizes = (story.States(3, 2, 0.0, 15), story.States(3, 4, 10.0))
    found = story.main(tmp_path / "out", files, sizes=sizes)
    assert found["most frequent tag"][0] < 0.95
    assert found["HMM of tags"][0] > 0.99
    assert all(found[str(states)][0] > 0.99 for states in sizes)


def test_states_that_begin_as_tags_are_the_model_of_tags() -> None:
    """Summed over the states of a tag, first states and transitions are those of tags."""
    states = module("tag_states")
    words = [[0, 3, 1, 2], [2, 2, 4], [4, 1, 0]]
    tags = [[0, 1, 2, 0], [0, 1, 1], [1, 2, 0]]
    counts = states.Counts.of(words, tags, (5, 3))
    assert counts.words.sum() == 10 and counts.pairs.sum() == 7
    block_of = torch.arange(5) % 2  # as the grammar has it
    for places in (3, 5):
        start, plain = states.beginning(counts, block_of, places)
        program = fgg.compile(
            fgg.load(FOLDER / "tagging.fgg", sizes={"m": 2, "k": places, "d": 5, "tags": 3})
        )
        for weights in (start, plain):
            shaped = {name: w.reshape(program.shape(name)) for name, w in weights.items()}
            model = program.model(weights=shaped, dtype=torch.float64)
            for name, weight in model.detached().items():
                if name in shaped:  # they are distributions already
                    torch.testing.assert_close(weight, shaped[name])
        pairs = counts.pairs + 0.1
        pairs, first = pairs / pairs.sum(1, keepdim=True), (counts.first + 0.1)
        first = first / first.sum()
        own = plain["tag"].argmax(1)
        by_tag = torch.zeros(3, dtype=torch.float64).index_add(0, own, plain["init"])
        torch.testing.assert_close(by_tag, first)
        for state, tag in enumerate(own):
            row = torch.zeros(3, dtype=torch.float64).index_add(0, own, plain["trans"][state])
            torch.testing.assert_close(row, pairs[tag])


def test_places_are_shared_out_among_tags() -> None:
    shared_out = module("tag_states").shared_out
    counts = torch.tensor([[1.0, 90.0, 9.0], [5.0, 4.0, 0.1]])
    assert shared_out(counts, 2).tolist() == [[1, 2], [0, 1]]
    assert shared_out(counts, 5).tolist() == [[1, 2, 0, 1, 1], [0, 1, 2, 0, 1]]


def test_tags_and_words_are_drawn_independently_given_the_state() -> None:
    program = fgg.compile(
        fgg.load(FOLDER / "tagging.fgg", sizes={"m": 2, "k": 2, "d": 4, "tags": 3})
    )
    weights = program.weights(seed=1, dtype=torch.float64)
    words = [0, 3, 1]
    total = torch.zeros((), dtype=torch.float64)
    for tags in np.ndindex(3, 3, 3):
        own = program.log_z(weights, {"w": [words], "tags": [[int(t) for t in tags]]})
        ground = fgg.rewrite.ground(
            program.grammar, lengths={"n": 3}, inputs={"w": words, "tags": [int(t) for t in tags]}
        )
        solved = fgg.reference.solve(
            ground, "log", weights={n: w.numpy() for n, w in weights.items()}
        )
        assert float(own) == pytest.approx(float(solved.log_z.detach()), abs=1e-9)
        total += own[0].exp()
    missing = program.log_z(weights, {"w": [words], "tags": [[-1, -1, -1]]})
    assert float(missing.exp()) == pytest.approx(float(total))
