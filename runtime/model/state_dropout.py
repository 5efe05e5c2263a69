"""State dropout: a batch uses only some of the states of each block [VL §4].

For a domain `T = M * K`, the same number of values of K is kept in each block (each value of M),
drawn without replacement. The result is a model of the same grammar with a smaller K: its program
is compiled once, and its weights are the kept logits, normalised among themselves. So all work,
that on parameters included, costs as much as in the smaller model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.maps import groups, map_values
from fgg.grammar import Factor, Grammar, Product
from fgg.grammar.definitions import Tied
from fgg.grammar.domains import domain_size
from fgg.runtime.model.segment_softmax import group_tensor

if TYPE_CHECKING:
    from fgg.runtime.entries.factor_reader import Weight
    from fgg.runtime.model.model import Model
    from fgg.runtime.program.inputs import Lengths
    from fgg.runtime.program.program import Program


@dataclass(frozen=True, eq=False)
class Kept:
    """The values of `domain` kept in each block: `index`, `[blocks, kept]`, rows ascending."""

    grammar: Grammar
    domain: str
    blocks: str
    index: Tensor

    def states(self, domain: str) -> Tensor | None:
        """The kept values of a domain, `[values]`; None if it is no product with `self.domain`."""
        shape = self.grammar.domain[domain].shape
        if not isinstance(shape, Product) or self.domain not in shape.parts:
            return None
        count, size = (domain_size(self.grammar, d) for d in (self.blocks, self.domain))
        number = torch.arange(count, device=self.index.device).reshape(-1, 1)
        if shape.parts[0] == self.blocks:
            return (number * size + self.index).flatten()
        return (self.index * count + number).T.flatten()

    def select(self, factor: Factor, logits: Tensor) -> Tensor:
        """The logits of a factor at the kept states: the axes of states are shorter."""
        for axis, domain in enumerate(factor.domains):
            rows = self.states(domain)
            if rows is not None:
                logits = logits.index_select(axis, rows)
            elif domain == self.domain:
                blocks = group_tensor(groups(self.grammar, factor) or (), self.index.device)
                places = self.index[blocks].T  # [kept, values of the last domain]
                shape = [1] * logits.dim()
                shape[axis], shape[-1] = places.shape
                wide = list(logits.shape)
                wide[axis] = len(places)
                logits = logits.gather(axis, places.reshape(shape).expand(wide))
        return logits

    def scatter(self, values: Tensor) -> Tensor:
        """The values of kept states, `[…, M, kept]`, among zeros for the others, `[…, M, K]`."""
        size = domain_size(self.grammar, self.domain)
        zeros = values.new_zeros((*values.shape[:-1], size))
        return zeros.scatter(-1, self.index.expand(values.shape), values)

    def gather(self, values: Tensor) -> Tensor:
        """The values `[…, M, kept]` of the kept states, of values `[…, M, K]` of all."""
        return values.gather(-1, self.index.expand((*values.shape[:-1], self.index.shape[-1])))


class StateDropout:
    """Draws the states of a model that a batch is computed with.

    `domain` is the domain K of the states within a block, `rate` the share of them that is dropped:
    of k states, k - ⌊rate k⌋ are kept in each block. Evaluation uses all states. Raises
    GrammarError (F476) for a factor whose states cannot be dropped.
    """

    def __init__(self, model: Model, domain: str, rate: float) -> None:
        self.model = model
        grammar = model.program.weighted
        self.domain = domain
        if domain not in grammar.domain or not 0 <= rate < 1:
            refuse("F476", f"there is no domain `{domain}`, or {rate} is not a share below 1")
        size = domain_size(grammar, domain)
        self.kept = size - int(rate * size)
        self.blocks = _blocks(grammar, domain)
        for factor in grammar.factors:
            _check(grammar, factor, domain, self.blocks)
        program = model.program
        if self.kept != size:
            program = program.compiler.resized(domain, self.kept)
        self.program: Program = program

    def draw(self, generator: torch.Generator | None = None) -> Kept:
        """The states to keep, all sets of a block equally likely: Gumbel top-k (Vieira 2014)."""
        grammar = self.model.program.weighted
        count, size = (domain_size(grammar, d) for d in (self.blocks, self.domain))
        uniform = torch.rand((count, size), generator=generator, dtype=torch.float64)
        gumbel = -(-uniform.log()).log()
        index = gumbel.topk(self.kept, -1).indices.sort(-1).values
        first = next(self.model.parameters(), None)
        return Kept(
            grammar, self.domain, self.blocks, index.to(first.device if first is not None else None)
        )

    def weights(self, kept: Kept) -> dict[str, Weight]:
        """The weights of the smaller program by factor, differentiable in the parameters."""
        return self.model.readers(kept)

    def of(self, program: Program) -> Program:
        """The smaller program for the query of a program of the model's grammar."""
        return self.program.for_query(program.compiler.query)

    def log_z(self, kept: Kept, inputs: Mapping[str, object], lengths: Lengths = None) -> Tensor:
        """log Z of every item, `[batch]`, with the kept states."""
        return self.program.log_z(self.weights(kept), inputs, lengths)


def _blocks(grammar: Grammar, domain: str) -> str:
    """The domain M of blocks, where all products with a domain K are of M and K."""
    others: set[str] = set()
    for product in grammar.domains:
        parts = getattr(product.shape, "parts", ())
        if domain in parts:
            if not isinstance(product.shape, Product) or len(parts) != 2 or len(set(parts)) != 2:
                refuse(
                    "F476",
                    f"`{product.name}` is not a product of two domains, blocks and `{domain}`",
                )
            others.update(set(parts) - {domain})
    if len(others) != 1:
        refuse("F476", f"`{domain}` is not a component of one kind of states, `T = M * {domain}`")
    return others.pop()


def _check(grammar: Grammar, factor: Factor, domain: str, blocks: str) -> None:
    """Raise GrammarError (F476) for a factor whose states cannot be dropped block by block."""
    shapes = [grammar.domain[d].shape for d in factor.domains]
    touched = any(domain in getattr(shape, "parts", ()) for shape in shapes)
    if (touched or domain in factor.domains) and factor.value is not None:
        refuse("F476", f"`{factor.name}` has a value, so its states cannot be dropped")
    if isinstance(factor.definition, Tied) and (touched or domain in factor.domains):
        refuse("F476", f"`{factor.name}` is tied, so its states cannot be dropped")
    if domain in factor.domains:
        name = factor.blocks
        mapped = None if name is None else grammar.factor[name].domains[1]
        if mapped != blocks or factor.domains.count(domain) > 1 or name is None:
            refuse(
                "F476", f"`{factor.name}` is over `{domain}`, but not within the blocks `{blocks}`"
            )
        map_values(grammar, name)
