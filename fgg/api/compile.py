"""Compile: from a grammar and a query to a program. Joins the compiler to the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse, render_all
from fgg.grammar import Grammar
from fgg.grammar.domains import with_domain_size, with_sizes
from fgg.grammar.provenance import traced
from fgg.rewrite.conjoin import conjoin

if TYPE_CHECKING:
    from fgg.plan import Plan
    from fgg.runtime.program.program import Asked, Program


def compile(
    grammar: Grammar,
    query: str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    space: str = "auto",
    length: int = 32,
    batch: int = 16,
    fallback: bool = True,
    jit: bool = False,
) -> Program:
    """The program of a grammar joined with a query (the only one, if none is named).

    `space` says what becomes of factors of declared rank: `dense` takes them as they are, `state`
    as the pieces that they are products of, `rank` sums the states beforehand (and raises
    GrammarError if that cannot be); `auto` takes what has the least to do, and asks other spaces
    where the best one has no answer.

    `length` and `batch` are what the cost model expects; any lengths and batches can be given to
    the program. A grammar that has no schedule gets a program that runs on the reference engine,
    with a warning (F434) that says why; without `fallback` it raises GrammarError (F425).

    With `jit` the inside and outside passes run on the processor as machine code, which a C++
    compiler makes when they are first needed. On other devices, and where there is no compiler
    (with a warning, F435), they are tensor operations as without it.
    """
    if not isinstance(grammar, Grammar):
        raise TypeError("a grammar is expected: `fgg.compile(fgg.load(…))`")
    if length < 1 or batch < 1:
        raise ValueError("the length and the batch to expect are at least 1")
    if space not in ("auto", "dense", "state", "rank"):
        message = f"there is no space `{space}`"
        help = "spaces are `auto`, `dense`, `state` and `rank`"
        refuse("F415", message, help)
    check_sizes(grammar, sizes or {})
    from fgg.runtime.program.program import Asked

    model = with_sizes(grammar, sizes or {})
    options: dict[str, Any] = {
        "space": space,
        "length": length,
        "batch": batch,
        "fallback": fallback,
        "jit": jit,
    }
    again = partial(compile, model, **options)
    resized = partial(_resized, model, query, options)
    asked = Asked(model, query or only_query(model), space, again, resized)
    try:
        return replace(compiled(model, query, None, length, batch, space, jit=jit), asked=asked)
    except GrammarError as error:
        if not fallback or space == "rank" or error.diagnostics[0].code != "F425":
            raise
        return on_reference(selected(model, query), error, asked)


def _resized(
    model: Grammar, query: str | None, options: Mapping[str, Any], domain: str, size: int
) -> Program:
    """The program of a grammar in which a domain has another size."""
    return compile(with_domain_size(model, domain, size), query, **options)


def check_sizes(grammar: Grammar, sizes: Mapping[str, int]) -> None:
    """Raise GrammarError (F410) for sizes that the grammar does not have, or that are none."""
    problems = []
    for name, value in sizes.items():
        if name not in grammar.size:
            help = did_you_mean(name, grammar.size)
            message = f"`{grammar.name}` has no size `{name}`"
            problems.append(Diagnostic(code="F410", message=message, help=help))
        elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
            message = f"size `{name}` must be a whole number from 1 up"
            problems.append(Diagnostic(code="F410", message=message))
    if problems:
        raise GrammarError(problems)


def only_query(grammar: Grammar) -> str | None:
    """The name of a grammar's query, if it has one."""
    return grammar.queries[0].name if len(grammar.queries) == 1 else None


def on_reference(grammar: Grammar, error: GrammarError, asked: Asked) -> Program:
    """A program on the reference engine, and the warning that it is one."""
    from warnings import warn

    from fgg.compiler.passes.cpd import cpd
    from fgg.runtime.program.reference import ReferenceProgram

    reason = error.diagnostics[0].message
    note = Diagnostic(code="F434", message=f"{reason}; it runs on the reference engine")
    warn(render_all([note], None), stacklevel=3)
    decomposed = cpd(grammar)
    return ReferenceProgram(
        grammar, (note,), asked, decomposed=None if decomposed is grammar else decomposed
    )


def compiled(
    grammar: Grammar,
    query: str | None,
    sizes: Mapping[str, int] | None,
    length: int,
    batch: int,
    space: str,
    *,
    pinned: bool = True,
    jit: bool = False,
) -> Program:
    """The compiled program of a grammar. Raises GrammarError (F425) if it has none."""
    from fgg.compiler.cost.choose import choose
    from fgg.compiler.driver import Expected, plan_of
    from fgg.compiler.emit.cpp import native
    from fgg.compiler.emit.python import emit
    from fgg.compiler.passes.cpd import cpd
    from fgg.runtime.program.program import Program

    source = selected(with_sizes(grammar, sizes or {}), query)
    expected = Expected(length, batch)
    with compilable(grammar.name):
        if space == "auto":
            choice = choose(source, expected, pinned=pinned)
            found, main = choice.space, choice.plan
        else:
            found, main = space, plan_of(source, expected, space, pinned=pinned)
    decomposed = cpd(source)
    return Program(
        grammar=source,
        plan=main,
        trees=partial(tree_plan, source, length, batch, tied=not pinned),
        source=emit(main),
        decomposed=None if decomposed is source else decomposed,
        space=found,
        strict=space == "rank",
        in_space=partial(compiled, source, None, None, length, batch, pinned=pinned, jit=jit),
        known_trees=partial(tree_plan, source, length, batch, pinned=True),
        unpinned=partial(for_missing, source, length, batch, found, jit=jit),
        emit=emit,
        native=native if jit else None,
        shapes=partial(shapes, source, length, batch),
    )


def for_missing(grammar: Grammar, length: int, batch: int, space: str, *, jit: bool) -> Program:
    """The program of a grammar without queries that takes batches with missing tokens.

    Where its rules cannot go to rank space it is in state space, which has the same parameters.
    """
    build = partial(compiled, grammar, None, None, length, batch, pinned=False, jit=jit)
    try:
        return build(space)
    except GrammarError:
        if space != "rank":
            raise
        return build("state")


def tree_plan(
    grammar: Grammar, length: int, batch: int, *, pinned: bool = False, tied: bool = False
) -> Plan | None:
    """The plan that the derivations of a grammar are read from, if they can be told apart.

    If it is to be `pinned`, it is for batches without missing tokens; if `tied`, for those with.
    """
    from fgg.compiler.passes.close import close
    from fgg.compiler.passes.pin import pin
    from fgg.compiler.passes.split import split
    from fgg.compiler.passes.tie import tie
    from fgg.compiler.plan.derivation_plan import plan_of_trees

    with compilable(grammar.name):
        source = traced(grammar)
        closed = close(source)
        # Derivations begin with the user's own start symbol, unless its nodes would be split.
        trees = split(closed) if closed is source else unclosed(source)
        if pinned and trees is not None:
            trees = pin(trees, whole=True)
        if tied and trees is not None:
            trees = tie(trees)
        return None if trees is None else plan_of_trees(trees, length=length, batch=batch)


def shapes(grammar: Grammar, length: int, batch: int) -> Plan:
    """The plan of a grammar's outline."""
    from fgg.compiler.passes.outline import outline
    from fgg.compiler.passes.split import split
    from fgg.compiler.plan.derivation_plan import plan_of_trees

    with compilable(grammar.name):
        atomic = split(outline(traced(grammar)))
        return plan_of_trees(atomic, length=length, batch=batch)


def unclosed(grammar: Grammar) -> Grammar | None:
    """The grammar with atomic nodes and its own start symbol, if that can be."""
    from fgg.compiler.passes.split import SplitImpossible, split

    try:
        return split(grammar)
    except SplitImpossible:
        return None


@contextmanager
def compilable(name: str) -> Iterator[None]:
    """What the compiler refuses in this context is an error of the grammar (F425)."""
    from fgg.compiler.passes.split import SplitImpossible
    from fgg.compiler.plan.lower import CannotCompile
    from fgg.compiler.rank.uses import NotRankSpace

    try:
        yield
    except NotRankSpace as error:
        message = f"`{name}` cannot go to rank space: {error}"
        help = "`--space state` takes it as it is, `--space auto` what can be and is cheapest"
        refuse("F425", message, help)
    except (CannotCompile, SplitImpossible) as error:
        rule = error.rule if isinstance(error, CannotCompile) else None
        refuse(
            "F425",
            f"`{name}` cannot be compiled: {error}",
            "`fgg.solve(fgg.ground(…))` and `fggc run` use the reference engine",
            span=None if rule is None else rule.span,
        )


def selected(grammar: Grammar, query: str | None) -> Grammar:
    """The grammar joined with a query, or as it is if it has none."""
    if query is None:
        if len(grammar.queries) > 1:
            names = ", ".join(f"`{q}`" for q in grammar.query)
            message = f"`{grammar.name}` has several queries: say which"
            refuse("F409", message, f"it has {names}")
        if not grammar.queries:
            return grammar
        query = grammar.queries[0].name
    if query not in grammar.query:
        known = ", ".join(f"`{q}`" for q in grammar.query)
        message = f"`{grammar.name}` has no query `{query}`"
        help = did_you_mean(query, grammar.query) or f"it has {known or 'none'}"
        refuse("F409", message, help)
    return conjoin(grammar, grammar.query[query])
