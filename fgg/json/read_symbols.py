"""Reading JSON: the labels of a grammar, its domains, and the weights of its terminals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fgg.diagnostics import did_you_mean
from fgg.grammar import Attribute, Domain, Enumerated, Sized
from fgg.grammar.domains import MAX_SIZE
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh
from fgg.grammar.options import check_attribute, check_definitions
from fgg.grammar.values import Map, Value
from fgg.json.attributes import read_attributes
from fgg.json.places import Document, join, whole_number
from fgg.json.tensor import constant_value, read_weight, read_weights


@dataclass(frozen=True)
class Terminal:
    """A terminal as a document declares it."""

    type: tuple[str, ...]
    given: int | None = None
    rank: int | None = None
    attributes: tuple[Attribute, ...] = ()


Labels = dict[str, Terminal | None]
"""Edge labels by name; None where the declaration has errors."""


def read_labels(document: Document, grammar: dict[str, object], key: str, path: str) -> Labels:
    """The terminals or nonterminals of a grammar."""
    declared = document.object_at(grammar, key, path) or {}
    found: Labels = {}
    for name, data in declared.items():
        place = join(join(path, key), name)
        entry = document.as_object(data, place)
        types = document.texts_at(entry, "type", place) if entry is not None else None
        found[name] = None
        if entry is None or types is None:
            continue
        label = Terminal(types)
        found[name] = _extras(document, entry, label, place) if key == "terminals" else label
    return found


def _extras(
    document: Document, entry: dict[str, object], label: Terminal, path: str
) -> Terminal | None:
    """The terminal with what our own writer says of it besides."""
    given, rank = entry.get("given"), entry.get("rank")
    arity = len(label.type)
    good = True
    if given is not None and not (whole_number(given) and _number(given) < arity):
        document.fail(join(path, "given"), f"a whole number below {arity} was expected")
        good = False
    if rank is not None and not (whole_number(rank) and _number(rank) > 0 and arity > 1):
        message = "a positive whole number, of a terminal with two nodes or more, was expected"
        document.fail(join(path, "rank"), message)
        good = False
    try:
        attributes = read_attributes(entry.get("with", {}))
    except (ValueError, OverflowError) as error:
        document.fail(join(path, "with"), str(error))
        return None
    for attribute in attributes:
        problem = check_attribute(attribute)
        if problem is not None:
            document.fail(join(join(path, "with"), attribute.key), problem.message)
            good = False
    clash = check_definitions(attributes)
    if clash is not None:
        document.fail(join(path, "with"), clash.message)
    if not good or clash is not None:
        return None
    return Terminal(
        label.type,
        None if given is None else _number(given),
        None if rank is None else _number(rank),
        attributes,
    )


def _number(data: object) -> int:
    assert isinstance(data, int)
    return data


def read_domains(document: Document, data: dict[str, object], path: str) -> dict[str, Domain]:
    """The domains of an interpretation, by node label; `name` is still the label."""
    found: dict[str, Domain] = {}
    for name, item in data.items():
        place = join(path, name)
        entry = document.as_object(item, place)
        kind = document.text_at(entry, "class", place) if entry is not None else None
        if entry is None or kind is None:
            continue
        if kind == "range":
            size = entry.get("size")
            if check_size(document, size, join(place, "size")):
                rank = entry.get("rank") is True
                shape = Sized(Expr.of(_number(size)))
                found[name] = Domain(name=name, shape=shape, rank=rank)
        elif kind == "finite":
            values = document.list_at(entry, "values", place)
            names = _value_names(document, values or [], join(place, "values"))
            if values == []:
                document.fail(join(place, "values"), "a domain without values")
            elif values is not None and names is not None:
                found[name] = Domain(name=name, shape=Enumerated(names))
        else:
            shown = json.dumps(kind)
            document.fail(join(place, "class"), f'"finite" or "range" was expected, not {shown}')
    return found


def check_size(document: Document, size: object, path: str, code: str = "F406") -> bool:
    """Whether something is the size of a domain; a report if not."""
    if whole_number(size) and 0 < _number(size) <= MAX_SIZE:
        return True
    document.fail(path, f"a whole number between 1 and {MAX_SIZE} was expected", code)
    return False


def _value_names(document: Document, values: list[object], path: str) -> tuple[str, ...] | None:
    """The names of values: texts as they are, everything else as JSON writes it."""
    taken = {value for value in values if isinstance(value, str)}
    seen: dict[tuple[bool, str], int] = {}
    names: list[str] = []
    good = True
    for number, value in enumerate(values):
        is_text = isinstance(value, str)
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        first = seen.setdefault((is_text, text), number)
        if first != number:
            document.fail(f"{path}[{number}]", f"the same value as {path.split('.')[-1]}[{first}]")
            good = False
        if not is_text:
            text = fresh(text, taken)
            taken.add(text)
        names.append(text)
    return tuple(names) if good else None


def read_factors(
    document: Document,
    data: dict[str, object],
    path: str,
    terminals: Labels,
    sizes: Mapping[str, int],
) -> dict[str, Value]:
    """The values of terminals; `sizes` are those of the domains that could be read."""
    found: dict[str, Value] = {}
    for name, item in data.items():
        place = join(path, name)
        if name not in terminals:
            help_text = did_you_mean(name, terminals)
            document.fail(place, f"there is no terminal `{name}`", help=help_text)
            continue
        entry = document.as_object(item, place)
        kind = document.text_at(entry, "function", place) if entry is not None else None
        label = terminals[name]
        if entry is None or kind is None:
            continue
        if kind not in ("finite", "constant"):
            message = f'"finite" or "constant" was expected, not {json.dumps(kind)}'
            document.fail(join(place, "function"), message)
            continue
        key = "weights" if kind == "finite" else "weight"
        if key not in entry:
            document.fail(place, f"there is no `{key}`")
            continue
        if label is None or not all(node in sizes for node in label.type):
            continue
        shape = tuple(sizes[node] for node in label.type)
        place = join(place, key)
        value: Value | None = None
        if "map" in entry:
            value = _read_map(document, entry["map"], shape, join(path, f"{name}.map"))
        elif kind == "finite":
            value = read_weights(entry[key], shape, label.given, place, document.fail_weights)
        else:
            number = read_weight(entry[key], place, document.fail_weights)
            value = constant_value(number, shape, label.given) if number is not None else None
        if value is not None:
            found[name] = value
    return found


def _read_map(document: Document, data: object, shape: tuple[int, ...], path: str) -> Map | None:
    """A function as a list with one number for each value."""
    if len(shape) != 2 or not isinstance(data, list) or len(data) != shape[0]:
        document.fail(path, "a list with a number for each value was expected", "F407")
        return None
    for number, block in enumerate(data):
        if not whole_number(block) or not 0 <= block < shape[1]:
            message = f"a whole number from 0 to {shape[1] - 1} was expected"
            document.fail(f"{path}[{number}]", message, "F407")
            return None
    return Map(tuple(data))
