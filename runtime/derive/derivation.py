"""Derivations: which rules were applied to what, and which values the nodes took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, isnan

from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import domain_values


@dataclass(frozen=True, eq=False)
class Step:
    """The application of a rule: values of its nodes, and the steps of its nonterminal edges."""

    rule: Rule
    values: Mapping[str, int]
    children: tuple[int, ...]
    parent: int | None


@dataclass(frozen=True, eq=False)
class Derivation:
    """A derivation with an assignment; steps are in preorder, the first rewrites the start.

    Where nothing says what value a node has, it has none, and the weight is no number.
    """

    grammar: Grammar
    steps: tuple[Step, ...]
    log_weight: float

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
        """The names of the user's own rules that these come from, in preorder."""
        return tuple(s.rule.origin.rule if s.rule.origin else s.rule.name for s in self.steps)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What tells derivations apart: the rules and the values of their nodes."""
        return tuple((s.rule.name, tuple(sorted(s.values.items()))) for s in self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derivation) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def spans(self) -> tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]:
        """For each step: the family, its indices, and the values of the external nodes."""
        found = []
        for step in self.steps:
            externals = tuple(step.values[name] for name in step.rule.rhs.externals)
            found.append((*self.cell(step), externals))
        return tuple(found)

    def cell(self, step: Step) -> tuple[str, tuple[int, ...]]:
        """The family that a step rewrites, and its indices."""
        nonterminal = self.grammar.nonterminal[step.rule.lhs]
        return nonterminal.origin or (nonterminal.name, ())

    def value_name(self, step: Step, node: str) -> str:
        """The name of the value that a node has in a step."""
        domain = step.rule.rhs.by_name[node].domain
        return domain_values(self.grammar, domain)[step.values[node]]

    def named_values(self, step: Step) -> dict[str, str]:
        """The names of the values of a step's nodes, as far as they are known."""
        known = (node.name for node in step.rule.rhs.nodes if node.name in step.values)
        return {name: self.value_name(step, name) for name in known}

    def lines(self) -> Iterator[str]:
        """The derivation as an indented tree, a line a step."""
        depth = [0] * len(self.steps)
        for number, step in enumerate(self.steps):
            if step.parent is not None:
                depth[number] = depth[step.parent] + 1
            source = step.rule.origin.rule if step.rule.origin else step.rule.name
            family, indices = self.cell(step)
            shown = ", ".join(f"{name}={value}" for name, value in self.named_values(step).items())
            place = f"[{', '.join(map(str, indices))}]" if indices else ""
            yield (
                "  " * depth[number] + f"{family}{place} {source}" + (f"  {shown}" if shown else "")
            )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def cell_values(self) -> tuple[str, ...]:
        """The values of the external nodes of each step that has any, in preorder.

        For a chain these are its states from the first position on.
        """
        found = []
        for step in self.steps:
            names = [self.value_name(step, node) for node in step.rule.rhs.externals]
            if names:
                found.append("*".join(names))
        return tuple(found)

    def brackets(self) -> str:
        """The derivation as nested brackets of the user's rule names."""
        opened: list[int] = []
        text: list[str] = []
        for number, step in enumerate(self.steps):
            while opened and step.parent != opened[-1]:
                opened.pop()
                text.append(")")
            name = step.rule.origin.rule if step.rule.origin else step.rule.name
            text.append(f" ({name}" if text else f"({name}")
            opened.append(number)
        return "".join(text) + ")" * len(opened)

    def as_json(self) -> dict[str, object]:
        """The derivation as a JSON object."""
        return {
            "log_weight": None if isnan(self.log_weight) else self.log_weight,
            "steps": [
                {
                    "rule": step.rule.name,
                    "source": step.rule.origin.rule if step.rule.origin else step.rule.name,
                    "nonterminal": family,
                    "indices": list(indices),
                    "values": self.named_values(step),
                    "children": list(step.children),
                }
                for step, (family, indices, _) in zip(self.steps, self.spans(), strict=True)
            ],
        }

    def to_svg(self) -> str:
        """The derivation as a picture of its tree. Raises TooLarge for very large ones."""
        from fgg.draw.tree import TreeNode, tree_svg

        nodes = []
        for step in self.steps:
            family, indices = self.cell(step)
            place = f"[{', '.join(map(str, indices))}]" if indices else ""
            values = [f"{name}={value}" for name, value in self.named_values(step).items()]
            nodes.append(TreeNode(f"{family}{place}", ", ".join(values), step.parent))
        return tree_svg("derivation", nodes)

    def _repr_svg_(self) -> str:
        return self.to_svg()
