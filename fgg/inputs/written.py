"""Written words: the words of inputs as users wrote them, which answers and pictures show.

A model may read `Zebra` as `zebra`, and `zebra` as `<unk>`. What a user wrote is kept beside the
tokens, and shown in place of the values that it was read as.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Words = tuple[str | None, ...]
"""The words of a sequence; None where a token was not given as text."""
WrittenWords = Mapping[str, Sequence[Words | None]]
"""For each input the words of each item; None for an item without text."""


def written_words(inputs: Mapping[str, object]) -> dict[str, list[Words | None]]:
    """The words of inputs that are given as texts or lists of texts."""
    written: dict[str, list[Words | None]] = {}
    for name, items in inputs.items():
        plain = as_lists(items)
        if isinstance(plain, list | tuple):
            words = [words_of(item) for item in plain]
            if any(words):
                written[name] = words
    return written


def words_of(item: object) -> Words | None:
    """The words of one item; None if none of it is text."""
    plain = item.split() if isinstance(item, str) else as_lists(item)
    if not isinstance(plain, list | tuple) or not any(isinstance(word, str) for word in plain):
        return None
    return tuple(word if isinstance(word, str) else None for word in plain)


def as_lists(items: object) -> object:
    """An array of texts as nested lists; anything else as it is."""
    textual = getattr(getattr(items, "dtype", None), "kind", "") in ("U", "O", "T")
    return items.tolist() if textual and hasattr(items, "tolist") else items


def of_item(written: WrittenWords, number: int) -> dict[str, Words]:
    """The words of one item by input."""
    words = {name: items[number] for name, items in written.items() if number < len(items)}
    return {name: each for name, each in words.items() if each is not None}
