"""Programs: a compiled grammar that can be asked for log Z, marginals, expected counts.

A program holds no numbers. Weights are given with each call (`log_z`), or kept by a model
(`program.model()`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, refuse
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.slices import SplitRule
from fgg.inputs.given import IMPOSSIBLE, MISSING
from fgg.inputs.pins import Pins
from fgg.plan import Cut, Gather, Plan, Token
from fgg.plan.cpp_source import Native
from fgg.plan.sizes import chart_bytes, environment, table_bytes
from fgg.progress import levels
from fgg.runtime.derive.assemble import Source
from fgg.runtime.memory import require
from fgg.runtime.program.certified import Certified, RangeReport, refused
from fgg.runtime.program.chart_reader import Modules
from fgg.runtime.program.chart_views import Refinement, refinements
from fgg.runtime.program.inputs import Collated, Lengths, check_potentials, collate
from fgg.runtime.program.log_z import LogZ
from fgg.runtime.program.modules import load_module
from fgg.runtime.program.parameters import Ends, Weighted, as_weight
from fgg.runtime.program.prepared_batch import Run, out_of_range
from fgg.runtime.program.questions import Questions

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.derive.mbr_outline import Outline
    from fgg.runtime.model.model import Model


Engine = Any
"""What has the functions `inside`, `result` and `outside` of an emitted module."""

MAX_WHOLE = 2**22
"""Factors of declared rank with more entries are not multiplied out to find a derivation."""


@dataclass(frozen=True, eq=False, repr=False)
class Asked:
    """What a program was compiled from: the model with its sizes, the query, the space.

    `other` compiles another query of the same model, `resized` the model with another number of
    values of a domain.
    """

    grammar: Grammar
    query: str | None
    space: str
    other: Callable[[str], Program] | None = None
    resized: Callable[[str, int], Program] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Program(Weighted, Questions):
    """A grammar with its query, the plan of its inference, and the plan as Python.

    `grammar` is the user's; `plan` speaks of a rewritten one, `origins` tells where its rules
    come from. `trees` makes a plan without messages: derivations are read from it. `decomposed` is
    the user's grammar with pieces in place of the factors of declared rank: its factors are the
    parameters. In rank `space` the charts have no states; `in_space("state")` makes a program whose
    charts have. `strict`: what rank space cannot answer is refused.
    """

    grammar: Grammar
    plan: Plan
    trees: Callable[[], Plan | None]
    origins: Mapping[str, SplitRule]
    source: str = field(repr=False)
    notes: tuple[Diagnostic, ...] = ()
    decomposed: Grammar | None = None
    space: str = "state"
    strict: bool = False
    in_space: Callable[[str], Program] | None = None
    # What became of families' nodes whose value the input fixes, and the program for batches in
    # which it does not: those with missing tokens.
    pins: Pins = field(default_factory=dict, repr=False)
    unpinned: Callable[[], Program] | None = field(default=None, repr=False)
    known_trees: Callable[[], Plan | None] | None = field(default=None, repr=False)
    # Writes the programs of other plans, when they are first asked for.
    emit: Callable[..., str] | None = field(default=None, repr=False)
    # Writes plans in C++, if their passes are to run as machine code.
    native: Callable[[Plan], Native] | None = field(default=None, repr=False)
    # The plan of the grammar's outline, and where its rules come from.
    shapes: Callable[[], tuple[Plan, Mapping[str, SplitRule]]] | None = None
    asked: Asked | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", load_module(self.source))

    module: ModuleType = field(init=False, repr=False)
    # How many items needed more range than their numbers have, in all calls so far.
    ranges: RangeReport = field(init=False, repr=False, default_factory=RangeReport)

    def __deepcopy__(self, memo: object) -> Program:
        return self  # nothing in it changes

    def __reduce__(self) -> Any:
        # The module is made again from its text.
        names = [f.name for f in fields(self) if f.init]
        return type(self), tuple(getattr(self, name) for name in names)

    def __repr__(self) -> str:
        return f"Program({self.grammar.name!r}, parameters={list(self.parameter_names)})"

    def _repr_markdown_(self) -> str:
        """What a notebook shows: the factors and their shapes, and what the program computes."""
        lines = [f"**{self.grammar.name}**", "", "| factor | shape |", "|---|---|"]
        lines += [f"| `{name}` | {self.shape(name)} |" for name in self.parameter_names]
        return "\n".join(lines)

    @cached_property
    def engine(self) -> Engine:
        """What carries out the inside and outside passes: the module, or machine code."""
        return self._engine(self.plan, self.module)

    def _engine(self, plan: Plan, module: ModuleType) -> Engine:
        if self.native is None:
            return module
        from fgg.runtime.native.engine import NativeEngine

        return NativeEngine(plan, self.native(plan), module)

    @cached_property
    def tree_plan(self) -> Plan | None:
        """A plan without messages, if derivations can be told apart; made when first asked for."""
        return self.trees()

    @cached_property
    def _modules(self) -> Modules | None:
        return self._modules_of(self.tree_plan)

    def _modules_of(self, trees: Plan | None) -> Modules | None:
        """The emitted programs of a plan that derivations are read from."""
        if self.emit is None or trees is None:
            return None
        from fgg.runtime.program.chart_reader import covers

        # Messages serve maxima as they serve sums; sums over ranks do not.
        whole = self.decomposed is None or self.space == "dense"
        same = whole and covers(self.plan, trees)
        plan = self.plan if same else trees
        emit, main = self.emit, self.plan

        def load(best: bool) -> ModuleType:
            own = self.source if plan is main and not best else emit(plan, best=best)
            return load_module(own)

        return Modules(plan, load, partial(self._engine, plan))

    @cached_property
    def _known(self) -> tuple[Plan, Modules | None] | None:
        plan = self.known_trees() if self.pins and self.known_trees is not None else None
        return None if plan is None else (plan, self._modules_of(plan))

    def _read_from(
        self, inputs: Mapping[str, Any] | None, lengths: Lengths
    ) -> tuple[Plan, Modules | None]:
        suited = self._suited(inputs, lengths)
        if suited is self and self._known is not None:
            return self._known
        return suited._trees, suited._modules

    def _suited(self, inputs: Mapping[str, Any] | None, lengths: Lengths) -> Program:
        return self.suited(self.collate(inputs or {}, lengths)) if self.plan.known else self

    def _read_whole(self, inputs: Mapping[str, Any] | None, lengths: Lengths) -> Plan:
        return self._suited(inputs, lengths)._trees

    @property
    def _summing_trees(self) -> Plan:
        return self.summing._trees if self.plan.known else self._trees

    def _weights(self, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.decomposed is None:
            return weights
        # Derivations are made in float64, and so are products of pieces.
        wide = {n: w.double() if isinstance(w, Tensor) else w for n, w in weights.items()}
        whole = self.whole(wide, self._trees.parameters)
        for name in whole.keys() - weights.keys():
            pieces = [torch.as_tensor(wide[piece]) for piece in self.pieces(name)]
            if out_of_range(pieces, torch.float64):
                raise refused(f"products of pieces of `{name}` leave the range of float64")
        return whole

    def _mbr(
        self,
        weights: Mapping[str, Any],
        inputs: Mapping[str, Any] | None,
        lengths: Lengths,
        families: Sequence[str] | None,
        states: bool,
    ) -> list[Derivation]:
        large = self._too_large()
        if self.outline is None or large is None:
            return super()._mbr(weights, inputs, lengths, families, states)
        from fgg.runtime.derive.mbr_outline import entangled, log_weight, mbr_on_outline

        rule = entangled(self.grammar)
        if rule is not None:
            message = f"factor `{large}` is too large to be multiplied out"
            help = f"rule `{rule}` has states that go together, which marginals alone do not tell"
            refuse("F420", message, help)

        marginals = self.marginals(weights, inputs, lengths)
        return mbr_on_outline(
            self.outline,
            Source.of(self.grammar),
            {name: found.double().cpu() for name, found in marginals.items()},
            inputs or {},
            lengths,
            families=families,
            states=states,
            log_weight=lambda found: log_weight(found, self.weighted, weights, self.pieces),
        )

    def _too_large(self) -> str | None:
        """A factor of declared rank that nobody would want to multiply out, if there is one."""
        for factor in self.grammar.factors:
            size = prod(domain_size(self.grammar, domain) for domain in factor.domains)
            if self.pieces(factor.name) != (factor.name,) and size > MAX_WHOLE:
                return factor.name
        return None

    @cached_property
    def outline(self) -> Outline | None:
        """The shapes of derivations, if factors are not there as a whole to tell more."""
        from fgg.runtime.derive.mbr_outline import Outline

        emit = self.emit
        if self.decomposed is None or self.space == "dense" or self.shapes is None or emit is None:
            return None
        plan, origins = self.shapes()
        modules = Modules(plan, lambda best: load_module(emit(plan, best=best)))
        return Outline(plan, modules, origins)

    def _need_best(self) -> None:
        if self.strict:
            message = (
                "rank space knows no best derivation: a maximum over states is none over ranks"
            )
            help = (
                'minimum Bayes risk does not need one (`method="mbr"`); `space="state"` or '
                '`"dense"` has Viterbi'
            )
            refuse("F426", message, help)

    # computing

    def collate(
        self, inputs: Mapping[str, Any], lengths: Lengths = None, **options: Any
    ) -> Collated:
        """The inputs as padded tensors, checked, with their lengths."""
        batch = collate(self.grammar, inputs, lengths, **options)
        check_potentials(self.plan, batch)
        return batch

    def log_z(
        self,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Any] | None = None,
        lengths: Lengths = None,
    ) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials.

        Weights are values, not logarithms. An item without any derivation has log Z = -inf and
        gradient zero.
        """
        run = self.start(weights, inputs or {}, lengths)
        if run.batch.dtype == torch.float32 and run.loses_pieces(torch.float32):
            # Products of pieces need more range, and so do derivatives through them.
            wide = {name: as_weight(name, w).double() for name, w in weights.items()}
            logs = {n: x.double() for n, x in self._potentials(inputs).items()}
            return self.log_z(wide, {**(inputs or {}), **logs}, lengths).float()
        result: Tensor = LogZ.apply(run, *run.sources)  # type: ignore[no-untyped-call]
        return result

    def _potentials(self, inputs: Mapping[str, Any] | None) -> dict[str, Tensor]:
        """The log-potentials among inputs."""
        given = inputs or {}
        names = [name for name in self.grammar.input_factor if name in given]
        return {name: torch.as_tensor(given[name]) for name in names}

    def start(
        self, weights: Mapping[str, Tensor], inputs: Mapping[str, Any], lengths: Lengths
    ) -> Run:
        """Weights and inputs checked, and everything prepared that comes before the charts."""
        ends: dict[str, Ends] = {}
        given = weights
        weights = self.check_weights(weights, ends)
        sample = next(iter(weights.values()), None)
        dtype, device = torch.float64, None
        if sample is not None:
            dtype, device = sample.dtype, sample.device
        else:
            potentials = [v for v in inputs.values() if isinstance(v, Tensor)]
            floats = [v for v in potentials if v.is_floating_point()]
            if floats:
                dtype, device = floats[0].dtype, floats[0].device
        collated = self.collate(inputs, lengths, dtype=dtype, device=device)
        program = self.suited(collated)
        if program is not self:
            weights = program.check_weights(given, ends)
        run = program.prepared(weights, collated, dtype, device, ends)
        made = [name for name in weights if name not in given]
        pieces = {
            name: tuple(as_weight(piece, given[piece]) for piece in self.pieces(name))
            for name in made
        }
        return replace(run, joined=pieces) if pieces else run

    def suited(self, collated: Collated) -> Program:
        """The program for a batch: another one if tokens are missing that the plan has as known."""
        known = self.plan.known if collated.missing else ()
        missing = any(bool((collated.inputs[name] == MISSING).any()) for name in known)
        return self.summing if missing else self

    @cached_property
    def summing(self) -> Program:
        """The program for batches with missing tokens: each is one variable of a rule."""
        assert self.unpinned is not None
        return self.unpinned()

    def prepared(
        self,
        weights: Mapping[str, Tensor],
        collated: Collated,
        dtype: torch.dtype,
        device: torch.device | None,
        ends: Mapping[str, Ends] | None = None,
    ) -> Run:
        """A batch with everything that comes before the charts.

        `ends` are the least and greatest weights, as far as they are known.
        """
        place = device or torch.device("cpu")
        values = environment(collated.lengths)
        width = torch.finfo(dtype).bits // 8
        needed = chart_bytes(self.plan, values, collated.size, width)
        needed += table_bytes(self.plan, values, collated.size, width)
        require(2 * needed, place, "this batch")
        tables = {t.name: collated.inputs[t.name] for t in self.grammar.tables}
        batch = self.module.Batch(collated.size, dict(collated.lengths), tables, dtype, place)
        batch.levels = levels
        potentials = {n: collated.inputs[n] for n in self.grammar.input_factor}
        sources = {**weights, **potentials}
        # What is prepared has a graph of its own, from copies: so its memory is the charts' only.
        tensors = {n: t.detach().requires_grad_(t.requires_grad) for n, t in sources.items()}
        leaves, scales = self.module.prepare(
            {n: tensors[n] for n in weights},
            {**collated.inputs, **{n: tensors[n] for n in potentials}},
            batch,
            collated.missing,
        )
        return Run(
            program=self,
            weights=dict(weights),
            collated=collated,
            batch=batch,
            tensors=tensors,
            sources=tuple(sources.values()),
            leaves=leaves,
            scales=scales,
            ends=self._leaf_ends(ends or {}, collated),
        )

    def _leaf_ends(self, ends: Mapping[str, Ends], collated: Collated) -> dict[str, Ends]:
        """Bounds of the entries of leaves that are parts of factors without zeros."""
        known = {name: ends[name] for name in self.plan.parameters if ends.get(name, (0, 0))[0] > 0}
        for step in self.plan.preparations if known else ():
            if isinstance(step, Cut | Gather) and step.source in known:
                # A token that has no entry makes zeros, one that is missing a sum.
                if isinstance(step, Cut) or all(_is_plain(t, collated) for t in step.tokens):
                    known[step.name] = known[step.source]
        return known

    def marginals(
        self,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Any] | None = None,
        lengths: Lengths = None,
    ) -> dict[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell and state.

        `[batch, *indices, *states]`; an index counts from 0. Items without derivations have 0.
        """
        if self.space == "rank":
            return self.states.marginals(weights, inputs, lengths)
        with torch.no_grad():
            return Certified(self.start(weights, inputs or {}, lengths)).marginals()

    def expected_counts(
        self,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Any] | None = None,
        lengths: Lengths = None,
    ) -> dict[str, Tensor]:
        """How often each entry of each factor is expected to be used, over the whole batch.

        Input factors too, item by item. It is the gradient of log Z in log-weights.
        """
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {
                n: as_weight(n, w).clone().detach().requires_grad_() for n, w in weights.items()
            }
            potentials = {
                name: torch.as_tensor(value).detach().clone().requires_grad_()
                if name in self.grammar.input_factor
                else value
                for name, value in (inputs or {}).items()
            }
            run = self.start(leaves, potentials, lengths)
        if run.batch.dtype == torch.float32 and run.loses_pieces(torch.float32):
            double = {name: w.detach().double() for name, w in leaves.items()}
            logs = {n: x.detach().double() for n, x in self._potentials(potentials).items()}
            wide = self.expected_counts(double, {**potentials, **logs}, lengths)
            return {name: count.float() for name, count in wide.items()}
        counts = Certified(run).counts()
        found = {name: counts[name] for name in self.grammar.input_factor if name in counts}
        for name, weights_of in run.weights.items():
            if name in leaves:
                found[name] = counts.get(name, torch.zeros_like(weights_of))
        pieces = {name: leaf for name, leaf in leaves.items() if name not in found}
        whole = {n: w for n, w in run.weights.items() if n not in leaves and n in counts}
        if pieces and whole and run.loses_pieces(run.batch.dtype):
            raise refused("products of pieces are too small for expected counts")
        if pieces and whole:
            # Through the products of pieces; what is 0 is never used.
            slopes = torch.autograd.grad(
                list(whole.values()),
                list(pieces.values()),
                [torch.where(w > 0, counts[n] / w, 0.0).to(w) for n, w in whole.items()],
                allow_unused=True,
            )
            for (name, leaf), slope in zip(pieces.items(), slopes, strict=True):
                if slope is not None:
                    found[name] = torch.where(leaf > 0, slope * leaf, 0.0)
        for name in (*leaves, *self.grammar.input_factor):
            like = leaves[name] if name in leaves else potentials[name]
            found[name] = found.get(name, torch.zeros_like(like)).detach().to(like.dtype)
        return found

    def model(self, *, seed: int = 0, **options: Any) -> Model:
        """A torch module that holds the program's parameters."""
        from fgg.runtime.model.model import Model

        return Model(self, seed=seed, **options)

    def asking(self, query: str) -> Program:
        """The program of another query of the same model. Raises GrammarError (F409)."""
        if self.asked is None or self.asked.other is None or query == self.asked.query:
            return self
        found: dict[str, Program] = self.__dict__.setdefault("_asking", {})
        if query not in found:
            found[query] = self.asked.other(query)
        return found[query]

    @cached_property
    def states(self) -> Program:
        """This program in state space."""
        assert self.in_space is not None
        return self.in_space("state")

    @property
    def refinements(self) -> tuple[Refinement, ...]:
        """The charts of the plan as parts of the user's families."""
        return refinements(self.grammar, self.plan, self.origins)


def _is_plain(token: Token, collated: Collated) -> bool:
    """Whether a table's entries are those of an input's tokens as they are, and all are there."""
    if token.path or any(token.shift) or collated.missing:
        return False
    return not bool((collated.inputs[token.input] == IMPOSSIBLE).any())
