"""The posterior of a batch under a compiled program.

One inside pass serves log Z, one outside pass marginals and expected counts, and one set of charts
all that is read off derivations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.maps import is_map
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.inputs.written import WrittenWords
from fgg.runtime.derive.assemble import Source
from fgg.runtime.layer.precision import as_computed
from fgg.runtime.posterior.posterior import Posterior, check_number
from fgg.runtime.program.inputs import Collated, Inputs, Lengths
from fgg.runtime.program.item_groups import refused
from fgg.runtime.program.log_z import LogZ
from fgg.runtime.program.parameters import as_weight
from fgg.runtime.program.prepared_batch import Run, out_of_range, start, suited_to
from fgg.runtime.program.range_certificate import Certified

if TYPE_CHECKING:
    from fgg.plan import Plan
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.interpret.charts import AnyCharts
    from fgg.runtime.posterior.moments import Keep
    from fgg.runtime.posterior.rule_marginals import RuleMarginals
    from fgg.runtime.program.chart_reader import DerivationCharts, DerivationModules
    from fgg.runtime.program.program import CompiledProgram, Weights

MAX_WHOLE = 2**22
"""Factors of declared rank with more entries are not multiplied out to find a derivation."""


@dataclass(frozen=True, eq=False, repr=False)
class CompiledPosterior(Posterior):
    """The posterior of a batch under a compiled program.

    Without `counting`, derivatives are prepared only for weights that ask for them. `words` are
    those of the inputs as the user wrote them, if something has changed them since.
    """

    program: CompiledProgram
    weights: Weights
    inputs: Inputs = None
    lengths: Lengths = None
    counting: bool = True
    words: WrittenWords | None = None

    def __repr__(self) -> str:
        return f"Posterior({self.program.grammar.name!r}, items={self.collated.size})"

    # sums: one inside pass, one outside pass

    @cached_property
    def _leaves(self) -> dict[str, Tensor]:
        """The weights; with `counting`, in the graph of derivatives in any case."""
        weights = {name: as_weight(name, value) for name, value in self.weights.items()}
        return {name: _tracked(w) for name, w in weights.items()} if self.counting else weights

    @cached_property
    def _given(self) -> dict[str, Any]:
        """The inputs; with `counting`, log-potentials are in the graph of derivatives."""
        given = dict(self.inputs or {})
        if self.counting:
            for name in self.program.grammar.input_factor.keys() & given.keys():
                given[name] = _each(lambda x: _tracked(as_computed(x)), given[name])
        return given

    @cached_property
    def _run(self) -> Run:
        if not self.counting:
            return start(self.program, self._leaves, self._given, self.lengths, any_space=True)
        with torch.inference_mode(False), torch.enable_grad():
            return start(self.program, self._leaves, self._given, self.lengths)

    @cached_property
    def _wide(self) -> CompiledPosterior | None:
        """The same in float64, if products of pieces leave the range of float32."""
        if self._run.batch.dtype != torch.float32 or not self._run.loses_pieces(torch.float32):
            return None
        weights = {n: as_weight(n, w).double() for n, w in self.weights.items()}
        inputs = dict(self.inputs or {})
        for name in self.program.grammar.input_factor.keys() & inputs.keys():
            inputs[name] = _each(Tensor.double, inputs[name])
        return CompiledPosterior(self.program, weights, inputs, self.lengths, self.counting)

    @cached_property
    def _passes(self) -> Certified:
        # The outside pass may use the empty halves of charts, unless marginals are read off them.
        wanted = any(source.requires_grad for source in self._run.sources)
        self._run.batch.spare = wanted and not self.counting
        return Certified(self._run, keep=self.counting)

    @cached_property
    def log_z(self) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials."""
        if self._wide is not None:
            return self._wide.log_z.float()
        given = [*self.weights.values(), *(self.inputs or {}).values()]
        rows = (value if isinstance(value, list | tuple) else [value] for value in given)
        asked = any(isinstance(x, Tensor) and x.requires_grad for row in rows for x in row)
        if not (asked and torch.is_grad_enabled()):
            return self._passes.log_z.clone()
        log_z: Tensor = LogZ.apply(self._passes, *self._run.sources)  # type: ignore[no-untyped-call]
        return log_z

    @cached_property
    def marginals(self) -> dict[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell and state.

        `[batch, *indices, *states]`; an index counts from 0. Items without derivations have 0.
        """
        if self.program.space == "rank":
            states = self.program.states
            return CompiledPosterior(states, self.weights, self.inputs, self.lengths).marginals
        with torch.no_grad():
            return self._passes.marginals()

    @cached_property
    def cell_marginals(self) -> Mapping[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell.

        `[batch, *indices]`: the marginals summed over states, such as those of spans. In rank
        space no table of states is made.
        """
        weighted = self.program.with_cell_weights if self.program.space == "rank" else None
        if weighted is None:
            return super().cell_marginals
        from fgg.runtime.posterior.cell_marginals import cell_marginals

        return cell_marginals(*weighted, self)

    @cached_property
    def counts(self) -> dict[str, Tensor]:
        """How often each entry of each factor is expected to be used, over the whole batch.

        Counts of input factors are for each item, `[batch, …]`. It is the gradient of log Z in
        log-weights.
        """
        if self._wide is not None:
            return {name: count.float() for name, count in self._wide.counts.items()}
        used = self._passes.counts()
        inputs = self.program.grammar.input_factor
        counts = {name: used[name] for name in inputs if name in used}
        leaves, run = self._leaves, self._run
        for name, weights in run.weights.items():
            if name in leaves:
                counts[name] = used.get(name, torch.zeros_like(weights))
        pieces = {name: leaf for name, leaf in leaves.items() if name not in counts}
        whole = {n: w for n, w in run.weights.items() if n not in leaves and n in used}
        if pieces and whole:
            if run.loses_pieces(run.batch.dtype):
                raise refused("products of pieces are too small for expected counts")
            counts |= _through_products(used, whole, pieces)
        for name in (*leaves, *inputs):
            like = leaves[name] if name in leaves else self._given[name]
            if isinstance(like, list):  # items of several shapes: their counts are padded
                like = self.collated.inputs[name].to(like[0].dtype)
            counts[name] = counts.get(name, torch.zeros_like(like)).detach().to(like.dtype)
        return counts

    # derivations: charts of a plan without messages

    @cached_property
    def collated(self) -> Collated:
        """The inputs as padded tensors, with their lengths."""
        return self.program.collate(self.inputs, self.lengths)

    @cached_property
    def _suited(self) -> CompiledProgram:
        return suited_to(self.program, self.collated) if self.program.plan.known else self.program

    @cached_property
    def _trees(self) -> tuple[Plan, DerivationModules]:
        """The plan that derivations are read from, and its emitted programs."""
        known = self.program.known_trees if self._suited is self.program else None
        return known or (self._suited.trees, self._suited.tree_modules)

    @cached_property
    def _whole_weights(self) -> Mapping[str, object]:
        """The weights of whole factors; products of pieces are made in float64, or exactly."""
        program = self.program
        if program.decomposed is None:
            return self.weights
        wide = {n: w.double() if isinstance(w, Tensor) else w for n, w in self.weights.items()}
        whole = program.whole(wide, program.trees.parameters)
        for name in whole.keys() - self.weights.keys():
            pieces = [torch.as_tensor(wide[piece]) for piece in program.pieces(name)]
            if out_of_range(pieces, torch.float64):
                raise refused(f"products of pieces of `{name}` leave the range of float64")
        return whole

    @cached_property
    def _numbers(self) -> dict[str, object]:
        """The same as plain numbers on the CPU, where derivations are made."""
        return {
            name: w.detach().cpu() if isinstance(w, Tensor) else w
            for name, w in self._whole_weights.items()
        }

    def _need_best(self) -> None:
        """Refuse (F426) if rank space was asked for, which has no best derivations."""
        if self.program.compiler.space == "rank":
            refuse(
                "F426",
                "rank space has no best derivation: maxima over states and over ranks differ",
                'minimum Bayes risk does not need one (`method="mbr"`, `posterior.mbr()`); '
                '`space="state"` or `"dense"` has Viterbi',
            )

    @cached_property
    def _tree_charts(self) -> DerivationCharts:
        """The charts that all questions about derivations share."""
        from fgg.runtime.program.chart_reader import DerivationCharts

        plan, modules = self._trees
        inputs = self.inputs or {}
        return DerivationCharts.of(plan, self._numbers, inputs, self.lengths, modules=modules)

    def best(self) -> list[Derivation]:
        """The derivation of greatest weight of each item (Viterbi); the first one under ties."""
        from fgg.runtime.derive.decode import viterbi

        self._need_best()
        best = viterbi(self._tree_charts, source=self.program.origin)
        return self._first_with_words(best)

    def k_best(self, number: int) -> list[list[Derivation]]:
        """The derivations of greatest weight of each item, at most `number`, best first."""
        from fgg.runtime.derive.decode import k_best

        check_number(number)
        self._need_best()
        ranked = k_best(self._tree_charts, number=number, source=self.program.origin)
        return self._with_words(ranked)

    def sample(
        self, number: int = 1, *, seed: int | torch.Generator | None = None
    ) -> list[list[Derivation]]:
        """Independent exact draws of derivations of each item."""
        from fgg.runtime.derive.decode import sample

        check_number(number)
        drawn = sample(self._tree_charts, number=number, seed=seed, source=self.program.origin)
        return self._with_words(drawn)

    def mbr(
        self,
        *,
        families: Sequence[str] | None = None,
        states: bool | None = None,
        values: bool = True,
    ) -> list[Derivation]:
        """The derivation of each item with the greatest expected number of right cells.

        Minimum Bayes risk: the derivation whose cells have the greatest sum of marginals, over the
        `families` named (all with indices, if none are). With `states` a cell counts together with
        its values. By default it does where every indexed family has one index (chains: each
        position has a cell anyway) and does not elsewhere (trees: spans).

        Without `values`, only the cells are wanted: nodes may have no values, and the log-weight
        is NaN then. In rank space nothing of the size of the states is computed for them.
        """
        from fgg.runtime.derive.mbr import mbr

        grammar = self.program.grammar
        if states is None:
            states = {len(x.indices) for x in grammar.nonterminals if x.indices} <= {1}
        decoded = self._mbr_on_outline(families, states, values)
        if decoded is None:
            origin = self.program.origin
            scored = mbr(self._tree_charts, families=families, states=states, source=origin)
            decoded = [one.derivation for one in scored]
        return self._first_with_words(decoded)

    def _mbr_on_outline(
        self, families: Sequence[str] | None, states: bool, values: bool
    ) -> list[Derivation] | None:
        """The same from marginals alone, without charts of whole factors.

        None where states of cells depend on each other, unless a factor is too large to be
        multiplied out.
        """
        from fgg.runtime.derive.mbr_outline import (
            cell_worths,
            entangled,
            log_weight,
            mbr_on_outline,
            with_best_states,
        )

        program = self.program
        large = _too_large(program)
        rule = entangled(program.grammar)
        if large is not None and rule is not None:
            refuse(
                "F420",
                f"factor `{large}` is too large to be multiplied out",
                f"rule `{rule}` needs joint states, and marginals alone do not give them",
            )
        if program.outline is None or (large is None and (rule or not self._is_positive)):
            return None
        grammar = program.grammar
        if states:
            worths = cell_worths(self.marginals, grammar)
        else:
            worths = {name: _numpy(table) for name, table in self.cell_marginals.items()}
        bare = mbr_on_outline(
            program.outline,
            Source.of(grammar),
            worths,
            self.inputs or {},
            self.lengths,
            families=families,
        )
        if not values:
            return bare
        full = with_best_states(
            bare,
            {name: _numpy(table) for name, table in self.marginals.items()},
            lambda made: log_weight(made, program.weighted, self.weights, program.pieces),
        )
        impossible = large is None and any(made.log_weight == -torch.inf for made in full)
        return None if impossible else full

    @cached_property
    def _is_positive(self) -> bool:
        """Whether no weight is 0 and no log-potential -inf, so that states exclude no others."""
        program = self.program
        used = {edge.label for rule in program.grammar.rules for edge in rule.rhs.edges}
        if any(is_map(f) for f in program.grammar.factors if f.name in used):
            return False
        weights = (as_weight(name, value) for name, value in self.weights.items())
        logs = (self.collated.inputs[name] for name in program.grammar.input_factor)
        return all(bool((w > 0).all()) for w in weights) and all(
            bool(torch.isfinite(x).all()) for x in logs
        )

    def entropy(self) -> Tensor:
        """The entropy of the derivations of each item, in nats, `[batch]`; differentiable."""
        from fgg.runtime.posterior.expectation import entropy

        weights = self._whole_weights
        plan, modules = self._trees
        return entropy(plan, weights, self.inputs or {}, self.lengths, modules=modules)

    def kl(self, other: Posterior) -> Tensor:
        """KL(self || other) of the derivations of each item, in nats, `[batch]`.

        `other` has other weights or log-potentials; infinite where it lacks a derivation.
        """
        from fgg.runtime.posterior.expectation import kl

        if not isinstance(other, CompiledPosterior) or not _same_model(self, other):
            refuse("F415", "the other posterior is of another model or another batch")
        mine, others = self._whole_weights, other._whole_weights
        plan, modules = self._trees
        inputs, lengths = self.inputs or {}, self.lengths
        return kl(plan, mine, others, inputs, lengths, q_inputs=other.inputs or {}, modules=modules)

    def moments(self, keep: Keep, *, semiring: str = "real") -> Tensor:
        """The weight of each assignment of kept positions, `keep={"w": [0, 2]}`."""
        from fgg.runtime.posterior.moments import moments

        program = self.program.summing if self.program.plan.known else self.program
        joint: Tensor = moments(
            program.trees,
            self._whole_weights,
            self.inputs or {},
            self.lengths,
            keep=keep,
            semiring=semiring,
        )
        return joint

    def rule_marginals(self, rule: str, nodes: Sequence[str] | None = None) -> RuleMarginals:
        """How often a rule is expected to be used at each index, with which values of its nodes.

        For an HMM's transition rule these are the pairwise marginals p(t, u) at each position.
        """
        from fgg.runtime.posterior.rule_marginals import rule_marginals

        return rule_marginals(
            self._suited.trees,
            self._whole_weights,
            self.inputs or {},
            self.lengths,
            rule=rule,
            nodes=nodes,
            source=self.program.origin,
        )

    def max_marginals(self) -> dict[str, Tensor]:
        """For every family, the log-weight of the best derivation through each cell and state.

        `[batch, *indices, *states]`.
        """
        from fgg.runtime.derive.mbr import best_through
        from fgg.runtime.interpret.interpret import interpret, outside

        self._need_best()
        plan = self._suited.trees
        charts = interpret(plan, self._numbers, self.inputs or {}, self.lengths, "max")
        return best_through(charts, outside(charts), self.program.origin)

    def charts(self, semiring: str = "log") -> AnyCharts:
        """The charts in a semiring of the reference engine; `.z` is the value of each item."""
        from fgg.runtime.interpret.interpret import interpret

        if semiring == "max":
            self._need_best()
        plan = self._suited.trees
        return interpret(plan, self._whole_weights, self.inputs or {}, self.lengths, semiring)


def _each(change: Callable[[Tensor], Tensor], value: object) -> Tensor | list[Tensor]:
    """Log-potentials, changed: one tensor, or one for each item if they are of several shapes."""
    if isinstance(value, list | tuple):
        rows = [torch.as_tensor(row) for row in value]
        if len({row.shape for row in rows}) > 1:
            return [change(row) for row in rows]
        value = torch.stack(rows) if rows else value
    return change(torch.as_tensor(value))


def _numpy(values: Tensor) -> NDArray[np.float64]:
    """Numbers in double precision on the CPU."""
    return np.asarray(values.detach().double().cpu().numpy())


def _tracked(value: Tensor) -> Tensor:
    """A tensor in the graph of derivatives: the user's own if it is in one."""
    if value.requires_grad:
        return value
    with torch.inference_mode(False):
        return (value.clone() if value.is_inference() else value.detach()).requires_grad_()


def _through_products(
    used: Mapping[str, Tensor], whole: Mapping[str, Tensor], pieces: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The expected counts of pieces, from those of the factors they are multiplied to."""
    slopes = torch.autograd.grad(
        list(whole.values()),
        list(pieces.values()),
        [torch.where(w > 0, used[n] / w, 0.0).to(w) for n, w in whole.items()],
        allow_unused=True,
        retain_graph=True,
    )
    return {
        name: torch.where(leaf > 0, slope * leaf, 0.0)
        for (name, leaf), slope in zip(pieces.items(), slopes, strict=True)
        if slope is not None
    }


def _too_large(program: CompiledProgram) -> str | None:
    """A factor of declared rank that is too large to multiply out, or None."""
    grammar: Grammar = program.grammar
    for factor in grammar.factors:
        size = prod(domain_size(grammar, domain) for domain in factor.domains)
        if program.pieces(factor.name) != (factor.name,) and size > MAX_WHOLE:
            return factor.name
    return None


def _same_model(one: CompiledPosterior, two: CompiledPosterior) -> bool:
    """Whether two posteriors are over the same derivations."""
    same = one.program is two.program or one.program.grammar == two.program.grammar
    return same and one.collated.lengths == two.collated.lengths
