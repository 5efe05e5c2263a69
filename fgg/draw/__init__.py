"""Drawing: pictures of grammars, derivations, posteriors and plots, and the formats of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fgg.draw.layout.fragment import Engine
    from fgg.draw.picture import Picture
    from fgg.draw.rules import Panel, RulesPicture
    from fgg.grammar import Grammar, Rule

Format = Literal["svg", "png", "pdf", "tikz", "dot"]
ENDINGS: dict[str, Format] = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".tex": "tikz",
    ".tikz": "tikz",
    ".dot": "dot",
    ".gv": "dot",
}
"""The formats of pictures by the endings of their files."""

MAX_RULES = 400
MAX_VERTICES = 400
"""The most nodes and edges of a rule that a picture can show legibly."""

__all__ = ["MissingExtra", "TooLarge", "draw_grammar", "draw_rule", "format_of", "render"]


class MissingExtra(ImportError):
    """A library that only drawing needs is not installed."""

    def __init__(self, library: str, purpose: str) -> None:
        """Name the library and what it is needed for."""
        super().__init__(f'{purpose} needs {library}; install it with: pip install "fgg[draw]"')
        self.library = library
        self.purpose = purpose


class TooLarge(ValueError):
    """A grammar has too many rules, or a rule too many nodes, for a picture of use to anyone."""


def draw_rule(grammar: Grammar, rule: Rule | str, *, engine: Engine = "auto") -> RulesPicture:
    """The picture of a rule, given itself or by name.

    Engines: `builtin` needs nothing, `graphviz` needs pygraphviz, `auto` is `builtin` except for
    large fragments where pygraphviz is installed. Raises `TooLarge`, `MissingExtra`, and KeyError
    for a name that no rule has.
    """
    from fgg.draw.rules import rule_picture

    if isinstance(rule, str):
        rule = {other.name: other for other in grammar.rules}[rule]
    return rule_picture(_panel(grammar, rule, engine))


def draw_grammar(grammar: Grammar, *, engine: Engine = "auto") -> RulesPicture:
    """The picture of all rules of a grammar, under its name and with a legend.

    Raises `TooLarge` and `MissingExtra`; for the engines see `draw_rule`.
    """
    from fgg.draw.rules import grammar_picture
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
    from fgg.draw.rules import rule_panel
    from fgg.draw.scene import rule_scene

    size = len(rule.rhs.nodes) + len(rule.rhs.edges)
    if size > MAX_VERTICES:
        raise TooLarge(
            f"rule `{rule.name}` has {size} nodes and edges,"
            f" and a picture holds at most {MAX_VERTICES}"
        )
    scene = rule_scene(grammar, rule)
    return rule_panel(scene, layout(scene.left, engine), layout(scene.right, engine))


def format_of(path: str | os.PathLike[str]) -> Format:
    """The format that the ending of a file names. Raises GrammarError (F412) for another ending."""
    from fgg.diagnostics import refuse

    ending = Path(path).suffix
    if ending not in ENDINGS:
        message = f"`{path}`: the ending `{ending}` is not a picture format"
        refuse("F412", message, "endings are " + ", ".join(ENDINGS))
    return ENDINGS[ending]


def render(picture: Picture, format: Format) -> bytes:
    """The picture as a file's content; text formats are UTF-8.

    PNG needs Pillow; raises `MissingExtra` without it. DOT has no positions: only pictures of
    rules can be written so. Raises ValueError for another format.
    """
    from importlib import import_module

    writers = {name: f"to_{name}" for name in ("svg", "png", "pdf", "tikz", "dot")}
    if format not in writers:
        raise ValueError(f"no picture format `{format}`; there are {', '.join(writers)}")
    if format == "dot":
        from fgg.diagnostics import refuse
        from fgg.draw.rules import RulesPicture

        if not isinstance(picture, RulesPicture):
            refuse("F412", "only pictures of rules can be written as DOT", "SVG has any picture")
    content = getattr(import_module(f"fgg.draw.writers.{format}"), writers[format])(picture)
    return content if isinstance(content, bytes) else str(content).encode()
