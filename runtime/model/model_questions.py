"""What a model can be asked: the questions of its program, with the model's own weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from fgg.runtime.program.inputs import Lengths

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.interpret.charts import AnyCharts
    from fgg.runtime.program.program import Program
    from fgg.runtime.program.rule_marginals import RuleMarginals


class ModelQuestions(nn.Module):
    """Questions to a program with weights; inputs are given by name."""

    program: Program

    def weights(self) -> dict[str, Tensor]:
        """The weights of every factor that the program needs, differentiable."""
        raise NotImplementedError

    def detached(self) -> dict[str, Tensor]:
        """The weights as plain numbers."""
        raise NotImplementedError

    def forward(self, *, lengths: Lengths = None, **inputs: Any) -> Tensor:
        """log Z of every item, `[batch]`."""
        return self.program.log_z(self.weights(), inputs, lengths)

    def marginals(self, *, lengths: Lengths = None, **inputs: Any) -> dict[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell and state."""
        return self.program.marginals(self.detached(), inputs, lengths)

    def decode(
        self,
        *,
        lengths: Lengths = None,
        method: str = "viterbi",
        families: Sequence[str] | None = None,
        states: bool | None = None,
        **inputs: Any,
    ) -> list[Derivation]:
        """The best derivation of each item, by `viterbi` or `mbr`; see `Program.decode`."""
        return self.program.decode(
            self.detached(), inputs, lengths, method=method, families=families, states=states
        )

    def rule_marginals(self, *, rule: str, lengths: Lengths = None, **inputs: Any) -> RuleMarginals:
        """How often a rule is expected to be used at each index, with which values."""
        return self.program.rule_marginals(self.detached(), inputs, lengths, rule=rule)

    def max_marginals(self, *, lengths: Lengths = None, **inputs: Any) -> dict[str, Tensor]:
        """For every family, the log-weight of the best derivation through each cell."""
        return self.program.max_marginals(self.detached(), inputs, lengths)

    def kl(self, other: ModelQuestions, *, lengths: Lengths = None, **inputs: Any) -> Tensor:
        """KL(self || other) of the derivations of each item, in nats."""
        return self.program.kl(self.weights(), other.weights(), inputs, lengths)

    def moments(self, *, keep: Mapping[str, Any], lengths: Lengths = None, **inputs: Any) -> Any:
        """The weight of each assignment of kept positions, `keep={"w": [0, 2]}`."""
        return self.program.moments(self.weights(), inputs, lengths, keep=keep)

    def solve(self, *, semiring: str = "log", lengths: Lengths = None, **inputs: Any) -> AnyCharts:
        """The charts in a semiring; `.z` is the value of each item."""
        return self.program.solve(self.detached(), inputs, lengths, semiring=semiring)

    def k_best(self, *, number: int, lengths: Lengths = None, **inputs: Any) -> Any:
        """The derivations of greatest weight of each item, best first."""
        return self.program.k_best(self.detached(), inputs, lengths, number=number)

    def sample(
        self, *, number: int = 1, seed: int | None = None, lengths: Lengths = None, **inputs: Any
    ) -> Any:
        """Independent draws from the posterior of each item, exact."""
        return self.program.sample(self.detached(), inputs, lengths, number=number, seed=seed)

    def entropy(self, *, lengths: Lengths = None, **inputs: Any) -> Tensor:
        """The entropy of the derivations of each item, in nats; differentiable."""
        return self.program.entropy(self.weights(), inputs, lengths)

    def expected_counts(self, *, lengths: Lengths = None, **inputs: Any) -> dict[str, Tensor]:
        """How often each entry of each factor is expected to be used, over the whole batch."""
        return self.program.expected_counts(self.detached(), inputs, lengths)
