"""Curves of fits show the objective that they are titled with, and the perplexities."""

from __future__ import annotations

from xml.etree import ElementTree

from fgg.draw.fit import fit_picture
from fgg.draw.picture import stacked
from tests.draw.test_formats import sketch

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str) -> tuple[list[str], list[tuple[float, float]]]:
    root = ElementTree.fromstring(svg)
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    circles = root.iter(f"{SVG}circle")
    return texts, [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in circles]


def test_each_kind_of_objective_has_a_plot_of_its_own_values() -> None:
    picture = fit_picture("run", [(1, "log-likelihood", -30.0), (2, "log-likelihood", -20.0)])
    texts, points = drawn(picture.svg())
    assert "log-likelihood" in texts and {"-30", "-20"} <= set(texts)
    assert len(points) == 2 and points[0][0] < points[1][0] and points[0][1] > points[1][1]


def test_perplexities_stand_below_the_objective() -> None:
    curves = {"training": [(1.0, 9.0), (2.0, 6.0)], "held out": [(1.0, 10.0), (2.0, 8.0)]}
    picture = fit_picture("run", [(1, "bound", -3.0), (2, "bound", None)], curves, unit="epoch")
    texts, points = drawn(picture.svg())
    assert texts.index("bound") < texts.index("perplexity per token")
    assert {"training", "held out", "epoch"} <= set(texts)
    assert len(points) == 1 + 2 + 2 + 2  # the dots of the legend, too


def test_a_fit_without_sweeps_is_an_empty_picture() -> None:
    assert fit_picture("run", []).svg().startswith("<svg")


def test_stacked_pictures_keep_their_sizes_and_lie_below_each_other() -> None:
    both = stacked("two", [sketch("a"), sketch("b")])
    assert (both.width, both.height) == (200, 200)
    texts = ElementTree.fromstring(both.svg()).iter(f"{SVG}text")
    assert [(t.text, t.get("y")) for t in texts] == [("a", "20"), ("b", "120")]
