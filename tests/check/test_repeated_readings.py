"""Checks of readings: where a derivation may read a position twice."""

from __future__ import annotations

import pytest

import fgg
from fgg.check.repeated_readings import check_readings
from fgg.compiler import loads
from fgg.library import library_names
from tests.inputs.test_readings import HEAD


def test_check_warns_where_a_derivation_may_read_a_position_twice() -> None:
    warned = {}
    for name in library_names():
        found = check_readings(fgg.load(name))
        assert {d.code for d in found} <= {"F209"}
        if found:
            warned[name] = found[0].message
    assert set(warned) == {"lexpcfg_rank", "pcfg_la", "qcfg"}
    assert "`s`" in warned["qcfg"] and "`w`" not in warned["qcfg"]


@pytest.mark.parametrize(
    ("rules", "warns"),
    [
        ("rule r: S -> fb(w[0]) X[0]() rule x: X[i]() -> fb(w[i])", True),
        ("rule r: S -> fb(w[0]) X[1]() rule x: X[i]() -> fb(w[i])", False),
        ("rule r: S -> X[0]() rule q: S -> fb(w[0]) rule x: X[i]() -> fb(w[i])", False),
        ("rule r: S -> X[0]() X[k]() for 0 <= k < n rule x: X[i]() -> fb(w[i])", True),
        ("rule r: S -> X[0]() X[k]() for 0 < k < n rule x: X[i]() -> fb(w[i])", False),
        ("rule r: S -> fa(v) v = l[0].A X[0]() rule x: X[i]() -> fb(u) u = l[i].B", False),
        ("rule r: S -> fa(v) v = l[0].A X[0]() rule x: X[i]() -> fl(l[i])", True),
        (
            "rule r: S -> X[i]() for 0 <= i < n rule x: X[i]() -> fb(w[i]) X[i+1]() for i < n - 1 "
            "rule y: X[n-1]() ->",
            False,
        ),
        (
            "rule r: S -> X[i]() for 0 <= i < n rule x: X[i]() -> fb(w[i-1]) X[i+1]() "
            "for 0 < i < n - 1 rule z: X[i]() -> fb(w[i]) X[i+1]() for i < n - 1 "
            "rule y: X[n-1]() ->",
            True,
        ),
    ],
)
def test_a_position_of_two_rule_applications_is_told_from_the_indices(
    rules: str, warns: bool
) -> None:
    grammar = loads(HEAD + "nonterminal X[i]()\n" + rules.replace(" rule ", "\nrule "))
    assert bool(check_readings(grammar)) == warns
