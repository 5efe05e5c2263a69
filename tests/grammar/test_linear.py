"""Linear integer constraints against brute force over a box."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from fgg.grammar.linear import (
    Row,
    holds,
    implies,
    is_bounded,
    is_feasible,
    project,
    scan,
    scan_order,
)

NAMES = ("i", "j", "k")
BOX = range(-3, 4)
BOUNDS = [Row.make({name: sign}, 3) for name in NAMES for sign in (1, -1)]

rows = st.builds(
    Row.make,
    st.dictionaries(st.sampled_from(NAMES), st.integers(-3, 3), max_size=3),
    st.integers(-4, 4),
)
systems = st.lists(rows, max_size=5)


def points(system: list[Row]) -> list[dict[str, int]]:
    found = []
    for values in product(BOX, repeat=3):
        point = dict(zip(NAMES, values, strict=True))
        if all(holds(row, point) for row in system):
            found.append(point)
    return found


@given(systems)
def test_scan_enumerates_exactly_the_integer_points(system: list[Row]) -> None:
    nest = scan_order(system + BOUNDS, NAMES, ())
    assert [dict(p) for p in scan(nest, {})] == points(system)


@given(systems)
def test_a_system_with_a_point_is_feasible(system: list[Row]) -> None:
    if points(system):
        assert is_feasible(system + BOUNDS)


@given(systems, rows)
def test_an_implied_row_holds_at_every_point(system: list[Row], row: Row) -> None:
    if implies(system + BOUNDS, row):
        assert all(holds(row, point) for point in points(system))


@given(systems)
def test_projection_keeps_every_point(system: list[Row]) -> None:
    shadow = project(system + BOUNDS, {"i"})
    for point in points(system):
        assert all(holds(row, point) for row in shadow)


def test_infeasible_systems_are_found() -> None:
    low, high = Row.make({"i": 1}, -2), Row.make({"i": -1}, 1)  # i >= 2, i <= 1
    assert not is_feasible([low, high])


def test_rows_are_tightened_to_integers() -> None:
    assert Row.make({"i": 2}, -1) == Row.make({"i": 1}, -1)  # 2i >= 1 means i >= 1


def test_implication_between_differences() -> None:
    i_less_k, k_less_j = Row.make({"k": 1, "i": -1}, -1), Row.make({"j": 1, "k": -1}, -1)
    assert implies([i_less_k, k_less_j], Row.make({"j": 1, "i": -1}, -2))
    assert not implies([i_less_k, k_less_j], Row.make({"j": 1, "i": -1}, -3))


def test_bounds_given_other_variables() -> None:
    system = [Row.make({"k": 1, "i": -1}, -1), Row.make({"n": 1, "k": -1}, 0)]
    assert is_bounded(system, "k", {"i", "n"}) == (True, True)
    assert is_bounded(system, "k", {"n"}) == (False, True)


def test_points_depend_on_what_is_given() -> None:
    system = [Row.make({"i": 1}, 0), Row.make({"n": 1, "i": -1}, -1)]  # 0 <= i < n
    nest = scan_order(system, ["i"], {"n"})
    assert [p["i"] for p in scan(nest, {"n": 3})] == [0, 1, 2]
    assert list(scan(nest, {"n": 0})) == []


def test_rows_over_given_variables_alone_are_guards() -> None:
    system = [Row.make({"i": 1}, 0), Row.make({"i": -1}, 2), Row.make({"n": 1}, -2)]  # n >= 2
    nest = scan_order(system, ["i"], {"n"})
    assert len(list(scan(nest, {"n": 2}))) == 3
    assert list(scan(nest, {"n": 1})) == []
