"""A program's interface on the reference engine: for grammars that have no schedule.

Each item is grounded and solved on its own. Slow, but every finite grammar can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.domains import size_values
from fgg.grammar import Grammar
from fgg.grounding import ground
from fgg.joints import joint_of
from fgg.runtime.batching import Lengths, collate
from fgg.runtime.derivation import Derivation
from fgg.runtime.program import Asked, Program
from fgg.runtime.sample import sample
from fgg.runtime.solve import solve
from fgg.runtime.viterbi import k_best
from fgg.runtime.weights import bind
from fgg.slices import slice_of

Inputs = Mapping[str, Any] | None


class ReferenceProgram(Program):
    """A grammar with its query, solved item by item; `notes` say why it is not compiled.

    What needs charts (marginals of families, MBR, entropy, moments) raises GrammarError (F425).
    """

    def __init__(
        self, grammar: Grammar, notes: tuple[Diagnostic, ...], asked: Asked | None = None
    ) -> None:
        object.__setattr__(self, "grammar", grammar)
        object.__setattr__(self, "notes", notes)
        object.__setattr__(self, "asked", asked)
        object.__setattr__(self, "pins", {})

    def __getattr__(self, name: str) -> Any:
        if name in ("plan", "tree_plan", "origins", "source", "module"):
            raise GrammarError(
                [
                    Diagnostic(
                        code="F425",
                        message=f"this needs a compiled program; `{self.grammar.name}` has none",
                        help="; ".join(note.message for note in self.notes),
                    )
                ]
            )
        raise AttributeError(name)

    def __reduce__(self) -> Any:
        return ReferenceProgram, (self.grammar, self.notes, self.asked)

    def __repr__(self) -> str:
        return f"ReferenceProgram({self.grammar.name!r})"

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The factors that a computation needs weights of, in the grammar's order."""
        used = {e.label for rule in self.grammar.rules for e in rule.rhs.edges}
        for factor in self.grammar.factors:
            cut = slice_of(factor)
            if factor.name in used and cut is not None:
                used.add(cut.source)
        made: set[str] = set()
        for factor in self.grammar.factors:
            joint = joint_of(factor)
            if factor.name in used and joint is not None:
                made.add(factor.name)
                used |= {part.source for part in joint.parts}
        kept = [f for f in self.grammar.factors if f.name in used - made and slice_of(f) is None]
        return tuple(f.name for f in kept)

    def weights(
        self,
        given: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> dict[str, Tensor]:
        """Weights for every factor: given ones, values of the grammar, random ones by seed."""
        found = bind(self.grammar, given, seed=seed)
        names = self.parameter_names
        return {n: torch.as_tensor(found[n]).to(dtype=dtype, device=device) for n in names}

    def items(self, inputs: Inputs, lengths: Lengths) -> list[Grammar]:
        """The ground grammar of each item of a batch."""
        batch = collate(self.grammar, inputs or {}, lengths)
        found = []
        for number in range(batch.size):
            own = {name: values[number] for name, values in batch.lengths.items()}
            given = {}
            for name, tensor in batch.inputs.items():
                item = tensor[number]
                for axis, extent in enumerate(self.extents(name, own)):
                    item = item.narrow(axis, 0, min(extent, item.shape[axis]))
                given[name] = item.tolist()
            found.append(ground(self.grammar, lengths=own, inputs=given))
        return found

    def extents(self, name: str, lengths: Mapping[str, int]) -> list[int]:
        """The extents of an input for an item's lengths; log-potentials are not cut."""
        shapes = {item.name: item.shape for item in self.grammar.observed}
        shape = shapes.get(name, ())
        known = {**size_values(self.grammar), **lengths}
        return [expr.evaluate(known) or 0 for expr in shape]

    def log_z(
        self, weights: Mapping[str, Tensor], inputs: Inputs = None, lengths: Lengths = None
    ) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in the weights."""
        found = []
        for item in self.items(inputs, lengths):
            own = {name: w for name, w in weights.items() if name in item.factor}
            value = solve(item, "log", weights=own).value
            found.append(torch.logsumexp(torch.as_tensor(value).reshape(-1), 0))
        sample_of = next(iter(weights.values()), None)
        dtype = torch.float64 if sample_of is None else sample_of.dtype
        return torch.stack(found).to(dtype)

    def expected_counts(
        self, weights: Mapping[str, Tensor], inputs: Inputs = None, lengths: Lengths = None
    ) -> dict[str, Tensor]:
        """How often each entry of each factor is expected to be used, over the whole batch."""
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
            log_z = self.log_z(leaves, inputs, lengths)
            torch.autograd.backward(log_z[torch.isfinite(log_z)].sum())
        return {
            name: torch.zeros_like(w) if w.grad is None else w.grad * w.detach()
            for name, w in leaves.items()
        }

    def decode(
        self,
        weights: Mapping[str, Any],
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        method: str = "viterbi",
        families: Sequence[str] | None = None,
        states: bool | None = None,
    ) -> list[Derivation]:
        """The derivation of greatest weight of each item; `mbr` needs charts."""
        if method != "viterbi":
            return super().decode(
                weights, inputs, lengths, method=method, families=families, states=states
            )
        return [found[0] for found in self.k_best(weights, inputs, lengths, number=1)]

    def k_best(
        self,
        weights: Mapping[str, Any],
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        number: int,
    ) -> list[list[Derivation]]:
        """The derivations of greatest weight of each item, best first."""
        return [
            k_best(item, number, weights=_of(weights, item)) for item in self.items(inputs, lengths)
        ]

    def sample(
        self,
        weights: Mapping[str, Any],
        inputs: Inputs = None,
        lengths: Lengths = None,
        *,
        number: int = 1,
        seed: int | torch.Generator | None = None,
    ) -> list[list[Derivation]]:
        """Independent draws from the posterior of each item, exact."""
        if isinstance(seed, torch.Generator):
            seed = seed.initial_seed()
        generator = np.random.default_rng(seed)
        return [
            sample(item, number, weights=_of(weights, item), generator=generator)
            for item in self.items(inputs, lengths)
        ]


def _of(weights: Mapping[str, Any], item: Grammar) -> dict[str, Any]:
    return {
        name: w.detach() if isinstance(w, Tensor) else w
        for name, w in weights.items()
        if name in item.factor
    }
