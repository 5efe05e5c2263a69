"""Plots: what is drawn is what the points say."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from fgg.draw.plot import Line, Plot, lines, to_svg

SPACE = "{http://www.w3.org/2000/svg}"
NOTHING = float("nan")


def drawn(plot: Plot) -> ElementTree.Element:
    return ElementTree.fromstring(to_svg(plot))


def texts(picture: ElementTree.Element) -> list[str]:
    return [item.text or "" for item in picture.iter(f"{SPACE}text")]


def circles(picture: ElementTree.Element) -> list[tuple[float, float]]:
    return [
        (float(c.get("cx", "")), float(c.get("cy", ""))) for c in picture.iter(f"{SPACE}circle")
    ]


def test_every_point_has_a_marker_and_powers_of_ten_are_equally_far_apart() -> None:
    points = [(10.0**n, 10.0**-n) for n in range(5)]
    plot = Plot(title="a < b & c", lines=lines([("e", points)]), log_x=True, log_y=True)
    dots = circles(drawn(plot))
    assert len(dots) == 5
    steps = {(round(b[0] - a[0]), round(b[1] - a[1])) for a, b in zip(dots, dots[1:])}  # noqa: B905, RUF007
    assert len(steps) == 1
    ((right, down),) = steps
    assert right > 0 and down > 0, "smaller is lower"
    assert "a < b & c" in texts(drawn(plot))


@pytest.mark.parametrize("log", [False, True])
def test_points_that_cannot_be_shown_break_the_line(log: bool) -> None:
    points = ((1.0, 1.0), (2.0, NOTHING), (3.0, 3.0), (4.0, 2.0))
    plot = Plot(title="t", lines=(Line(label="e", points=points),), log_y=log)
    picture = drawn(plot)
    assert len(circles(picture)) == 3
    colored = [p for p in picture.iter(f"{SPACE}path") if p.get("stroke") == "#0969da"]
    assert len(colored) == 1


def test_a_legend_names_several_lines_and_not_one() -> None:
    one = [(0.0, 0.0), (1.0, 5.0)]
    assert "first" not in texts(drawn(Plot(title="t", lines=lines([("first", one)]))))
    both = drawn(Plot(title="t", lines=lines([("first", one), ("second", one)])))
    assert {"first", "second"} <= set(texts(both))


def test_ticks_are_round_and_around_the_points() -> None:
    plot = Plot(title="t", lines=lines([("e", [(0.3, 0.0), (9.7, 0.0)])]))
    assert {"0", "2", "4", "6", "8", "10"} <= set(texts(drawn(plot)))


def test_a_plot_without_points_is_a_plot() -> None:
    assert circles(drawn(Plot(title="none", lines=(), log_x=True, log_y=True))) == []
