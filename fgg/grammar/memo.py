"""Functions of a grammar that compute each result once, for as long as the grammar lives."""

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
    """The function with its results kept in `Grammar.memo`.

    A grammar is frozen, so what follows from it never changes. Unlike a global cache this neither
    hashes whole grammars nor keeps them alive. Arguments should name parts of the grammar, so that
    there are no more results than parts.
    """
    key = _key(function)

    @wraps(function)
    def remembered(grammar: Grammar, *args: P.args, **kwargs: P.kwargs) -> R:
        results = grammar.memo
        call = (key, args, *kwargs.items())
        if call not in results:
            results[call] = function(grammar, *args, **kwargs)
        return cast(R, results[call])

    return cast(Callable[Concatenate[Grammar, P], R], remembered)


def remember(function: Callable[[Grammar], object], grammar: Grammar, result: object) -> None:
    """Set the result that a `per_grammar` function has for a grammar."""
    grammar.memo[(_key(function), ())] = result


def _key(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
