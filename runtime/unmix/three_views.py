"""Three words that a hidden node parts: their moments give the factors on the ways to them.

Given the state of that node, the words are independent: the moment is Σ_s V₁[·, s] ⊗ U[s, ·] ⊗
V₃[·, s], with words 1 and 3 below the node and word 2 anywhere else. DECOMPOSE gives V₁, word 1
given the state, and linear equations give the rest [ID Lemma 1; Anandkumar, Hsu & Kakade 2012]. V₁
and V₃ are products of factors along paths, `emit` and `trans emit` for an HMM. Of products that
share an end the rest is a quotient, until every factor is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.runtime.unmix.backbone import Backbone, Path
from fgg.runtime.unmix.mixing import Floats, compound, mixing
from fgg.runtime.unmix.pcfg_ie import (
    COLLISION,
    check_rank,
    decompose,
    least_gap,
    project,
    refuse_all,
)


@dataclass(frozen=True)
class Quotient:
    """A product that two known ones give: `whole` without its end (or its beginning) `part`."""

    result: Path
    whole: Path
    part: Path
    end: bool


@dataclass(frozen=True)
class Views:
    """A hidden node, the paths from it to words 1 and 3, and the way to word 2.

    `up` leads from the root to the node and `down` from the root to word 2; without `up` the node
    is the root itself. `quotients` give the factors, one after the other.
    """

    root: str
    target: Backbone
    first: Path
    third: Path
    up: Path
    down: Path
    quotients: tuple[Quotient, ...]
    factors: tuple[str, ...]
    states: int
    words: int

    @property
    def transposed(self) -> Backbone:
        """The same moments with words 1 and 2 in the other order."""
        return self.target.renamed({1: 2, 2: 1})

    @property
    def pair(self) -> Backbone:
        """The backbone whose columns are word 3, and whose projected word is 2."""
        return self.target.renamed({2: 3, 3: 2})


def views_of(grammar: Grammar) -> Views | None:
    """Three views of a hidden node that determine all factors of a grammar, if there are any."""
    mixed = mixing(grammar, (3,), order=3)
    used = {e.label for rule in grammar.rules for e in rule.rhs.edges} & set(grammar.factor)
    needed = {
        f.name for f in grammar.factors if f.name in used and f.given is not None and not f.value
    }
    for determined in mixed.determined:
        for target in (determined, determined.renamed({1: 2, 2: 1})):
            view = _view(grammar, target)
            if view is not None and {view.root, *view.factors} == needed:
                return view
    return None


def _view(grammar: Grammar, target: Backbone) -> Views | None:
    below: dict[int, Path] = {}
    up: Path = ()
    for path, tree in target.children:
        if tree.word and not tree.children:
            below[tree.word] = path
        elif not tree.word and not up and len(tree.children) == 2:
            up = path
            node = tree
        else:
            return None
    down = below.get(2, ())
    if up:
        if set(below) != {2}:
            return None
        leaves = {tree.word: path for path, tree in node.children if not tree.children}
        if set(leaves) != {1, 3}:
            return None
        below = leaves
    elif set(below) != {1, 2, 3}:
        return None
    known = {below[1], below[3], down} if not up else {below[1], below[3]}
    quotients = list(_closure(known))
    if up and down not in known:
        return None
    if up and up not in known:
        known.add(up)  # from word 2, once the way down to it is known
        quotients += _closure(known)
    names = {name for path in (below[1], below[3], down, up) for name in path}
    if any((name,) not in known for name in names):
        return None
    first = grammar.factor[below[1][0]].domains[0]
    return Views(
        target.source,
        target,
        below[1],
        below[3],
        up,
        down,
        tuple(quotients),
        tuple(sorted(names)),
        domain_size(grammar, first),
        domain_size(grammar, grammar.inputs[0].domain),
    )


def _closure(known: set[Path]) -> list[Quotient]:
    """The quotients that follow from known products; their results are added to `known`."""
    quotients: list[Quotient] = []
    better = True
    while better:
        better = False
        for whole in sorted(known, key=len):
            for part in sorted(known, key=len):
                if len(part) >= len(whole):
                    continue
                for end in (True, False):
                    rest = whole[: -len(part)] if end else whole[len(part) :]
                    same = (whole[-len(part) :] if end else whole[: len(part)]) == part
                    if same and rest not in known:
                        known.add(rest)
                        quotients.append(Quotient(rest, whole, part, end))
                        better = True
    return quotients


@dataclass(frozen=True, eq=False)
class ViewsEstimate:
    """The factors by name, rows distributions up to error, and how they were found."""

    weights: Mapping[str, Floats]
    gap: float
    residual: float
    directions: int
    complex: int


def recover(
    shape: Views,
    whole: Floats,
    slices: Floats,
    pair: Floats,
    directions: Floats,
    *,
    exact: bool,
) -> ViewsEstimate:
    """The factors from moments of words 1 and 2, sliced by word 3, and those of words 1 and 3.

    Of several directions the one with the least residual is chosen. Raises GrammarError: F461 if
    moments have too low a rank, F462 if no direction has real eigenvalues, F463 if eigenvalues
    collide in all.
    """
    check_rank(whole, shape.states)
    best: ViewsEstimate | None = None
    turned, met = 0, 0
    for slice in slices:
        columns, values = decompose(whole, slice, shape.states)
        gap = least_gap(values)
        if exact and gap < COLLISION:
            met += 1
            continue
        if np.abs(values.imag).max() > 1e-9 * np.abs(values).max():
            turned += 1
            continue
        weights = _weights(shape, columns.real, whole, pair)
        if weights is None:
            met += 1
            continue
        inside = {name: project(value) for name, value in weights.items()}
        made = (compound(shape.target, inside, eta) for eta in directions)
        residual = max(
            float(np.abs(one - other).max()) for one, other in zip(made, slices, strict=True)
        )
        if best is None or residual < best.residual:
            best = ViewsEstimate(weights, gap, residual, len(slices), 0)
    if best is None:
        refuse_all(turned, met, len(slices))
    return replace(best, complex=turned)


def _weights(
    shape: Views, columns: Floats, whole: Floats, pair: Floats
) -> dict[str, Floats] | None:
    """All factors, from the columns of V₁ up to scale; None where a sum or a rank is zero."""
    sums = columns.sum(axis=0)
    if np.abs(sums).min() < 1e-12 * np.abs(columns).max():
        return None
    first = columns / sums
    inverse = np.linalg.pinv(first)
    joint, third = inverse @ whole, inverse @ pair  # [state, word 2], [state, word 3]
    if min(np.abs(joint.sum(axis=1)).min(), np.abs(third.sum(axis=1)).min()) == 0:
        return None
    known = {
        shape.first: first.T,
        shape.third: third / third.sum(axis=1, keepdims=True),
    }
    root = joint.sum(axis=1)
    if not shape.up:
        known[shape.down] = joint / root[:, None]
    _divide(shape, known)
    if shape.up:
        met = joint @ np.linalg.pinv(known[shape.down])  # [state, root]
        root = met.sum(axis=0)
        if np.abs(root).min() == 0:
            return None
        if shape.up not in known:
            known[shape.up] = (met / root).T
            _divide(shape, known)
    weights = {shape.root: root, **{name: known[(name,)] for name in shape.factors}}
    return weights if all(bool(np.isfinite(x).all()) for x in weights.values()) else None


def _divide(shape: Views, known: dict[Path, Floats]) -> None:
    """Compute the quotients whose operands are known."""
    for q in shape.quotients:
        if q.result not in known and q.whole in known and q.part in known:
            inverse = np.linalg.pinv(known[q.part])
            known[q.result] = known[q.whole] @ inverse if q.end else inverse @ known[q.whole]
