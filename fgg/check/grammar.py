"""Whole-grammar checks: errors and warnings about a grammar whose names are resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fgg.check.indices import check_indices
from fgg.check.values import Locate, check_values
from fgg.diagnostics import Diagnostic, Label, Report, did_you_mean
from fgg.factors.pieces import is_piece
from fgg.factors.product_factors import is_product
from fgg.grammar import Factor, Grammar, InputFactor
from fgg.grammar.definitions import Piece, ProductOf, Slice, Tied
from fgg.grammar.options import net_of, nets_fit
from fgg.grammar.slices import is_slice
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.trim import productive, reachable


def check_grammar(grammar: Grammar, locate: Locate | None = None) -> list[Diagnostic]:
    """All errors and warnings about a grammar and its queries."""
    diagnostics = check_values(grammar, locate) + check_ties(grammar) + check_slices(grammar)
    diagnostics += check_pieces(grammar) + check_products(grammar)
    diagnostics += check_attributes(grammar)
    diagnostics += check_useful(grammar) + check_indices(grammar)
    for query in grammar.queries:
        conjunction = conjoin(grammar, query)
        report = Report()
        mentioned = {rule.name for rule in query.rules}
        for rule in grammar.rules:
            if rule.name not in mentioned:
                report.add(
                    "F205",
                    f"query `{query.name}` does not mention rule `{rule.name}`, "
                    "so derivations with it do not count",
                    query.span,
                    labels=[Label(rule.span, "the rule")] if rule.span else [],
                )
        diagnostics += report.diagnostics
        if conjunction.rules:
            diagnostics += check_indices(conjunction)
    return diagnostics


def check_useful(grammar: Grammar) -> list[Diagnostic]:
    """Warnings about symbols that no derivation uses."""
    report = Report()
    reached, alive = reachable(grammar), productive(grammar)
    for nonterminal in grammar.nonterminals:
        name = nonterminal.name
        if name == grammar.start.label:
            continue  # F206 says it
        if name not in grammar.rules_of:
            report.add(
                "F203",
                f"nonterminal `{name}` has no rules, so rules that use it have weight 0",
                nonterminal.span,
                help=f"add a rule for `{name}`, or remove it",
            )
        elif name not in alive:
            report.add(
                "F202",
                f"nonterminal `{name}` never ends: every rule of it needs an unproductive symbol",
                nonterminal.span,
                help="add a rule without nonterminals on its right-hand side",
            )
        if name not in reached:
            report.add(
                "F201",
                f"nonterminal `{name}` cannot be reached from `{grammar.start.label}`",
                nonterminal.span,
                help="use it in a rule that can be reached, or remove it",
            )
    if grammar.start.label not in alive:
        report.add(
            "F206",
            f"the start symbol `{grammar.start.label}` derives nothing, so the value is 0",
            grammar.start.span,
            help=(
                "no derivation comes to an end: add a rule that ends one"
                if grammar.start.label in grammar.rules_of
                else f"add a rule for `{grammar.start.label}`"
            ),
        )
    used = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    used |= {edge.label for query in grammar.queries for r in query.rules for edge in r.edges}
    for kind in (Slice, Piece, ProductOf):
        definitions = [f.definition for f in grammar.factors if f.name in used]
        used |= {s for d in definitions if isinstance(d, kind) for s in d.sources}
    used |= {f.blocks or "" for f in grammar.factors if f.name in used}
    used |= {name for rule in grammar.rules for c in rule.rhs.clamps for name in c.path}
    for factor in grammar.factors:
        if factor.name not in used:
            report.add(
                "F204",
                f"no rule uses factor `{factor.name}`",
                factor.span,
                help="touch nodes with it in a rule, or remove it",
            )
    return report.diagnostics


def check_ties(grammar: Grammar) -> list[Diagnostic]:
    """Errors in factors that are tied to others."""
    report = Report()
    for factor in grammar.factors:
        tied = factor.definition
        if not isinstance(tied, Tied):
            continue
        other = grammar.factor.get(tied.source)
        if other is None:
            report.add(
                "F134",
                f"there is no factor `{tied.source}`",
                tied.span,
                help=did_you_mean(tied.source, grammar.factor),
            )
        elif (
            other.given != 1
            or other.domains != other.domains[:1] * 2
            or factor.given != 0
            or factor.domains != other.domains[:1]
        ):
            report.add(
                "F134",
                f"`{factor.name}` cannot be the stationary distribution of `{other.name}`",
                tied.span,
                help="it takes `factor pi(-> T)` and `factor trans(T -> T)`",
            )
        elif factor.value is not None:
            report.add(
                "F134",
                f"`{factor.name}` is tied to `{other.name}`, but also has a value",
                tied.span,
                help="drop one of them",
            )
    return report.diagnostics


def _report_source(
    report: Report, item: Factor | InputFactor, kind: str, source: str, known: Iterable[str]
) -> None:
    """Report that the factor of which an item is a slice, piece or product does not exist."""
    assert item.definition is not None
    report.add(
        "F134",
        f"there is no factor `{source}` that `{item.name}` could be a {kind} of",
        item.definition.span or item.span,
        help=did_you_mean(source, known),
    )


def check_slices(grammar: Grammar) -> list[Diagnostic]:
    """Errors in slices of factors and of input factors."""
    report = Report()
    items: list[tuple[Factor | InputFactor, Mapping[str, Factor | InputFactor]]] = []
    items += [(item, grammar.factor) for item in grammar.factors]
    items += [(item, grammar.input_factor) for item in grammar.input_factors]
    for item, sources in items:
        cut = item.definition
        if not isinstance(cut, Slice):
            continue
        span = cut.span or item.span
        source = sources.get(cut.source)
        if source is None:
            _report_source(report, item, "slice", cut.source, sources)
        elif isinstance(source.definition, Slice):
            report.add("F134", f"`{source.name}` is a slice itself, so it has none", span)
        elif not is_slice(grammar, item, source):
            report.add(
                "F134",
                f"`{item.name}` cannot be this slice of `{source.name}`",
                span,
                help="a variant `C(N)` decides a union, `L(N, P)` lists the components of a "
                "product; the slice has the domains that are left, and no value of its own",
            )
    return report.diagnostics


def check_pieces(grammar: Grammar) -> list[Diagnostic]:
    """Errors in pieces of factors of low rank."""
    report = Report()
    for factor in grammar.factors:
        piece = factor.definition
        if not isinstance(piece, Piece):
            continue
        span = piece.span or factor.span
        source = grammar.factor.get(piece.source)
        if source is None:
            _report_source(report, factor, "piece", piece.source, grammar.factor)
        elif not is_piece(grammar, factor, source):
            report.add(
                "F134",
                f"`{factor.name}` cannot be piece {piece.number} of `{source.name}`",
                span,
                help="the pieces of `factor f(A -> B, C) rank r` are `(A -> R)`, `(R -> B)` and "
                "`(R -> C)`, with `rank R = r` and no value",
            )
    return report.diagnostics


def check_products(grammar: Grammar) -> list[Diagnostic]:
    """Errors in factors that are products of others."""
    report = Report()
    for factor in grammar.factors:
        product = factor.definition
        if not isinstance(product, ProductOf):
            continue
        span = product.span or factor.span
        unknown = [source for source in product.sources if source not in grammar.factor]
        if unknown:
            _report_source(report, factor, "product", unknown[0], grammar.factor)
        elif not is_product(grammar, factor):
            names = " and ".join(f"`{source}`" for source in product.sources)
            report.add(
                "F134",
                f"`{factor.name}` cannot be this product of {names}",
                span,
                help="nodes are numbered from 0 and have the domains of the parts; there is an "
                "arrow only where the parts have one, and no value or rank",
            )
    return report.diagnostics


LEARNED_ONLY = ("prior", "net", "init")


def check_attributes(grammar: Grammar) -> list[Diagnostic]:
    """Warnings about options for learning on factors that are not learned, or not this way."""
    report = Report()
    for factor in grammar.factors:
        tied = isinstance(factor.definition, Tied)
        for attribute in factor.attributes:
            if attribute.key in LEARNED_ONLY and (factor.value is not None or tied):
                why = "is tied to another one" if tied else "has a value"
                report.add(
                    "F208",
                    f"factor `{factor.name}` {why}, so nothing uses `{attribute.key}`",
                    attribute.span or factor.span,
                    help=f"drop `{attribute.key}`, or what fixes the factor",
                )
            elif attribute.key == "net" and not nets_fit(factor):
                report.add(
                    "F134",
                    f"factor `{factor.name}` does not have a piece for each of these networks",
                    attribute.span or factor.span,
                    help="`each(…)` is for factors of declared rank: a network for the left side, "
                    "and one for each domain right of the arrow",
                )
            elif attribute.key == "init" and net_of(factor) is not None:
                report.add(
                    "F208",
                    f"factor `{factor.name}` is a network, so nothing uses `init`",
                    attribute.span or factor.span,
                    help="drop `init` or `net`",
                )
    return report.diagnostics
