"""Networks for models with very many states [VL eqs. 7, 13-15].

The logit of an entry is the scalar product of two vectors, over √dim. For `trans(T -> T)` they are
the embeddings of the two states, each transformed by its own network; for `emit(T -> W)` they are
the transformed embedding of the state and the embedding of the word,

    ψ = H_out H_inᵀ,    φ = H_emit E_xᵀ,    H_i = f_i(E_z),
    f(E) = g(ReLU(E W₁)),    g(D) = LayerNorm(ReLU(D W₂) + D).

All factors share the embeddings of states and words. With `factored`, E_z is f_j([E_m, E_z]), of a
block and a state. If a factor has blocks, only the products within blocks are computed.
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

    def __init__(self, maker: Maker, dim: int, init: str) -> None:
        super().__init__()
        self.first = maker.matrix(dim, dim, init)
        self.second = maker.matrix(dim, dim, init)
        self.norm = nn.LayerNorm(dim, dtype=maker.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """The transformed vectors, `[…, dim]`."""
        y = torch.relu(x @ self.first)
        normed: Tensor = self.norm(torch.relu(y @ self.second) + y)
        return normed


class SideVectors(nn.Module):
    """The vectors of the values on one side of a factor, transformed if they are states.

    `domain` is the domain of the states, even if the factor is over blocks and states within them.
    It is None for a side without nodes, which has a single vector.
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
            self.vector = maker.embeddings(1, net.dim, net.init)
        else:
            shared.add(maker, domain, width, net.init, "z")
        if self.factored and isinstance(shape, Product):
            shared.add(maker, shape.parts[0], width, net.init, "z")
            self.joined = Normed(maker, net.dim, net.init)
        self.layers = Normed(maker, net.dim, net.init) if transformed else None

    def forward(self, shared: Shared, grammar: Grammar, kept: Kept | None) -> Tensor:
        """The vector of each kept value, `[values, dim]`."""
        if self.domain is None:
            single: Tensor = self.vector
            return single
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
    """The network of a factor with at most one node on each side."""

    def __init__(self, maker: Maker, shared: Shared, factor: Factor, net: Net) -> None:
        super().__init__()
        grammar = maker.grammar
        given = factor.given or 0
        left, right = factor.domains[:given], factor.domains[given:]
        if factor.given is None or len(left) > 1 or len(right) != 1:
            message = f"`net = states` needs one node on each side, and `{factor.name}` has others"
            refuse("F470", message)
        self.given = given
        self.blocks = factor.blocks
        source = left[0] if left else None
        if self.blocks is not None and source is not None:
            source, parts = _product_of(grammar, grammar.factor[self.blocks].domains[1], source)
            self.first = parts[0] != left[0]
        self.left = SideVectors(maker, shared, source, net, source is not None)
        self.right = SideVectors(maker, shared, right[0], net, _is_state(grammar, right[0]))
        self.scale = net.dim**-0.5

    def forward(self, shared: Shared, grammar: Grammar, kept: Kept | None = None) -> Tensor:
        """The logits of the factor at the kept states, in its shape."""
        left, right = self.sides(shared, grammar, kept)
        if self.blocks is not None and self.left.domain is not None:
            return within_blocks(left, right, group_tensor(map_values(grammar, self.blocks)))
        return (left @ right.T)[0] if self.left.domain is None else left @ right.T

    def shape(self, left: Tensor, right: Tensor) -> tuple[int, ...]:
        """The shape of the logits of some vectors that `sides` gave."""
        return (len(right),) if self.left.domain is None else (left.shape[-2], len(right))

    def sides(
        self, shared: Shared, grammar: Grammar, kept: Kept | None = None
    ) -> tuple[Tensor, Tensor]:
        """The vectors of the values on the left, and of those on the right, `[values, dim]`.

        With blocks, those on the left are `[blocks, states of a block, dim]`.
        """
        left: Tensor = self.left(shared, grammar, kept) * self.scale
        right: Tensor = self.right(shared, grammar, kept)
        if self.blocks is None or self.left.domain is None:
            return left, right
        count = domain_size(grammar, grammar.factor[self.blocks].domains[1])
        if self.first:
            return left.reshape(count, -1, left.shape[-1]), right
        return left.reshape(-1, count, left.shape[-1]).transpose(0, 1), right


def within_blocks(states: Tensor, words: Tensor, blocks: Tensor) -> Tensor:
    """The products of each word with the states of its block, `[states of a block, words]`.

    `states` is `[blocks, states of a block, dim]`, `words` `[words, dim]`, `blocks` the block of
    each word, `[words]`. Nothing is computed for words and states of different blocks.
    """
    order = torch.argsort(blocks, stable=True)
    counts = torch.bincount(blocks, minlength=len(states)).tolist()
    parts = torch.split(words.index_select(0, order.to(words.device)), counts)
    rows = [members @ part.T for members, part in zip(states, parts, strict=True)]
    return torch.cat(rows, -1).index_select(-1, torch.argsort(order).to(words.device))


def _product_of(grammar: Grammar, blocks: str, places: str) -> tuple[str, tuple[str, ...]]:
    """The domain that is the product of two domains, and its parts. Raises GrammarError (F470)."""
    for domain in grammar.domains:
        shape = domain.shape
        if isinstance(shape, Product) and sorted(shape.parts) == sorted((blocks, places)):
            return domain.name, shape.parts
    refuse("F470", f"`net = states` needs a domain `T = {blocks} * {places}`")


def _is_state(grammar: Grammar, domain: str) -> bool:
    """Whether a domain is on the left of a parameter: its values are states."""
    return any(
        domain in factor.domains[: factor.given]
        for factor in grammar.factors
        if factor.given and factor.value is None
    )
