"""`identify` tells whether moments of strings determine a grammar's parameters [ID §3].

The compiler makes the plan, and the runtime differentiates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from fgg.api.compile import check_sizes, compilable, selected
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size, with_sizes
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.values import Map

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fgg.plan import Plan
    from fgg.runtime.identify.observations import MomentSet
    from fgg.runtime.identify.parameters import Parameters, Zeros
    from fgg.runtime.identify.prepared_case import Case, Question
    from fgg.runtime.identify.result import Identification

MAX_LENGTH = 1000
EXPECTED_BATCH = 256
MAX_WEIGHT = 1e100
"""The greatest weight of a direction, so that products of weights stay finite in float64."""

Number = int | float | Fraction
Position = int | tuple[str, int]
Length = int | Mapping[str, int]
Lengths = Length | Sequence[Length]


def identify(
    grammar: Grammar,
    query: str | None = None,
    *,
    length: Lengths,
    moments: str = "**",
    positions: Sequence[Position] | None = None,
    direction: Sequence[Number] | int | None = None,
    sizes: Mapping[str, int] | None = None,
    free: Sequence[str] = (),
    weights: Mapping[str, NDArray[np.float64]] | None = None,
    seed: int = 0,
    second: bool = True,
    null: bool = True,
) -> Identification:
    """Whether the moments of strings of a length determine the parameters of a grammar.

    `length` is a number, or a mapping if the grammar has several lengths, `{"n": 3, "m": 2}`. In a
    list of them, the moments of strings of all these lengths are known together.
    `moments` is an observation function: `12`, `**`, `123`, `123e1`, `***`, `***e1` or `all`.
    `positions` replaces it by the joint moments of some tokens, counted from 1; with several
    inputs, a token is `("x", 1)`. `direction` is the η of `123e1` and `***e1`: a weight for each
    value, or the number of one value, counted from 1 (by default the first).

    `free` names factors that have values but are parameters all the same: entries stated as 0 stay
    0. With `weights` the question is about these alone, and their zeros stay zero.

    The rank is exact, at a random point of a prime field that `seed` draws. `second` adds the rank
    in float64, and `null` the factors and directions that are not determined. Raises GrammarError
    for wrong arguments. Strings that are too short for the moments are no error: the verdict is
    `undefined`.
    """
    model = model_of(grammar, query, sizes, free, weights)
    name = moments if positions is None else ",".join(map(_written, positions))
    results = model.identify(
        length,
        [moments] if positions is None else [],
        positions=positions,
        direction=direction,
        seed=seed,
        second=second,
        null=null,
    )
    return results[name]


def model_of(
    grammar: Grammar,
    query: str | None = None,
    sizes: Mapping[str, int] | None = None,
    free: Sequence[str] = (),
    weights: Mapping[str, NDArray[np.float64]] | None = None,
) -> IdentificationModel:
    """A grammar joined with a query, with its plan and parameters. Raises GrammarError."""
    if not isinstance(grammar, Grammar):
        raise TypeError("a grammar is expected: `fgg.identify(fgg.load(…), length=3)`")
    check_sizes(grammar, sizes or {})
    source = selected(with_sizes(grammar, sizes or {}), query)
    if query is None and len(grammar.queries) == 1:
        query = grammar.queries[0].name
    check_inputs(source)
    from fgg.compiler.driver import Expected, plan_of
    from fgg.runtime.identify.parameters import parameters_of, with_point

    source, zeros = _freed(source, free)
    parameters, bad = parameters_of(source, zeros)
    if bad:
        raise GrammarError([unnormalised(source, name) for name in dict.fromkeys(bad)])
    if weights is not None:
        parameters = with_point(parameters, weights)
    decomposed = any(f.rank is not None and f.value is None for f in source.factors)
    with compilable(grammar.name):
        expected = Expected(length=8, batch=EXPECTED_BATCH)
        # Soft words know no single block, so nothing is taken as known.
        plan = plan_of(source, expected, "state" if decomposed else "dense", pinned=False)
    return IdentificationModel(grammar.name, query, source, plan, parameters)


def _freed(grammar: Grammar, names: Sequence[str]) -> tuple[Grammar, Zeros]:
    """The grammar without the values of some factors, and which of their entries are zero."""
    from fgg.runtime.identify.parameters import zeros_of

    zeros: dict[str, frozenset[tuple[int, ...]]] = {}
    for name in names:
        if name not in grammar.factor:
            help = did_you_mean(name, grammar.factor)
            refuse("F415", f"there is no factor `{name}` to be free", help)
        factor = grammar.factor[name]
        if factor.value is None or factor.given is None or isinstance(factor.value, Map):
            help = "parameters without a value are free as they are"
            refuse("F415", f"`{name}` is not a distribution with a value", help)
        zeros[name] = zeros_of(grammar, name)
    factors = tuple(replace(f, value=None) if f.name in zeros else f for f in grammar.factors)
    return replace(grammar, factors=factors), zeros


def check_inputs(grammar: Grammar) -> None:
    """Raise GrammarError (F453) unless all that is observed are strings."""
    problem = ""
    if not grammar.inputs:
        problem = "no string is observed"
    for table in grammar.tables:
        problem = f"`{table.name}` is a table of indices, not a string"
    for factor in grammar.input_factors:
        problem = f"`{factor.name}` are log-potentials, not a string"
    for item in grammar.inputs:
        if len(item.shape) != 1:
            problem = f"`{item.name}` has {len(item.shape)} indices; a string has one"
    if problem:
        help = "moments are those of strings: choose another query"
        if len(grammar.queries) or not grammar.inputs:
            help = "a query with an input like `w: W[n]` is needed"
        refuse("F453", problem, help)


def unnormalised(grammar: Grammar, name: str) -> Diagnostic:
    """The error (F450) that a factor has neither an arrow nor a value."""
    factor = grammar.factor[name]
    domains = ", ".join(factor.domains)
    if factor.blocks is not None:
        message = f"factor `{name}({domains})` is normalised within blocks, which is not supported"
        return Diagnostic(
            code="F450",
            message=message,
            span=factor.span,
            help="`fggc identify` needs rows that are distributions; leave `blocks` out",
        )
    *given, last = factor.domains or ("",)
    arrow = f"{', '.join(given)} -> {last}".strip()
    return Diagnostic(
        code="F450",
        message=f"factor `{name}({domains})` is not normalised",
        span=factor.span,
        help=f"declare a distribution, `factor {name}({arrow})`, or give it a value",
    )


@dataclass(frozen=True, eq=False)
class IdentificationModel:
    """A grammar joined with its query, its plan for all lengths, and its parameters."""

    name: str
    query: str | None
    grammar: Grammar
    plan: Plan
    parameters: Parameters

    def identify(
        self,
        length: Lengths,
        moments: Sequence[str],
        *,
        positions: Sequence[Position] | None = None,
        direction: Sequence[Number] | int | None = None,
        seed: int = 0,
        second: bool = True,
        null: bool = True,
    ) -> dict[str, Identification]:
        """The identifications from several observation functions, by name."""
        from fgg.runtime.identify.run import Wanted, identify, undefined

        cases = self._cases(length, direction)
        check_moments(moments)
        observed = {name: _parts(cases, name) for name in moments}
        if positions is not None:
            observed[",".join(map(_written, positions))] = _chosen(cases, positions)
        if all(parts is None for parts in observed.values()):
            return {name: undefined(cases, name, self.query) for name in observed}
        return identify(cases, observed, seed, Wanted(second=second, null=null), self.query)

    def question(
        self, length: Lengths, observed: str, direction: Sequence[Number] | int | None
    ) -> Question:
        """The moments that an observation function is of, also those of positions, `1,3`."""
        from fgg.runtime.identify.observations import is_name
        from fgg.runtime.identify.prepared_case import Question

        cases = self._cases(length, direction)
        if is_name(observed):
            parts = _parts(cases, observed)
        else:
            names = [part.rpartition(":") for part in observed.split(",")]
            parts = _chosen(cases, [(name, int(n)) if name else int(n) for name, _, n in names])
        if parts is None:
            refuse("F451", f"strings are too short for the moments `{observed}`")
        return Question(tuple(cases), parts, 0)

    def _cases(self, length: Lengths, direction: Sequence[Number] | int | None) -> list[Case]:
        """A case for each length."""
        from fgg.runtime.identify.prepared_case import Case

        eta = check_direction(self.grammar, direction)
        given = [length] if isinstance(length, int | Mapping) else list(length)
        lengths = [self._lengths(item) for item in given]
        if not lengths or any(item in lengths[:i] for i, item in enumerate(lengths)):
            refuse("F411", "at least one length is needed, and none twice")
        return [
            Case(self.name, self.grammar, self.plan, self.parameters, item, eta) for item in lengths
        ]

    def _lengths(self, length: Length) -> dict[str, int]:
        names = sorted(length_names(self.grammar))
        lengths = dict(length) if isinstance(length, Mapping) else dict.fromkeys(names, length)
        for name in lengths:
            if name not in names:
                help = did_you_mean(name, names)
                message = f"there is no length `{name}`"
                refuse("F411", message, help)
        for name in names:
            value = lengths.get(name)
            if value is None:
                refuse("F301", f"length `{name}` is not given")
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                refuse("F411", f"length `{name}` must be a whole number from 1 up")
            if value > MAX_LENGTH:
                refuse("F411", f"length `{name}` is {value:,}; {MAX_LENGTH:,} is the greatest")
        return lengths


def _parts(cases: Sequence[Case], name: str) -> tuple[tuple[MomentSet, ...], ...] | None:
    """The moments of an observation function for each case; None where strings are too short."""
    from fgg.runtime.identify.observations import parts_of

    parts = [parts_of(name, len(case.tokens)) for case in cases]
    known = tuple(some for some in parts if some is not None)
    return known if len(known) == len(parts) else None


def _chosen(
    cases: Sequence[Case], positions: Sequence[Position]
) -> tuple[tuple[MomentSet, ...], ...]:
    """The joint moments of some positions, for each case."""
    from fgg.runtime.identify.observations import KeptTokens

    sets = []
    for case in cases:
        chosen = tuple(_place(case, position) for position in positions)
        if len(set(chosen)) != len(chosen) or not chosen:
            refuse("F456", "at least one position is needed, and none twice")
        sets.append((KeptTokens(chosen),))
    return tuple(sets)


def check_direction(grammar: Grammar, given: Sequence[Number] | int | None) -> list[Number] | int:
    """η as `Case` takes it. Raises GrammarError (F456) if it does not fit the grammar's words."""
    domains = {item.domain: domain_size(grammar, item.domain) for item in grammar.inputs}
    if given is None or isinstance(given, int):
        number = 1 if given is None else given
        for domain, size in domains.items():
            if not 1 <= number <= size:
                refuse("F456", f"`{domain}` has values 1 to {size}, not {number}")
        return number - 1
    direction = list(given)
    for domain, size in domains.items():
        if len(direction) != size:
            refuse(
                "F456", f"the direction has {len(direction)} weights; `{domain}` has {size} values"
            )
    if not all(-MAX_WEIGHT <= weight <= MAX_WEIGHT for weight in direction):
        refuse("F456", f"the weights of a direction are numbers up to {MAX_WEIGHT:.0e}")
    if not any(float(weight) for weight in direction):
        refuse("F456", "the direction is zero")
    return direction


def check_moments(moments: Sequence[str]) -> None:
    """Raise GrammarError (F452) for unknown observation functions."""
    from fgg.runtime.identify.observations import NAMES, is_name

    for name in moments:
        if not is_name(name):
            known = ", ".join(f"`{n}`" for n in NAMES)
            help = f"there are {known}; `--positions 1,3` keeps any positions"
            message = f"there is no observation function `{name}`"
            refuse("F452", message, help)


def too_short(result: Identification) -> Diagnostic:
    """The error (F451) that strings are too short for the moments."""
    from fgg.runtime.identify.observations import needed_tokens
    from fgg.runtime.identify.result import written

    lengths = " and ".join(map(written, result.lengths))
    return Diagnostic(
        code="F451",
        message=f"strings of length {lengths} are too short for the moments `{result.observed}`",
        help=f"these need {needed_tokens(result.observed)} tokens",
    )


def _place(case: Case, position: Position) -> int:
    """Which token a position is, from 0."""
    if isinstance(position, tuple):
        name, number = position
        if name not in case.grammar.input:
            help = did_you_mean(name, case.grammar.input)
            refuse("F456", f"there is no input `{name}`", help)
        places = [i for i, token in enumerate(case.tokens) if token.input == name]
    else:
        name, number = "", position
        places = list(range(len(case.tokens)))
    if not 1 <= number <= len(places):
        of = f" of `{name}`" if name else ""
        refuse("F456", f"there is no position {number}{of}: positions are 1 to {len(places)}")
    return places[number - 1]


def _written(position: Position) -> str:
    return str(position) if isinstance(position, int) else f"{position[0]}:{position[1]}"
