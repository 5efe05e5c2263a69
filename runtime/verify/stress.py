"""Laws that the numbers of a program must obey on long and peaked inputs, without an oracle.

Weights are such that states of one cell differ by more than numbers can: nearly the identity,
dialects that never mix, sizes all over the range of a type. Inputs change from one value to another
on the way, so that what is least likely at first is most likely in the end; they are as long as
charts of a few thousand cells allow. There, for any grammar:

- the best derivation weighs no more than all of them, Viterbi <= log Z;
- an event that every derivation has c times is expected c times: uses of factors (the sum of
  weights times gradients), and of cells (marginals). Weights of one order show which events those
  are;
- two independent copies of a derivation, as one start symbol, have twice the log Z;
- float32 and float64 have the same log Z, where both have the weights.

A program may refuse (F427), but no number may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import inf, isfinite, isnan, prod
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import GrammarError
from fgg.grammar import Attachment, Edge, Fragment, Grammar, Node, Nonterminal, Reference, Rule
from fgg.grammar.domains import domain_size
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.names import fresh
from fgg.plan import Plan
from fgg.plan.sizes import environment, extents
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.program.bind import bind
from fgg.runtime.program.program import Program
from fgg.runtime.verify.items import Item, batch_of_items, input_extents, potential_extents
from fgg.runtime.verify.points import FreeArray, FreeWeights, WeightPoint

LENGTHS = (1000, 160, 64, 32, 18, 12, 8, 5, 3)
"""Lengths that are tried, the greatest first."""
SHORT = 18
"""The greatest length with weights that differ much; long ones have weights of one order."""
LONG = 160
"""The greatest length where weights can be chosen; where they are given, only lengths can."""
MAX_CELLS = 5000
"""The most cells, over all charts and tables, of an item."""
CUTS = (5 / 8, 3 / 8)
"""Where items change from one value to another."""
TINY = {torch.float32: 1e-12, torch.float64: 1e-60}
"""The entries off the diagonal of near identities; products of a few of them underflow."""
MAX_LOG = 1000.0
"""Extreme log-potentials lie between this and its negative."""
RANGE = {torch.float32: 1e30, torch.float64: 1e300}
"""Extreme weights lie between this and its inverse."""
TOLERANCES = {torch.float32: 2e-3, torch.float64: 1e-7}
"""Relative to the number, or to one."""
KINDS = ("sticky", "dialects", "extreme")
SURE = 1e-10
"""How near to a whole number an expectation is if all derivations agree on it."""
TYPES = (torch.float64, torch.float32)

REFUSALS = ("F427", "F433")
"""The error codes for items whose numbers leave the range of their type."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Items, weights and a type of numbers to run a program with."""

    kind: str
    dtype: torch.dtype
    items: Sequence[Item]
    point: WeightPoint

    @property
    def name(self) -> str:
        """The setting in a few words."""
        return f"{self.kind} weights in {str(self.dtype).removeprefix('torch.')}"


@dataclass(frozen=True, eq=False)
class Violation:
    """A law that a program's numbers break at a setting, and by how much."""

    setting: Setting
    law: str
    error: float


@dataclass(frozen=True, eq=False)
class ProgramNumbers:
    """A program's numbers at a setting: log Z, `[batch]`, and which items it refuses, `[batch]`.

    `uses` are how often each factor is used, over all items; `cells` how often each cell is, by
    family, `[batch, *indices]`.
    """

    log_z: Tensor
    refused: Tensor
    uses: Mapping[str, float]
    cells: Mapping[str, Tensor]

    @property
    def whole(self) -> bool:
        """Whether all items have derivations, and none is refused."""
        return bool(torch.isfinite(self.log_z).all()) and not bool(self.refused.any())


@dataclass(frozen=True, eq=False)
class Settings:
    """Short items at weights of all kinds, of which the first are flat, and long items."""

    short: Sequence[Setting]
    long: Sequence[Setting]


def settings_of(
    grammar: Grammar, plan: Plan, free: FreeWeights, items: Sequence[Item], rng: np.random.Generator
) -> Settings:
    """The settings for a grammar; if it has tables, with the items given."""
    names = sorted(length_names(grammar))
    wanted = [n for n in LENGTHS if n <= LONG or not free.items]
    fitting = (n for n in wanted if _cells(plan, dict.fromkeys(names, n)) <= MAX_CELLS)
    longest = next(fitting, LENGTHS[-1])
    flat = free.point({leaf.key: stressed(leaf, "flat", torch.float64, rng) for leaf in free.items})

    def made(kind: str, dtype: torch.dtype, length: int, point: WeightPoint) -> Setting:
        # Random tables seldom have derivations.
        if grammar.tables:
            return Setting(kind, dtype, list(items[-2:]), point)
        lengths = dict.fromkeys(names, length)
        cuts = CUTS if names else CUTS[:1]  # a batch without lengths is one item
        long_items = [_item(grammar, lengths, cut, kind, dtype, rng) for cut in cuts]
        return Setting(kind, dtype, long_items, point)

    short = [made("flat", torch.float64, min(longest, SHORT), flat)]
    for kind in KINDS:
        for dtype in TYPES:
            values = {leaf.key: stressed(leaf, kind, dtype, rng) for leaf in free.items}
            short.append(made(kind, dtype, min(longest, SHORT), free.point(values)))
    long = made("flat", torch.float64, longest, flat)
    return Settings(short, [long, replace(long, dtype=torch.float32)])


def _cells(plan: Plan, lengths: Mapping[str, int]) -> int:
    values = environment({name: [n] for name, n in lengths.items()})
    charts = sum(prod(extents(chart, values)) for chart in plan.charts)
    return charts + sum(prod(extents(table, values)) for table in plan.tables)


def _item(
    grammar: Grammar,
    lengths: Mapping[str, int],
    cut: float,
    kind: str,
    dtype: torch.dtype,
    rng: np.random.Generator,
) -> Item:
    """The first value up to a part of each input, and then the last one."""
    inputs: dict[str, NumpyArray] = {}
    for source in grammar.inputs:
        shape = input_extents(grammar, source.shape, lengths)
        last = domain_size(grammar, source.domain) - 1
        first = np.arange(shape[0]) < round(cut * shape[0]) if shape else np.ones(())
        tokens = np.where(first, 0, last).astype(np.int64)
        inputs[source.name] = np.broadcast_to(
            tokens.reshape(-1, *(1,) * (len(shape) - 1)) if shape else tokens, shape
        ).copy()
    for factor in grammar.input_factors:
        if factor.definition is not None:
            continue
        where = potential_extents(grammar, factor, lengths)
        sizes = [domain_size(grammar, d) for d in factor.domains]
        shape = [*where, *sizes]
        if kind == "extreme":
            inputs[factor.name] = rng.uniform(-MAX_LOG, MAX_LOG, size=shape)
            continue
        with np.errstate(divide="ignore"):
            inputs[factor.name] = np.log(_array(tuple(shape), len(where), kind, dtype, rng))
    return Item(lengths, inputs)


def stressed(
    leaf: FreeArray, kind: str, dtype: torch.dtype, rng: np.random.Generator
) -> NumpyArray:
    """Weights of a kind; distributions are normalised, unless they are extreme."""
    array = _array(leaf.shape, 0, kind, dtype, rng)
    if kind == "extreme" and leaf.key[1] is not None:
        return np.power(array, 0.25)  # pieces are multiplied with each other
    if leaf.given is None or kind == "extreme":
        return array
    axes = tuple(range(leaf.given, len(leaf.shape)))
    total = array.sum(axis=axes, keepdims=True)
    weights: NumpyArray = np.divide(array, total, out=np.ones(leaf.shape), where=total > 0)
    return weights


def _array(
    shape: tuple[int, ...],
    indices: int,
    kind: str,
    dtype: torch.dtype,
    rng: np.random.Generator,
) -> NumpyArray:
    """Numbers of a kind over the axes from `indices` on.

    `sticky`: nearly the identity, from one part of each domain to the same part of the others.
    `dialects`: the identity, where all domains are of one size. `extreme`: of any size.
    """
    array = rng.uniform(0.5, 1.0, size=shape)
    if kind == "extreme":
        return RANGE[dtype] ** rng.uniform(-1.0, 1.0, size=shape)
    extents = [n for n in shape[indices:] if n > 1]
    if kind == "flat" or not extents:
        return array
    parts = min(extents)
    places = np.indices(shape[indices:])
    groups = [p * parts // n for p, n in zip(places, shape[indices:], strict=True) if n > 1]
    same = np.all([g == groups[0] for g in groups], axis=0)
    if len(groups) == 1:  # one node: one part of its values
        same = groups[0] == rng.integers(parts)
    other = (
        0.0 if kind == "dialects" and len(groups) > 1 and len(set(extents)) == 1 else TINY[dtype]
    )
    return np.where(same, array, other)


# what a program says


class Stress:
    """A program that runs at settings.

    `best` gives the log-weight of each item's best derivation, -inf where there is none; `twice` is
    the program of two independent copies. `refused` counts the items without an answer.
    """

    def __init__(
        self,
        program: Program,
        best: Callable[[Setting], Sequence[float]],
        twice: Program | None,
    ) -> None:
        self.program = program
        self.best = best
        self.twice = twice
        self.refused = 0

    def violations(self, settings: Settings) -> Iterator[Violation]:
        """The laws that the program's numbers break."""
        base = asked_of(self.program, settings.short[0])
        for setting in settings.short:
            asked = base if setting is settings.short[0] else asked_of(self.program, setting)
            if asked is None:
                self.refused += len(setting.items)
                continue
            errors = self.totals(setting, asked.log_z, asked.refused)
            if base is not None:
                errors = chain(errors, self.constant(base, asked))
            yield from _broken(setting, errors)
        for setting in settings.long:
            answer = log_z_of(self.program, setting, setting.dtype)
            if answer is None:
                self.refused += len(setting.items)
            else:
                yield from _broken(setting, self.totals(setting, *answer))

    def totals(
        self, setting: Setting, log_z: Tensor, refused: Tensor
    ) -> Iterator[tuple[str, float]]:
        """The laws that log Z of each item must obey, and by how much each is broken."""
        self.refused += int(refused.sum())
        yield from self.above_best(setting, log_z, refused)
        if self.twice is not None:
            both = log_z_of(self.twice, setting, setting.dtype)
            law = "two independent copies have twice the log Z"
            yield from _compared(law, 2 * log_z, both, refused)
        if setting.dtype == torch.float32:
            wide = log_z_of(self.program, setting, torch.float64)
            law = "float32 and float64 have the same log Z"
            yield from _compared(law, log_z, wide, refused)

    def above_best(
        self, setting: Setting, log_z: Tensor, refused: Tensor
    ) -> Iterator[tuple[str, float]]:
        """The best derivation weighs no more than all of them."""
        law = "the best derivation weighs no more than all"
        known = zip(log_z.tolist(), refused.tolist(), self.best(setting), strict=True)
        for value, left_out, best in known:
            if left_out:
                continue
            if isnan(value) or value == inf:
                yield law, inf
            elif best > -inf:
                yield law, max(0.0, best - value) / max(1.0, abs(best))

    def constant(self, base: ProgramNumbers, asked: ProgramNumbers) -> Iterator[tuple[str, float]]:
        """The law that an event which every derivation has c times is expected c times."""
        if base.whole and asked.whole:
            for name, wanted in base.uses.items():
                if isfinite(wanted) and abs(wanted - round(wanted)) <= SURE * max(1.0, wanted):
                    error = abs(asked.uses[name] - round(wanted)) / max(1.0, wanted)
                    yield f"every derivation uses `{name}` equally often", _number(error)
        live = torch.isfinite(asked.log_z) & torch.isfinite(base.log_z) & ~asked.refused
        for name, cells in base.cells.items():
            expected = asked.cells[name].double()
            if expected.shape != cells.shape or not bool(live.any()):
                continue
            wanted_cells, expected = cells[live], expected[live]
            # A cell that is used a little is used; one that is never used is exactly 0.
            sure = (wanted_cells - wanted_cells.round()).abs() <= SURE
            sure &= (wanted_cells == 0) | (wanted_cells > 0.5)
            gaps = (expected - wanted_cells.round()).abs()[sure]
            if gaps.numel():
                error = float(gaps.max()) if bool(torch.isfinite(gaps).all()) else inf
                yield f"every derivation uses the cells of `{name}` equally often", error


def _broken(setting: Setting, errors: Iterable[tuple[str, float]]) -> Iterator[Violation]:
    for law, error in errors:
        if not error <= TOLERANCES[setting.dtype]:
            yield Violation(setting, law, error)


def _compared(
    law: str, one: Tensor, two: tuple[Tensor, Tensor] | None, refused: Tensor
) -> Iterator[tuple[str, float]]:
    """How far numbers are from others, where neither are refused."""
    if two is None:
        return
    other, out = two
    for x, y, left_out in zip(one.tolist(), other.tolist(), (refused | out).tolist(), strict=True):
        if not left_out and x != y:
            finite = isfinite(x) and isfinite(y)
            yield law, abs(x - y) / max(1.0, abs(y)) if finite else inf


def _number(error: float) -> float:
    return inf if isnan(error) else error


def weights_of(program: Program, setting: Setting, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights of a program at a setting."""
    bound = bind(program.weighted, setting.point.weights(program.weighted))
    return {
        name: torch.tensor(np.asarray(bound[name], dtype=float), dtype=dtype)
        for name in program.parameter_names
    }


def inputs_of(
    setting: Setting, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[str, list[int]] | None]:
    """The inputs of a setting, and the lengths."""
    inputs, lengths = batch_of_items(setting.items)
    return {n: x.to(dtype) if x.is_floating_point() else x for n, x in inputs.items()}, lengths


@contextmanager
def watched() -> Iterator[list[str]]:
    """The warnings that programs give."""
    with catch_warnings(record=True) as told:
        simplefilter("always")
        texts: list[str] = []
        yield texts
    texts += [str(warning.message) for warning in told]


def log_z_of(
    program: Program, setting: Setting, dtype: torch.dtype
) -> tuple[Tensor, Tensor] | None:
    """log Z of each item, and which are refused; None if all are."""
    inputs, lengths = inputs_of(setting, dtype)
    try:
        with watched() as told, torch.no_grad():
            log_z = program.log_z(weights_of(program, setting, dtype), inputs, lengths).double()
    except GrammarError as error:
        if error.diagnostics[0].code not in REFUSALS:
            raise
        return None
    return log_z, _refused(log_z, told)


def _refused(log_z: Tensor, told: Sequence[str]) -> Tensor:
    """Which items the program refuses, `[batch]`."""
    said = any(code in text for text in told for code in REFUSALS)
    return ~torch.isfinite(log_z) if said else torch.zeros_like(log_z, dtype=torch.bool)


def asked_of(program: Program, setting: Setting) -> ProgramNumbers | None:
    """A program's numbers at a setting; None if it refuses all items."""
    weights = weights_of(program, setting, setting.dtype)
    inputs, lengths = inputs_of(setting, setting.dtype)
    try:
        with watched() as told:
            leaves = {n: w.requires_grad_() for n, w in weights.items()}
            logs = {n: x.requires_grad_() for n, x in inputs.items() if x.is_floating_point()}
            log_z = program.log_z(leaves, {**inputs, **logs}, lengths)
            if log_z.requires_grad:
                live = log_z[torch.isfinite(log_z)]
                torch.autograd.backward(live.sum())
            still = {n: w.detach() for n, w in weights.items()}
            plain = {n: x.detach() for n, x in inputs.items()}
            # In rank space they are those of state space.
            cells = (
                {}
                if program.compiled.space == "rank"
                else program.posterior(still, plain, lengths).marginals
            )
    except GrammarError as error:
        if error.diagnostics[0].code not in REFUSALS:
            raise
        return None
    uses = {}
    for name, leaf in {**leaves, **logs}.items():
        grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        entries = leaf.detach().double()
        number = grad.double() if name in logs else _product(grad.double(), entries)
        uses[name] = float(number.sum())
    families = program.grammar.nonterminal
    totals = {
        name: tensor.double().flatten(1 + len(families[name].indices)).sum(-1)
        if tensor.dim() > 1 + len(families[name].indices)
        else tensor.double()
        for name, tensor in cells.items()
        if name in families
    }
    values = log_z.detach().double()
    return ProgramNumbers(values, _refused(values, told), uses, totals)


def _product(gradient: Tensor, weights: Tensor) -> Tensor:
    """Weights times gradients; a weight of 0 counts for nothing."""
    return torch.where(weights == 0, 0.0, gradient * weights)


def best_of(program: Program, setting: Setting) -> list[float]:
    """The log-weight of the best derivation of each item; -inf where that cannot be had."""
    inputs, lengths = inputs_of(setting, torch.float64)
    weights = weights_of(program, setting, torch.float64)
    try:
        z = np.asarray(program.posterior(weights, inputs, lengths).charts("max").z, dtype=float)
    except GrammarError:
        return [-inf] * len(setting.items)
    return [float(value) for value in z.reshape(len(setting.items), -1).max(axis=1)]


def twice(grammar: Grammar) -> Grammar:
    """A grammar whose derivations are pairs of independent derivations of another one."""
    taken = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
    label = fresh("Twice", taken)
    domains = grammar.nonterminal[grammar.start.label].domains
    nodes = [
        [Node(name=f"{letter}{i}", domain=d) for i, d in enumerate(domains)] for letter in "ab"
    ]
    edges = tuple(
        Edge(
            label=grammar.start.label,
            indices=grammar.start.indices,
            attachments=tuple(Attachment(node=n.name) for n in copy),
        )
        for copy in nodes
    )
    rule = Rule(
        name=fresh("twice", {rule.name for rule in grammar.rules}),
        lhs=label,
        rhs=Fragment.make((*nodes[0], *nodes[1]), edges, (), ()),
    )
    return replace(
        grammar,
        start=Reference(label=label),
        nonterminals=(Nonterminal(name=label), *grammar.nonterminals),
        rules=(rule, *grammar.rules),
    )
