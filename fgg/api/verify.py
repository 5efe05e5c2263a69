"""`verify` checks that the compiler preserves the meaning of a grammar.

The yardstick is the source grammar on the reference engine. The grammar after every pass and the
plan of every space are compared with it exactly, the emitted programs in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fgg.api.compile import check_sizes, compilable, selected
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.grammar import Grammar
from fgg.grammar.domains import size_values, with_sizes
from fgg.plan.backend import AUTO, CPP, TORCH, check_backend
from fgg.rewrite.small_sizes import Small, small_sizes

if TYPE_CHECKING:
    from fgg.compiler.driver import Pass
    from fgg.runtime.program.program import Program
    from fgg.runtime.verify.compared_sides import Side
    from fgg.runtime.verify.result import Comparison, LeftOut, Verification

TRIALS = 4
LENGTH = 4
ITEMS = 40
"""About how many inputs are tried."""
MAX_LENGTH = 1000

Sized = Callable[[Mapping[str, int]], "Side"]
"""A side of a comparison with some sizes set."""


@dataclass(frozen=True)
class Candidate:
    """A side to compare with the source: its name, its space, and how to make it."""

    what: str
    space: str
    side: Sized


@dataclass(frozen=True)
class Sides:
    """The sides to compare exactly, the spaces of programs to compare, and the omissions."""

    candidates: tuple[Candidate, ...]
    programs: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    unchanged: tuple[str, ...]


def verify(
    grammar: Grammar,
    query: str | Grammar | None = None,
    *,
    against: Grammar | None = None,
    sizes: Mapping[str, int] | None = None,
    space: str | None = None,
    after: str | None = None,
    trials: int = TRIALS,
    length: int = LENGTH,
    items: int = ITEMS,
    seed: int = 0,
    floats: bool = True,
    peaked: bool = True,
    backend: str = AUTO,
    pipelines: Mapping[str, Sequence[Pass]] | None = None,
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[Comparison], None] | None = None,
) -> Verification:
    """Compare a grammar, joined with a query, with its compiled forms.

    `space` and `after` restrict that to a space or a pass. With another grammar, as `against` or in
    the place of the query, the two grammars are compared instead. Sizes that `sizes` does not give
    are made small. There are `trials` random points of prime fields, and about `items` inputs of
    lengths up to `length`; programs also get long inputs with `peaked` weights. With the backend
    `cpp`, programs are compared as machine code; `auto` means tensor operations here, as there is
    little to compute. `pipelines` are passes to check in place of those of some spaces.
    `progress(done, total)` is called after each piece of work, `report` with each comparison that
    is made. Raises GrammarError for wrong arguments; a difference is no error, but the `verdict`.
    """
    from fgg.runtime.verify.run import run

    if isinstance(query, Grammar):
        against, query = query, None
    _check(grammar, sizes or {}, space, after, trials, length, items, backend)
    source = selected(with_sizes(grammar, sizes or {}), query)
    if against is None:
        small = small_sizes(source, sizes or {})
        source = with_sizes(source, small.structure)
        compared = sides(source, spaces(space, after), after, small.states, pipelines or {})
    else:
        check_sizes(against, {n: v for n, v in (sizes or {}).items() if n in against.size})
        other = selected(with_sizes(against, sizes or {}), query)
        check_inputs(source, other)
        small = small_sizes(source, sizes or {})
        if size_values(source) != size_values(other):
            small = Small()
        source, other = (with_sizes(g, small.structure) for g in (source, other))
        candidate = Candidate(against.name, "", ground_side(other))
        compared = Sides((candidate,), (), (), ())
    return run(
        source,
        name=grammar.name,
        states=small.states,
        free=small.free,
        shrunk={**small.structure, **small.states},
        compared=[(c.what, c.space, c.side) for c in compared.candidates],
        programs={name: program_maker(name, backend) for name in compared.programs},
        left_out=compared.left_out,
        unchanged=compared.unchanged,
        trials=trials,
        length=length,
        number=items,
        seed=seed,
        floats=floats,
        logs=against is not None,
        peaked=peaked,
        progress=progress or (lambda done, total: None),
        report=report or (lambda row: None),
    )


def _check(
    grammar: Grammar,
    sizes: Mapping[str, int],
    space: str | None,
    after: str | None,
    trials: int,
    length: int,
    items: int,
    backend: str,
) -> None:
    from fgg.compiler.driver import CONJOIN, PIPELINES

    if not isinstance(grammar, Grammar):
        raise TypeError("a grammar is expected: `fgg.verify(fgg.load(…))`")
    check_sizes(grammar, sizes)
    check_backend(backend)
    problems = []
    for name, value, top in (("trials", trials, 1000), ("length", length, MAX_LENGTH)):
        if not 1 <= value <= top:
            problems.append(f"`{name}` must be a number from 1 to {top:,}")
    if items < 1:
        problems.append("`items` must be a number from 1 up")
    if space not in (None, "auto", *PIPELINES):
        problems.append(f"there is no space `{space}`; spaces are {_listed(PIPELINES)}")
    passes = dict.fromkeys(item.name for pipeline in PIPELINES.values() for item in pipeline)
    if after == CONJOIN:
        problems.append(f"`{CONJOIN}` makes the source, with which all others are compared")
    elif after is not None and after not in passes:
        hint = did_you_mean(after, passes) or f"passes are {_listed(passes)}"
        problems.append(f"there is no pass `{after}`: {hint}")
    elif after is not None and not spaces(space, after):
        problems.append(f"there is no pass `{after}` in the space `{space}`")
    if backend == CPP:
        from fgg.runtime.native.build import no_compiler

        if reason := no_compiler():
            problems.append(f"machine code cannot be compared: {reason}")
    if problems:
        raise GrammarError([Diagnostic(code="F415", message=message) for message in problems])


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# what is compared


def spaces(space: str | None, after: str | None) -> tuple[str, ...]:
    """The spaces to compare: the one that is named, or all that have the pass."""
    from fgg.compiler.driver import PIPELINES

    return tuple(
        name
        for name, pipeline in PIPELINES.items()
        if space in (None, "auto", name) and (not after or after in {p.name for p in pipeline})
    )


def sides(
    source: Grammar,
    names: Sequence[str],
    after: str | None = None,
    sizes: Mapping[str, int] | None = None,
    pipelines: Mapping[str, Sequence[Pass]] | None = None,
) -> Sides:
    """The grammar after each pass, the plan and the program of each space, at some sizes."""
    from fgg.runtime.verify.compared_sides import known_of
    from fgg.runtime.verify.result import LeftOut

    seen: list[Grammar] = [source]
    known: list[Grammar] = []  # those with plans
    candidates: list[Candidate] = []
    programs: list[str] = []
    left_out: list[LeftOut] = []
    unchanged: dict[str, list[str]] = {}
    for space in names:
        last = None
        try:
            for name, grammar in rewritten(source, space, (pipelines or {}).get(space)):
                last = grammar
                if grammar in seen:
                    if grammar is seen[-1] and after in (None, name):
                        unchanged.setdefault(space, []).append(name)
                    continue
                seen.append(grammar)
                if after in (None, name):
                    candidates.append(Candidate(f"after {name}", space, ground_side(grammar)))
        except GrammarError as error:
            left_out.append(LeftOut(f"space {space}", error.diagnostics[0].message))
            continue
        assert last is not None
        if after is None and last in known:
            unchanged.setdefault(space, []).append("plan and program")
        elif after is None:
            known.append(last)
            planned = plan_side(last, source.name, hoist=space == "rank")
            try:
                planned(sizes or {})
            except GrammarError as error:
                reason = error.diagnostics[0].message
                left_out.append(LeftOut(f"plan and program, space {space}", reason))
            else:
                candidates.append(Candidate("plan", space, planned))
                if known_of(source, last):
                    what, tied = "plan, missing tokens", tied_side(source, space)
                    try:
                        tied(sizes or {})
                    except GrammarError as error:
                        reason = error.diagnostics[0].message
                        left_out.append(LeftOut(f"{what}, space {space}", reason))
                    else:
                        candidates.append(Candidate(what, space, tied))
                programs.append(space)
    same = tuple(f"{space}: {', '.join(passes)}" for space, passes in unchanged.items())
    return Sides(tuple(candidates), tuple(programs), tuple(left_out), same)


def rewritten(
    source: Grammar, space: str, pipeline: Sequence[Pass] | None = None
) -> Iterator[tuple[str, Grammar]]:
    """The grammar after each pass of a space, with the pass's name. Raises GrammarError (F425)."""
    from fgg.compiler.driver import CONJOIN, Expected, passed

    with compilable(source.name):
        for name, grammar in passed(source, Expected(), space, pipeline=pipeline):
            if name != CONJOIN:
                yield name, grammar


def ground_side(grammar: Grammar) -> Sized:
    """A grammar on the reference engine, at any sizes."""
    from fgg.runtime.verify.compared_sides import GroundSide

    return lambda sizes: GroundSide(with_sizes(grammar, sizes))


def plan_side(grammar: Grammar, name: str, *, hoist: bool = False) -> Sized:
    """The plan of a grammar that all passes have seen. Raises GrammarError (F425)."""
    from fgg.compiler.plan.lower import plan
    from fgg.runtime.verify.compared_sides import PlanSide

    known: dict[tuple[tuple[str, int], ...], Side] = {}

    def made(sizes: Mapping[str, int]) -> Side:
        key = tuple(sizes.items())
        if key not in known:
            with compilable(name):
                known[key] = PlanSide(plan(with_sizes(grammar, sizes), hoist=hoist))
        return known[key]

    return made


def tied_side(source: Grammar, space: str) -> Sized:
    """The plan of a grammar for batches with missing tokens. Raises GrammarError (F425)."""
    from fgg.compiler.driver import Expected, plan_of
    from fgg.runtime.verify.compared_sides import PlanSide

    def made(sizes: Mapping[str, int]) -> Side:
        with compilable(source.name):
            plan = plan_of(with_sizes(source, sizes), Expected(), space, pinned=False)
        return PlanSide(plan, tied=True)

    return made


def program_maker(space: str, backend: str = TORCH) -> Callable[[Grammar], Program]:
    """How the program of a grammar joined with its query is made in a space."""
    from fgg.api.compile import compile

    fixed = TORCH if backend == AUTO else backend
    return partial(compile, space=space, fallback=False, backend=fixed)


def check_inputs(one: Grammar, two: Grammar) -> None:
    """Raise GrammarError (F304) if two grammars do not have the same inputs."""
    problems = []
    for kind in ("input", "table", "input_factor"):
        mine, other = getattr(one, kind), getattr(two, kind)
        for name in dict.fromkeys((*mine, *other)):
            if name not in mine or name not in other:
                owner = one.name if name in mine else two.name
                problems.append(f"only `{owner}` has the input `{name}`")
    if problems:
        raise GrammarError([Diagnostic(code="F304", message=message) for message in problems])
