"""Compile: from a grammar and a query to a program. Joins the compiler to the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fgg.conjoining import conjoin
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.domains import with_sizes
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.runtime.program import Program


def compile(
    grammar: Grammar,
    query: str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    length: int = 32,
    batch: int = 16,
) -> Program:
    """The program of a grammar joined with a query (the only one, if none is named).

    `length` and `batch` are what the cost model expects; any lengths and batches can be given to
    the program. Raises GrammarError (F425) for a grammar that has no schedule: the reference
    engine, `fgg.solve`, can still solve it.
    """
    from fgg.compiler.driver import PASSES, Expected, after
    from fgg.compiler.emit import emit
    from fgg.compiler.lower import plan
    from fgg.compiler.passes.close import close
    from fgg.compiler.passes.split import split_with_origin
    from fgg.runtime.program import Program

    source = selected(with_sizes(grammar, sizes or {}), query)
    with compilable(grammar.name):
        closed, summing = close(source)
        atomic, origins = split_with_origin(closed)
        origins = {name: rule for name, rule in origins.items() if rule.source != summing}
        tree_plan = plan(atomic, length=length, batch=batch)
        folded = after(atomic, PASSES[-1].name, Expected(length, batch))
        main = tree_plan if folded is atomic else plan(folded, length=length, batch=batch)
    return Program(
        grammar=source, plan=main, tree_plan=tree_plan, origins=origins, source=emit(main)
    )


@contextmanager
def compilable(name: str) -> Iterator[None]:
    """What the compiler refuses in this context is an error of the grammar (F425)."""
    from fgg.compiler.lower import CannotCompile
    from fgg.compiler.passes.split import SplitImpossible

    try:
        yield
    except (CannotCompile, SplitImpossible) as error:
        raise GrammarError(
            [
                Diagnostic(
                    code="F425",
                    message=f"`{name}` cannot be compiled: {error}",
                    help="`fgg.solve(fgg.ground(…))` and `fggc run` use the reference engine",
                )
            ]
        ) from None


def selected(grammar: Grammar, query: str | None) -> Grammar:
    """The grammar joined with a query, or as it is if it has none."""
    if query is None:
        if len(grammar.queries) > 1:
            names = ", ".join(f"`{q}`" for q in grammar.query)
            message = f"`{grammar.name}` has several queries: say which"
            raise GrammarError([Diagnostic(code="F409", message=message, help=f"it has {names}")])
        if not grammar.queries:
            return grammar
        query = grammar.queries[0].name
    if query not in grammar.query:
        known = ", ".join(f"`{q}`" for q in grammar.query)
        message = f"`{grammar.name}` has no query `{query}`"
        help = did_you_mean(query, grammar.query) or f"it has {known or 'none'}"
        raise GrammarError([Diagnostic(code="F409", message=message, help=help)])
    return conjoin(grammar, grammar.query[query])
