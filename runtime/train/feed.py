"""The feed of a run: how examples of a corpus become inputs of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from fgg.data import (
    BatchPosition,
    Example,
    ExampleBatch,
    Vocabulary,
    build_vocabulary,
)
from fgg.data.preprocessing import FIELDS, UNTAGGED, Changes, part_ids
from fgg.diagnostics import GrammarError, did_you_mean, refuse
from fgg.grammar import Domain, Grammar, Sized
from fgg.grammar.domains import domain_size, domain_values
from fgg.inputs.tokens import MISSING, UNKNOWN
from fgg.inputs.written import Words
from fgg.runtime.learn import Items
from fgg.runtime.learn.item_batches import check_items
from fgg.runtime.program.inputs import Collated
from fgg.runtime.program.program import Program


class BatchSource(Protocol):
    """Batches of a corpus that can be iterated from any position."""

    @property
    def corpus(self) -> Iterable[Example]:
        """The examples, in their order."""

    def start(self, position: BatchPosition) -> Iterator[ExampleBatch]:
        """The batches of an epoch from a position on."""


@dataclass(frozen=True)
class Feed:
    """The field of an example that each input is, and the vocabulary of each domain."""

    fields: Mapping[str, str]
    domains: Mapping[str, str]
    vocabularies: Mapping[str, Vocabulary]

    def items(self, batch: ExampleBatch) -> Items | None:
        """The inputs of a batch; None if it has no examples."""
        if not batch.examples:
            return None
        ids = {name: [self.ids(name, e) for e in batch.examples] for name in self.fields}
        given = [e.potentials for e in batch.examples if e.potentials is not None]
        if not given:
            return Items(ids, None, batch.numbers)
        inputs = {name: [each.inputs[name] for each in given] for name in given[0].inputs}
        lengths = {name: [each.lengths[name] for each in given] for name in given[0].lengths}
        return Items({**ids, **inputs}, lengths or None, batch.numbers)

    def written(self, examples: Sequence[Example]) -> dict[str, list[Words | None]]:
        """The words of examples as their file has them, for each input that reads words."""
        words: list[Words | None] = [
            example.written or example.words if example.ids is None else None
            for example in examples
        ]
        return {name: words for name, field in self.fields.items() if field in ("words", "parts")}

    def check(self, program: Program, corpus: Iterable[Example]) -> None:
        """Check each item by itself. Raises GrammarError, with the place of an item, if one is bad.

        In a batch, log-potentials are padded, so that those of a short item may be too short.
        """
        for example in corpus:
            position = BatchPosition()
            alone = ExampleBatch(examples=(example,), numbers=(0,), whole=1, after=position)
            items = self.items(alone)
            assert items is not None
            try:
                check_items(program, items)
            except GrammarError as error:
                first = error.diagnostics[0]
                refuse(first.code, f"{example.place}: {first.message}", first.help)

    def check_readable(self, corpus: Iterable[Example]) -> None:
        """Raise GrammarError (F478, F488), with its place, for an example that is no input."""
        for example in corpus:
            for name in self.fields:
                self.ids(name, example)

    def checked(self, program: Program, batches: BatchSource) -> Iterator[tuple[Program, Collated]]:
        """The batches of an epoch as a program takes them. Raises GrammarError for unfit inputs."""
        for batch in batches.start(BatchPosition()):
            items = self.items(batch)
            if items is not None:
                yield program, check_items(program, items).collated

    @staticmethod
    def of(grammar: Grammar, given: Mapping[str, str]) -> Feed:
        """The feed of a grammar whose domains have names; `given` are fields of some inputs."""
        names = {item.name for item in grammar.observed}
        fields = input_fields(grammar, {n: field for n, field in given.items() if n in names})
        domains = {item.name: item.domain for item in grammar.inputs if item.name in fields}
        vocabularies = {domain: vocabulary_of(grammar, domain) for domain in domains.values()}
        return Feed(fields, domains, vocabularies)

    def ids(self, name: str, example: Example) -> list[int] | list[list[int]]:
        """The token ids of an example for an input, `[n]`, or `[n, n + 1]` for parts.

        Raises GrammarError (F478, F488), with the place of the example.
        """
        vocabulary = self.vocabularies[self.domains[name]]
        if self.fields[name] == "parts":
            return part_ids(example.words, vocabulary.index)
        if self.fields[name] == "words" and example.ids is not None:
            return list(example.ids)
        values: Sequence[str] | None = getattr(example, self.fields[name])
        if values is None:
            message = f"{example.place}: there are no {self.fields[name]} for input `{name}`"
            refuse("F478", message)
        may_miss = self.fields[name] != "words" and UNTAGGED not in vocabulary.index
        try:
            if may_miss:
                return [MISSING if v == UNTAGGED else vocabulary.encode([v])[0] for v in values]
            return vocabulary.encode(values)
        except GrammarError as error:
            first = error.diagnostics[0]
            refuse(first.code, f"{example.place}: {first.message}", first.help)


def parts(corpus: Iterable[Example], longest: int | None) -> Iterator[Example]:
    """Examples with all their parts, up to `longest` words each, in place of their words."""
    for example in corpus:
        words, size = example.words, len(example)
        ends = (min(size, i + (longest or size)) for i in range(size))
        strings = ("".join(words[i:j]) for i, end in enumerate(ends) for j in range(i + 1, end + 1))
        yield replace(example, words=tuple(strings))


def input_fields(grammar: Grammar, given: Mapping[str, str]) -> dict[str, str]:
    """The field of an example that each input of a grammar is: as given, or words for the last one.

    Raises GrammarError (F478).
    """
    names = [item.name for item in grammar.observed]
    for name, value in given.items():
        if name not in names:
            refuse("F478", f"there is no input `{name}`", did_you_mean(name, names))
        if value not in FIELDS:
            refuse("F478", f"an example has no field `{value}`", f"it has {', '.join(FIELDS)}")
    for table in grammar.tables:
        refuse("F478", f"`{table.name}` is not a sequence of words", "use such a model from Python")
    # An input with two axes holds the parts of the sequence.
    shapes = {item.name: len(item.shape) for item in grammar.observed}
    given = {**{name: "parts" for name in names if shapes[name] == 2}, **given}
    for name, value in given.items():
        if shapes[name] != (2 if value == "parts" else 1):
            refuse("F478", f"input `{name}` has {shapes[name]} axes, so it is not `{value}`")
    left = [name for name in names if name not in given]
    if len(left) > 1 or (left and "words" in given.values()):
        shown = ", ".join(f"`{name}`" for name in left)
        refuse("F478", f"the fields of inputs {shown} are not given", "say so: `--field t=tags`")
    return {**given, **{name: "words" for name in left}}


def make_feed(
    grammar: Grammar,
    fields: Mapping[str, str],
    corpus: Iterable[Example],
    changes: Changes,
) -> Feed:
    """The feed of a corpus. The values of a domain are those of the grammar, or of the corpus."""
    domains = {item.name: item.domain for item in grammar.inputs if item.name in fields}
    vocabularies: dict[str, Vocabulary] = {}
    for name, domain in domains.items():
        if domain in vocabularies:
            continue
        shape = grammar.domain[domain].shape
        if fields[name] == "words" and (ids := id_count(corpus)):
            size = max(ids, domain_size(grammar, domain))
            vocabularies[domain] = _of_ids(grammar, domain, size, changes)
        elif isinstance(shape, Sized):
            field = fields[name]
            examples = corpus if field == "words" else _in_place(corpus, field)
            if field == "parts":
                examples = parts(corpus, changes.get("max_part"))
            plain = field != "words" or bool(changes.get("no_unknown"))
            vocabularies[domain] = build_vocabulary(
                examples,
                least=1 if plain else changes.get("min_count") or 1,
                most=None if plain else changes.get("max_words"),
                unknown=None if plain else UNKNOWN,
                shapes=bool(changes.get("unknown_shapes")) and not plain,
            )
        else:
            vocabularies[domain] = vocabulary_of(grammar, domain)
    return Feed(dict(fields), domains, vocabularies)


def vocabulary_of(grammar: Grammar, domain: str) -> Vocabulary:
    """The vocabulary that the values of a domain are."""
    values = tuple(domain_values(grammar, domain))
    classes = any(value.startswith(UNKNOWN.replace(">", ":")) for value in values)
    unknown = UNKNOWN if UNKNOWN in values else None
    return Vocabulary(values=values, unknown=unknown, shapes=classes)


def id_count(corpus: Iterable[Example]) -> int:
    """One more than the greatest id of a corpus; 0 if it does not consist of ids."""
    examples = iter(corpus)
    first = next(examples, None)
    if first is None or first.ids is None:
        return 0
    return 1 + max(max(example.ids or (), default=-1) for example in chain((first,), examples))


def _of_ids(grammar: Grammar, domain: str, size: int, changes: Changes) -> Vocabulary:
    """The values of a domain that ids are of: no id changes. Raises GrammarError (F478)."""
    options = ("min_count", "max_words", "unknown_shapes", "lower", "digits", "characters")
    for option in options:
        if changes.get(option):
            shown = option.replace("_", "-")
            refuse("F478", f"`--{shown}` changes words, but the data are ids", "leave it out")
    if not isinstance(grammar.domain[domain].shape, Sized):
        return vocabulary_of(grammar, domain)
    return Vocabulary(values=tuple(map(str, range(size))), unknown=None)


def _in_place(corpus: Iterable[Example], field: str) -> Iterable[Example]:
    """Examples with another field as their words, without unknown tags."""
    for example in corpus:
        values = getattr(example, field) or ()
        yield replace(example, words=tuple(value for value in values if value != UNTAGGED))


def sizes_for(grammar: Grammar, feed: Feed, given: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a grammar: those given, and those that vocabularies decide.

    Raises GrammarError (F478) if a vocabulary has more values than its domain.
    """
    sizes = dict(given)
    for domain, vocabulary in feed.vocabularies.items():
        item = grammar.domain[domain]
        size = _size_name(item)
        if size is None:
            continue
        if size not in given:
            sizes[size] = max(sizes.get(size, 0), len(vocabulary))
        elif given[size] < len(vocabulary):
            refuse(
                "F478",
                f"the data have {len(vocabulary):,} values of `{domain}`, not {given[size]:,}",
                f"`--set {size}={len(vocabulary)}` makes room for them; `--max-words N` keeps the "
                "most frequent words",
            )
    return sizes


def _size_name(domain: Domain) -> str | None:
    """The name of a domain's size; None if the size is no single name."""
    if not isinstance(domain.shape, Sized):
        return None
    names = list(domain.shape.size.names())
    return names[0] if len(names) == 1 and str(domain.shape.size) == names[0] else None
