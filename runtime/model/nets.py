"""Networks that parameterise factors [RS appendices A, B].

The logit of an entry is the scalar product of a vector of one side and a transformed embedding of
the other: for `emit(P -> W)` it is u_w · h(x_p), for a piece `binary_1(R -> C)` it is u_q · f(x_c).
All factors over a domain share its embeddings x, and a union has those of its parts. All pieces
around a rank node share its vectors u (tied projections).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from fgg.grammar import Factor, Grammar, Product, Union
from fgg.grammar.domains import domain_size
from fgg.grammar.options import Net
from fgg.runtime.memory import require


@dataclass(frozen=True)
class Maker:
    """Makes random parameters of one type for the domains of a grammar."""

    grammar: Grammar
    generator: torch.Generator
    dtype: torch.dtype

    def embeddings(self, rows: int, dim: int, init: str) -> nn.Parameter:
        """Vectors of values, `[rows, dim]`, that begin as `init` of `NET_INITS` says."""
        return self._drawn(rows, dim, init)

    def matrix(self, rows: int, columns: int, init: str) -> nn.Parameter:
        """A matrix of a network, which begins as `init` says; with `normal` it is Xavier normal."""
        return self._drawn(rows, columns, "xavier" if init == "normal" else init)

    def _drawn(self, rows: int, columns: int, init: str) -> nn.Parameter:
        require(8 * rows * columns, torch.device("cpu"), "a network's parameters")
        shape = (rows, columns)
        if init == "kaiming":
            start = torch.rand(shape, generator=self.generator, dtype=torch.float64)
            start = (2 * start - 1) * (6 / columns) ** 0.5
        else:
            start = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        if init == "xavier":
            start *= (2 / (rows + columns)) ** 0.5
        return nn.Parameter(start.to(self.dtype))


class Shared(nn.Module):
    """The vectors that several factors share: embeddings `x` of domains, `u` of rank nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ParameterDict()

    def add(self, maker: Maker, domain: str, dim: int, init: str, kind: str = "x") -> None:
        """Make the vectors of a domain unless they exist; for a union, those of its parts."""
        shape = maker.grammar.domain[domain].shape
        if isinstance(shape, Union | Product) and kind == "x":
            for part in shape.parts:
                self.add(maker, part, dim, init)
        elif _key(kind, domain, dim) not in self.tables:
            size = domain_size(maker.grammar, domain)
            make = maker.matrix if kind == "u" else maker.embeddings
            self.tables[_key(kind, domain, dim)] = make(size, dim, init)

    def vectors(self, grammar: Grammar, domain: str, dim: int, kind: str = "x") -> Tensor:
        """The vectors of a domain's values, `[values, dim]`; a product adds those of its parts."""
        shape = grammar.domain[domain].shape
        if isinstance(shape, Union | Product) and kind == "x":
            parts = [self.vectors(grammar, part, dim) for part in shape.parts]
            if isinstance(shape, Union):
                return torch.cat(parts)
            total = parts[0]
            for part in parts[1:]:
                total = (total.unsqueeze(1) + part).flatten(0, 1)
            return total
        table: Tensor = self.tables[_key(kind, domain, dim)]
        return table


class Residual(nn.Module):
    """h(x) = g_1(… g_k(W x)), with g(y) = ReLU(V ReLU(U y)) + y."""

    def __init__(self, maker: Maker, width: int, net: Net) -> None:
        super().__init__()
        dim, init, layers = net.dim, net.init, range(net.layers)
        self.first = maker.matrix(dim, width, init)
        self.inner = nn.ParameterList(maker.matrix(dim, dim, init) for _ in layers)
        self.outer = nn.ParameterList(maker.matrix(dim, dim, init) for _ in layers)

    def forward(self, x: Tensor) -> Tensor:
        """The transformed vectors `[…, dim]` of vectors `[…, width]`."""
        y = x @ self.first.T
        for inner, outer in zip(self.inner, self.outer, strict=True):
            y = torch.relu(torch.relu(y @ inner.T) @ outer.T) + y
        return y


class FactorNet(nn.Module):
    """The network of a factor, which makes logits in the shape of its weights."""

    def __init__(self, maker: Maker, shared: Shared, factor: Factor, net: Net) -> None:
        super().__init__()
        grammar = maker.grammar
        self.net = net
        self.shape = tuple(domain_size(grammar, d) for d in factor.domains)
        self.given, self.rank = _sides(grammar, factor)
        left, right = factor.domains[: self.given], factor.domains[self.given :]
        # The vectors u belong to the rank node, or to the right side, or there is a single one.
        self.swapped = not left or self.rank == "left"
        self.inputs = right if self.swapped else left
        sizes = [domain_size(grammar, d) for d in self.inputs]
        require(8 * prod(sizes) * net.dim, torch.device("cpu"), f"the network of `{factor.name}`")
        self.embeddings = nn.ParameterList()
        self.layers: Residual | None = None
        if net.kind == "linear":
            self.embeddings.extend(maker.embeddings(size, net.dim, net.init) for size in sizes)
        else:
            for domain in self.inputs:
                shared.add(maker, domain, net.dim, net.init)
            self.layers = Residual(maker, net.dim * len(sizes), net)
        self.ranks: str | None = None
        if self.rank and net.tied:
            self.ranks = (left if self.rank == "left" else right)[0]
            shared.add(maker, self.ranks, net.dim, net.init, "u")
        else:
            count = prod(self.shape) // prod(sizes)
            self.projection = maker.matrix(count, net.dim, net.init)

    def forward(self, shared: Shared, grammar: Grammar) -> Tensor:
        """The logits of the factor, in its shape."""
        left, right = self.sides(shared, grammar)
        return (left @ right.T).reshape(self.shape)

    def sides(self, shared: Shared, grammar: Grammar) -> tuple[Tensor, Tensor]:
        """The vectors of the values on the left, and of those on the right, `[values, dim]`."""
        x = self.embedded(shared, grammar)
        x = torch.nn.functional.dropout(x, self.net.dropout, self.training)
        h = x if self.layers is None else self.layers(x)
        if self.ranks is None:
            u: Tensor = self.projection
        else:
            u = shared.vectors(grammar, self.ranks, self.net.dim, "u")
        h = h.flatten(0, -2)
        return (u, h) if self.swapped else (h, u)

    def embedded(self, shared: Shared, grammar: Grammar) -> Tensor:
        """The embeddings of the transformed side, `[*sizes of its nodes, width]`.

        Those of several nodes are concatenated, or added if there are no layers to mix them.
        """
        tables: list[Tensor] = list(self.embeddings) or [
            shared.vectors(grammar, d, self.net.dim) for d in self.inputs
        ]
        if len(tables) == 1:
            return tables[0]
        sizes = [len(table) for table in tables]
        if self.layers is None:
            total = tables[0]
            for table in tables[1:]:
                total = total.unsqueeze(-2) + table
            return total
        parts = []
        for axis, table in enumerate(tables):
            before, after = (1,) * axis, (1,) * (len(tables) - axis - 1)
            parts.append(table.reshape(*before, sizes[axis], *after, -1).expand(*sizes, -1))
        return torch.cat(parts, -1)


def _sides(grammar: Grammar, factor: Factor) -> tuple[int, str]:
    """The number of nodes on the left, and the side that is a rank node: `left`, `right` or ""."""
    given = factor.given
    if given is None:
        given = 0 if len(factor.domains) < 2 else 1
    left, right = factor.domains[:given], factor.domains[given:]
    if len(right) == 1 and grammar.domain[right[0]].rank and left:
        return given, "right"
    if len(left) == 1 and grammar.domain[left[0]].rank:
        return given, "left"
    return given, ""


def _key(kind: str, domain: str, dim: int) -> str:
    return f"{kind}_{dim}_{domain}".replace(".", "\N{MIDDLE DOT}")
