"""Peaked and extreme settings, and the laws that hold in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fgg.api.compile import compile
from fgg.compiler import load, loads
from fgg.diagnostics import Diagnostic, GrammarError
from fgg.runtime.program.program import Program
from fgg.runtime.verify.points import free_weights
from fgg.runtime.verify.stress import (
    TINY,
    Stress,
    best_of,
    log_z_of,
    settings_of,
    twice,
)
from tests.helpers.peaked import DIALECTS, small


def test_numbers_that_contradict_the_law_of_two_copies_are_found() -> None:
    grammar = small("hmm")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    rng = np.random.default_rng(0)
    settings = settings_of(grammar, program.compiled.plan, free, (), rng)
    both = compile(twice(grammar), space="dense")
    assert not [
        v
        for v in Stress(program, lambda s: best_of(program, s), both).violations(
            replace(settings, short=settings.short[:1])
        )
    ]
    wrong = compile(grammar, space="dense")  # one copy only
    laws = {
        v.law
        for v in Stress(program, lambda s: best_of(program, s), wrong).violations(
            replace(settings, short=settings.short[:1])
        )
    }
    assert laws == {"two independent copies have twice the log Z"}


def test_refusals_are_counted_and_are_no_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(self: Program, weights: Any, inputs: Any = None, lengths: Any = None) -> Tensor:
        raise GrammarError([Diagnostic(code="F427", message="too large")])

    grammar = small("pcfg")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    settings = settings_of(grammar, program.compiled.plan, free, (), np.random.default_rng(0))
    best = [best_of(program, s) for s in settings.short]
    assert all(np.isfinite(value) for values in best for value in values)
    monkeypatch.setattr(type(program), "log_z", refusing)
    stress = Stress(program, lambda s: best_of(program, s), None)
    assert not list(stress.violations(settings)) and stress.refused == 2 * 9


def test_weights_are_sticky_identities_and_extremes() -> None:
    grammar = small("hmm")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    settings = settings_of(grammar, program.compiled.plan, free, (), np.random.default_rng(0))
    by_name = {s.name: s.point.leaves for s in settings.short}
    sticky = by_name["sticky weights in float64"][("trans", None)]
    assert (np.diag(sticky) > 0.9).all() and sticky[0, 1] < 2 * TINY[torch.float64]
    dialects = by_name["dialects weights in float32"][("trans", None)]
    assert np.array_equal(dialects, np.eye(2))
    extreme = by_name["extreme weights in float64"][("emit", None)]
    assert extreme.max() > 1e50 and extreme.min() < 1e-50
    tokens = [item.inputs["w"].tolist() for item in settings.long[0].items]
    assert tokens == [[0] * 100 + [2] * 60, [0] * 60 + [2] * 100]
    given = loads(DIALECTS)
    longest = settings_of(
        given,
        compile(given, space="dense").compiled.plan,
        free_weights(given),
        (),
        np.random.default_rng(0),
    )
    assert longest.long[0].items[0].lengths == {"n": 1000}


def test_extreme_log_potentials_reach_a_thousand() -> None:
    grammar = small("crf", "tags")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    settings = settings_of(grammar, program.compiled.plan, free, (), np.random.default_rng(0))
    (extreme, *_) = (s for s in settings.short if s.kind == "extreme")
    (logs,) = (x for x in extreme.items[0].inputs.values() if x.dtype.kind == "f")
    assert logs.max() > 900 and logs.min() < -900


@pytest.mark.parametrize("name", ["hmm", "pcfg", "dyck"])
def test_two_copies_have_twice_the_log_z(name: str) -> None:
    grammar = small(name, next(iter(load(name).query)))
    one, two = compile(grammar, space="dense"), compile(twice(grammar), space="dense")
    free = free_weights(grammar)
    settings = settings_of(grammar, one.compiled.plan, free, (), np.random.default_rng(0))
    for setting in settings.long:
        single, double = (log_z_of(p, setting, torch.float64) for p in (one, two))
        assert single is not None and double is not None
        torch.testing.assert_close(2 * single[0], double[0])
