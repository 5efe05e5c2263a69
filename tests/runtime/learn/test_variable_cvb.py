"""CVB of variables: the update of section 3.4 by hand, and what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fgg
from fgg.runtime.learn import VariableCVB, in_memory, learn

SENTENCES = [[0, 1, 2], [3, 1], [2, 2, 0, 1, 3], [1], [0, 3, 3, 2]]


def by_hand(
    sentences: list[list[int]], start: list[list[np.ndarray]], states: int, words: int, a: float
) -> list[list[np.ndarray]]:
    """One sweep over the tags of an HMM, written for HMMs; `start` is q of each tag."""
    q = [list(item) for item in start]
    init = np.zeros(states)
    trans, emit = np.zeros((states, states)), np.zeros((states, words))

    def count(item: int, place: int, sign: float) -> None:
        """The uses that a tag takes part in."""
        here, sentence = q[item][place], sentences[item]
        emit[:, sentence[place]] += sign * here
        if place == 0:
            init[:] += sign * here
        else:
            trans[:] += sign * np.outer(q[item][place - 1], here)
        if place + 1 < len(sentence):
            trans[:] += sign * np.outer(here, q[item][place + 1])

    for item, sentence in enumerate(sentences):
        for place, word in enumerate(sentence):
            emit[:, word] += q[item][place]
            if place == 0:
                init += q[item][place]
            else:
                trans += np.outer(q[item][place - 1], q[item][place])
    for item, sentence in enumerate(sentences):
        for place, word in enumerate(sentence):
            count(item, place, -1)
            new = (emit[:, word] + a) / (emit.sum(1) + words * a)
            if place == 0:
                new = new * (init + a) / (init.sum() + states * a)
            else:
                before = q[item][place - 1]
                above, below = before @ (trans + a), before @ (trans.sum(1) + states * a)
                new = new * above / below
            if place + 1 < len(sentence):
                new = new * ((trans + a) @ q[item][place + 1]) / (trans.sum(1) + states * a)
            q[item][place] = new / new.sum()
            count(item, place, 1)
    return q


def test_the_tags_of_an_hmm_are_updated_as_by_hand() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4}))
    method = VariableCVB(program.model(seed=1, dtype=torch.float64), prior=0.3)
    items = [method.ready(item) for item in in_memory(program, SENTENCES)]
    method.sweep(items)
    for _ in range(3):
        start = [list(method.q[i]) for i in range(len(SENTENCES))]
        wanted = by_hand(SENTENCES, start, 3, 4, 0.3)
        report = method.sweep(items)
        for item, own in enumerate(wanted):
            for place, q in enumerate(own):
                np.testing.assert_allclose(method.q[item][place], q, atol=1e-10)
    assert report.kind == "collapsed bound" and report.items == len(SENTENCES)
    assert float(method.store.total.sum()) == pytest.approx(2 * sum(map(len, SENTENCES)))


def test_derivations_of_several_shapes_are_refused() -> None:
    program = fgg.compile(fgg.load("cnf", sizes={"k": 2, "d": 3}))
    with pytest.raises(fgg.GrammarError, match="differ in more than the values"):
        learn(program, [[0, 1, 2]], method="variable-cvb", epochs=1)


def test_values_that_are_read_in_parts_are_refused() -> None:
    program = fgg.compile(fgg.load("pcfg_la", sizes={"nt": 2, "pt": 2, "h": 2, "words": 3}), "tree")
    data = {"phrase": [[0, -2, -2]], "tag": [[-2, 1, 1]], "w": [[-2, 1, 0]]}
    data |= {"left": [[1, -1, -1]], "right": [[2, -1, -1]]}
    with pytest.raises(fgg.GrammarError, match="no whole learned factor"):
        learn(program, data, method="variable-cvb", epochs=1)
