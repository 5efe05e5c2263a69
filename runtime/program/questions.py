"""What a program can be asked besides log Z: derivations, entropy, moments, other semirings.

All of it is read from the plan without messages, so that answers speak of the user's own rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.derive.assemble import Source
from fgg.runtime.program.inputs import Lengths

if TYPE_CHECKING:
    from fgg.grammar import Grammar
    from fgg.grammar.slices import SplitRule
    from fgg.plan import Plan
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.interpret.charts import Charts
    from fgg.runtime.program.chart_reader import Modules
    from fgg.runtime.program.rule_marginals import RuleMarginals

Weights = Mapping[str, Any]
Inputs = Mapping[str, Any] | None
METHODS = ("viterbi", "mbr")


class Questions:
    """Questions to a grammar with a plan whose derivations are the grammar's own."""

    grammar: Grammar
    origins: Mapping[str, SplitRule]

    @property
    def tree_plan(self) -> Plan | None:
        """A plan without messages, if derivations can be told apart."""
        raise NotImplementedError

    @property
    def _trees(self) -> Plan:
        """The plan that derivations are read from. Raises GrammarError if there is none."""
        found = self.tree_plan
        if found is None:
            message = (
                f"`{self.grammar.name}`: derivations of this start symbol cannot be told apart"
            )
            help = "its node is a union or a product: begin with a symbol that has no nodes"
            refuse("F425", message, help)
        return found

    def _weights(self, weights: Weights) -> Weights:
        """The weights of the plan that derivations are read from."""
        return weights

    def _need_best(self) -> None:
        """Raise GrammarError if this program knows no best derivations."""

    @property
    def _source(self) -> Source:
        return Source(self.grammar, self.origins) if self.origins else Source.of(self.grammar)

    @property
    def _modules(self) -> Modules | None:
        """The emitted programs of the plan that derivations are read from, if there are any."""
        return None

    def _read_from(self, inputs: Inputs, lengths: Lengths) -> tuple[Plan, Modules | None]:
        """The plan that derivations of a batch are read from, and its emitted programs."""
        return self._trees, self._modules

    def _read_whole(self, inputs: Inputs, lengths: Lengths) -> Plan:
        """The plan of a batch whose rules have all nodes of the user's."""
        return self._trees

    @property
    def _summing_trees(self) -> Plan:
        """The plan that is read where tokens may be missing or not."""
        return self._trees

    def decode(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        method: str = "viterbi",
        families: Sequence[str] | None = None,
        states: bool | None = None,
    ) -> list[Derivation]:
        """The best derivation of each item.

        `viterbi`: the one of greatest weight. `mbr`: the one whose cells have the greatest sum of
        marginals, over the `families` named (all with indices, if none are); with `states` a cell
        counts together with its values. By default it does where every indexed family has one
        index (chains: each position has a cell anyway) and does not elsewhere (trees: spans).
        Raises GrammarError if an item has no derivation.
        """
        if method not in METHODS:
            message = f"there is no way to decode called `{method}`"
            help = "there are " + ", ".join(f"`{m}`" for m in METHODS)
            refuse("F415", message, help)
        if method == "viterbi":
            from fgg.runtime.derive.decode import viterbi

            self._need_best()
            plan, modules = self._read_from(inputs, lengths)
            return viterbi(
                plan,
                _plain(self._weights(weights)),
                inputs or {},
                lengths,
                source=self._source,
                modules=modules,
            )
        if states is None:
            ranks = {len(x.indices) for x in self.grammar.nonterminals if x.indices}
            states = ranks <= {1}
        return self._mbr(weights, inputs, lengths, families, states)

    def _mbr(
        self,
        weights: Weights,
        inputs: Inputs,
        lengths: Lengths,
        families: Sequence[str] | None,
        states: bool,
    ) -> list[Derivation]:
        """The derivation of each item that agrees best with the marginals."""
        from fgg.runtime.derive.mbr import mbr

        plan, modules = self._read_from(inputs, lengths)
        found = mbr(
            plan,
            _plain(self._weights(weights)),
            inputs or {},
            lengths,
            families=families,
            states=states,
            source=self._source,
            modules=modules,
        )
        return [scored.derivation for scored in found]

    def k_best(
        self, weights: Weights, inputs: Inputs = None, lengths: Lengths = None, *, number: int
    ) -> list[list[Derivation]]:
        """The derivations of greatest weight of each item, at most so many, best first."""
        from fgg.runtime.derive.decode import k_best

        _check_number(number)

        self._need_best()
        plan, modules = self._read_from(inputs, lengths)
        return k_best(
            plan,
            _plain(self._weights(weights)),
            inputs or {},
            lengths,
            number=number,
            source=self._source,
            modules=modules,
        )

    def sample(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        number: int = 1,
        seed: int | torch.Generator | None = None,
    ) -> list[list[Derivation]]:
        """Independent draws from the posterior of each item, exact."""
        from fgg.runtime.derive.decode import sample

        _check_number(number)

        plan, modules = self._read_from(inputs, lengths)
        return sample(
            plan,
            _plain(self._weights(weights)),
            inputs or {},
            lengths,
            number=number,
            seed=seed,
            source=self._source,
            modules=modules,
        )

    def entropy(self, weights: Weights, inputs: Inputs = None, lengths: Lengths = None) -> Tensor:
        """The entropy of the derivations of each item, in nats; differentiable."""
        from fgg.runtime.program.expectation import entropy

        found = self._weights(weights)
        plan, modules = self._read_from(inputs, lengths)
        return entropy(plan, found, inputs or {}, lengths, modules=modules)

    def kl(self, p: Weights, q: Weights, inputs: Inputs = None, lengths: Lengths = None) -> Tensor:
        """KL(p || q) of the derivations of each item under two settings of the weights."""
        from fgg.runtime.program.expectation import kl

        one, two = self._weights(p), self._weights(q)
        plan, modules = self._read_from(inputs, lengths)
        return kl(plan, one, two, inputs or {}, lengths, modules=modules)

    def moments(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        keep: Mapping[str, Any],
        semiring: str = "real",
    ) -> Any:
        """The weight of each assignment of kept positions, `keep={"w": [0, 2]}`."""
        from fgg.runtime.program.moments import moments

        return moments(
            self._summing_trees,
            self._weights(weights),
            inputs or {},
            lengths,
            keep=keep,
            semiring=semiring,
        )

    def rule_marginals(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        rule: str,
        nodes: Sequence[str] | None = None,
    ) -> RuleMarginals:
        """How often a rule is expected to be used at each index, with which values.

        For an HMM's transition rule these are the pairwise marginals p(t, u) at each position.
        """
        from fgg.runtime.program.rule_marginals import rule_marginals

        return rule_marginals(
            self._read_whole(inputs, lengths),
            self._weights(weights),
            inputs or {},
            lengths,
            rule=rule,
            nodes=nodes,
            source=self._source,
        )

    def max_marginals(
        self, weights: Weights, inputs: Inputs = None, lengths: Lengths = None
    ) -> dict[str, Tensor]:
        """For every family, the log-weight of the best derivation through each cell and state."""
        from fgg.runtime.derive.mbr import best_through
        from fgg.runtime.interpret.interpret import interpret, outside

        self._need_best()
        plan = self._read_whole(inputs, lengths)
        charts = interpret(plan, _plain(self._weights(weights)), inputs or {}, lengths, "max")
        return best_through(charts, outside(charts), self._source)

    def solve(
        self,
        weights: Weights,
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        semiring: str = "log",
    ) -> Charts:
        """The charts in a semiring of the reference engine; `.z` is the value of each item."""
        from fgg.runtime.interpret.interpret import interpret

        if semiring == "max":
            self._need_best()
        plan = self._read_whole(inputs, lengths)
        return interpret(plan, self._weights(weights), inputs or {}, lengths, semiring)


def _check_number(number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        message = f"`number` is a whole number from 1 up, not {number!r}"
        refuse("F411", message)


def _plain(weights: Weights) -> dict[str, Any]:
    """Weights as numbers on the CPU, where derivations are made."""
    return {name: w.detach().cpu() if isinstance(w, Tensor) else w for name, w in weights.items()}
