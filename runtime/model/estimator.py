"""Fitting a model to sentences, scoring and predicting: what users of scikit-learn expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from fgg.data import Example, Vocabulary, build_vocabulary
from fgg.diagnostics import refuse
from fgg.grammar import Grammar, Sized
from fgg.grammar.domains import value_index, with_sizes, with_values
from fgg.inputs.tokens import MARKS, UNKNOWN
from fgg.runtime.learn.fitting import learn, log_likelihood
from fgg.runtime.learn.item_batches import BUDGET, Data, Items, bucketed, data_by_input, in_memory
from fgg.runtime.train.feed import Feed, sizes_for

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.model.model import Model


def fit(
    model: Model, data: Data, *, method: str, epochs: int, min_count: int, **options: Any
) -> None:
    """Fit a model; words that its domains cannot name yet become their values first."""
    by_name = inputs_of(model, data)
    vocabularies = new_vocabularies(model, by_name, min_count)
    if vocabularies:
        rebuild(model, vocabularies)
    model.history = learn(model, by_name, method=method, epochs=epochs, **options).history


def score(model: Model, data: Data) -> float:
    """The log-likelihood of data."""
    return log_likelihood(model, inputs_of(model, data))[0]


def predict(model: Model, data: Data, *, method: str) -> list[Derivation]:
    """The best derivation of each item, by a decoding method."""
    items = _numbered(in_memory(model.program, inputs_of(model, data)))
    best: dict[int, Derivation] = {}
    weights = model.detached()
    with torch.no_grad():
        for batch in bucketed(items, BUDGET):
            post = model.program.posterior(weights, model.read(batch.inputs), batch.lengths)
            best |= zip(batch.ids, post.decode(method), strict=True)
    return [best[number] for number in range(len(items))]


def inputs_of(model: Model, data: Data) -> Mapping[str, Sequence[object]]:
    """Data by the names of inputs; a list of sentences is the model's only input, or its words."""
    return data_by_input(model.program, data, model.preprocessing.fields)


def _numbered(items: Sequence[Items]) -> list[Items]:
    return [replace(item, ids=(number,)) for number, item in enumerate(items)]


def new_vocabularies(
    model: Model, data: Mapping[str, Sequence[object]], least: int
) -> dict[str, Vocabulary]:
    """Vocabularies of the domains without names that data have words of.

    The domain of the first input gets `<unk>`, as in a training run.
    """
    grammar = model.program.grammar
    vocabularies: dict[str, Vocabulary] = {}
    for place, item in enumerate(grammar.inputs):
        if not isinstance(grammar.domain[item.domain].shape, Sized) or item.name not in data:
            continue
        index = value_index(grammar, item.domain)
        frequency = Counter(words for entry in data[item.name] for words in texts(entry))
        if item.domain not in vocabularies and any(
            word not in index and word not in MARKS for word in frequency
        ):
            examples = [Example(words=(w,), count=n) for w, n in frequency.items()]
            vocabularies[item.domain] = build_vocabulary(
                examples, least=least if place == 0 else 1, unknown=None if place else UNKNOWN
            )
    return vocabularies


def texts(entry: object) -> Iterator[str]:
    """The words of an item."""
    if isinstance(entry, str):
        yield from entry.split()
    elif isinstance(entry, list | tuple):
        for inner in entry:
            yield from (inner,) if isinstance(inner, str) else texts(inner)


def rebuild(model: Model, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Give domains names and sizes, and the model new parameters. Raises GrammarError (F478)."""
    if model.own_nets or model.has_given_weights:
        name = next(iter(vocabularies))
        message = f"the data have words, but the values of `{name}` have no names"
        refuse("F478", message, "name them in the grammar, or give ids")
    grammar: Grammar = model.program.compiler.model
    sizes = sizes_for(grammar, Feed({}, {}, vocabularies), {})
    values = {domain: words.values for domain, words in vocabularies.items()}
    named = with_values(with_sizes(grammar, sizes), values)
    model.restart(model.program.compiler.for_model(named))
