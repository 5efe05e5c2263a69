"""Binary trees of the latent-annotation example: nothing of a treebank's tree is lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from examples.latent_trees import compare_methods, treebank
from fgg.data import Example, build_vocabulary
from fgg.runtime.learn import CVB, EM
from fgg.runtime.learn.fitting import batched

SENTENCES = (
    (
        ("the", "DT"), ("old", "JJ"), ("cat", "NN"), ("saw", "VBD"), ("it", "PRP"), (".", "."),
    ),
    (("cats", "NNS"), ("saw", "VBD"), ("the", "DT"), ("cat", "NN")),
)  # fmt: skip
SPANS = (
    ((0, 6, "TITLE"), (0, 6, "S"), (0, 3, "NP"), (3, 5, "VP"), (4, 5, "NP")),
    ((0, 4, "S"), (0, 1, "NP"), (1, 4, "VP"), (2, 4, "NP")),
)


def bank() -> treebank.Treebank:
    examples = [
        Example(words=tuple(w for w, _ in words), tags=tuple(t for _, t in words), spans=spans)
        for words, spans in zip(SENTENCES, SPANS, strict=True)
    ]
    train = [treebank.tree(example) for example in examples]
    nodes = [node for root in train for node in root.nodes()]
    tags = tuple(sorted({node.category for node in nodes if not node.children}))
    phrases = {node.category for node in nodes if node.children}
    return treebank.Treebank(
        train=train,
        examples={"train": examples, "dev": examples, "test": examples},
        vocabulary=build_vocabulary(examples),
        tags=tags,
        categories=(*tags, *sorted(phrases - set(tags))),
        rules=tuple(sorted({node.rule for node in nodes if node.children})),
    )


def test_trees_become_binary_and_back() -> None:
    for example, root in zip(bank().examples["train"], bank().train, strict=True):
        nodes = list(root.nodes())
        assert sum(not node.children for node in nodes) == len(example)
        spans = {
            (node.start, node.end, label)
            for node in nodes
            for label in treebank.labels(node.category, not node.children)
        }
        assert spans == set(treebank.constituents(example))
    first = bank().train[0]
    assert first.category == "S", "the wrapper is left out"
    assert {node.category for node in first.nodes()} >= {"@S", "@NP", "NP+PRP"}


def test_one_annotation_is_relative_frequency() -> None:
    own = bank()
    grammars = compare_methods.Grammars.of(own, 1)
    model = grammars.trees.model(seed=0, dtype=torch.float64)
    method = EM(model, weights=compare_methods.start(own, 1, 0))
    method.sweep(method.ready(b) for b in batched(model, own.inputs(), "em"))
    uses = Counter(node.rule for root in own.train for node in root.nodes() if node.children)
    heads: Counter[str] = Counter()
    for rule, count in uses.items():
        heads[rule[0]] += count
    wanted = [uses[rule] / heads[rule[0]] for rule in own.rules]
    np.testing.assert_allclose(model.weight("choose").detach().numpy()[0], wanted)


def test_the_trees_that_were_learned_are_parsed() -> None:
    own = bank()
    for number in (1, 2):
        grammars = compare_methods.Grammars.of(own, number)
        shared: dict[str, object] = {}
        for method in ("cvb", "variable-cvb"):
            run = compare_methods.run(grammars, method, 0.01, 0, 4, shared)
            assert run.parts["test"]["f1"] == pytest.approx(1.0)
            assert run.parts["test"]["exact"] == 1.0


def test_trees_and_sentences_weigh_the_same() -> None:
    """The sum over trees of a sentence of its trees' weights is the sentence's."""
    own = bank()
    grammars = compare_methods.Grammars.of(own, 2)
    weights = compare_methods.start(own, 2, 3)
    words = [own.vocabulary.encode(example.words) for example in own.examples["train"]]
    of_trees = grammars.trees.log_z(weights, own.inputs())
    for sentence, log_z in zip(words, of_trees, strict=True):
        whole = grammars.sentences.log_z(weights, {"w": [sentence]})
        assert float(log_z) <= float(whole[0]) + 1e-9
        # These two sentences have no other trees.
        assert float(log_z) == pytest.approx(float(whole[0]))


def test_a_choice_of_rules_and_annotations_is_one_dirichlet() -> None:
    """CVB's weight of an annotated rule is (f + α) / Σ (f + α) over all annotated rules."""
    own = bank()
    grammars = compare_methods.Grammars.of(own, 2)
    model = grammars.trees.model(seed=0, dtype=torch.float64)
    prior = compare_methods.priors(0.1, 2)
    method = CVB(model, weights=compare_methods.start(own, 2, 1), prior=prior)
    items = [method.ready(batch) for batch in batched(model, own.inputs(), "cvb")]
    for _ in range(3):
        method.sweep(items)
    counts = method.layout.tables(method.store.total)
    split = counts["split"].view(len(own.rules), 2, 2, 2).numpy()
    weights = {name: table.detach().numpy() for name, table in model.weights().items()}
    heads = np.unique([rule[0] for rule in own.rules], return_inverse=True)[1]
    for a in range(2):
        sums = np.bincount(heads, weights=(split[:, a] + 0.1).sum((-2, -1)))
        wanted = (split[:, a] + 0.1) / sums[heads][:, None, None]
        joint = weights["choose"][a][:, None, None] * weights["split"][:, a]
        np.testing.assert_allclose(joint, wanted, rtol=1e-6)


def test_a_prior_is_needed_for_words_of_unknown_tags() -> None:
    own = bank()
    grammars = compare_methods.Grammars.of(own, 1)
    weights = compare_methods.start(own, 1, 0)
    emit = weights["emit"].clone()
    emit[emit < 0.01] = 0.0
    (tree,) = compare_methods.parse(
        grammars,
        {**weights, "emit": emit},
        [Example(words=("cat", "cat"), tags=("NN", "NN"), spans=())],
    )
    assert tree == set(), "no derivation, no phrases"
