"""Models: a torch module that holds the parameters of a program.

Each factor that is to be learned has logits; distributions are their softmax over the right side
of the arrow, potentials their exponential. A factor of declared rank has the logits of its pieces,
each normalised so that the product is a distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fgg.grammar import Factor
from fgg.maps import groups
from fgg.runtime.batching import Lengths
from fgg.runtime.grouped import group_tensor, softmax_in_groups
from fgg.runtime.materialise import multiplied
from fgg.values import Call, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fgg.runtime.derivation import Derivation
    from fgg.runtime.plan_charts import Charts
    from fgg.runtime.program import Program
    from fgg.runtime.rule_marginals import RuleMarginals


class Model(nn.Module):
    """The parameters of a program, as a differentiable layer.

    `model(w=tokens, lengths=lengths)` is log Z of every item. Inputs are given by name.
    """

    def __init__(
        self,
        program: Program,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.program = program
        self.logits = nn.ParameterDict()
        generator = torch.Generator().manual_seed(seed)
        given = dict(weights or {})
        constants = program.weights(given, seed=0, dtype=dtype)
        self.names = tuple(constants)
        for name, tensor in constants.items():
            factor = program.weighted.factor[name]
            if factor.value is not None:
                self.register_buffer(_buffer(name), tensor)
            elif name in given:
                self.logits[_key(name)] = nn.Parameter(tensor.detach().log())
            elif factor.attribute("tied") is None:
                self.add(name, generator, dtype)
        for factor in program.parameters:
            source = _tied(factor)
            for piece in () if source is None else program.pieces(source):
                self.add(piece, generator, dtype)

    def add(self, name: str, generator: torch.Generator, dtype: torch.dtype) -> None:
        """Parameters of a factor, unless it has a value or has them already."""
        value = self.program.weighted.factor[name].value
        if value is None and _key(name) not in self.logits:
            shape = self.program.shape(name)
            start = torch.randn(shape, generator=generator, dtype=torch.float64)
            self.logits[_key(name)] = nn.Parameter(start.to(dtype))

    def weight(self, name: str) -> Tensor:
        """The weights of a factor."""
        grammar = self.program.weighted
        buffer = self._buffers.get(_buffer(name))
        if buffer is not None:
            return buffer
        source = _tied(grammar.factor[name])
        if source is not None:
            return stationary(self.weight(source))
        if _key(name) in self.logits:
            blocks = groups(grammar, grammar.factor[name])
            if blocks is not None:
                logits = self.logits[_key(name)]
                return softmax_in_groups(logits, group_tensor(blocks, logits.device))
            return _normalised(self.logits[_key(name)], grammar.factor[name].given)
        pieces = {piece: self.weight(piece) for piece in self.program.pieces(name)}
        found: Tensor = multiplied(grammar, name, pieces)
        return found

    def weights(self) -> dict[str, Tensor]:
        """The weights of every factor that the program needs, differentiable."""
        return {name: self.weight(name) for name in self.names}

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

    def kl(self, other: Model, *, lengths: Lengths = None, **inputs: Any) -> Tensor:
        """KL(self || other) of the derivations of each item, in nats."""
        return self.program.kl(self.weights(), other.weights(), inputs, lengths)

    def moments(self, *, keep: Mapping[str, Any], lengths: Lengths = None, **inputs: Any) -> Any:
        """The weight of each assignment of kept positions, `keep={"w": [0, 2]}`."""
        return self.program.moments(self.weights(), inputs, lengths, keep=keep)

    def solve(self, *, semiring: str = "log", lengths: Lengths = None, **inputs: Any) -> Charts:
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

    def detached(self) -> dict[str, Tensor]:
        """The weights as plain numbers."""
        with torch.no_grad():
            return self.weights()


def _normalised(logits: Tensor, given: int | None) -> Tensor:
    """A distribution over the axes from `given` on; a potential if there is no arrow."""
    if given is None:
        return logits.exp()
    if logits.dim() == given + 1:
        return logits.softmax(-1)
    return logits.flatten(given).softmax(-1).reshape(logits.shape)


def stationary(transition: Tensor) -> Tensor:
    """The distribution pi with pi = pi A, by a linear solve; differentiable."""
    size = transition.shape[0]
    wide = transition.to(torch.float64)
    eye = torch.eye(size, dtype=wide.dtype, device=wide.device)
    # The last equation is replaced by: the entries sum to one.
    system = torch.cat([(wide.T - eye)[:-1], torch.ones_like(wide[:1])])
    found: Tensor = torch.linalg.solve(system, eye[-1])
    return found.to(transition.dtype)


def _tied(factor: Factor) -> str | None:
    """The factor that this one is the stationary distribution of."""
    value = factor.attribute("tied")
    if isinstance(value, Call) and value.arguments and isinstance(value.arguments[0], Word):
        return value.arguments[0].name
    return None


def _key(name: str) -> str:
    """A parameter's name: torch allows no dots in it."""
    return name.replace(".", "\N{MIDDLE DOT}")


def _buffer(name: str) -> str:
    """A buffer's name."""
    return "value_" + _key(name)
