"""Emitted lines within a width, broken as formatters break them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

WIDTH = 100
INDENT = "    "
OPEN, CLOSE = "([{", ")]}"


def indented(lines: Iterable[str], depth: int = 1) -> Iterator[str]:
    """Lines inside a block."""
    return ((INDENT * depth + line) if line else line for line in lines)


def fitted(lines: Iterable[str]) -> Iterator[str]:
    """Lines of which none is too long, as far as brackets allow."""
    for line in lines:
        yield from fit(line)


def fit(line: str) -> Iterator[str]:
    """A line, broken at its sum or at its last brackets if it is too long."""
    if len(line) <= WIDTH or line.lstrip().startswith("#"):
        yield line
        return
    pad = line[: len(line) - len(line.lstrip())]
    if line.startswith(f"{pad}if ") and line.endswith(":"):
        yield from _condition(line[len(pad) + 3 : -1], pad)
        return
    target, sign, value = line.partition(" = ")
    if not sign or "(" not in target:
        for operator in ("and", "&", "+"):
            terms = _parts(value if sign else line.strip().removesuffix(","), f" {operator} ")
            if len(terms) > 1 and not (sign and operator == "+" and _ends_with_call(line, terms)):
                yield from _broken(line, operator, terms)
                return
    names = _parts(target.strip(), ",") if sign else []
    if len(target) + len(" = (") > WIDTH and len(names) > 1:
        # Several names, one a line.
        yield f"{pad}("
        yield from (f"{pad}{INDENT}{name}," for name in names)
        yield f"{pad}) = {value}"
        return
    pair = _last_brackets(line)
    if pair is None:
        yield line
        return
    first, last = pair
    head, body, tail = line[: first + 1], line[first + 1 : last], line[last:]
    inner = pad + INDENT
    yield head
    many = "," in body and not line[:first].rstrip()[-1:].isidentifier() and line[first] != "("
    if len(inner + body) <= WIDTH and not body.rstrip().endswith(",") and not many:
        yield inner + body
    elif line[first] == "(" and not re.search(r"[\w\])]$", line[:first]) and "," not in body:
        # Brackets around a term: with a comma it would be a tuple.
        yield from fit(inner + body)
    else:
        for part in _parts(body, ","):
            yield from fit(f"{inner}{part},")
    yield pad + tail


def _ends_with_call(line: str, terms: list[str]) -> bool:
    """Whether a sum of two terms is broken in the brackets of a call that is the last of them."""
    pair = _last_brackets(line)
    return (
        len(terms) == 2
        and line.endswith(")")
        and pair is not None
        and pair[1] == len(line) - 1
        and line[: pair[0]][-1:].isidentifier()
        and pair[0] < WIDTH
    )


def _condition(tests: str, pad: str) -> Iterator[str]:
    """A condition that is too long for a line."""
    parts = _parts(tests, " and ")
    if len(pad + INDENT + tests) <= WIDTH:
        parts = [tests]
    yield f"{pad}if ("
    yield from (f"{pad}{INDENT}{'and ' if number else ''}{x}" for number, x in enumerate(parts))
    yield f"{pad}):"


def _broken(line: str, operator: str, terms: list[str]) -> Iterator[str]:
    """A line whose value is a sum, or the like, of terms: one a line if need be."""
    pad = line[: len(line) - len(line.lstrip())]
    target, sign, value = line.partition(" = ")
    inner = pad + INDENT if sign else pad
    if sign:
        yield f"{target} = ("
        if len(inner + value) <= WIDTH:
            terms = [value]
    comma = "," if not sign and line.endswith(",") else ""
    for number, term in enumerate(terms):
        end = comma if number == len(terms) - 1 else ""
        yield from fit(f"{inner}{f'{operator} ' if number else ''}{term}{end}")
    if sign:
        yield f"{pad})"


def _last_brackets(line: str) -> tuple[int, int] | None:
    """The last brackets that are not inside others and hold something."""
    depth, start = 0, 0
    pairs = []
    quoted = False
    for place, character in enumerate(line):
        quoted ^= character == '"'
        if quoted:
            continue
        if character in OPEN:
            if depth == 0:
                start = place
            depth += 1
        elif character in CLOSE:
            depth -= 1
            if depth == 0 and place > start + 1:
                pairs.append((start, place))
    calls = [(a, b) for a, b in pairs if line[a] == "(" and b - a > 12]
    candidates = calls or pairs
    return candidates[-1] if candidates else None


def _parts(body: str, sign: str) -> list[str]:
    """What a sign separates, outside of brackets."""
    parts, depth, start, quoted = [], 0, 0, False
    for place, character in enumerate(body):
        quoted ^= character == '"'
        if quoted:
            continue
        depth += character in OPEN
        depth -= character in CLOSE
        if depth == 0 and body.startswith(sign, place):
            if _is_lambda(body[start:place]):
                continue  # between the arguments of a function
            parts.append(body[start:place].strip())
            start = place + len(sign)
    rest = body[start:].strip()
    return [*parts, rest] if rest else parts


def _is_lambda(text: str) -> bool:
    """Whether the arguments of a function have not ended."""
    return "lambda " in text and ":" not in text[text.rindex("lambda ") :]
