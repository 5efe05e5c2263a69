"""Classes of unknown words by their shape: capitals, digits, hyphen, ending."""

from __future__ import annotations

ENDINGS = ("ing", "ion", "ity", "est", "ed", "er", "ly", "al", "s", "y")  # the first that fits


def shape(word: str) -> str:
    """The class of a word, like `capital-s` or `digit-hyphen`; empty for a plain word.

    One of `capitals` (at least two cased letters, all upper case) and `capital` (the first), then
    `digit` and `hyphen` for words with one, then the ending of words of at least four letters
    without digits.
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
