"""Preprocessing: how a trained model reads data, so that it reads new data as its training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fgg.data.corpus import Corpus
from fgg.data.example import Change, Example
from fgg.data.preprocess import as_characters, normal, of_length, without_punctuation
from fgg.grammar import Grammar
from fgg.grammar.domains import value_index
from fgg.inputs.tokens import IMPOSSIBLE, MISSING
from fgg.inputs.written import Words, WrittenWords, as_lists, written_words

FIELDS = ("words", "tags", "fine_tags", "parts")
"""The fields of an example that an input can be; for `parts`, `s[i,j]` is the part from i to j."""
UNTAGGED = "_"
"""An unknown tag, as CoNLL-U writes it."""

Changes = Mapping[str, Any]
"""Options that change data, as JSON: `characters`, `lower`, `digits`, `max_length`, …"""


@dataclass(frozen=True)
class Preprocessing:
    """The field of an example that each input is, the format of data files, and their changes."""

    fields: Mapping[str, str] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    format: str | None = None

    def inputs(self, grammar: Grammar, inputs: Mapping[str, object]) -> dict[str, object]:
        """The inputs of a batch, their words changed as the model's data were.

        Tensors and ids are left as they are.
        """
        read: dict[str, object] = {}
        for name, items in inputs.items():
            plain = as_lists(items)
            if name in self.fields and isinstance(plain, list | tuple):
                plain = [self.item(grammar, name, item) for item in plain]
            read[name] = plain
        return read

    def item(self, grammar: Grammar, name: str, item: object) -> object:
        """The value of an input of one item: a text or a list of words, changed and cut up."""
        words = item.split() if isinstance(item, str) else item
        if not isinstance(words, list | tuple) or not any(isinstance(w, str) for w in words):
            return item
        if self.fields[name] in ("words", "parts"):
            words = [new for word in words for new in self.changed(word)]
        index = value_index(grammar, grammar.input[name].domain)
        if self.fields[name] == "parts":
            return part_ids([str(word) for word in words], index)
        if self.fields[name] != "words" and UNTAGGED not in index:
            return [MISSING if word == UNTAGGED else word for word in words]
        return list(words)

    def written(self, inputs: Mapping[str, object]) -> WrittenWords:
        """The words of a batch as they are written: letters, if the model's data are letters."""
        words = written_words(inputs)
        if not self.changes.get("characters"):
            return words
        read = {name for name, value in self.fields.items() if value in ("words", "parts")}
        letters = {name: [_letters(item) for item in words[name]] for name in read & words.keys()}
        return {**words, **letters}

    def changed(self, word: object) -> tuple[object, ...]:
        """What stands for a word: itself in lower case, its letters, …; an id stays as it is."""
        if not isinstance(word, str):
            return (word,)
        example = Example(words=(word,))
        for change in changes_of_words(self.changes):
            changed = change(example)
            assert changed is not None
            example = changed
        return example.words


def _letters(words: Words | None) -> Words | None:
    """The letters of words; a token that was not given as text stays one."""
    if words is None:
        return None
    return tuple(letter for word in words for letter in ((None,) if word is None else word))


def changes_of_words(changes: Changes) -> list[Change]:
    """The changes of the words themselves: characters, case, digits."""
    listed: list[Change] = []
    if changes.get("characters"):
        listed.append(as_characters)
    if changes.get("lower") or changes.get("digits"):
        listed.append(normal(lower=bool(changes.get("lower")), digits=changes.get("digits")))
    return listed


def preprocessed(corpus: Corpus, changes: Changes) -> Corpus:
    """The corpus with all changes: characters, case, digits, punctuation, lengths."""
    corpus = corpus.map(*changes_of_words(changes))
    if changes.get("no_punctuation"):
        corpus = corpus.map(without_punctuation)
    least, most = changes.get("min_length") or 1, changes.get("max_length")
    return corpus.map(of_length(least, most))


def part_ids(words: Sequence[str], index: Mapping[str, int]) -> list[list[int]]:
    """The number of each part [i, j) of a sequence, `[n, n + 1]`; -2 if it is no value."""
    size = len(words)
    numbers = [[IMPOSSIBLE] * (size + 1) for _ in range(size)]
    for i, row in enumerate(numbers):
        text = ""
        for j in range(i + 1, size + 1):
            text += words[j - 1]
            row[j] = index.get(text, IMPOSSIBLE)
    return numbers
