"""Dense weights to pieces of low rank (`decompose`), and back (`materialise`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from fgg.diagnostics import Diagnostic, GrammarError, refuse
from fgg.factors.pieces import given_pieces
from fgg.grammar import Attachment, Edge, Fragment, Grammar, Node, Rule
from fgg.grammar.definitions import ProductOf
from fgg.progress import steps
from fgg.rewrite.trim import needed_factors, query_factors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fgg.runtime.model.decompose import Decomposition
    from fgg.runtime.program.inputs import Lengths
    from fgg.runtime.program.program import Program


@dataclass(frozen=True)
class FactorReport:
    """The outcome for a factor: the rank, the error and the size of its pieces.

    `left` says that the factor stays whole, because no rank was low enough to be of use.
    """

    factor: str
    rank: int
    relative_error: float
    entries_before: int
    entries_after: int
    method: str
    converged: bool
    left: bool = False


@dataclass(frozen=True, repr=False)
class DecomposedGrammar:
    """A grammar with declared ranks, weights with pieces in place of factors, and a report.

    The pieces of `binary` are the weights `binary_0`, `binary_1`, …, as the pass `cpd` names them.
    """

    grammar: Grammar
    weights: Mapping[str, Any]  # arrays or tensors
    report: tuple[FactorReport, ...]
    notes: tuple[Diagnostic, ...] = ()

    def __repr__(self) -> str:
        factors = ", ".join(report.factor for report in self.report)
        return f"DecomposedGrammar({self.grammar.name!r}, {factors})"

    def explicit(self) -> Grammar:
        """The grammar with the pieces as factors with tables, around rank nodes.

        Raises GrammarError (F440) if the pieces are too large or have signs, or if the whole factor
        is needed too.
        """
        from fgg.compiler.passes.cpd import CpdImpossible
        from fgg.compiler.passes.write_pieces import write_pieces

        names = [line.factor for line in self.report if not line.left]
        try:
            return write_pieces(self.grammar, self.weights, names)
        except CpdImpossible as error:
            refuse("F440", str(error), error.help)


class _Options(TypedDict):
    nonnegative: bool
    seed: int
    restarts: int
    sweeps: int


def decompose(
    grammar: Grammar,
    weights: Mapping[str, object] | None = None,
    *,
    ranks: Mapping[str, int] | None = None,
    tolerance: float | None = None,
    factors: Collection[str] | None = None,
    nonnegative: bool = True,
    restarts: int | None = None,
    sweeps: int | None = None,
    seed: int = 0,
) -> DecomposedGrammar:
    """The grammar with factors of low rank in place of dense ones, and the pieces of their weights.

    `ranks` gives factors and their ranks. With a `tolerance`, each of `factors` gets the smallest
    rank found whose relative error is within it; without `factors`, all that become smaller do.
    Weights are those given, or values of the grammar; a joint factor is the product of its parts.
    Pieces are non-negative, and a factor with an arrow stays exactly a distribution. With
    `nonnegative=False` pieces may have signs, but no program runs with those. Raises GrammarError.
    """
    from fgg.runtime.model.decompose import RESTARTS, SWEEPS, smallest_rank
    from fgg.runtime.model.decompose import decompose as numeric

    ranks = dict(ranks or {})
    named = factors is not None or tolerance is None
    wanted = _wanted(grammar, weights or {}, ranks, tolerance, factors)
    dense = bind_only(grammar, weights or {}, wanted)
    options: _Options = {
        "nonnegative": nonnegative,
        "seed": seed,
        "restarts": RESTARTS if restarts is None else restarts,
        "sweeps": SWEEPS if sweeps is None else sweeps,
    }
    lines: list[FactorReport] = []
    notes: list[Diagnostic] = []
    done: dict[str, Decomposition] = {}
    for name in steps(wanted, "factor"):
        given = grammar.factor[name].given
        if name in ranks:
            result = numeric(dense[name], given, ranks[name], name=name, **options)
        else:
            assert tolerance is not None
            result = smallest_rank(dense[name], given, tolerance, name=name, **options)
        before = int(dense[name].size)
        reached = tolerance is None or result.relative_error <= tolerance * (1 + 1e-9)
        left = name not in ranks and not named and (result.entries >= before or not reached)
        if not left:
            done[name] = result
            notes += result.notes
        lines.append(
            FactorReport(
                name,
                result.rank,
                result.relative_error,
                before,
                result.entries,
                result.method,
                result.converged,
                left,
            )
        )
    declared = _declared(grammar, {name: item.rank for name, item in done.items()})
    kept = {n: w for n, w in (weights or {}).items() if n in declared.factor and n not in done}
    labels = given_pieces(declared)
    for name, item in done.items():
        kept.update(zip(labels[name], item.pieces, strict=True))
    return DecomposedGrammar(declared, kept, tuple(lines), tuple(notes))


def materialise(target: Program | Grammar, weights: Mapping[str, object]) -> dict[str, Any]:
    """The weights with each factor of declared rank whole, in place of its pieces.

    Products of tensors are tensors, with gradients. Raises GrammarError for pieces that are missing
    or of a wrong shape, and for factors that are too large, before anything is computed (F420).
    """
    from fgg.runtime.model.materialise import materialised

    grammar = target if isinstance(target, Grammar) else target.grammar
    return materialised(grammar, weights)


def log_z_moved(
    grammar: Grammar,
    weights: Mapping[str, object] | None,
    decomposed: DecomposedGrammar,
    *,
    query: str | None = None,
    inputs: Mapping[str, object] | None = None,
    lengths: Lengths = None,
    seed: int | None = None,
) -> list[tuple[float, float]]:
    """log Z of each item before and after decomposing, in float64.

    Factors that have neither weights nor values are random, drawn with `seed`, and equal in both.
    """
    import numpy as np
    import torch

    from fgg.api.compile import compile

    names = [line.factor for line in decomposed.report if not line.left]
    dense = materialise(decomposed.grammar, decomposed.weights)
    for name in names:
        # Pieces with signs may give slightly negative weights by rounding; more is refused.
        array = np.asarray(dense[name])
        dense[name] = array.clip(min=0) if array.min() >= -1e-12 * abs(array).max() else array
    plain = tuple(
        replace(f, rank=None) if f.name in names else f for f in decomposed.grammar.factors
    )
    logs: list[list[float]] = []
    drawn: dict[str, object] = {}
    for version, known in (
        (grammar, dict(weights or {})),
        (replace(decomposed.grammar, factors=plain), dense),
    ):
        program = compile(version, query)
        # Random weights are drawn once: the second grammar has other factors.
        given = {**{n: w for n, w in drawn.items() if n in version.factor}, **known}
        numbers = program.weights(given, seed=seed, dtype=torch.float64)
        drawn = {n: w for n, w in numbers.items() if n not in known}
        logs.append(program.log_z(numbers, dict(inputs or {}), lengths).tolist())
    return list(zip(*logs, strict=True))


def _wanted(
    grammar: Grammar,
    weights: Mapping[str, object],
    ranks: Mapping[str, int],
    tolerance: float | None,
    factors: Collection[str] | None,
) -> list[str]:
    """The factors to decompose, in the grammar's order. Raises GrammarError (F440)."""
    from fgg.compiler.passes.cpd import CpdImpossible, declared, is_free, unjoined

    free = replace(grammar, factors=tuple(replace(f, value=None) for f in grammar.factors))
    names = {*ranks, *(factors or ())}
    try:
        declared(free, {name: ranks.get(name, 1) for name in names})
    except CpdImpossible as error:
        refuse("F440", str(error), error.help)
    used = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    for name in sorted(names - used - query_factors(grammar)):
        wholes = [f.name for f in grammar.factors if name in f.sources and f.name in used]
        help = f"it is part of `{wholes[0]}`" if wholes else ""
        refuse("F440", f"no rule uses factor `{name}`", help)
    for name in sorted(names - {*ranks}):
        if tolerance is None:
            refuse("F440", f"factor `{name}` is given neither a rank nor a tolerance")
    if not names and tolerance is None:
        refuse("F440", "nothing to decompose", "name a rank, `trans=4`, or a tolerance")
    if not names:
        low = {f.name for f in free.factors if len(f.domains) > 1 and is_free(unjoined(f))}
        known = {f.name for f in grammar.factors if f.name in weights or f.value is not None}
        known |= {
            f.name
            for f in grammar.factors
            if isinstance(f.definition, ProductOf) and known.issuperset(f.definition.sources)
        }
        names = used & low & known
    return [f.name for f in grammar.factors if f.name in names]


def bind_only(
    grammar: Grammar, weights: Mapping[str, object], names: Collection[str]
) -> dict[str, NDArray[np.float64]]:
    """The weights of some factors in their shapes: given, or from values or other factors.

    Raises GrammarError for weights that are missing or do not fit.
    """
    from fgg.runtime.program.bind import bind

    nodes: list[Node] = []
    edges: list[Edge] = []
    for name in names:
        ends = [
            Node(name=f"x{len(nodes) + i}", domain=domain)
            for i, domain in enumerate(grammar.factor[name].domains)
        ]
        nodes += ends
        edges.append(Edge(label=name, attachments=tuple(Attachment(node=n.name) for n in ends)))
    fragment = Fragment.make(tuple(nodes), tuple(edges))
    rule = Rule(name="all", lhs=grammar.start.label, rhs=fragment)
    try:
        return dict(bind(replace(grammar, rules=(rule,), queries=()), weights))
    except GrammarError as error:
        hint = "give values in the grammar, or a file of weights (`--params`)"
        raise GrammarError(
            [replace(d, help=hint) if d.code == "F416" else d for d in error.diagnostics]
        ) from None


def _declared(grammar: Grammar, ranks: Mapping[str, int]) -> Grammar:
    """The grammar with these ranks and without the values; parts that are no longer used go."""
    from fgg.compiler.passes.cpd import declared

    definitions = [grammar.factor[name].definition for name in ranks]
    parts = {s for d in definitions if isinstance(d, ProductOf) for s in d.sources}
    factors = (replace(f, value=None) if f.name in ranks else f for f in grammar.factors)
    low = declared(replace(grammar, factors=tuple(factors)), ranks)
    unused = parts - needed_factors(low)
    return replace(low, factors=tuple(f for f in low.factors if f.name not in unused))
