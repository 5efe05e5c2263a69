"""Posteriors: what a model believes about a batch of inputs.

A posterior is the distribution over the derivations of every item. Passes are made when a question
first needs them and shared by all questions: one inside pass for log Z, one outside pass for
marginals and expected counts, one set of charts for everything that is read off derivations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.inputs.written import WrittenWords, written_words
from fgg.runtime.display.listed import Derivations, with_words
from fgg.runtime.program.inputs import Inputs, Lengths

if TYPE_CHECKING:
    from fgg.draw.beliefs import Beliefs
    from fgg.draw.picture import Picture
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.interpret.charts import AnyCharts
    from fgg.runtime.posterior.moments import Keep
    from fgg.runtime.posterior.rule_marginals import RuleMarginals
    from fgg.runtime.program.program import Program, Weights

METHODS = ("viterbi", "mbr")


class Posterior(ABC):
    """The distribution over the derivations of every item of a batch.

    Ask it for `log_z`, `marginals`, `counts`, `best()`, `mbr()`, `sample()`,
    `entropy()` … Results are computed when they are first asked for, and kept. Methods that give
    derivations raise GrammarError (F421) if an item has none.
    """

    program: Program
    weights: Weights
    inputs: Inputs
    lengths: Lengths
    words: WrittenWords | None

    @cached_property
    def written(self) -> WrittenWords:
        """The words that answers and pictures show: `words`, or else those of the inputs."""
        return written_words(self.inputs or {}) if self.words is None else self.words

    def _with_words(self, items: Iterable[Iterable[Derivation]]) -> list[list[Derivation]]:
        """The derivations of each item, which know the words of the item."""
        return with_words(items, self.written)

    def _first_with_words(self, best: Iterable[Derivation]) -> list[Derivation]:
        """One derivation of each item, which knows the words of the item."""
        return Derivations(derivation for (derivation,) in self._with_words([d] for d in best))

    @property
    @abstractmethod
    def log_z(self) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials."""

    @property
    @abstractmethod
    def marginals(self) -> Mapping[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell and state.

        `[batch, *indices, *states]`; an index counts from 0. Items without derivations have 0.
        """

    @cached_property
    def cell_marginals(self) -> Mapping[str, Tensor]:
        """For every family, how often a derivation is expected to use each cell.

        `[batch, *indices]`: the marginals summed over states, such as those of spans.
        """
        grammar = self.program.grammar
        return {
            name: table.flatten(1 + len(grammar.nonterminal[name].indices)).sum(-1)
            if grammar.nonterminal[name].domains
            else table
            for name, table in self.marginals.items()
        }

    @property
    @abstractmethod
    def counts(self) -> Mapping[str, Tensor]:
        """How often each entry of each factor is expected to be used, over the whole batch.

        Counts of input factors are for each item, `[batch, …]`. It is the gradient of log Z in
        log-weights.
        """

    def best(self) -> list[Derivation]:
        """The derivation of greatest weight of each item (Viterbi)."""
        return Derivations(ranked[0] for ranked in self.k_best(1))

    @abstractmethod
    def k_best(self, number: int) -> list[list[Derivation]]:
        """The derivations of greatest weight of each item, at most `number`, best first."""

    @abstractmethod
    def sample(
        self, number: int = 1, *, seed: int | torch.Generator | None = None
    ) -> list[list[Derivation]]:
        """Independent exact draws of derivations of each item."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """The entropy of the derivations of each item, in nats, `[batch]`."""

    @abstractmethod
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

    def decode(
        self,
        method: str = "viterbi",
        *,
        families: Sequence[str] | None = None,
        states: bool | None = None,
        values: bool = True,
    ) -> list[Derivation]:
        """The best derivation of each item by a method of `METHODS`: `best()` or `mbr(…)`."""
        if method not in METHODS:
            known = ", ".join(f"`{name}`" for name in METHODS)
            refuse("F415", f"there is no decoding method `{method}`", f"there are {known}")
        if method == "viterbi":
            return self.best()
        return self.mbr(families=families, states=states, values=values)

    @abstractmethod
    def kl(self, other: Posterior) -> Tensor:
        """KL(self || other) of the derivations of each item, in nats, `[batch]`.

        `other` has other weights or log-potentials; infinite where it lacks a derivation.
        """

    def cross_entropy(self, other: Posterior) -> Tensor:
        """The expected -log p of derivations of each item under another posterior, in nats.

        It is `entropy() + kl(other)`, `[batch]`.
        """
        return self.entropy() + self.kl(other)

    def log_prob(self, derivations: Derivation | Sequence[Derivation]) -> Tensor:
        """The log-probability of a derivation of each item, `[batch]`, differentiable.

        It is -inf where the derivation is of other inputs. Raises GrammarError (F415, F498).
        """
        from fgg.runtime.derive.derivation import Derivation
        from fgg.runtime.derive.log_prob import log_prob

        some = [derivations] if isinstance(derivations, Derivation) else derivations
        listed = list(some) if isinstance(some, Iterable) else None
        if listed is None or not all(isinstance(each, Derivation) for each in listed):
            refuse("F415", "derivations are expected, one for each item", "`post.best()` has some")
        return log_prob(self, listed)

    @abstractmethod
    def moments(self, keep: Keep, *, semiring: str = "real") -> Tensor:
        """The weight of each assignment of kept positions, `keep={"w": [0, 2]}`."""

    @abstractmethod
    def rule_marginals(self, rule: str, nodes: Sequence[str] | None = None) -> RuleMarginals:
        """How often a rule is expected to be used at each index, with which values of its nodes.

        For an HMM's transition rule these are the pairwise marginals p(t, u) at each position.
        """

    @abstractmethod
    def max_marginals(self) -> dict[str, Tensor]:
        """For every family, the log-weight of the best derivation through each cell and state.

        `[batch, *indices, *states]`.
        """

    @abstractmethod
    def charts(self, semiring: str = "log") -> AnyCharts:
        """The charts in a semiring of the reference engine; `.z` is the value of each item."""

    def beliefs(self, item: int = 0, *, words: Sequence[str] | None = None) -> list[Beliefs]:
        """The marginals of an item with names, as a table for each family: `.lines()` are text."""
        from fgg.runtime.display.beliefs import beliefs

        return beliefs(self, item, words)

    def draw(self, item: int = 0, *, words: Sequence[str] | None = None) -> Picture:
        """The marginals of an item: tables of tags for chains, heat maps of charts for trees.

        `words` are shown in place of the tokens. Raises GrammarError (F411), and `TooLarge`.
        """
        from fgg.draw.beliefs import beliefs_picture

        title = f"posterior of {self.program.grammar.name}, item {item}"
        return beliefs_picture(title, self.beliefs(item, words=words))

    def _repr_html_(self) -> str:
        """Show log Z of every item and the marginals of the first one in a notebook."""
        from fgg.draw.html import heading, picture_or_reason, table

        log_z = self.log_z.tolist()
        rows = [[str(item), f"{value:.6g}"] for item, value in enumerate(log_z[:20])]
        rows += [["…", ""]] if len(log_z) > 20 else []
        parts = [heading(f"Posterior of {self.program.grammar.name}")]
        parts.append(table(["item", "log Z"], rows))
        if log_z and log_z[0] > -torch.inf:
            parts.append(picture_or_reason(self.draw))
        return "".join(parts)


def check_number(number: int) -> None:
    """Refuse (F411) a number of derivations that is not a whole number from 1 up."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        refuse("F411", f"`number` is a whole number from 1 up, not {number!r}")
