"""The elements of a rule's picture: vertices for its nodes and edges, and links between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from fgg.grammar import Attachment, Clamp, Edge, Fragment, Grammar, Node, Rule
from fgg.grammar.constants import constants, unfixed_edges
from fgg.grammar.definitions import Slice
from fgg.grammar.index import Condition, Expr

MAX_TEXT = 28
"""Longer texts are cut; the whole text stays in the vertex's title."""


class Kind(Enum):
    """The kinds of vertices."""

    NODE = "node"
    FACTOR = "factor"
    INPUT_FACTOR = "input factor"
    NONTERMINAL = "nonterminal"


class Flow(Enum):
    """Which way a line of a directed factor points."""

    NONE = "none"
    INTO_EDGE = "into edge"
    INTO_NODE = "into node"


@dataclass(frozen=True, kw_only=True)
class Vertex:
    """A node or an edge of a fragment.

    `text` stands inside the shape, `name` beside it; `title` says in full what it is. `positions`
    are those of an external node, counted from 1 and shown if `numbered`.
    """

    key: str
    kind: Kind
    text: str = ""
    name: str = ""
    title: str = ""
    positions: tuple[int, ...] = ()
    numbered: bool = False
    rank: bool = False
    observed: bool = False

    @property
    def external(self) -> bool:
        """Whether this is an external node."""
        return bool(self.positions)

    @property
    def number(self) -> str:
        """The positions of an external node as they are shown, or nothing."""
        return ",".join(map(str, self.positions)) if self.numbered else ""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A line between an edge and a node that it touches; `port` is counted from 1."""

    edge: str
    node: str
    port: int
    numbered: bool = False
    path: str = ""
    flow: Flow = Flow.NONE


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The vertices and links of a fragment, or of a rule's left-hand side."""

    vertices: tuple[Vertex, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuleScene:
    """A rule to be drawn: `left` -> `right`, with a caption and conditions."""

    caption: str
    conditions: str
    left: Graph
    right: Graph


def rule_scene(grammar: Grammar, rule: Rule) -> RuleScene:
    """The elements of a rule's picture."""
    fragment = rule.rhs
    head = Edge(
        label=rule.lhs,
        attachments=tuple(Attachment(node=name) for name in fragment.externals),
        indices=rule.indices,
    )
    outside = tuple(dict.fromkeys(fragment.externals))
    left = Fragment(
        nodes=tuple(fragment.by_name[name] for name in outside),
        edges=(head,),
        externals=fragment.externals,
    )
    values = constants(grammar, fragment)
    right = replace(fragment, edges=unfixed_edges(fragment, values))
    return RuleScene(
        caption=clean(rule.name),
        conditions="; ".join(
            filter(None, (conditions_text(rule.conditions), _summed(grammar, rule)))
        ),
        left=_graph(grammar, left, frozenset((rule.lhs,)), values),
        right=_graph(grammar, right, frozenset(), values),
    )


def _summed(grammar: Grammar, rule: Rule) -> str:
    """The note on state nodes that only parameters touch, for a rule that has rank nodes.

    These state nodes are summed before any input is seen.
    So `binary_1` and `binary_0` around a summed node are the matrix H of [RS Fig. 4].
    """
    domains = {domain.name for domain in grammar.domains if domain.rank}
    ranks = [node for node in rule.rhs.nodes if node.domain in domains]
    clamped = {clamp.attachment.node for clamp in rule.rhs.clamps}
    clamped |= set(constants(grammar, rule.rhs))
    summed = []
    for node in rule.rhs.internals if ranks else ():
        touching = [e for e in rule.rhs.edges if any(a.node == node.name for a in e.attachments)]
        if node in ranks or node.name in clamped or len(touching) < 2:
            continue
        if all(edge.label in grammar.factor for edge in touching):
            summed.append(clean(node.name))
    return f"{', '.join(summed)} summed beforehand" if summed else ""


def _graph(
    grammar: Grammar,
    fragment: Fragment,
    nonterminals: frozenset[str],
    values: Mapping[str, str],
) -> Graph:
    """A side of a rule; `values` are the nodes that are fixed to values of their domains."""
    keys = {node.name: f"n{i}" for i, node in enumerate(fragment.nodes)}
    vertices = [
        _node(grammar, fragment, node, keys[node.name], values.get(node.name))
        for node in fragment.nodes
    ]
    links: list[Link] = []
    for i, edge in enumerate(fragment.edges):
        kind = Kind.NONTERMINAL if edge.label in nonterminals else _kind(grammar, edge.label)
        vertices.append(_edge(grammar, edge, kind, f"e{i}"))
        links.extend(_links(grammar, edge, f"e{i}", keys))
    return Graph(vertices=tuple(vertices), links=tuple(links))


def _kind(grammar: Grammar, label: str) -> Kind:
    if label in grammar.nonterminal:
        return Kind.NONTERMINAL
    return Kind.INPUT_FACTOR if label in grammar.input_factor else Kind.FACTOR


def _node(grammar: Grammar, fragment: Fragment, node: Node, key: str, value: str | None) -> Vertex:
    domain = grammar.domain.get(node.domain)
    clamps = [clamp for clamp in fragment.clamps if clamp.attachment.node == node.name]
    name = ", ".join(dict.fromkeys(_clamp_text(clamp) for clamp in clamps))
    name = name or clean(node.name if value is None else value)
    positions = (i + 1 for i, other in enumerate(fragment.externals) if other == node.name)
    return Vertex(
        key=key,
        kind=Kind.NODE,
        text=shorten(clean(node.domain)),
        name=shorten(name),
        title=f"{clean(node.name)}: {clean(node.domain)}" + (f", {name}" if clamps else ""),
        positions=tuple(positions),
        numbered=len(fragment.externals) > 1,
        rank=domain is not None and domain.rank,
        observed=bool(clamps) or value is not None,
    )


def _clamp_text(clamp: Clamp) -> str:
    value = clean(clamp.input) + indices_text(clamp.indices)
    value += clean("".join(f".{name}" for name in clamp.path))
    node = clean(".".join((clamp.attachment.node, *clamp.attachment.path)))
    # `emit(u, w[i])` makes a node that is named after what it is fixed to.
    rest = node.removeprefix(clean(clamp.input))
    made = rest != node and not rest[:1].isalpha() and not clamp.attachment.path
    return value if made else f"{node} = {value}"


def _edge(grammar: Grammar, edge: Edge, kind: Kind, key: str) -> Vertex:
    label = clean(edge.label) + indices_text(edge.indices)
    if kind is Kind.NONTERMINAL:
        return Vertex(key=key, kind=kind, text=shorten(label), title=label)
    # Of a slice, the nodes tell which one it is.
    factor = grammar.factor.get(edge.label) or grammar.input_factor.get(edge.label)
    cut = None if factor is None else factor.definition
    name = clean(cut.source) + indices_text(edge.indices) if isinstance(cut, Slice) else label
    return Vertex(key=key, kind=kind, name=shorten(name), title=label)


def _links(grammar: Grammar, edge: Edge, key: str, keys: dict[str, str]) -> list[Link]:
    factor = grammar.factor.get(edge.label)
    given = None if factor is None else factor.given
    count = len(edge.attachments)
    links = []
    for i, attachment in enumerate(edge.attachments):
        if given is None:
            flow, alike = Flow.NONE, count
        elif i < given:
            flow, alike = Flow.INTO_EDGE, given
        else:
            flow, alike = Flow.INTO_NODE, count - given
        links.append(
            Link(
                edge=key,
                node=keys[attachment.node],
                port=i + 1,
                numbered=alike > 1,  # where arrows do not tell the order, numbers do
                path=shorten("".join(f".{clean(part)}" for part in attachment.path)),
                flow=flow,
            )
        )
    return links


def indices_text(indices: tuple[Expr, ...]) -> str:
    """The indices of an edge or input between brackets, or nothing if there are none."""
    if not indices:
        return ""
    return f"[{','.join(expression_text(index) for index in indices)}]"


def expression_text(expression: Expr) -> str:
    """The expression without spaces; a positive term comes first if there is one."""
    positive_first = sorted(expression.terms, key=lambda term: term[1] < 0)
    parts = str(Expr(tuple(positive_first))).split("`")  # quoted names stay as they are
    parts[::2] = (part.replace(" ", "") for part in parts[::2])
    return clean("`".join(parts))


_SIGNS = {"<=": "≤", ">=": "≥", "==": "=", "!=": "≠"}


def conditions_text(conditions: tuple[Condition, ...]) -> str:
    """The conditions as a picture shows them, `for i < k < j`, or nothing if there are none."""
    texts = [text for condition in conditions for text in _condition_texts(condition)]
    return "for " + ", ".join(texts) if texts else ""


def _condition_texts(condition: Condition) -> list[str]:
    """The chains of a condition, without comparisons that always hold, `i < i+1`."""
    chains: list[str] = []
    joined = False
    for left, operator, right in condition.pairs():
        whole = Condition((left, right), (operator,))
        constants = [form.constant for form in whole.inequalities()]
        constants = [*constants, *(None for _ in whole.differences())]
        if all(number is not None and number >= 0 for number in constants):
            joined = False
            continue
        text = f" {_SIGNS.get(operator, operator)} {expression_text(right)}"
        if joined:
            chains[-1] += text
        else:
            chains.append(expression_text(left) + text)
        joined = True
    return chains


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """The text, cut in its middle if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def clean(text: str) -> str:
    """The text; what XML forbids or changes the direction of writing is replaced."""
    return "".join(
        char if _is_harmless(ord(char)) else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def _is_harmless(code: int) -> bool:
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE:
        return False
    return not (0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069 or 0xFDD0 <= code <= 0xFDEF)
