"""Data loaders make batches that models take, in processes of their own too."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import fgg
from fgg import GrammarError
from fgg.runtime.program.program import Program

SENTENCES = [[0, 1, 2, 4], [3, 4], [1], [2, 2, 0], [4]]


def hmm(**sizes: int) -> Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 5, **sizes}))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_loader_gives_the_items_of_the_data(workers: int, way: str) -> None:
    if not workers and way == "spawn":
        pytest.skip("nothing is started")
    program = hmm()
    model = program.model(seed=0, dtype=torch.float64)
    loader: DataLoader[Any] = DataLoader(
        SENTENCES,  # type: ignore[arg-type]
        batch_size=2,
        collate_fn=program.collate_fn,
        num_workers=workers,
        multiprocessing_context=way if workers else None,
    )
    batches = list(loader)
    assert [len(batch["w"]) for batch in batches] == [2, 2, 1]
    assert batches[0]["w"].tolist() == [[0, 1, 2, 4], [3, 4, -2, -2]]
    assert batches[0]["lengths"]["n"].tolist() == [4, 2]
    log_z = torch.cat([model(**batch) for batch in batches])
    torch.testing.assert_close(log_z, model(w=SENTENCES))


def test_the_function_is_small_and_can_be_pickled() -> None:
    program = hmm()
    data = pickle.dumps(program.collate_fn)
    assert pickle.loads(data) == program.collate_fn
    assert len(data) < len(pickle.dumps(program))


def test_items_are_words_numbers_arrays_or_inputs_by_name() -> None:
    program = fgg.compile(hmm_of_words())
    wanted = {"w": [[0, 1, 2], [1, -2, -2]], "n": [3, 1]}
    for items in (
        ["the dog runs", "dog"],
        [["the", "dog", "runs"], ["dog"]],
        [np.array([0, 1, 2]), np.array([1])],
        [torch.tensor([0, 1, 2]), torch.tensor([1])],
        [{"w": [0, 1, 2]}, {"w": ["dog"]}],
    ):
        batch = program.collate_fn(items)
        lengths = batch["lengths"]
        assert isinstance(lengths, dict)
        words = batch["w"]
        assert isinstance(words, torch.Tensor)
        assert {"w": words.tolist(), "n": lengths["n"].tolist()} == wanted


def hmm_of_words() -> fgg.Grammar:
    text = str(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    assert "domain W = d" in text
    return fgg.loads(text.replace("domain W = d", "domain W = {the, dog, runs}"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_log_potentials_keep_their_type(dtype: torch.dtype) -> None:
    program = fgg.compile(fgg.load("crf", sizes={"k": 3}))
    items = [{"score": torch.ones(n, 3, dtype=dtype), "y": [0] * n} for n in (3, 1)]
    batch = program.collate_fn(items)
    score = batch["score"]
    assert isinstance(score, torch.Tensor) and tuple(score.shape) == (2, 3, 3)
    assert score.dtype == (torch.float32 if dtype == torch.bfloat16 else dtype)


@pytest.mark.parametrize(
    ("name", "items", "told"),
    [
        ("hmm", [], "a batch has at least one item"),
        ("hmm", [[0, 9]], "0 to 4"),
        ("hmm", [{"v": [0]}], "there is no input `v`"),
        ("hmm", [{"w": [0]}, {}], "item 1 has other inputs than item 0"),
        ("crf", [[0, 1]], "item 0 does not say what it is an input of"),
        ("hmm", [["cat"]], "`cat` is not a value"),
    ],
)
def test_items_that_do_not_fit_are_refused(name: str, items: list[Any], told: str) -> None:
    sizes = {"hmm": {"k": 3, "d": 5}, "crf": {"k": 3}}[name]
    program = fgg.compile(fgg.load(name, sizes=sizes))
    with pytest.raises(GrammarError) as caught:
        program.collate_fn(items)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "F411" and told in diagnostic.message
