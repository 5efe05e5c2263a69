"""Derivations as people draw and write them; the shape of the cells decides how.

A chain is drawn as a row of tags and written as these tags, a tree is drawn over its words and
written with brackets, and so on: see `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fgg.diagnostics import did_you_mean, refuse
from fgg.draw.picture import Picture
from fgg.draw.sentence import Span, arc_picture, segment_picture, tag_picture, tree_picture
from fgg.draw.tree import TreeNode, box_tree
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.display.annotated import Annotated

AUTO = "auto"


def draw(derivation: Derivation, kind: str = AUTO, words: Sequence[str] | None = None) -> Picture:
    """The picture of a derivation, of one of the `KINDS`; `auto` takes the first that it has.

    `words` are shown at the positions instead of the tokens. Raises GrammarError (F412) if the
    derivation has no such picture, and `TooLarge`.
    """
    shown = Annotated(derivation, words)
    if kind == AUTO:
        return KINDS[kind_of(shown)].picture(shown)
    if kind not in KINDS:
        kinds = ", ".join(f"`{name}`" for name in (AUTO, *KINDS))
        refuse("F412", f"there is no picture `{kind}`", did_you_mean(kind, KINDS) or kinds)
    if not KINDS[kind].holds(shown):
        has = ", ".join(f"`{name}`" for name, other in KINDS.items() if other.holds(shown))
        refuse("F412", f"this derivation has no {kind} to draw", f"it can be drawn as {has}")
    return KINDS[kind].picture(shown)


def written(derivation: Derivation) -> str:
    """The derivation on one line: its tags, segments, heads or pairs, or a tree in brackets."""
    shown = Annotated(derivation, None)
    return KINDS[kind_of(shown)].text(shown)


def kind_of(shown: Annotated) -> str:
    """The first of the `KINDS` that a derivation has."""
    return next(name for name, kind in KINDS.items() if kind.holds(shown))


class Kind(NamedTuple):
    """A way to show derivations, and which of them can be shown so."""

    holds: Callable[[Annotated], bool]
    picture: Callable[[Annotated], Picture]
    text: Callable[[Annotated], str]


def _has_heads(shown: Annotated) -> bool:
    return shown.ends is not None and shown.heads is not None


def _arrows(shown: Annotated) -> Picture:
    return arc_picture(shown.title, shown.words, shown.heads or ())


def _heads(shown: Annotated) -> str:
    """The number of each word's head, counted from 1; 0 for the root."""
    head = {arc.end: 0 if arc.start is None else arc.start + 1 for arc in shown.heads or ()}
    return " ".join(str(head[word]) for word in range(shown.length))


def _has_pairs(shown: Annotated) -> bool:
    return shown.ends is not None and bool(shown.pairs)


def _dots(shown: Annotated) -> str:
    """Dots and brackets, as structures of RNA are written."""
    marks = ["."] * shown.length
    for arc in shown.pairs:
        left, right = arc.ends()
        marks[left], marks[right] = "(", ")"
    return "".join(marks)


def _bows(shown: Annotated) -> Picture:
    marks = list(_dots(shown))
    rows = [marks] if marks != shown.words else []
    return arc_picture(shown.title, shown.words, shown.pairs, rows=rows, heads=False)


def _has_tree(shown: Annotated) -> bool:
    return shown.is_tree and bool(shown.spans)


def _tree(shown: Annotated) -> Picture:
    return tree_picture(shown.title, shown.words, shown.spans)


def _brackets(shown: Annotated) -> str:
    """Trees in brackets, as treebanks have them."""
    return " ".join("".join(_bracketed(root, shown.words)) for root in shown.spans)


def _bracketed(root: Span, words: Sequence[str]) -> Iterator[str]:
    agenda: list[Span | str] = [root]
    first = True
    while agenda:
        node = agenda.pop()
        if isinstance(node, str):
            yield node
            continue
        yield ("" if first else " ") + "(" + _escaped(node.label)
        first = False
        inner: list[Span | str] = []
        place = node.start
        for child in node.children:
            inner += [" " + _escaped(word) for word in words[place : child.start]]
            inner.append(child)
            place = child.end
        inner += [" " + _escaped(word) for word in words[place : node.end]]
        agenda += [")", *reversed(inner)]


def _escaped(word: str) -> str:
    return "_".join(word.split()).replace("(", "-LRB-").replace(")", "-RRB-")


def _has_tags(shown: Annotated) -> bool:
    return shown.tags is not None


def _tag_rows(shown: Annotated) -> Picture:
    tags = shown.tags or []
    others = [
        [tokens.get(place, "") for place in range(shown.length)]
        for name, tokens in shown.sequences.items()
        if name != shown.input and list(tokens.values()) != tags
    ]
    words = shown.words
    if words == tags:  # the tags are the input
        words = [str(place) for place in range(shown.length)]
    return tag_picture(shown.title, words, [tags, *others], shown.numbers)


def _has_segments(shown: Annotated) -> bool:
    return shown.segments is not None


def _boxes(shown: Annotated) -> Picture:
    return segment_picture(shown.title, shown.segments or [], shown.numbers)


def _segments(shown: Annotated) -> str:
    """Words with their labels, `ba na/stem s/mood`."""
    texts = (("_".join(words), label) for words, label in shown.segments or ())
    return " ".join(f"{words}/{label}" if label else words for words, label in texts)


def _rules(shown: Annotated) -> Picture:
    derivation = shown.derivation
    nodes = []
    for step in derivation.steps:
        values = [f"{name}={value}" for name, value in derivation.shown_values(step).items()]
        nodes.append(TreeNode(derivation.cell_name(step), ", ".join(values), step.parent))
    return box_tree(shown.title, nodes)


def _values(shown: Annotated) -> str:
    return " ".join(shown.derivation.cell_values()) or shown.derivation.brackets()


KINDS: Mapping[str, Kind] = {
    "dependencies": Kind(_has_heads, _arrows, _heads),
    "pairs": Kind(_has_pairs, _bows, _dots),
    "constituents": Kind(_has_tree, _tree, _brackets),
    "tags": Kind(_has_tags, _tag_rows, lambda shown: " ".join(shown.tags or ())),
    "segments": Kind(_has_segments, _boxes, _segments),
    "rules": Kind(lambda shown: True, _rules, _values),
}
"""The ways to show a derivation, in the order in which they are tried."""
