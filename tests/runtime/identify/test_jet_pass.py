"""The engine on soft words against what moments are by definition, and derivatives against it."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.api.identify import model_of
from fgg.runtime.identify.fields import PrimeField
from fgg.runtime.identify.jet_pass import z_of
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.observations import KeptTokens, TokenSubsets
from fgg.runtime.identify.prepared_case import PLAIN, Case
from fgg.runtime.interpret.semirings.modular import Modular

P = 2**31 - 1
FIELD = PrimeField(P)
CASES: list[tuple[str, dict[str, int], int]] = [
    ("cnf", {"k": 2, "d": 2}, 4),
    ("pcfg_ie", {"k": 2, "d": 3}, 3),
    ("hmm", {"k": 3, "d": 2}, 4),
    ("dep_i", {"d": 2}, 4),
    ("dep_ies", {"d": 3}, 3),
    ("hsmm", {"k": 2, "d": 2, "dmax": 3}, 4),
    ("lexpcfg", {"nt": 2, "pt": 1, "words": 2}, 3),
    ("rna", {}, 4),
    ("pcfg", {"nt": 1, "pt": 2, "words": 2, "r": 2}, 3),
]


def case_of(name: str, sizes: dict[str, int], length: int) -> Case:
    model = model_of(fgg.load(name, sizes=sizes))
    return Case(name, model.grammar, model.plan, model.parameters, {"n": length})


def strings(case: Case, arrays: Any) -> dict[tuple[int, ...], int]:
    """The weight of every string, by the interpreter of plans in the same field."""
    from fgg.runtime.interpret.interpret import interpret

    size = case.tokens[0].size
    words = list(product(range(size), repeat=len(case.tokens)))
    weights = {
        n: np.array([int(x) % P for x in a.reshape(-1).tolist()], dtype=object).reshape(
            tuple(a.shape)
        )
        for n, a in arrays.items()
    }
    z = interpret(case.plan, weights, {"w": words}, None, Modular(P)).z
    return dict(zip(words, map(int, z), strict=True))


@pytest.mark.parametrize(("name", "sizes", "length"), CASES, ids=[c[0] for c in CASES])
def test_coefficients_are_functionals_of_moments(
    name: str, sizes: dict[str, int], length: int
) -> None:
    case = case_of(name, sizes, length)
    rng = np.random.default_rng(0)
    place = case.parameters.point(FIELD, rng)
    arrays = case.arrays(place)
    weight = strings(case, arrays)
    sentence = case.sentence(FIELD)
    ring = Ring(((2, 0), (3, 0), (2, 1)))
    words = sentence.jets(ring, sentence.drawn(2, FIELD, rng))
    z = z_of(case.soft, FIELD, ring, arrays, words)
    place_of = {m: i for i, m in enumerate(ring.monomials)}
    for item in range(2):
        v = [words["w"][i, item, place_of[(1, 0)]].tolist() for i in range(length)]
        c = [words["w"][i, item, place_of[(0, 1)]].tolist() for i in range(length)]
        pairs = triples = slices = 0
        for string, own in weight.items():
            for i, j in combinations(range(length), 2):
                both = int(v[i][string[i]]) * int(v[j][string[j]])
                pairs += own * both
                rest = (k for k in range(length) if k not in (i, j))
                slices += sum(own * both * int(c[k][string[k]]) for k in rest)
            for i, j, k in combinations(range(length), 3):
                three = int(v[i][string[i]]) * int(v[j][string[j]]) * int(v[k][string[k]])
                triples += own * three
        found = [int(z[item, i]) % P for i in ring.places]
        assert found == [pairs % P, triples % P, slices % P]


@pytest.mark.parametrize(("name", "sizes", "length"), CASES, ids=[c[0] for c in CASES])
def test_rows_are_derivatives(name: str, sizes: dict[str, int], length: int) -> None:
    case = case_of(name, sizes, length)
    if name == "dep_ies":
        pytest.skip("not a polynomial; see the test of stationary distributions")
    rng = np.random.default_rng(1)
    place = case.parameters.point(FIELD, rng)
    sentence = case.sentence(FIELD)
    ring = Ring(((2, 0), (2, 1)))
    words = sentence.jets(ring, sentence.drawn(3, FIELD, rng))
    rows = case.jacobian(place, ring, words)
    move = FIELD.uniform((case.parameters.count,), rng)
    along = [[int(x) % P for x in FIELD.matmul(row, move.reshape(-1, 1))[:, 0]] for row in rows]
    # Z along a line is a polynomial of known degree: its derivative at 0 from so many values.
    count = case.degree + 1
    values = []
    for step in range(count):
        moved = shifted(case, place, move, step)
        z = z_of(case.soft, FIELD, ring, case.arrays(moved), words)
        values.append(z.index_select(1, ring.places))
    for item in range(3):
        for target in range(2):
            line = [int(v[item, target]) for v in values]
            assert slope(line) == along[item][target]


def shifted(case: Case, place: Any, move: Any, step: int) -> Any:
    """The point so many steps along a direction."""

    class Drawn(PrimeField):
        def distribution(self, rows: int, columns: int, rng: Any, mask: Any) -> Any:
            leaf = next(queue)
            own = place.arrays[leaf.name].reshape(rows, columns).clone()
            if not leaf.frozen:
                start = firsts[leaf.name]
                change = move[start : start + leaf.coordinates].reshape(rows, columns - 1) * step
                own[:, :-1] += change
                own[:, -1] -= change.sum(1)
            return self.reduce(own)

    from fgg.runtime.identify.parameters import FreeTable

    queue = iter(s for s in case.parameters.sources.values() if isinstance(s, FreeTable))
    firsts, first = {}, 0
    for leaf in case.parameters.leaves:
        firsts[leaf.name] = first
        first += leaf.coordinates
    return case.parameters.point(Drawn(P), np.random.default_rng(0))


def slope(values: list[int]) -> int:
    """The derivative at 0 of the polynomial with these values at 0, 1, 2, …, modulo P."""
    total, differences = 0, list(values)
    sign = 1
    for order in range(1, len(values)):
        differences = [b - a for a, b in pairwise(differences)]
        total += sign * differences[0] * pow(order, -1, P)
        sign = -sign
    return total % P


def test_derivatives_go_through_stationary_distributions() -> None:
    case = case_of("dep_ies", {"d": 3}, 3)
    from fgg.runtime.identify.fields import RealField

    field = RealField()
    rng = np.random.default_rng(0)
    place = case.parameters.point(field, rng)
    pi, arc = place.arrays["root"], place.arrays["arc"]
    assert torch.allclose(pi @ arc, pi)
    # By the implicit function theorem: dπ (I - A) = π dA.
    change = torch.zeros(3, 3, dtype=torch.float64)
    change[0, 0], change[0, 2] = 1.0, -1.0
    system = torch.cat([(torch.eye(3).double() - arc).T[:2], torch.ones(1, 3).double()])
    right = torch.cat([(pi @ change)[:2], torch.zeros(1).double()])
    wanted = torch.linalg.solve(system, right)
    gradients = {
        "root": torch.eye(3).double().reshape(3, 1, 3),
        "arc": torch.zeros(3, 1, 3, 3).double(),
    }
    assert torch.allclose(place.rows(gradients)[:, 0, 0], wanted)


def test_all_moments_are_those_of_the_program() -> None:
    case = case_of("pcfg_i", {"k": 2, "d": 3}, 4)
    from fgg.runtime.identify.fields import RealField

    place = case.parameters.point(RealField(), np.random.default_rng(0))
    words = case.sentence(RealField()).every([KeptTokens((0, 2)), KeptTokens((1, 3), (2,))])
    z = z_of(case.soft, RealField(), PLAIN, case.arrays(place), words)[:, 0]
    program = fgg.compile(fgg.load("pcfg_i", sizes={"k": 2, "d": 3}))
    weights = dict(place.arrays)
    wanted = program.posterior(weights, {}, {"n": [4]}).moments({"w": [0, 2]})[0]
    triple = program.posterior(weights, {}, {"n": [4]}).moments({"w": [1, 3, 2]})[0]
    assert torch.allclose(z[:9], wanted.reshape(-1))
    assert torch.allclose(z[9:], triple[:, :, 0].reshape(-1))


def test_subsets_are_counted_as_their_parts_are() -> None:
    for part in (TokenSubsets(2), TokenSubsets(3), TokenSubsets(2, along=True)):
        parts = part.parts(5)
        assert part.count([3] * 5) == sum(item.count([3] * 5) for item in parts)
        assert len(set(parts)) == len(parts)
        sizes = [2, 3, 2, 3, 4]
        assert part.count(sizes) == sum(item.count(sizes) for item in parts)
