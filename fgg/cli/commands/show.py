"""Print a grammar as a summary, text, JSON or equations; without FILE, list the library."""

from __future__ import annotations

import argparse
import json
import sys

from fgg.check.bfgg import b_status
from fgg.check.describe import equations, free_parameters, query_signature, summary_lines
from fgg.cli.arguments import Parser
from fgg.cli.options_model import add_declarations, add_file, add_selection, load_grammar, select
from fgg.cli.output import print_json
from fgg.grammar import Factor, Grammar
from fgg.grammar.definitions import Tied
from fgg.grammar.domains import domain_size, size_values
from fgg.library import library_names, library_title

FORMS = ("summary", "fgg", "json", "equations", "schedule")


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc show`."""
    add_file(parser, optional=True)
    add_selection(parser)
    parser.choice(
        "--emit",
        FORMS,
        "what to print: a summary (the default), the grammar as text, FGG JSON, equations, or "
        "the order in which charts are filled",
        default="summary",
    )
    add_declarations(parser)
    parser.flag("--trim", "remove useless symbols")
    parser.flag("--plain", "write out unions, products and parts of domains")
    parser.repeated("--union", "FILE", "add the rules of another grammar")


def run(arguments: argparse.Namespace) -> int:
    """Print the grammar in the form asked for."""
    if arguments.file is None:
        return _list_library(arguments.json)
    grammar, _ = load_grammar(arguments, quiet=False)
    for other in arguments.union:
        from fgg.compiler.resolve.load import load
        from fgg.rewrite.union import union

        grammar = union(grammar, load(other))
    grammar = select(grammar, arguments)
    if arguments.trim:
        from fgg.rewrite.trim import trim

        grammar = trim(grammar)
    if arguments.plain:
        from fgg.rewrite.plain import plain

        grammar = plain(grammar)
    if arguments.emit == "json":
        from fgg.json import to_json

        if grammar.queries:
            names = ", ".join(query.name for query in grammar.queries)
            print(f"note: FGG JSON has no queries; left out: {names}", file=sys.stderr)
        json.dump(to_json(grammar), sys.stdout, ensure_ascii=False)
        print()
    elif arguments.emit == "summary":
        _summary(grammar, arguments.json)
    else:
        text = _text(grammar, arguments.emit)
        if arguments.json:
            print_json({"ok": True, "name": grammar.name, arguments.emit: text})
        else:
            print(text)
    return 0


def _text(grammar: Grammar, form: str) -> str:
    if form == "fgg":
        from fgg.grammar.printer import print_grammar

        return print_grammar(grammar).rstrip("\n")
    if form == "schedule":
        from fgg.compiler.plan.schedule import schedule, schedule_lines

        return "\n".join(schedule_lines(grammar, schedule(grammar)))
    return "\n".join(equations(grammar))


def _list_library(wants_json: bool) -> int:
    names = library_names()
    if wants_json:
        print_json({"ok": True, "library": {name: library_title(name) for name in names}})
        return 0
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {library_title(name)}")
    return 0


def _summary(grammar: Grammar, wants_json: bool) -> None:
    if wants_json:
        print_json(summary_json(grammar))
        return
    print(grammar.name)
    for line in summary_lines(grammar):
        print(f"  {line}")
    sizes = size_values(grammar)
    _section("sizes", [(s.name, f"{sizes[s.name]:,}") for s in grammar.sizes])
    domains = [
        (d.name, f"{domain_size(grammar, d.name):,} values{'  (rank)' if d.rank else ''}")
        for d in grammar.domains
    ]
    _section("domains", domains)
    _section("factors", [(signature(f), _kind(grammar, f)) for f in grammar.factors])
    _section(
        "rules", [(r.name, line) for r, line in zip(grammar.rules, equations(grammar), strict=True)]
    )


def _section(title: str, rows: list[tuple[str, str]]) -> None:
    if not rows:
        return
    width = min(max(len(left) for left, _ in rows), 40)
    print(f"\n{title}")
    for left, right in rows:
        print(f"  {left:{width}}  {right}")


def signature(factor: Factor) -> str:
    """Return a factor's name with its domains, as declared."""
    if factor.given is None:
        return f"{factor.name}({', '.join(factor.domains)})"
    given, over = factor.domains[: factor.given], factor.domains[factor.given :]
    arrow = f"{', '.join(given)} -> " if given else "-> "
    return f"{factor.name}({arrow}{', '.join(over)})"


def _kind(grammar: Grammar, factor: Factor) -> str:
    if factor.value is not None:
        kind = f"given ({type(factor.value).__name__.lower()})"
    elif isinstance(factor.definition, Tied):
        kind = "tied"
    else:
        kind = f"{free_parameters(grammar, factor):,} free parameters"
    return f"{kind}, rank {factor.rank}" if factor.rank is not None else kind


def summary_json(grammar: Grammar) -> dict[str, object]:
    """Return the summary as a JSON object."""
    statuses = b_status(grammar)
    return {
        "ok": True,
        "name": grammar.name,
        "sizes": dict(size_values(grammar)),
        "domains": {d.name: domain_size(grammar, d.name) for d in grammar.domains},
        "factors": {
            f.name: {
                "domains": list(f.domains),
                "given": f.given,
                "free_parameters": free_parameters(grammar, f),
                "has_value": f.value is not None,
                "rank": None if f.rank is None else f.rank.evaluate(size_values(grammar)),
            }
            for f in grammar.factors
        },
        "nonterminals": {
            x.name: {"domains": list(x.domains), "indices": list(x.indices)}
            for x in grammar.nonterminals
        },
        "start": grammar.start.label,
        "rules": [
            {"name": r.name, "equation": line, "b_fragment": s.holds, "reason": s.reason}
            for r, line, s in zip(grammar.rules, equations(grammar), statuses, strict=True)
        ],
        "queries": [query_signature(q) for q in grammar.queries],
        "bfgg": all(s.holds for s in statuses),
    }
