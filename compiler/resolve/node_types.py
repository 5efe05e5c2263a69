"""Domains of nodes, inferred from the signatures of the edges that touch them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fgg.diagnostics import Label, Report, did_you_mean
from fgg.grammar import Attachment, Clamp, Domain, Edge, Factor, Fragment, Node, Product, Union


@dataclass(frozen=True)
class Use:
    """A node, or a part of it, in a place where a domain is expected."""

    attachment: Attachment
    domain: str
    reason: str
    input: str | None = None


@dataclass
class NodeTypes:
    """Collects the uses of a rule's nodes and decides their domains."""

    domains: Mapping[str, Domain]
    report: Report
    vague: Collection[str] = ()
    """Nodes that are touched by something that has been reported as wrong."""

    def infer(self, uses: Sequence[Use]) -> dict[str, Node]:
        """The nodes by name; every conflict and every gap is reported.

        A node with an error still gets a domain, so that one mistake is reported once.
        """
        nodes: dict[str, Node] = {}
        whole: dict[str, Use] = {}
        for use in uses:
            if not use.attachment.path:
                self._unify(use, whole)
        for use in uses:
            name = use.attachment.node
            if name in nodes:
                continue
            if name in whole:
                domain = whole[name].domain
            else:
                domain = self._guess(name, uses)
            nodes[name] = Node(name=name, domain=domain, span=use.attachment.span)
        for use in uses:
            if use.attachment.path and use.attachment.node in whole:
                self._check_path(use, whole[use.attachment.node])
        return nodes

    def _unify(self, use: Use, whole: dict[str, Use]) -> None:
        name = use.attachment.node
        first = whole.setdefault(name, use)
        if first.domain == use.domain:
            return
        outer, inner = first, use
        if self._has_part(use.domain, first.domain):
            outer, inner = use, first
        help_text = ""
        if self._has_part(outer.domain, inner.domain):
            help_text = f"write `{name}.{inner.domain}` for the `{inner.domain}` part"
        if first.input is not None:
            first, use = use, first
        labels = []
        if first.attachment.span is not None:
            labels.append(Label(first.attachment.span, f"`{first.domain}` here ({first.reason})"))
        self._conflict(f"node `{name}`", first.domain, use, labels, help_text)

    def _conflict(
        self, what: str, domain: str, use: Use, labels: Sequence[Label] = (), help_text: str = ""
    ) -> None:
        """Report a node of one domain in a place where another is expected."""
        if use.input is None:
            code, wish = "F113", f"{use.reason} wants `{use.domain}`"
        else:
            code, wish = "F148", f"input `{use.input}` has domain `{use.domain}`"
        self.report.add(
            code,
            f"{what} has domain `{domain}`, but {wish}",
            use.attachment.span,
            f"`{use.domain}` is expected here" if use.input is None else "",
            labels=labels,
            help=help_text
            or (input_hint(self.domains, use.input, use.domain, domain) if use.input else ""),
        )

    def _has_part(self, domain: str, part: str) -> bool:
        return has_part(self.domains, domain, part)

    def _guess(self, name: str, uses: Sequence[Use]) -> str:
        use = next(u for u in uses if u.attachment.node == name)
        part = use.attachment.path[0]
        owners = [d.name for d in self.domains.values() if self._has_part(d.name, part)]
        example = owners[0] if owners else "…"
        if name not in self.vague:
            self.report.add(
                "F111",
                f"the domain of node `{name}` cannot be inferred: only parts of it are touched",
                use.attachment.span,
                help=f"declare the node in the rule's body: `({name}: {example})`",
            )
        return owners[0] if owners else use.domain

    def _check_path(self, use: Use, whole: Use) -> None:
        domain = whole.domain
        written = ".".join((use.attachment.node, *use.attachment.path))
        for part in use.attachment.path:
            shape = self.domains[domain].shape
            if not isinstance(shape, Union | Product):
                self.report.add(
                    "F140",
                    f"`{written}`: domain `{domain}` is neither a union nor a product",
                    use.attachment.span,
                    help=f"touch the node as a whole: `{use.attachment.node}`",
                )
                return
            if part not in shape.parts:
                self.report.add(
                    "F105",
                    f"`{written}`: domain `{domain}` has no part `{part}`",
                    use.attachment.span,
                    f"its parts are {', '.join(f'`{p}`' for p in shape.parts)}",
                    help=did_you_mean(part, shape.parts),
                )
                return
            domain = part
        if domain != use.domain:
            self._conflict(f"`{written}`", domain, use)


def has_part(domains: Mapping[str, Domain], domain: str, part: str) -> bool:
    """Whether a domain is a union or product of which another is a direct part."""
    shape = domains[domain].shape
    return isinstance(shape, Union | Product) and part in shape.parts


def input_hint(domains: Mapping[str, Domain], name: str, domain: str, wanted: str) -> str:
    """What to write where a node of one domain is fixed to an input of another."""
    if has_part(domains, domain, wanted):
        return f"fix a node to that part of the input, `o = {name}[…].{wanted}`, and touch `o`"
    if has_part(domains, wanted, domain):
        return f"fix that part of a node to the input, `o.{domain} = {name}[…]`, and touch `o`"
    return f"touch a node of domain `{domain}` there, or declare `input {name}: {wanted}[…]`"


def edge_uses(edge: Edge, signature: Sequence[str]) -> Iterable[Use]:
    """The uses of nodes by an edge whose label has the given domains."""
    reason = f"`{edge.label}`"
    for attachment, domain in zip(edge.attachments, signature, strict=False):
        yield Use(attachment, domain, reason)


def clamp_use(
    clamp: Clamp,
    domain: str,
    domains: Mapping[str, Domain] | None = None,
    factors: Mapping[str, Factor] | None = None,
) -> Use:
    """The use of a node that is fixed to an input of the given domain, or to a part of it."""
    # A path consists of names of domains, and of maps from what has no parts.
    for name in clamp.path:
        shape = (domains or {})[domain].shape
        is_part = isinstance(shape, Union | Product) and name in shape.parts
        domain = name if is_part else (factors or {})[name].domains[1]
    return Use(clamp.attachment, domain, f"input `{clamp.input}`", clamp.input)


def make_fragment(
    nodes: Mapping[str, Node],
    edges: Iterable[Edge],
    clamps: Iterable[Clamp],
    externals: Iterable[str],
) -> Fragment:
    """The fragment over inferred nodes, in canonical order."""
    return Fragment.make(tuple(nodes.values()), tuple(edges), tuple(clamps), tuple(externals))
