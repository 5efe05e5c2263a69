"""Networks of models with very many states [VL eqs. 7, 13-15].

The logit of an entry is the product of two vectors, over √dim: for `trans(T -> T)` of what the
state that is left and the state that is entered become under networks of their own, for
`emit(T -> W)` of what the state becomes and the embedding of the word,

    ψ = H_out H_inᵀ,    φ = H_emit E_xᵀ,    H_i = f_i(E_z),
    f(E) = g(ReLU(E W₁)),    g(D) = LayerNorm(ReLU(D W₂) + D).

Embeddings of states and words are shared by all factors. `factored`: E_z is f_j([E_m, E_z]), of a
block and of a state. Where a factor has blocks, only the products within them are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fgg.diagnostics import refuse
from fgg.factors.maps import map_values
from fgg.grammar import Factor, Grammar, Product
from fgg.grammar.domains import domain_size
from fgg.grammar.options import Net
from fgg.runtime.model.nets import Maker, Shared
from fgg.runtime.model.segment_softmax import group_tensor

if TYPE_CHECKING:
    from fgg.runtime.model.state_dropout import Kept


class Normed(nn.Module):
    """f(E) = g(ReLU(E W₁)), g(D) = LayerNorm(ReLU(D W₂) + D) [VL eq. 13]."""

    def __init__(self, maker: Maker, dim: int) -> None:
        super().__init__()
        self.first = maker.normal(dim, dim, xavier=True)
        self.second = maker.normal(dim, dim, xavier=True)
        self.norm = nn.LayerNorm(dim, dtype=maker.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """The transformed vectors."""
        y = torch.relu(x @ self.first)
        found: Tensor = self.norm(torch.relu(y @ self.second) + y)
        return found


class Side(nn.Module):
    """The vectors of the values of one side of a factor; those of states are transformed.

    `domain` is that of the states, also where blocks stand for a component of it; None for a side
    without nodes, which has one vector of its own.
    """

    def __init__(
        self, maker: Maker, shared: Shared, domain: str | None, net: Net, transformed: bool
    ) -> None:
        super().__init__()
        self.domain, self.net = domain, net
        shape = None if domain is None else maker.grammar.domain[domain].shape
        self.factored = net.factored and transformed and isinstance(shape, Product)
        width = net.dim // 2 if self.factored else net.dim
        if domain is None:
            self.own = maker.normal(1, net.dim)
        else:
            shared.add(maker, domain, width, "z")
        if self.factored and isinstance(shape, Product):
            shared.add(maker, shape.parts[0], width, "z")
            self.joined = Normed(maker, net.dim)
        self.layers = Normed(maker, net.dim) if transformed else None

    def forward(self, shared: Shared, grammar: Grammar, kept: Kept | None) -> Tensor:
        """A vector for each value, `[values, dim]`, of those that are kept."""
        if self.domain is None:
            own: Tensor = self.own
            return own
        rows = None if kept is None else kept.states(self.domain)
        width = self.net.dim // 2 if self.factored else self.net.dim
        x = shared.vectors(grammar, self.domain, width, "z")
        shape = grammar.domain[self.domain].shape
        if self.factored and isinstance(shape, Product):
            blocks = shared.vectors(grammar, shape.parts[0], width, "z")
            x = torch.cat([blocks.repeat_interleave(len(x) // len(blocks), 0), x], -1)
        if rows is not None:
            x = x.index_select(0, rows)
        x = torch.nn.functional.dropout(x, self.net.dropout, self.training)
        if self.factored:
            x = self.joined(x)
        if self.layers is not None:
            x = self.layers(x)
        return x


class StateNet(nn.Module):
    """The logits of a factor with at most one node on each side."""

    def __init__(self, maker: Maker, shared: Shared, factor: Factor, net: Net) -> None:
        super().__init__()
        grammar = maker.grammar
        given = factor.given or 0
        left, right = factor.domains[:given], factor.domains[given:]
        if factor.given is None or len(left) > 1 or len(right) != 1:
            message = f"`net = states` needs one node on each side, and `{factor.name}` has others"
            refuse("F470", message)
        self.blocks = factor.blocks
        source = left[0] if left else None
        if self.blocks is not None and source is not None:
            source = _whole(grammar, grammar.factor[self.blocks].domains[1], source)
            self.first = grammar.domain[source].shape.parts[0] != left[0]  # type: ignore[union-attr]
        self.left = Side(maker, shared, source, net, source is not None)
        self.right = Side(maker, shared, right[0], net, _is_state(grammar, right[0]))
        self.scale = net.dim**-0.5

    def forward(self, shared: Shared, grammar: Grammar, kept: Kept | None = None) -> Tensor:
        """The logits, in the shape of the weights, of the states that are kept."""
        left: Tensor = self.left(shared, grammar, kept) * self.scale
        right: Tensor = self.right(shared, grammar, kept)
        if self.left.domain is None:
            found: Tensor = (left @ right.T)[0]
            return found
        if self.blocks is None:
            return left @ right.T
        count = domain_size(grammar, grammar.factor[self.blocks].domains[1])
        if self.first:
            states = left.reshape(count, -1, left.shape[-1])
        else:
            states = left.reshape(-1, count, left.shape[-1]).transpose(0, 1)
        return within_blocks(states, right, group_tensor(map_values(grammar, self.blocks)))


def within_blocks(states: Tensor, words: Tensor, blocks: Tensor) -> Tensor:
    """The product of each word with the states of its block, `[places, words]`.

    Words are taken block by block: nothing is made for words and states of other blocks.
    """
    order = torch.argsort(blocks, stable=True)
    counts = torch.bincount(blocks, minlength=len(states)).tolist()
    parts = torch.split(words.index_select(0, order.to(words.device)), counts)
    rows = [own @ part.T for own, part in zip(states, parts, strict=True)]
    return torch.cat(rows, -1).index_select(-1, torch.argsort(order).to(words.device))


def _whole(grammar: Grammar, blocks: str, places: str) -> str:
    """The domain of states that are made of a block and a place in it. Raises GrammarError."""
    for domain in grammar.domains:
        shape = domain.shape
        if isinstance(shape, Product) and sorted(shape.parts) == sorted((blocks, places)):
            return domain.name
    message = f"`net = states` needs a domain `T = {blocks} * {places}`"
    refuse("F470", message)


def _is_state(grammar: Grammar, domain: str) -> bool:
    """Whether something is drawn given a value of a domain: it is on the left of a parameter."""
    return any(
        domain in factor.domains[: factor.given]
        for factor in grammar.factors
        if factor.given and factor.value is None
    )
