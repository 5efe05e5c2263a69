"""Reading JSON: rules, their nodes and edges, checked against the declared labels."""

from __future__ import annotations

from dataclasses import dataclass, field

from fgg.diagnostics import did_you_mean
from fgg.grammar import Attachment, Edge, Fragment, Node, Rule
from fgg.grammar.names import fresh, is_safe, safe_names
from fgg.json.places import Document, join, kind_of
from fgg.json.read_symbols import Labels


@dataclass
class RuleReader:
    """Reads the rules of a document; `used` collects the edge labels that occur in them."""

    document: Document
    terminals: Labels
    nonterminals: Labels
    rule_names: set[str] = field(default_factory=set)
    used: dict[str, None] = field(default_factory=dict)

    def start(self, inner: dict[str, object], path: str) -> str:
        """The start symbol."""
        start = self.document.text_at(inner, "start", path)
        if start is not None and start not in self.nonterminals:
            self.unknown(join(path, "start"), start, self.nonterminals, "nonterminal")
        self.used[start or ""] = None
        return start or ""

    def unknown(self, path: str, name: str, known: Labels, kind: str) -> None:
        """Report a label that is not declared."""
        other = "terminal" if name in self.terminals else "nonterminal"
        message = f"there is no {kind} `{name}`"
        if name in self.terminals or name in self.nonterminals:
            message = f"`{name}` is a {other}, not a {kind}"
        self.document.fail(path, message, help=did_you_mean(name, known))

    def read(self, inner: dict[str, object], path: str) -> list[Rule]:
        """The rules; names of labels are still the document's."""
        found = []
        for number, item in enumerate(self.document.list_at(inner, "rules", path) or ()):
            place = f"{join(path, 'rules')}[{number}]"
            entry = self.document.as_object(item, place)
            rule = self.rule(entry, place) if entry is not None else None
            if rule is not None:
                found.append(rule)
        return found

    def rule(self, entry: dict[str, object], path: str) -> Rule | None:
        """A rule, or None if it has errors."""
        lhs = self.document.text_at(entry, "lhs", path)
        if lhs is not None and lhs not in self.nonterminals:
            self.unknown(join(path, "lhs"), lhs, self.nonterminals, "nonterminal")
        rhs = self.document.object_at(entry, "rhs", path)
        if rhs is None or lhs is None:
            return None
        self.used[lhs] = None
        path = join(path, "rhs")
        before = len(self.document.report.diagnostics)
        nodes = self.nodes(rhs, path)
        edges = []
        for number, item in enumerate(self.document.list_at(rhs, "edges", path) or ()):
            place = f"{join(path, 'edges')}[{number}]"
            edge = self.document.as_object(item, place)
            if edge is not None:
                edges.append(self.edge(edge, nodes, place))
        externals: tuple[str, ...] = ()
        if lhs in self.nonterminals and (self.nonterminals[lhs] or "externals" in rhs):
            place = join(path, "externals")
            listed = rhs.get("externals", [])
            externals = self.attach(lhs, listed, nodes, place, "head")
        if len(self.document.report.diagnostics) > before:
            return None
        wanted = entry.get("name")
        wanted = wanted if isinstance(wanted, str) and is_safe(wanted) else None
        name = fresh(wanted or safe_names([lhs])[lhs], self.rule_names)
        self.rule_names.add(name)
        return Rule(
            name=name,
            lhs=lhs,
            rhs=Fragment.make(
                tuple(node for node in nodes if node is not None),
                tuple(edge for edge in edges if edge is not None),
                externals=externals,
            ),
        )

    def nodes(self, rhs: dict[str, object], path: str) -> list[Node | None]:
        """The nodes of a right-hand side, None for one with errors."""
        labels: list[tuple[str, str | None] | None] = []
        ids: dict[str, int] = {}
        for number, item in enumerate(self.document.list_at(rhs, "nodes", path) or ()):
            place = f"{join(path, 'nodes')}[{number}]"
            entry = self.document.as_object(item, place)
            label = self.document.text_at(entry, "label", place) if entry is not None else None
            key = entry.get("id") if entry is not None else None
            if key is not None and not isinstance(key, str):
                self.document.wrong(join(place, "id"), "a text", key)
                key = None
            if key is not None and ids.setdefault(key, number) != number:
                self.document.fail(
                    join(place, "id"), f"nodes {ids[key]} and {number} have the same id"
                )
            labels.append(None if label is None else (label, key))
        names = safe_names(ids)
        taken = set(names.values())
        found: list[Node | None] = []
        count = 0
        for known in labels:
            if known is None:
                found.append(None)
                continue
            label, key = known
            while key is None and f"n{count}" in taken:
                count += 1
            name = f"n{count}" if key is None else names[key]
            taken.add(name)
            found.append(Node(name=name, domain=label))
        return found

    def edge(self, entry: dict[str, object], nodes: list[Node | None], path: str) -> Edge | None:
        """An edge, or None if it has errors."""
        label = self.document.text_at(entry, "label", path)
        listed = self.document.list_at(entry, "attachments", path)
        if label is None or listed is None:
            return None
        self.used[label] = None
        if label not in self.terminals and label not in self.nonterminals:
            known = {**self.terminals, **self.nonterminals}
            self.unknown(join(path, "label"), label, known, "terminal or nonterminal")
        touched = self.attach(label, listed, nodes, join(path, "attachments"), "edge")
        return Edge(label=label, attachments=tuple(Attachment(node=name) for name in touched))

    def attach(
        self, label: str, listed: object, nodes: list[Node | None], path: str, what: str
    ) -> tuple[str, ...]:
        """The nodes that an edge or a head touches, their number and labels checked."""
        declared = self.nonterminals.get(label) or self.terminals.get(label)
        if not isinstance(listed, list):
            self.document.wrong(path, "a list", listed)
            return ()
        if declared is not None and len(listed) != len(declared.type):
            wanted = len(declared.type)
            self.document.fail(
                path, f"{what} `{label}` touches {len(listed)} nodes, but its type has {wanted}"
            )
            declared = None
        found = []
        for position, number in enumerate(listed):
            place = f"{path}[{position}]"
            if not isinstance(number, int) or isinstance(number, bool):
                self.document.fail(
                    place, f"the number of a node was expected, not {kind_of(number)}"
                )
            elif not 0 <= number < len(nodes):
                self.document.fail(place, f"there is no node {number}: there are {len(nodes)}")
            elif (node := nodes[number]) is not None:
                found.append(node.name)
                if declared is not None and declared.type[position] != node.domain:
                    self.document.fail(
                        place,
                        f"node {number} has label `{node.domain}`, "
                        f"but `{label}` wants `{declared.type[position]}`",
                    )
        return tuple(found)
