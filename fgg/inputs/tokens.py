"""Tokens: which value of its domain an entry of an input stands for. One rule, everywhere.

A number is an id: 0, 1, …, or -1 (missing) and -2 (impossible). A text is a word: the name of a
value. The values of a domain without names are called `0`, `1`, …, so there the text `2` is the
value 2. A word that is no name is read as its class, `<unk:capital-s>`, or as `<unk>`, if the
domain has these values; the texts `-1` and `-2` are read as numbers. None is a missing token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsInt, cast

from fgg.diagnostics import did_you_mean
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size, value_index
from fgg.grammar.memo import per_grammar

MISSING = -1
IMPOSSIBLE = -2
MARKS = {"-1": MISSING, "-2": IMPOSSIBLE}
UNKNOWN = "<unk>"
"""The value that stands for all words that a domain does not list, if the domain has it."""
ENDINGS = ("ing", "ion", "ity", "est", "ed", "er", "ly", "al", "s", "y")  # the first that fits
MAX_SUGGESTED = 10_000
"""Domains with more values get no suggestion for a word that they lack."""


def token_id(grammar: Grammar, domain: str, entry: object) -> int | None:
    """The id that an entry stands for; None if it is no entry of the domain.

    Ids are not compared with the size of the domain.
    """
    if type(entry) is int:
        return entry
    if isinstance(entry, str):
        index = value_index(grammar, domain)
        if entry in index:
            return index[entry]
        if entry in MARKS:
            return MARKS[entry]
        word = stand_in(_unknown(grammar, domain), entry)
        return None if word is None else index[word]
    return MISSING if entry is None else whole_number(entry)


def why_unread(grammar: Grammar, domain: str, entry: object) -> tuple[str, str]:
    """Why an entry has no id in a domain, and a hint."""
    if not isinstance(entry, str):
        return f"{entry!r} is neither a number nor a word", ""
    size = domain_size(grammar, domain)
    known = value_index(grammar, domain)
    help = did_you_mean(entry, known) if size < MAX_SUGGESTED else ""
    if not help and entry.isdecimal() and int(entry[:12]) < size:
        help = f"text is read as names of values; the id is a number: `[{entry}]` in JSON or Python"
    return f"`{entry}` is not a value of `{domain}`", help


def stand_in(unknown: Mapping[str, None], word: str) -> str | None:
    """The value that stands for an unknown word, of those that a domain has for them."""
    if not unknown:
        return None
    group = unknown_class(UNKNOWN, word)
    return group if group in unknown else UNKNOWN if UNKNOWN in unknown else None


@per_grammar
def _unknown(grammar: Grammar, domain: str) -> Mapping[str, None]:
    """The values of a domain that stand for unknown words."""
    index = value_index(grammar, domain)
    if UNKNOWN not in index:
        return {}
    prefix = UNKNOWN.replace(">", ":")
    return {UNKNOWN: None, **{value: None for value in index if value.startswith(prefix)}}


def whole_number(entry: object) -> int | None:
    """An entry as a whole number; None if it is none."""
    if isinstance(entry, bool):
        return None
    try:
        number = int(cast(SupportsInt, entry))
        return number if number == entry else None
    except (TypeError, ValueError, OverflowError):
        return None


def word_shape(word: str) -> str:
    """The class of a word by its letters, such as `capital-s` or `digit-hyphen`; "" if plain.

    First comes `capitals` (two or more cased letters, all upper case) or `capital` (the first
    letter is), then `digit` and `hyphen` if the word has one, then the ending if the word has at
    least four letters and no digit.
    """
    parts = []
    cased = [letter for letter in word if letter.isupper() or letter.islower()]
    if len(cased) > 1 and word.isupper():
        parts.append("capitals")
    elif word[:1].isupper():
        parts.append("capital")
    if any(letter.isdigit() for letter in word):
        parts.append("digit")
    if "-" in word:
        parts.append("hyphen")
    if len(word) >= 4 and "digit" not in parts:
        ending = next((each for each in ENDINGS if word.lower().endswith(each)), "")
        parts += [ending] if ending else []
    return "-".join(parts)


def unknown_class(unknown: str, word: str) -> str:
    """The class of unknown words that a word belongs to, such as `<unk:capital-s>`."""
    form = word_shape(word)
    return f"{unknown.removesuffix('>')}:{form}>" if form else unknown
