"""Random changes of source texts: of tokens, numbers, brackets, names, lines and characters."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from fgg.grammar.index import RESERVED

Mutation = Callable[[random.Random, list[str]], None]

_TOKEN = re.compile(r'\s+|#[^\n]*|"(?:\\.|[^"\\\n])*"|`[^`\n]+`|\w+|->|<=|>=|==|.', re.DOTALL)
WORDS = sorted(RESERVED)
SIGNS = ["->", "<", "<=", ">", ">=", "==", "=", "(", ")", "[", "]", "{", "}", ":", ",", "."]
SIGNS += ["+", "-", "*", "/", "#", '"', "`", "->", "for", "\n", "%", "\\", "e", "0"]
NAMES = ["T", "W", "X", "S", "i", "j", "n", "w", "k", "f", "table", "uniform", "eye", "load"]
NAMES += ["`a b`", "`->`", "file", "dirichlet", "phi", "left", "tied", "stationary", "λ", "名"]
NUMBERS = ["0", "1", "2", "-1", "1/3", "1/0", "0.1", "1e400", "1e-400", "9" * 30, "9" * 500, "1e9"]
NUMBERS += ["2147483647", "2147483648", "1e308", "1e308/3", "-0", "00", "1.", ".5", "9" * 400]
STRANGE = [
    "\0",
    "\ud800",
    "\ufeff",
    "\u2028",
    "\x1b[31m",
    "é",
    "→",
    "≤",
    "\r",
    "\t",
    "\x85",
    "\U0001d54f",
]
STRANGE += ["\u202e", "٣", "\ufb01", "\N{ACUTE ACCENT}", "\N{ZERO WIDTH SPACE}"]


def tokens(text: str) -> list[str]:
    """The pieces of a text, space included; joined, they are the text."""
    return _TOKEN.findall(text)


def noise(rng: random.Random) -> str:
    """Text without any plan: characters, bytes, or words of the language in any order."""
    length = rng.randrange(1, 120)
    kind = rng.randrange(4)
    if kind == 0:
        return "".join(chr(rng.randrange(0x250)) for _ in range(length))
    if kind == 1:
        data = bytes(rng.randrange(256) for _ in range(length))
        return data.decode("utf-8", rng.choice(("replace", "surrogateescape", "ignore")))
    if kind == 2:
        pool = [*WORDS, *SIGNS, *NAMES, *NUMBERS, *STRANGE]
        return rng.choice((" ", "", "\n")).join(rng.choice(pool) for _ in range(length))
    return "".join(chr(rng.choice((rng.randrange(0x11000), 0x20, 0x28))) for _ in range(length))


def mutate(rng: random.Random, text: str) -> str:
    """The text after some changes, now and then none."""
    parts = tokens(text)
    # Gentle changes mostly leave the syntax right, so that later stages have something to do.
    mutations = rng.choice((MUTATIONS, GENTLE))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5, 12))):
        if parts:
            rng.choice(mutations)(rng, parts)
    return "".join(parts)


def splice(rng: random.Random, first: str, second: str) -> str:
    """The beginning of one text and the end of another."""
    left, right = tokens(first), tokens(second)
    return "".join(left[: rng.randrange(len(left) + 1)] + right[rng.randrange(len(right) + 1) :])


def _place(rng: random.Random, parts: list[str]) -> int:
    return rng.randrange(len(parts))


def _delete(rng: random.Random, parts: list[str]) -> None:
    start = _place(rng, parts)
    del parts[start : start + rng.choice((1, 1, 1, 2, 5, 20))]


def _duplicate(rng: random.Random, parts: list[str]) -> None:
    start = _place(rng, parts)
    copied = parts[start : start + rng.choice((1, 1, 3, 10, 40))]
    parts[start:start] = copied


def _swap(rng: random.Random, parts: list[str]) -> None:
    first, second = _place(rng, parts), _place(rng, parts)
    parts[first], parts[second] = parts[second], parts[first]


def _copy_over(rng: random.Random, parts: list[str]) -> None:
    parts[_place(rng, parts)] = parts[_place(rng, parts)]


def _replace(rng: random.Random, parts: list[str]) -> None:
    pool = rng.choice((WORDS, SIGNS, NAMES, NUMBERS, STRANGE))
    parts[_place(rng, parts)] = rng.choice(pool)


def _insert(rng: random.Random, parts: list[str]) -> None:
    pool = rng.choice((WORDS, SIGNS, NAMES, NUMBERS, STRANGE))
    parts.insert(_place(rng, parts), f" {rng.choice(pool)} ")


def _renumber(rng: random.Random, parts: list[str]) -> None:
    places = [i for i, part in enumerate(parts) if part.isdigit()]
    if places:
        parts[rng.choice(places)] = rng.choice(NUMBERS)


def _rename(rng: random.Random, parts: list[str]) -> None:
    places = [i for i, part in enumerate(parts) if part.isidentifier() and part not in WORDS]
    if places:
        parts[rng.choice(places)] = rng.choice((*NAMES, parts[rng.choice(places)]))


def _truncate(rng: random.Random, parts: list[str]) -> None:
    del parts[_place(rng, parts) :]


def _behead(rng: random.Random, parts: list[str]) -> None:
    del parts[: _place(rng, parts)]


def _nest(rng: random.Random, parts: list[str]) -> None:
    opening, closing = rng.choice(("()", "[]", "{}", "((", "}}", "- "))
    depth = rng.choice((1, 2, 60, 99, 101, 3000))
    place = _place(rng, parts)
    parts[place : place + 1] = [opening * depth, parts[place], closing * depth]


def _repeat(rng: random.Random, parts: list[str]) -> None:
    start = _place(rng, parts)
    copied = parts[start : start + rng.choice((1, 2, 4))]
    parts[start:start] = copied * rng.choice((10, 100, 1000))


def _shuffle_lines(rng: random.Random, parts: list[str]) -> None:
    lines = "".join(parts).split("\n")
    rng.shuffle(lines)
    parts[:] = tokens("\n".join(lines))


def _join_lines(rng: random.Random, parts: list[str]) -> None:
    parts[:] = [" " if part.isspace() else part for part in parts]


def _break_character(rng: random.Random, parts: list[str]) -> None:
    place = _place(rng, parts)
    part = parts[place]
    cut = rng.randrange(len(part) + 1)
    parts[place] = part[:cut] + rng.choice((*STRANGE, *SIGNS)) + part[cut + rng.randrange(2) :]


def _exchange(rng: random.Random, parts: list[str]) -> None:
    """Put a name, sign or number in the place of another one of its kind."""
    place = _place(rng, parts)
    kind = _kind(parts[place])
    parts[place] = rng.choice([part for part in parts if _kind(part) == kind])


def _kind(part: str) -> str:
    if part in WORDS or part.isspace():
        return part
    if part.isdigit() or part in ("+", "-", "*", "<", "<=", ">", ">=", "=="):
        return "digit" if part.isdigit() else "sign"
    return "name" if part.isidentifier() or part[0] == "`" else part[:1]


def _delete_line(rng: random.Random, parts: list[str]) -> None:
    lines = "".join(parts).split("\n")
    del lines[rng.randrange(len(lines))]
    parts[:] = tokens("\n".join(lines))


def _duplicate_line(rng: random.Random, parts: list[str]) -> None:
    lines = "".join(parts).split("\n")
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    parts[:] = tokens("\n".join(lines))


def _comment_out(rng: random.Random, parts: list[str]) -> None:
    parts.insert(_place(rng, parts), "#")


GENTLE: tuple[Mutation, ...] = (
    *(_rename, _exchange, _exchange, _exchange, _renumber),
    *(_delete_line, _duplicate_line, _shuffle_lines, _comment_out),
)
MUTATIONS: tuple[Mutation, ...] = (
    *(_delete, _duplicate, _swap, _copy_over, _replace, _insert, _renumber, _rename),
    *(_delete, _swap, _copy_over, _replace, _insert, _renumber, _rename, _rename),
    *(_truncate, _behead, _nest, _repeat, _shuffle_lines, _join_lines, _break_character),
)
