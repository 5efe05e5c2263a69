"""Drawing grammars: pictures of rules and grammars as SVG, DOT, TikZ and PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fgg.draw.layout.fragment import Engine
    from fgg.draw.picture import Panel, Picture
    from fgg.grammar import Grammar, Rule

Format = Literal["svg", "dot", "tikz", "png"]

MAX_RULES = 400
MAX_VERTICES = 400
"""The most nodes and edges of a rule that a picture can show legibly."""

__all__ = ["MissingExtra", "TooLarge", "draw_grammar", "draw_rule", "render"]


class MissingExtra(ImportError):
    """A library that only drawing needs is not installed."""

    def __init__(self, library: str, purpose: str) -> None:
        """Name the library and what it is needed for."""
        super().__init__(f'{purpose} needs {library}; install it with: pip install "fgg[draw]"')
        self.library = library
        self.purpose = purpose


class TooLarge(ValueError):
    """A grammar has too many rules, or a rule too many nodes, for a picture of use to anyone."""


def draw_rule(grammar: Grammar, rule: Rule | str, *, engine: Engine = "auto") -> Picture:
    """The picture of a rule, given itself or by name.

    Engines: `builtin` needs nothing, `graphviz` needs pygraphviz, `auto` is `builtin` except for
    large fragments where pygraphviz is installed. Raises `TooLarge`, `MissingExtra`, and KeyError
    for a name that no rule has.
    """
    from fgg.draw.picture import rule_picture

    if isinstance(rule, str):
        rule = {other.name: other for other in grammar.rules}[rule]
    return rule_picture(_panel(grammar, rule, engine))


def draw_grammar(grammar: Grammar, *, engine: Engine = "auto") -> Picture:
    """The picture of all rules of a grammar, under its name and with a legend.

    Raises `TooLarge` and `MissingExtra`; for the engines see `draw_rule`.
    """
    from fgg.draw.picture import grammar_picture
    from fgg.draw.scene import clean, indices_text

    if len(grammar.rules) > MAX_RULES:
        raise TooLarge(
            f"the grammar has {len(grammar.rules)} rules, and a picture holds at most {MAX_RULES};"
            " draw single rules instead"
        )
    start = clean(grammar.start.label) + indices_text(grammar.start.indices)
    panels = [_panel(grammar, rule, engine) for rule in grammar.rules]
    count = "1 rule" if len(panels) == 1 else f"{len(panels)} rules"
    return grammar_picture(clean(grammar.name), f"start {start}, {count}", panels)


def _panel(grammar: Grammar, rule: Rule, engine: Engine) -> Panel:
    from fgg.draw.layout.fragment import layout
    from fgg.draw.picture import rule_panel
    from fgg.draw.scene import rule_scene

    size = len(rule.rhs.nodes) + len(rule.rhs.edges)
    if size > MAX_VERTICES:
        raise TooLarge(
            f"rule `{rule.name}` has {size} nodes and edges,"
            f" and a picture holds at most {MAX_VERTICES}"
        )
    scene = rule_scene(grammar, rule)
    return rule_panel(scene, layout(scene.left, engine), layout(scene.right, engine))


def render(picture: Picture, format: Format) -> bytes:
    """The picture as a file's content; text formats are UTF-8.

    PNG needs Pillow; raises `MissingExtra` without it, and ValueError for another format.
    """
    if format == "svg":
        from fgg.draw.writers.svg import to_svg

        return to_svg(picture).encode()
    if format == "dot":
        from fgg.draw.writers.dot import to_dot

        return to_dot(picture).encode()
    if format == "tikz":
        from fgg.draw.writers.tikz import to_tikz

        return to_tikz(picture).encode()
    if format == "png":
        from fgg.draw.writers.png import to_png

        return to_png(picture)
    raise ValueError(f"no picture format `{format}`; there are svg, dot, tikz and png")
