"""Vocabularies: the numbers of words, and the classes of unknown words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fgg.data.example import Example
from fgg.diagnostics import GrammarError, refuse
from fgg.files import read_limited, unreadable, write_whole
from fgg.inputs.tokens import UNKNOWN, unknown_class


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The words numbered 0, 1, …; any other word is read as `unknown`, or refused if that is None.

    With `shapes`, a word is read as its class, such as `<unk:capital-s>`, if the vocabulary has
    that class, and as `<unk>` if not. `counts` are the frequencies in the text it was built from.
    """

    values: tuple[str, ...]
    counts: tuple[int, ...] | None = None
    unknown: str | None = UNKNOWN
    shapes: bool = False

    def __post_init__(self) -> None:
        assert self.unknown is None or self.unknown in self.index, self.unknown

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.values[:3])) + (", …" if len(self) > 3 else "")
        return f"Vocabulary({len(self):,} words: {shown})"

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.values)}

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def known(self, word: str) -> str:
        """The value that stands for a word. Raises GrammarError (F488) if there is none."""
        if word in self.index:
            return word
        if self.unknown is None:
            refuse(
                "F488", f"`{word}` is not in the vocabulary, which has no entry for unknown words"
            )
        if self.shapes and (group := unknown_class(self.unknown, word)) in self.index:
            return group
        return self.unknown

    def encode(self, words: Iterable[str]) -> list[int]:
        """The numbers of words. Raises GrammarError (F488) for a word that has none."""
        return [self.index[self.known(word)] for word in words]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The words with these numbers."""
        return [self.values[number] for number in numbers]

    def encoded(self, example: Example) -> Example:
        """The example with the numbers of its words: a change for `Corpus.map`."""
        return replace(example, ids=tuple(map(self.index.__getitem__, self._values(example))))

    def replaced(self, example: Example) -> Example:
        """The example with the values that stand for its words: a change for `Corpus.map`."""
        return replace(example, words=tuple(self._values(example)))

    def _values(self, example: Example) -> list[str]:
        try:
            return list(map(self.known, example.words))
        except GrammarError as error:
            (diagnostic,) = error.diagnostics
            message = f"{example.place}: {diagnostic.message}"
            raise GrammarError([replace(diagnostic, message=message)]) from None

    def save(self, path: str | Path) -> None:
        """Write one value a line, as `domain W = file(…)` reads it, or all fields to a `.json`."""
        target = Path(path)
        if target.suffix == ".json":
            data = {
                "values": self.values,
                "counts": self.counts,
                "unknown": self.unknown,
                "shapes": self.shapes,
            }
            text = json.dumps(data, ensure_ascii=False, indent=1) + "\n"
        else:
            text = "".join(f"{value}\n" for value in self.values)
        write_whole(target, text.encode())


def build(
    examples: Iterable[Example],
    *,
    least: int = 1,
    most: int | None = None,
    unknown: str | None = UNKNOWN,
    shapes: bool = False,
    extra: Sequence[str] = (),
) -> Vocabulary:
    """The vocabulary of some examples: `unknown`, its classes, `extra`, then words by frequency.

    A word is included if it occurs at least `least` times and is among the `most` most frequent; of
    equally frequent words the one that occurs first comes first. With `shapes`, the classes of all
    words left out are included.
    """
    frequency: Counter[str] = Counter()
    for example in examples:
        for word in example.words:
            frequency[word] += example.count
    special = dict.fromkeys([*([unknown] if unknown else []), *extra])
    ranked = [(w, n) for w, n in frequency.most_common() if w not in special and n >= least]
    chosen = dict(ranked if most is None else ranked[:most])
    rest = Counter({word: frequency[word] for word in special})
    classes: dict[str, None] = {}
    for word, number in frequency.items():
        if unknown and word not in chosen and word not in special:
            group = unknown_class(unknown, word) if shapes else unknown
            classes.setdefault(group)
            rest[group] += number
    first = [unknown] if unknown else []
    values = dict.fromkeys([*first, *sorted(classes), *special, *chosen])
    counts = {**chosen, **rest}
    return Vocabulary(
        values=tuple(values),
        counts=tuple(counts.get(value, 0) for value in values),
        unknown=unknown,
        shapes=shapes,
    )


def load(path: str | Path) -> Vocabulary:
    """The vocabulary in a file that `save` wrote, or in any file with one word a line.

    In a file of lines, `<unk>` if present is the word for unknown ones, and words that begin with
    `<unk:` are its classes. Raises GrammarError (F401, F488).
    """
    source = Path(path)
    try:
        text = read_limited(source).decode()
    except UnicodeDecodeError:
        refuse("F488", f"`{path}` is not UTF-8 text")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if source.suffix == ".json":
        return _from_json(text, source)
    values: dict[str, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        word = line.removesuffix("\r")
        if not word:
            refuse("F488", f"{path}:{number}: an empty line is not a word")
        if word in values:
            refuse("F488", f"{path}:{number}: `{word}` is in line {values[word]} already")
        values[word] = number
    return Vocabulary(
        values=tuple(values),
        unknown=UNKNOWN if UNKNOWN in values else None,
        shapes=any(word.startswith(UNKNOWN.replace(">", ":")) for word in values),
    )


def _from_json(text: str, path: Path) -> Vocabulary:
    try:
        data = json.loads(text)
        values, counts = tuple(data["values"]), data.get("counts")
        unknown, shapes = data.get("unknown"), bool(data.get("shapes"))
        right = all(isinstance(value, str) for value in values) and len({*values}) == len(values)
        right &= unknown is None or unknown in values
        if counts is not None:
            counts = tuple(map(int, counts))
            right &= len(counts) == len(values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        refuse("F488", f"`{path}` does not hold a vocabulary")
    return Vocabulary(values=values, counts=counts, unknown=unknown, shapes=shapes)
