"""Maps: factors that are functions, and the blocks that they divide a domain into.

`factor clusters(W -> M) = map("clusters.txt")` gives each value of W one value of M, its *block*.
As a factor it is 1 there and 0 elsewhere; what it is made of is one number for each value of W.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from fgg.diagnostics import did_you_mean, refuse
from fgg.files import map_array, read_limited, reason_of
from fgg.grammar import Factor, Grammar, Union
from fgg.grammar.domains import domain_size, parts, value_index
from fgg.grammar.memo import per_grammar
from fgg.grammar.values import Map

PATTERNS = ("cycle", "runs", "part")


def is_map(factor: Factor | None) -> bool:
    """Whether a factor is a function from its first domain to its second."""
    return factor is not None and isinstance(factor.value, Map) and len(factor.domains) == 2


def groups(grammar: Grammar, factor: Factor) -> tuple[int, ...] | None:
    """The block of each value of a factor's last domain, within which its weights sum to one.

    None if the factor has no blocks. Raises GrammarError where the map cannot be used.
    """
    name = factor.blocks
    if name is None or factor.given is None or not is_map(grammar.factor.get(name)):
        return None
    return map_values(grammar, name)


MAX_VALUES = 2**24
"""The most values of a domain that a map leads from: each is listed."""


@per_grammar
def map_values(grammar: Grammar, name: str) -> tuple[int, ...]:
    """The value of a map's second domain for each value of its first.

    Raises GrammarError (F131, F490, F491, F492).
    """
    factor = grammar.factor[name]
    value = factor.value
    assert isinstance(value, Map)
    count, blocks = (domain_size(grammar, domain) for domain in factor.domains)
    if count > MAX_VALUES:
        message = f"`{factor.domains[0]}` has {count:,} values; a map has at most {MAX_VALUES:,}"
        _refuse(factor, "F131", message)
    if value.pattern == "part":
        source, target = factor.domains
        offset = next(iter(places(grammar, source, target)), None)
        if offset is None:
            message = f"`{source}` is not a part of `{target}`"
            _refuse(factor, "F492", message, "`map(part)` leads from a part to its union")
        return tuple(range(offset, offset + count))
    if value.pattern:
        # Neighbours in different blocks, or in the same.
        cycle = value.pattern == "cycle"
        return tuple(i % blocks if cycle else i * blocks // count for i in range(count))
    if not value.path:
        targets: Sequence[int | str] = value.values
    elif value.path.endswith(".npy"):
        targets = _array(factor, value, count)
    else:
        targets = _lines(grammar, factor, value)
    return _checked(grammar, factor, targets, count, blocks)


def places(grammar: Grammar, part: str, whole: str) -> Iterator[int]:
    """Where the values of a part begin among those of a union: once for each time it occurs."""
    if part == whole:
        yield 0
    elif isinstance(grammar.domain[whole].shape, Union):
        for name, inner in parts(grammar, whole).items():
            for offset in places(grammar, part, name):
                yield inner.offset + offset


def _refuse(factor: Factor, code: str, message: str, help: str = "") -> NoReturn:
    refuse(code, f"map `{factor.name}`: {message}", help, span=factor.span)


def _check_count(factor: Factor, blocks: int, count: int) -> None:
    if blocks != count:
        message = f"{blocks} blocks, but `{factor.domains[0]}` has {count} values"
        _refuse(factor, "F491", message, "give one for each value, in order")


def _checked(
    grammar: Grammar, factor: Factor, targets: Sequence[int | str], count: int, blocks: int
) -> tuple[int, ...]:
    source, target = factor.domains
    _check_count(factor, len(targets), count)
    names = value_index(grammar, target) if any(isinstance(x, str) for x in targets) else {}
    numbers = []
    for place, block in enumerate(targets):
        number = names.get(block) if isinstance(block, str) else block
        if number is None and isinstance(block, str) and block.isdecimal():
            number = int(block)  # its place, where the values have names
        if number is None or not 0 <= number < blocks:
            message = (
                f"value {place} of `{source}` goes to `{block}`, which is not a value of `{target}`"
            )
            help = did_you_mean(str(block), list(names)) if names and blocks < 10_000 else ""
            _refuse(factor, "F492", message, help or f"its blocks are 0 to {blocks - 1}")
        numbers.append(number)
    return tuple(numbers)


def _array(factor: Factor, value: Map, count: int) -> list[int]:
    """The `count` numbers of a `.npy` file."""
    try:
        array = map_array(Path(value.folder) / value.path)
    except (OSError, ValueError) as error:
        message = f"`{value.path}` cannot be read as an array: {reason_of(error)}"
        _refuse(factor, "F490", message)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        _refuse(factor, "F490", f"`{value.path}` is not a list of whole numbers")
    _check_count(factor, len(array), count)
    return [int(x) for x in array]


def _lines(grammar: Grammar, factor: Factor, value: Map) -> Sequence[str]:
    """The blocks in a text file: lines `word block` in any order, or one block on each line."""
    try:
        text = read_limited(Path(value.folder) / value.path).decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(factor, "F490", f"`{value.path}` is not text")
    except (OSError, ValueError) as error:
        message = f"`{value.path}` cannot be read: {reason_of(error)}"
        _refuse(factor, "F490", message)
    lines = [line for line in text.split("\n") if line.strip()]
    if all(len(line.split()) == 1 for line in lines):
        return [line.strip() for line in lines]
    index = value_index(grammar, factor.domains[0])
    known: dict[int, str] = {}
    for number, word, block in _pairs(factor, value, lines):
        place = index.get(word)
        if place is None:
            continue  # a file may say more than the domain has
        if place in known:
            message = f"line {number} of `{value.path}` gives `{word}` a second time"
            _refuse(factor, "F491", message)
        known[place] = block
    missing = next((i for i in range(len(index)) if i not in known), None)
    if missing is not None:
        _missing(grammar, factor, value, missing, len(index) - len(known), index)
    return [known[i] for i in range(len(index))]


def _pairs(factor: Factor, value: Map, lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        cells = line.split("\t") if "\t" in line else line.strip().rsplit(None, 1)
        if len(cells) != 2:
            message = f"line {number} of `{value.path}` is not a value and its block"
            _refuse(factor, "F490", message, "write lines of the form `word block`")
        yield number, cells[0].strip(), cells[1].strip()


def _missing(
    grammar: Grammar, factor: Factor, value: Map, place: int, count: int, index: Mapping[str, int]
) -> NoReturn:
    name = next(name for name, number in index.items() if number == place)
    source = factor.domains[0]
    message = f"`{value.path}` has no block for `{name}`"
    message += f" and {count - 1} more values of `{source}`" if count > 1 else f" of `{source}`"
    _refuse(factor, "F491", message)
