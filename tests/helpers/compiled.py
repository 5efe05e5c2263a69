"""The library grammars that compile, by name and query, and small sizes for them."""

from functools import cache

import fgg
from fgg.runtime.program.program import Program

SMALL = {
    "d": 4,
    "deletes": 2,
    "dmax": 3,
    "h": 2,
    "inserts": 1,
    "k": 3,
    "labels": 3,
    "letters": 3,
    "lmax": 2,
    "matches": 2,
    "nt": 2,
    "pt": 3,
    "r": 2,
    "substrings": 5,
    "tags": 3,
    "words": 4,
}

UNSCHEDULED = {"branching"}
"""Recursive without indices: only the reference engine solves them."""


def programs() -> list[str]:
    """`grammar` or `grammar:query`, for everything in the library that has a schedule."""
    found = []
    for name in fgg.library.library_names():
        if name in UNSCHEDULED:
            continue
        queries = list(fgg.load(name).query)
        found += [f"{name}:{query}" for query in queries] or [name]
    return found


@cache
def compiled(name: str) -> Program:
    """The program of `grammar:query`, with small sizes."""
    grammar, _, query = name.partition(":")
    sizes = {k: v for k, v in SMALL.items() if k in fgg.load(grammar).size}
    return fgg.compile(fgg.load(grammar, sizes=sizes), query or None)
