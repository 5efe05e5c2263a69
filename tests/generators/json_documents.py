"""A small document in the JSON format, and ways to change and read it."""

from __future__ import annotations

import copy
from typing import Any

from fgg.grammar import Grammar
from fgg.grammar.values import Value
from fgg.json import from_json, read_json_text

Json = dict[str, Any]

COIN: Json = {
    "grammar": {
        "terminals": {"coin": {"type": ["B"]}, "same": {"type": ["B", "B"]}},
        "nonterminals": {"S": {"type": []}, "X": {"type": ["B"]}},
        "start": "S",
        "rules": [
            {
                "lhs": "S",
                "rhs": {
                    "nodes": [{"label": "B", "id": "a"}],
                    "edges": [
                        {"label": "coin", "attachments": [0]},
                        {"label": "X", "attachments": [0]},
                    ],
                },
            },
            {
                "lhs": "X",
                "rhs": {
                    "nodes": [{"label": "B"}, {"label": "B"}],
                    "edges": [{"label": "same", "attachments": [0, 1]}],
                    "externals": [1],
                },
            },
        ],
    },
    "interpretation": {
        "domains": {"B": {"class": "finite", "values": ["heads", "tails"]}},
        "factors": {
            "coin": {"function": "finite", "weights": [0.25, 0.75]},
            "same": {"function": "finite", "weights": [[1, 0], [0, 2]]},
        },
    },
}


def read(data: object, **sizes: int) -> Grammar:
    grammar, diagnostics = from_json(data, domain_sizes=sizes)
    assert grammar is not None, diagnostics
    return grammar


def problems(data: object, **sizes: int) -> list[tuple[str, str]]:
    grammar, diagnostics = from_json(data, domain_sizes=sizes)
    assert (grammar is None) == any(d.is_error for d in diagnostics)
    return [(d.code, d.message) for d in diagnostics]


def text_problems(text: str) -> list[tuple[str, str]]:
    grammar, diagnostics = read_json_text(text)
    assert grammar is None
    return [(d.code, d.message) for d in diagnostics]


def changed(path: str, value: object) -> Json:
    """COIN with another value at a path such as `grammar.rules.0.lhs`; None deletes it."""
    data = copy.deepcopy(COIN)
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place: Any = data
    for key in keys:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return data


def one_factor(weights: object, *sizes: int, **extras: object) -> Json:
    """A document with a single rule and a single terminal over domains of the given sizes."""
    labels = [f"D{i}" for i in range(len(sizes))]
    return {
        "grammar": {
            "terminals": {"f": {"type": labels, **extras}},
            "nonterminals": {"S": {"type": labels}},
            "start": "S",
            "rules": [
                {
                    "lhs": "S",
                    "rhs": {
                        "nodes": [{"label": label} for label in labels],
                        "edges": [{"label": "f", "attachments": [*range(len(sizes))]}],
                        "externals": [*range(len(sizes))],
                    },
                }
            ],
        },
        "interpretation": {
            "domains": {
                label: {"class": "range", "size": size}
                for label, size in zip(labels, sizes, strict=True)
            },
            "factors": {"f": {"function": "finite", "weights": weights}},
        },
    }


def value_of(weights: object, *sizes: int, **extras: object) -> Value | None:
    return read(one_factor(weights, *sizes, **extras)).factor["f"].value
