"""Remembering what follows from a grammar, for as long as the grammar lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from fgg.grammar import Grammar

P = ParamSpec("P")
R = TypeVar("R")


def per_grammar(
    function: Callable[Concatenate[Grammar, P], R],
) -> Callable[Concatenate[Grammar, P], R]:
    """The function with its results kept in the grammar itself.

    A grammar is frozen, so what follows from it never changes; unlike a global cache this
    neither hashes whole grammars nor keeps them alive.
    """
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def remembered(grammar: Grammar, *args: P.args, **kwargs: P.kwargs) -> R:
        results = grammar.__dict__.setdefault("_remembered", {})
        call = (key, args, tuple(kwargs.items()))
        if call not in results:
            results[call] = function(grammar, *args, **kwargs)
        found: R = results[call]
        return found

    return cast(Callable[Concatenate[Grammar, P], R], remembered)


def remember(function: Callable[[Grammar], object], grammar: Grammar, result: object) -> None:
    """Let a function that is remembered have a result that was found in another way."""
    key = f"{function.__module__}.{function.__qualname__}"
    grammar.__dict__.setdefault("_remembered", {})[(key, (), ())] = result
