"""The parameters of a program: their names and shapes, and the checks of given weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from math import inf
from operator import index
from typing import overload

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.factors.maps import is_map
from fgg.factors.pieces import pieces
from fgg.grammar import Factor, Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.memo import per_grammar
from fgg.runtime.layer.precision import HALF, as_computed
from fgg.runtime.model.materialise import multiplied

Ends = tuple[float, float]
"""The least and the greatest entry of a tensor."""


class Parameterised(ABC):
    """The parameters of a program: their names, shapes and weights.

    `decomposed` is the user's grammar with pieces in place of the factors of declared rank.
    """

    grammar: Grammar
    decomposed: Grammar | None

    @property
    @abstractmethod
    def whole_names(self) -> tuple[str, ...]:
        """The factors that a computation reads, those of declared rank whole or as pieces."""

    @property
    def names_if_missing(self) -> set[str]:
        """The further factors that a computation may read where tokens are missing."""
        return set()

    @property
    def used_names(self) -> set[str]:
        """The factors that edges of the grammar use, without maps."""
        used = {edge.label for rule in self.grammar.rules for edge in rule.rhs.edges}
        return {f.name for f in self.grammar.factors if f.name in used and not is_map(f)}

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The factors that a computation needs weights of, in the grammar's order.

        Of a factor of declared rank these are its pieces, in every space.
        """
        names = {*self.whole_names, *self.names_if_missing}
        needed = {piece for name in names for piece in self.pieces(name)}
        return tuple(f.name for f in self.weighted.factors if f.name in needed)

    @property
    def parameters(self) -> tuple[Factor, ...]:
        """The factors that a computation needs weights of."""
        return tuple(self.weighted.factor[name] for name in self.parameter_names)

    @property
    def weighted(self) -> Grammar:
        """The grammar whose factors are the parameters."""
        return self.decomposed or self.grammar

    def pieces(self, name: str) -> tuple[str, ...]:
        """The names of a factor's pieces, or its own if it has none."""
        return _first_pieces(self.weighted, name)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a factor's weights."""
        return _shape(self.weighted, name)

    def weights(
        self,
        given: Mapping[str, object] | None = None,
        *,
        seed: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> dict[str, Tensor]:
        """Weights for every factor: given ones, values of the grammar, random ones by seed.

        Tensors that are given stay in the graph of derivatives. Raises GrammarError for a type
        (F415) or a device (F437) that cannot be used.
        """
        from fgg.runtime.devices import usable_device
        from fgg.runtime.layer.precision import check_type

        check_type(dtype)
        check_seed(seed)
        place = None if device is None else usable_device(str(device))
        return self._bound(given, dtype, place, seed=seed)

    def fixed_weights(
        self, given: Mapping[str, object] | None = None, *, dtype: torch.dtype = torch.float32
    ) -> dict[str, Tensor]:
        """Weights for the factors that are given some, or have a value: nothing is drawn."""
        weighted = self.weighted
        given = dict(given or {})
        only = {n for n in self.parameter_names if weighted.factor[n].value is not None}
        return self._bound(given, dtype, None, only={*only, *given})

    def _bound(
        self,
        given: Mapping[str, object] | None,
        dtype: torch.dtype,
        device: torch.device | None,
        *,
        seed: int | None = None,
        only: Collection[str] | None = None,
    ) -> dict[str, Tensor]:
        from fgg.runtime.program.bind import bind

        given = dict(given or {})
        dtype = torch.float32 if dtype in HALF else dtype
        tensors = {n: w for n, w in given.items() if isinstance(w, Tensor)}
        whole = {n: as_weight(n, given.pop(n)) for n in self.whole_names if self.is_whole(n, given)}
        parts = {piece for name in whole for piece in self.pieces(name)}
        unused = {piece: torch.zeros(self.shape(piece)) for piece in parts}
        bound = bind(self.weighted, given | unused, seed=seed, only=only)
        result: dict[str, Tensor] = {}
        for name in self.parameter_names:
            if name not in parts and (only is None or name in only):
                weights = tensors[name] if name in tensors else torch.as_tensor(bound[name])
                result[name] = weights.to(dtype=dtype, device=device)
        return result | {n: w.to(dtype=dtype, device=device) for n, w in whole.items()}

    def is_whole(self, name: str, given: Mapping[str, object]) -> bool:
        """Whether weights are given for a factor as a whole that has pieces."""
        return name in given and self.pieces(name) != (name,)

    def check_weights(
        self, given: Mapping[str, object], ends: dict[str, Ends] | None = None
    ) -> dict[str, Tensor]:
        """The weights that a computation reads, of the right shapes. Raises GrammarError.

        The least and greatest entries of those that are given are put into `ends`.
        """
        problems = []
        weights = {name: as_weight(name, value) for name, value in given.items()}
        for name in weights:
            if name not in self.weighted.factor:
                help = did_you_mean(name, self.weighted.factor)
                message = f"weights are given for `{name}`, which is not a factor"
                problems.append(Diagnostic(code="F417", message=message, help=help))
            elif self.is_whole(name, weights) and name not in self.whole_names:
                parts = ", ".join(f"`{piece}`" for piece in self.pieces(name))
                message = f"weights are given for `{name}`, which is decomposed"
                help = f'give its pieces {parts}, or compile with `space="dense"`'
                problems.append(Diagnostic(code="F417", message=message, help=help))
        if problems:
            raise GrammarError(problems)
        needed = [
            piece
            for name in self.whole_names
            for piece in ((name,) if name in weights else self.pieces(name))
        ]
        for name in needed:
            if name not in weights:
                problems.append(Diagnostic(code="F416", message=f"no weights for `{name}`"))
            elif weights[name].shape != self.shape(name):
                message = (
                    f"weights for `{name}` have shape {tuple(weights[name].shape)}, "
                    f"not {self.shape(name)}"
                )
                problems.append(Diagnostic(code="F417", message=message))
        if problems:
            raise GrammarError(problems)
        used = {name: weights[name] for name in needed}
        if used:
            known = check_numbers(used)
            if ends is not None:
                ends.update(known)
        return self.whole(used, self.whole_names)

    @overload
    def whole(self, weights: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]: ...
    @overload
    def whole(self, weights: Mapping[str, object], names: Iterable[str]) -> dict[str, object]: ...
    def whole(self, weights: Mapping[str, object], names: Iterable[str]) -> Mapping[str, object]:
        """The weights of factors: those given, and products of given pieces."""
        whole: dict[str, object] = {}
        for name in names:
            pieces = self.pieces(name)
            if name in weights:
                whole[name] = weights[name]
            elif pieces != (name,) and all(piece in weights for piece in pieces):
                whole[name] = multiplied(self.weighted, name, {p: weights[p] for p in pieces})
        return whole


def check_seed(seed: object) -> None:
    """Raise GrammarError (F415) for what is no seed of random parameters."""
    if seed is not None and not (hasattr(seed, "__index__") and 0 <= index(seed) < 2**63):
        refuse("F415", f"`seed` is a whole number from 0 up, below 2^63, not {seed!r}")


@per_grammar
def _first_pieces(grammar: Grammar, name: str) -> tuple[str, ...]:
    by_number = pieces(grammar, name)
    return tuple(by_number[number][0] for number in sorted(by_number)) or (name,)


@per_grammar
def _shape(grammar: Grammar, name: str) -> tuple[int, ...]:
    return tuple(domain_size(grammar, domain) for domain in grammar.factor[name].domains)


def as_weight(name: str, value: object) -> Tensor:
    """Weights as a tensor; arrays and lists too. Raises GrammarError."""
    try:
        weights = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if isinstance(value, Tensor) or weights.is_floating_point():
            return as_computed(weights)
        return weights.to(torch.get_default_dtype())
    except (TypeError, ValueError, RuntimeError):
        message = f"weights for `{name}` are not an array of numbers"
        refuse("F417", message)


def check_numbers(weights: Mapping[str, Tensor]) -> dict[str, Ends]:
    """The least and the greatest weight of each factor.

    Raises GrammarError for weights that are negative, infinite or NaN, or of two types.
    """
    problems = []
    names = [name for name, w in weights.items() if w.numel()]
    values: list[float] = []
    types = {w.dtype for w in weights.values()}
    if len(types) > 1 or not types <= {torch.float32, torch.float64}:
        kinds = ", ".join(sorted(str(t).removeprefix("torch.") for t in types))
        message = f"weights are of type {kinds}; all must be float32 or all float64"
        problems.append(Diagnostic(code="F417", message=message))
    elif len({w.device for w in weights.values()}) > 1:
        problems.append(Diagnostic(code="F417", message="weights are on several devices"))
    else:
        # One question to the device for all factors.
        ends = [end for name in names for end in torch.aminmax(weights[name].detach())]
        values = torch.stack(ends).tolist() if ends else []
        if not all(0 <= end < inf for end in values):
            for name, w in weights.items():
                if not bool(((w >= 0) & torch.isfinite(w)).all()):
                    message = f"some weights for `{name}` are negative, infinite or NaN"
                    problems.append(Diagnostic(code="F417", message=message))
    if problems:
        raise GrammarError(problems)
    return dict(zip(names, zip(values[::2], values[1::2], strict=True), strict=True))
