"""Variants and slices: what they take of arrays, and which values they stand for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given

from fgg.compiler import loads
from fgg.grammar import Grammar
from fgg.grammar.definitions import Variant
from fgg.grammar.domains import domain_size
from fgg.grammar.slices import (
    Narrow,
    Unfold,
    extent,
    is_variant,
    source_value,
    steps,
    take,
    variants,
)
from tests.generators.grammars import grammars

DOMAINS = """
domain A = 2
domain B = 3
domain U = A + B
domain L = A * U
domain V = B2 + L
domain B2 = B
nonterminal S()
start S
rule S ->
"""
IN_L = Variant("V", (Variant("L", (Variant("A"), Variant("U", (Variant("B"),)))),))


def test_variants_decide_every_union() -> None:
    grammar = loads(DOMAINS)
    assert variants(grammar, "A") == (Variant("A"),)
    assert variants(grammar, "V")[2] == IN_L
    assert extent(grammar, "V") == (3, 2)
    assert IN_L.leaves() == ((("L", "A"), "A"), (("L", "U", "B"), "B"))
    assert IN_L.at(("L", "U", "B")) == Variant("B") and IN_L.at(("L", "U", "A")) is None
    assert is_variant(grammar, IN_L, "V") and not is_variant(grammar, IN_L, "L")


def test_steps_cut_and_unfold_from_the_outside_to_the_inside() -> None:
    grammar = loads(DOMAINS)
    assert steps(grammar, (Variant("A"), IN_L, Variant("B"))) == (
        Narrow(axis=1, offset=3, size=10),
        Unfold(axis=1, sizes=(2, 5)),
        Narrow(axis=2, offset=2, size=3),
    )


def check_domain(grammar: Grammar, name: str) -> None:
    """The slices of a domain hold every value once, at the place that `source_value` says."""
    seen: list[int] = []
    numbers = np.arange(domain_size(grammar, name))
    for variant in variants(grammar, name):
        wanted = steps(grammar, (variant,))
        found = take(numbers, wanted)
        sizes = [domain_size(grammar, domain) for _, domain in variant.leaves()]
        assert found.shape == tuple(sizes)
        assert (take(torch.from_numpy(numbers), wanted).numpy() == found).all()
        for index in product(*map(range, sizes)):
            assert source_value(grammar, variant, index) == found[index]
        seen += found.reshape(-1).tolist()
    assert sorted(seen) == numbers.tolist()
    assert len(variants(grammar, name)) == extent(grammar, name)[0]


@pytest.mark.parametrize("name", ["A", "U", "L", "V", "B2"])
def test_variants_partition_a_domain(name: str) -> None:
    check_domain(loads(DOMAINS), name)


@given(grammars())
def test_variants_partition_any_domain(grammar: Grammar) -> None:
    for domain in grammar.domains:
        check_domain(grammar, domain.name)
