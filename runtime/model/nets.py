"""Networks that parameterise factors [RS appendices A, B].

The logit of an entry is the product of a vector of one side and a transformed embedding of the
other: for `emit(P -> W)`, u_w · h(x_p), for a piece `binary_1(R -> C)`, u_q · f(x_c). Embeddings x
are shared by all factors over a domain, and by the parts of a union; the vectors u of a rank node
are shared by all pieces around it (tied projections).
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
    """Makes parameters: from a generator, of a type, for the domains of a grammar."""

    grammar: Grammar
    generator: torch.Generator
    dtype: torch.dtype

    def normal(self, *shape: int, xavier: bool = False) -> nn.Parameter:
        """Random numbers of variance 1, or as Glorot and Bengio 2010 have it."""
        require(8 * prod(shape), torch.device("cpu"), "a network's parameters")
        start = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        if xavier:
            start *= (2 / (shape[0] + shape[-1])) ** 0.5
        return nn.Parameter(start.to(self.dtype))


class Shared(nn.Module):
    """Vectors that several factors share: embeddings of domains, and of rank nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ParameterDict()

    def add(self, maker: Maker, domain: str, dim: int, kind: str = "x") -> None:
        """Make the vectors of a domain, unless they are there; of a union, those of its parts."""
        shape = maker.grammar.domain[domain].shape
        if isinstance(shape, Union | Product) and kind == "x":
            for part in shape.parts:
                self.add(maker, part, dim)
        elif _key(kind, domain, dim) not in self.tables:
            size = domain_size(maker.grammar, domain)
            self.tables[_key(kind, domain, dim)] = maker.normal(size, dim, xavier=kind == "u")

    def vectors(self, grammar: Grammar, domain: str, dim: int, kind: str = "x") -> Tensor:
        """The vectors of a domain's values, `[values, dim]`; those of components are added."""
        shape = grammar.domain[domain].shape
        if isinstance(shape, Union | Product) and kind == "x":
            own = [self.vectors(grammar, part, dim) for part in shape.parts]
            if isinstance(shape, Union):
                return torch.cat(own)
            total = own[0]
            for part in own[1:]:
                total = (total.unsqueeze(1) + part).flatten(0, 1)
            return total
        found: Tensor = self.tables[_key(kind, domain, dim)]
        return found


class Residual(nn.Module):
    """h(x) = g_1(… g_k(W x)), with g(y) = ReLU(V ReLU(U y)) + y."""

    def __init__(self, maker: Maker, width: int, dim: int, layers: int) -> None:
        super().__init__()
        self.first = maker.normal(dim, width, xavier=True)
        self.inner = nn.ParameterList(maker.normal(dim, dim, xavier=True) for _ in range(layers))
        self.outer = nn.ParameterList(maker.normal(dim, dim, xavier=True) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """The transformed vectors."""
        y = x @ self.first.T
        for inner, outer in zip(self.inner, self.outer, strict=True):
            y = torch.relu(torch.relu(y @ inner.T) @ outer.T) + y
        return y


class FactorNet(nn.Module):
    """The network of a factor: its logits, in the shape of its weights."""

    def __init__(self, maker: Maker, shared: Shared, factor: Factor, net: Net) -> None:
        super().__init__()
        grammar = maker.grammar
        self.net = net
        self.shape = tuple(domain_size(grammar, d) for d in factor.domains)
        self.given, self.rank = _sides(grammar, factor)
        left, right = factor.domains[: self.given], factor.domains[self.given :]
        # The vectors u are those of the rank node, of the right side, or a single one.
        self.swapped = not left or self.rank == "left"
        self.inputs = right if self.swapped else left
        sizes = [domain_size(grammar, d) for d in self.inputs]
        require(8 * prod(sizes) * net.dim, torch.device("cpu"), f"the network of `{factor.name}`")
        self.own = nn.ParameterList()
        self.layers: Residual | None = None
        if net.kind == "linear":
            self.own.extend(maker.normal(size, net.dim) for size in sizes)
        else:
            for domain in self.inputs:
                shared.add(maker, domain, net.dim)
            self.layers = Residual(maker, net.dim * len(sizes), net.dim, net.layers)
        self.ranks: str | None = None
        if self.rank and net.tied:
            self.ranks = (left if self.rank == "left" else right)[0]
            shared.add(maker, self.ranks, net.dim, "u")
        else:
            count = prod(self.shape) // prod(sizes)
            self.projection = maker.normal(count, net.dim, xavier=True)

    def forward(self, shared: Shared, grammar: Grammar) -> Tensor:
        """The logits of the factor's entries."""
        x = self.embedded(shared, grammar)
        x = torch.nn.functional.dropout(x, self.net.dropout, self.training)
        h = x if self.layers is None else self.layers(x)
        if self.ranks is None:
            u: Tensor = self.projection
        else:
            u = shared.vectors(grammar, self.ranks, self.net.dim, "u")
        h = h.flatten(0, -2)
        found = u @ h.T if self.swapped else h @ u.T
        return found.reshape(self.shape)

    def embedded(self, shared: Shared, grammar: Grammar) -> Tensor:
        """The embeddings of the side that is transformed, those of its nodes side by side."""
        tables: list[Tensor] = list(self.own) or [
            shared.vectors(grammar, d, self.net.dim) for d in self.inputs
        ]
        if len(tables) == 1:
            return tables[0]
        sizes = [len(table) for table in tables]
        if self.layers is None:  # without layers to mix them, they are added
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
    """How many nodes stand on the left, and which side is a rank node, if any."""
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
