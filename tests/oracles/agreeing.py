"""Programs of any grammar against the reference engine."""

from __future__ import annotations

import random

import numpy as np

from fgg.api.compile import compile
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from tests.oracles.comparing import (
    compare,
    compare_derivations,
    compare_marginals,
    compile_checked,
    lengths_of,
    random_item,
    random_weights,
    reference,
)


def agrees(grammar: Grammar, seed: int, *, count: int = 3, checked: bool = True) -> str:
    """Assert that a program gives the reference's numbers; what became of the grammar.

    With factors of low rank, in a space that the seed decides.
    """
    pieces = cpd(grammar)
    spaces = ("auto", "rank", "state", "dense") if pieces is not grammar else ("dense",)
    space = spaces[seed % len(spaces)]
    try:
        if checked:
            program = compile_checked(grammar, space)
        else:
            program = compile(grammar, space=space, fallback=False)
    except GrammarError as error:
        assert [d.code for d in error.diagnostics] == ["F425"]
        return "refused" if space != "rank" else "not for rank space"
    rng = random.Random(seed)
    weights = random_weights(pieces, rng, zero=0.1)
    top = 4 if any(len(x.indices) > 2 for x in grammar.nonterminals) else 5
    known = []
    for _ in range(count):
        lengths = {name: rng.randint(0, top) for name in lengths_of(grammar)}
        item = random_item(grammar, lengths, rng)
        answer = reference(pieces, item, weights)
        if answer is not None:  # it asks for no log-potentials beyond their end
            known.append((item, answer))
    if not known:
        return "empty"
    compare(program, [i for i, _ in known], [a for _, a in known], weights)
    compare(program, [known[0][0]], [known[0][1]], weights)
    if pieces is grammar:
        compare_marginals(program, [i for i, _ in known[:2]], weights)
    return "finite" if any(np.isfinite(a.log_z) for _, a in known) else "zero"


def derivations_agree(grammar: Grammar, seed: int) -> None:
    """Assert that the derivations a program finds are the reference's."""
    rng = random.Random(seed)
    weights = random_weights(grammar, rng)
    sizes = {name: rng.randint(1, 4) for name in lengths_of(grammar)}
    item = random_item(grammar, sizes, rng, missing=0.0, impossible=0.0)
    compare_derivations(compile(grammar, fallback=False), item, weights)
