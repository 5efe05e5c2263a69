"""The attributes of factors as JSON: texts and numbers as they are, other values as objects."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from fgg.grammar import Attribute
from fgg.grammar.names import is_safe
from fgg.grammar.values import AttributeValue, Call, Word


def attributes_json(attributes: Iterable[Attribute]) -> dict[str, object]:
    """The JSON object of a factor's attributes, by key."""
    return {attribute.key: _write(attribute.value) for attribute in attributes}


def _write(value: AttributeValue) -> object:
    if isinstance(value, Word):
        return {"word": value.name}
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if isinstance(value, Call):
        return {
            "call": value.name,
            "arguments": [_write(item) for item in value.arguments],
            "keywords": [[key, _write(item)] for key, item in value.keywords],
        }
    return value


def read_attributes(data: object) -> tuple[Attribute, ...]:
    """The attributes that `attributes_json` wrote. Raises ValueError."""
    if not isinstance(data, dict):
        raise ValueError("an object was expected")
    return tuple(Attribute(key=_name(key), value=_read(value)) for key, value in data.items())


def _read(data: object) -> AttributeValue:
    match data:
        case bool():
            pass
        case str():
            return data
        case int() | float():
            return float(data)
        case {"word": str(name)}:
            return Word(_name(name))
        case {"fraction": [int(above), int(below)]} if below:
            return Fraction(above, below)
        case {"call": str(name), "arguments": [*arguments], "keywords": [*keywords]}:
            return Call(_name(name), tuple(map(_read, arguments)), tuple(map(_keyword, keywords)))
    raise ValueError("this is not the value of an attribute")


def _keyword(data: object) -> tuple[str, AttributeValue]:
    match data:
        case [str(key), value]:
            return _name(key), _read(value)
    raise ValueError("a key and a value were expected")


def _name(text: str) -> str:
    if not is_safe(text):
        raise ValueError("a name in it cannot be written")
    return text
