"""Derivations: which rules were applied to what, and which values the nodes took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, isnan
from typing import TYPE_CHECKING, Any

from fgg.diagnostics import GrammarError
from fgg.grammar import Attachment, Grammar, Rule
from fgg.grammar.domains import shown_value
from fgg.inputs.written import Words
from fgg.runtime.derive.completed import Observed, completed

if TYPE_CHECKING:
    from fgg.draw.picture import Picture


@dataclass(frozen=True)
class Reading:
    """What a step takes from a position of an input, or of an input factor.

    `attachment` is the node, or the component of a node, that the token is the value of; an input
    factor has none. With a `path` it is a part of the token.
    """

    input: str
    position: tuple[int, ...]
    attachment: Attachment | None = None
    path: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """The application of a rule: the values of its nodes, and links to other steps.

    `children` are the numbers of the steps that rewrite the rule's nonterminal edges, in order.
    `readings` are what the rule reads from inputs; the reference engine does not give them.
    """

    rule: Rule
    values: Mapping[str, int]
    children: tuple[int, ...]
    parent: int | None
    readings: tuple[Reading, ...] = ()

    def __repr__(self) -> str:
        values = "".join(f", {name}={value}" for name, value in self.values.items())
        return f"Step({self.rule.name!r}{values})"

    @property
    def source_rule(self) -> str:
        """The name of the user's rule that the rule comes from."""
        return self.rule.origin_or_self.rule


@dataclass(frozen=True, eq=False, repr=False)
class Derivation:
    """A derivation with an assignment. Steps are in preorder; the first rewrites the start.

    A node whose value nothing decides has none, and `log_weight` is NaN then. `observed` is the
    item that is explained; a derivation of a ground grammar has none.
    """

    grammar: Grammar
    steps: tuple[Step, ...]
    log_weight: float
    observed: Observed | None = None

    @property
    def weight(self) -> float:
        """The weight as a real number; 0 if it is too small."""
        return exp(self.log_weight) if self.log_weight < 700 else float("inf")

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules, in preorder."""
        return tuple(step.rule.name for step in self.steps)

    @property
    def source_rules(self) -> tuple[str, ...]:
        """The names of the user's rules that the ground rules come from, in preorder."""
        return tuple(step.source_rule for step in self.steps)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The rules and the values of their nodes; derivations are equal if these are."""
        return tuple((s.rule.name, tuple(sorted(s.values.items()))) for s in self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derivation) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def spans(self) -> tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]:
        """For each step: the family, its indices, and the values of the external nodes.

        Nodes without values are left out.
        """
        return tuple(
            (
                *self.cell(step),
                tuple(step.values[n] for n in step.rule.rhs.externals if n in step.values),
            )
            for step in self.steps
        )

    def cell(self, step: Step) -> tuple[str, tuple[int, ...]]:
        """The family that a step rewrites, and its indices."""
        nonterminal = self.grammar.nonterminal[step.rule.lhs]
        return nonterminal.origin or (nonterminal.name, ())

    def cell_name(self, step: Step) -> str:
        """The cell that a step rewrites as text, such as `X[0, 3]`."""
        family, indices = self.cell(step)
        return f"{family}[{', '.join(map(str, indices))}]" if indices else family

    def value_name(self, step: Step, node: str) -> str:
        """The name of the value that a node has in a step."""
        domain = step.rule.rhs.by_name[node].domain
        return shown_value(self.grammar, domain, step.values[node])

    def named_values(self, step: Step) -> dict[str, str]:
        """The names of the values of a step's nodes, as far as they are known."""
        known = (node.name for node in step.rule.rhs.nodes if node.name in step.values)
        return {name: self.value_name(step, name) for name in known}

    def shown_values(self, step: Step) -> dict[str, str]:
        """The same, with words as they were written in place of the values they were read as."""
        values = self.named_values(step)
        if self.observed is not None and self.observed.words:
            for reading in step.readings:
                word = self.observed.written(reading.input, reading.position)
                at = reading.attachment
                if word is not None and at is not None and not (at.path or reading.path):
                    values[at.node] = word
        return values

    def with_words(self, words: Mapping[str, Words]) -> Derivation:
        """The derivation of an item whose inputs were written as these words."""
        if self.observed is None or not words:
            return self
        return replace(self, observed=replace(self.observed, words=words))

    def value_label(self, step: Step) -> str:
        """The values of the external nodes of a step, as text; empty if it has none."""
        known = (node for node in step.rule.rhs.externals if node in step.values)
        return "*".join(self.value_name(step, node) for node in known)

    def __repr__(self) -> str:
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return f"Derivation({self.grammar.name!r}, {steps}, log_weight={self.log_weight:.6g})"

    def lines(self) -> Iterator[str]:
        """The derivation as an indented tree, with a line for each step."""
        depth = [0] * len(self.steps)
        for number, step in enumerate(self.steps):
            if step.parent is not None:
                depth[number] = depth[step.parent] + 1
            values = ", ".join(f"{name}={value}" for name, value in self.shown_values(step).items())
            line = f"{self.cell_name(step)} {step.source_rule}"
            yield "  " * depth[number] + line + (f"  {values}" if values else "")

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def inputs(self, form: str = "words") -> dict[str, Any]:
        """The inputs of the item, filled in: what was given, and what the derivation decides.

        `words` are those that were written, or else names of values, `ids` the numbers of values,
        `tensors` the same as tensors, and `parts` show values of unions and products by part,
        `{"T": "D", "W": "the"}`. Each input is nested as it is indexed; a token that nothing
        decides is None, or -1. Raises GrammarError (F498).
        """
        return completed(self, form)

    def cell_values(self) -> tuple[str, ...]:
        """The values of the variables at which cells meet, each once, in preorder.

        For a chain these are its states from the first position on, also if a cell has the states
        of several positions; for a tree, the symbols of its nodes. Variables without values are
        left out.
        """
        return tuple(self._meeting_values())

    def _meeting_values(self) -> Iterator[str]:
        # For each step, the variables of its external nodes: where the rules above have them.
        outside: list[tuple[object, ...]] = [()] * len(self.steps)
        shown: set[object] = set()
        for number, step in enumerate(self.steps):
            externals = step.rule.rhs.externals
            if step.parent is None:
                outside[number] = tuple((number, name) for name in externals)
            places: dict[str, object] = dict(zip(externals, outside[number], strict=True))
            new = [name for name in dict.fromkeys(externals) if places[name] not in shown]
            shown |= {places[name] for name in new}
            yield from (self.value_name(step, name) for name in new if name in step.values)
            nonterminals = [e for e in step.rule.rhs.edges if e.label in self.grammar.nonterminal]
            for edge, child in zip(nonterminals, step.children, strict=True):
                wholes = [(places.get(a.node, (number, a.node)), a.path) for a in edge.attachments]
                outside[child] = tuple((node, path) if path else node for node, path in wholes)

    def written(self) -> str:
        """The derivation on one line, as people write it.

        These are the tags of a chain, the segments of a semi-Markov model, a tree with its words in
        brackets, the number of each word's head, or dots and brackets for pairs.
        """
        from fgg.runtime.display.pictures import written

        return written(self)

    def brackets(self) -> str:
        """The derivation as nested brackets of the user's rule names."""
        opened: list[int] = []
        text: list[str] = []
        for number, step in enumerate(self.steps):
            while opened and step.parent != opened[-1]:
                opened.pop()
                text.append(")")
            text.append((" (" if text else "(") + step.source_rule)
            opened.append(number)
        return "".join(text) + ")" * len(opened)

    def as_json(self) -> dict[str, object]:
        """The derivation as a JSON object: as `written`, its values, its inputs, and its steps.

        `inputs` is null for a ground grammar, and where rules disagree about a missing token.
        """
        return {
            "log_weight": None if isnan(self.log_weight) else self.log_weight,
            "written": self.written(),
            "cell_values": list(self.cell_values()),
            "inputs": self._known_inputs(),
            "steps": [
                {
                    "rule": step.rule.name,
                    "source": step.source_rule,
                    "nonterminal": family,
                    "indices": list(indices),
                    "values": self.named_values(step),
                    "children": list(step.children),
                }
                for step, (family, indices, _) in zip(self.steps, self.spans(), strict=True)
            ],
        }

    def _known_inputs(self) -> dict[str, Any] | None:
        try:
            return self.inputs()
        except GrammarError:
            return None

    def draw(self, kind: str = "auto", *, words: Sequence[str] | None = None) -> Picture:
        """The derivation as a picture, as people draw it.

        Kinds are `constituents` (a tree over the words), `dependencies` (arcs from heads),
        `pairs` (arcs between paired positions), `tags`, `segments`, and `rules` (a box for each
        step). By default the shape of the cells decides. `words` are shown in place of the tokens.
        Raises GrammarError (F412) if the derivation has no such picture, and `TooLarge`.
        """
        from fgg.runtime.display.pictures import draw

        return draw(self, kind, words)

    def to_svg(self, kind: str = "auto") -> str:
        """The picture of the derivation as SVG. Raises `TooLarge` for very large ones."""
        return self.draw(kind).svg()

    def _repr_svg_(self) -> str | None:
        """Draw the derivation in a notebook, if it fits into a picture."""
        from fgg.draw import TooLarge

        try:
            return self.to_svg()
        except TooLarge:
            return None
