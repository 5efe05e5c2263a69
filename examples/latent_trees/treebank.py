"""Trees of a treebank as numbers: categories, binary rules, and what a program of trees reads."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fgg
from fgg.data import Example, Vocabulary, build_vocabulary, find, read
from fgg.data.example import Span
from fgg.data.preprocess import bare_labels, of_length
from fgg.diagnostics import GrammarWarning
from fgg.grammar import Grammar

HERE = Path(__file__).resolve().parent
WRAPPERS = ("TITLE", "HEADING", "CAPTION")
"""Labels of a sentence's place in an article, not of its grammar."""
NONE = -2
"""Where a node has no token of a kind."""


@dataclass
class Node:
    """A node of a binary tree: its category, its words, and two children or none.

    The category of a chain of single children is all of their labels, joined by `+`. A phrase of
    more than two children is made binary from the right; its further nodes are `@` and its label.
    """

    category: str
    start: int
    end: int
    children: tuple[Node, Node] | tuple[()] = ()

    def nodes(self) -> Iterator[Node]:
        """The node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.nodes()

    @property
    def rule(self) -> tuple[str, str, str]:
        """The rule that splits a phrase."""
        left, right = self.children  # type: ignore[misc]
        return self.category, left.category, right.category


@dataclass
class _Open:
    label: str
    start: int
    end: int
    children: list[Node] = field(default_factory=list)


def constituents(example: Example) -> list[Span]:
    """The labelled spans of a sentence that count, parents first, each once."""
    spans = list(dict.fromkeys(example.spans or ()))
    whole = [s for s in spans if s[:2] == (0, len(example))]
    if len(whole) > 1 and whole[0][2] in WRAPPERS:
        spans.remove(whole[0])
    return spans


def tree(example: Example) -> Node:
    """The binary tree of a sentence with spans and tags."""
    assert example.tags is not None
    words = [Node(tag, i, i + 1) for i, tag in enumerate(example.tags)]
    stack: list[_Open] = [_Open("", 0, len(example))]
    place = 0

    def close() -> None:
        nonlocal place
        top = stack.pop()
        while place < top.end:
            top.children.append(words[place])
            place += 1
        stack[-1].children.append(_binary(top))

    for start, end, label in constituents(example):
        while stack[-1].end <= start or end > stack[-1].end:
            close()
        while place < start:
            stack[-1].children.append(words[place])
            place += 1
        stack.append(_Open(label, start, end))
    while len(stack) > 1:
        close()
    (root,) = stack[0].children
    return root


def _binary(phrase: _Open) -> Node:
    """A phrase with its children as a binary tree."""
    if len(phrase.children) == 1:
        (child,) = phrase.children
        child.category = f"{phrase.label}+{child.category}"
        return child
    right = phrase.children[-1]
    for child in reversed(phrase.children[1:-1]):
        right = Node(f"@{phrase.label}", child.start, right.end, (child, right))
    return Node(phrase.label, phrase.start, phrase.end, (phrase.children[0], right))


def labels(category: str, is_word: bool) -> list[str]:
    """The labels of phrases that a category stands for; a word's tag is none."""
    if category.startswith("@"):
        return []
    chain = category.split("+")
    return chain[:-1] if is_word else chain


@dataclass(frozen=True)
class Treebank:
    """Training trees, held-out sentences, and the numbers of all that the training trees have."""

    train: Sequence[Node]
    examples: dict[str, list[Example]]
    vocabulary: Vocabulary
    tags: tuple[str, ...]
    categories: tuple[str, ...]  # tags first
    rules: tuple[tuple[str, str, str], ...]

    def grammar(self, name: str, annotations: int) -> Grammar:
        """`trees.fgg` or `parse.fgg` with the categories and rules of the treebank."""
        text = (HERE / f"{name}.fgg").read_text("utf-8")
        number = {category: i for i, category in enumerate(self.categories)}
        for place, side in enumerate(("head", "left", "right")):
            values = ", ".join(str(number[rule[place]]) for rule in self.rules)
            text = text.replace(f"{side}(R -> C) = map(cycle)", f"{side}(R -> C) = map({values})")
        sizes = {
            "cats": len(self.categories),
            "tags": len(self.tags),
            "rules": len(self.rules),
            "h": annotations,
            "words": len(self.vocabulary),
        }
        with warnings.catch_warnings():
            # F495: in `trees.fgg` the tree says what category is split.
            warnings.simplefilter("ignore", GrammarWarning)
            return fgg.loads(text, name=name, sizes=sizes)

    def inputs(self) -> dict[str, list[list[int]]]:
        """The training trees as `trees.fgg` reads them."""
        number = {category: i for i, category in enumerate(self.categories)}
        rule_number = {rule: i for i, rule in enumerate(self.rules)}
        columns: dict[str, list[list[int]]] = {
            name: [] for name in ("top", "uses", "tag", "w", "left", "right")
        }
        for root, example in zip(self.train, self.examples["train"], strict=True):
            nodes = list(root.nodes())
            place = {id(node): i for i, node in enumerate(nodes)}
            words = self.vocabulary.encode(example.words)
            rows: list[list[int]] = []
            for node in nodes:
                if node.children:
                    left, right = (place[id(child)] for child in node.children)
                    rows.append([rule_number[node.rule], NONE, NONE, left, right])
                else:
                    rows.append([NONE, number[node.category], words[node.start], -1, -1])
            columns["top"].append([number[root.category]])
            for name, column in zip(
                ("uses", "tag", "w", "left", "right"), zip(*rows, strict=True), strict=True
            ):
                columns[name].append(list(column))
        return columns


def read_treebank(longest: int, most: int | None = None) -> Treebank:
    """Sentences of two to `longest` words of the CRAFT treebank, at most `most` of each part.

    Words that occur once are unknown ones.
    """
    examples = {
        part: list(
            read(find(f"craft_trees/{part}.sup.trees.xz"), format="trees").map(
                bare_labels, of_length(2, longest)
            )
        )[:most]
        for part in ("train", "dev", "test")
    }
    train = [tree(example) for example in examples["train"]]
    nodes = [node for root in train for node in root.nodes()]
    tags = sorted({node.category for node in nodes if not node.children})
    phrases = sorted({node.category for node in nodes if node.children} - set(tags))
    return Treebank(
        train=train,
        examples=examples,
        vocabulary=build_vocabulary(examples["train"], least=2),
        tags=tuple(tags),
        categories=(*tags, *phrases),
        rules=tuple(sorted({node.rule for node in nodes if node.children})),
    )
