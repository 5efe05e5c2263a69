"""Compute the value of a grammar exactly, and its marginals, best derivations and samples."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgg.cli.arguments import Parser, derivation_count
from fgg.cli.options_compiler import add_backend, add_space, backend_of, space_for
from fgg.cli.options_data import ItemBatch, given_item
from fgg.cli.options_model import (
    Weights,
    add_declarations,
    add_file,
    add_selection,
    add_weights,
    given_weights,
    load_grammar,
    query_of,
    select,
)
from fgg.cli.output import Figures, print_diagnostics, print_report
from fgg.cli.pictures import add_derivation_picture, check_picture, draw_derivations
from fgg.cli.terminal import BOLD, painted
from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.draw.beliefs import Beliefs
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.program.program import Program
    from fgg.runtime.reference.solution import AnySolution

SEMIRINGS = ("log", "real", "max", "boolean", "counting", "gf", "exact")
COMPILED_SEMIRINGS = ("log", "max", "boolean", "counting", "gf")

Derivations = dict[str, "list[Derivation]"]
"""Derivations by the part of the report that they belong to: viterbi, kbest, samples."""


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc run`."""
    add_file(parser)
    add_selection(parser)
    add_weights(parser)
    add_declarations(parser)
    add_space(parser)
    add_backend(parser)
    parser.choice("--semiring", SEMIRINGS, "the semiring to compute Z in", default="log")
    parser.flag("--marginals", "how probable each value of each cell is, and the entropy")
    parser.flag("--grad", "the gradient of Z for every weight")
    parser.choice("--decode", ("viterbi",), "the best derivation")
    kbest, samples = "the K best derivations", "K samples of derivations"
    parser.value("--kbest", "K", kbest, type=derivation_count)
    parser.value("--sample", "K", samples, type=derivation_count)
    add_derivation_picture(parser, "the best derivation")


def run(arguments: argparse.Namespace) -> int:
    """Compute and print the results that the options ask for."""
    check_picture(arguments.output)
    grammar, loaded = load_grammar(arguments)
    weights = given_weights(arguments)
    notes: list[Diagnostic] = []
    program = _program(grammar, arguments, weights)
    if program is not None:
        report, derivations, tables = _ask_program(program, arguments, weights)
    else:
        finite = select(grammar, arguments, whole=True)
        notes += _engine_notes(grammar, arguments)
        report, derivations, warnings = _ask_reference(finite, arguments, weights)
        tables = report.pop("tables", [])
        if not arguments.json:
            print_diagnostics([*notes, *warnings], None)
    if arguments.output:
        draw_derivations(derivations["viterbi"], arguments)
    if arguments.json:
        report |= _derivations_json(grammar, derivations)
        print_report(report, [*loaded.diagnostics, *notes], loaded.source)
    else:
        _print(report, derivations, tables)
    return 0


def _derivations_json(grammar: Grammar, derivations: Derivations) -> Figures:
    """Return the derivations; each step has the number of the rule that it comes from."""
    numbers = {rule.name: i for i, rule in enumerate(grammar.rules)}
    report: Figures = {}
    for kind, listed in derivations.items():
        items = report[kind] = [derivation.as_json() for derivation in listed]
        for step in (step for item in items for step in item["steps"]):
            step["rule_index"] = numbers.get(step["source"])
    if "viterbi" in report:
        report["viterbi"] = report["viterbi"][0]
    return report


def _program(grammar: Grammar, arguments: argparse.Namespace, weights: Weights) -> Program | None:
    """Return a compiled program for the item that is given; None if the reference engine is needed.

    It is needed if the grammar has no indices or no schedule, if families are to be written out,
    and for gradients, and marginals as JSON, which are reported cell by cell.
    """
    if (
        arguments.ground
        or arguments.grad
        or (arguments.marginals and arguments.json)
        or arguments.semiring not in COMPILED_SEMIRINGS
        or not (arguments.input or arguments.length)
    ):
        return None
    from fgg.api.compile import compile

    try:
        program = compile(
            grammar,
            query_of(grammar, arguments),
            space=arguments.space or space_for(grammar, weights),
            fallback=False,
            backend=backend_of(arguments),
        )
    except GrammarError as error:
        if error.diagnostics[0].code == "F425":
            return None
        raise
    item = given_item(program.grammar, arguments)
    if not program.grammar.is_indexed or set(item.inputs) & set(program.grammar.input_factor):
        return None
    return program


def _ask_program(
    program: Program, arguments: argparse.Namespace, given: Weights
) -> tuple[Figures, Derivations, list[Beliefs]]:
    """Return the report, the derivations and the tables of marginals of a compiled program."""
    import torch

    item = given_item(program.grammar, arguments)
    seed = arguments.seed
    weights = program.weights(given, seed=seed, dtype=torch.float64)
    post = program.posterior(weights, item.inputs, item.lengths, words=item.words)
    report: Figures = {"name": program.grammar.name, "semiring": arguments.semiring}
    if arguments.semiring == "log":
        log_z = post.log_z[0]
        report |= {"value": number(log_z), "z": number(log_z.exp()), "log_z": number(log_z)}
    else:
        report["value"] = number(_value(program, item, arguments, given))
    levels = sum(stage.has_levels for stage in program.compiled.plan.stages)
    report |= {
        "converged": True,
        "method": [
            {
                "nonterminals": "all",
                "method": "compiled program",
                "steps": levels,
                "error_bound": 0.0,
                "critical": False,
            }
        ],
        "range": program.ranges.as_json(),
        "warnings": [],
    }
    derivations: Derivations = {}
    if arguments.decode or arguments.output:
        derivations["viterbi"] = post.best()
    if arguments.kbest:
        derivations["kbest"] = post.k_best(arguments.kbest)[0]
    if arguments.sample:
        derivations["samples"] = post.sample(arguments.sample, seed=seed)[0]
    tables: list[Beliefs] = []
    if arguments.marginals:
        report["entropy"] = post.entropy()[0].item()
        tables = post.beliefs()
    return report, derivations, tables


def _value(
    program: Program, item: ItemBatch, arguments: argparse.Namespace, given: Weights
) -> object:
    """Return the value of an item in the semiring that is asked for."""
    from fgg.runtime.program.bind import bind

    # A prime field needs the numbers as they are written, not the nearest floats.
    exactly = arguments.semiring == "gf"
    factors = program.grammar if program.compiled.space == "dense" else program.weighted
    weights = bind(factors, given, seed=arguments.seed, exactly=exactly)
    names = {*program.parameter_names, *program.compiled.plan.parameters} & weights.keys()
    needed = {name: weights[name] for name in names}
    charts = program.posterior(needed, item.inputs, item.lengths).charts(arguments.semiring)
    return charts.z[0]


def _ask_reference(
    finite: Grammar, arguments: argparse.Namespace, weights: Weights
) -> tuple[Figures, Derivations, Sequence[Diagnostic]]:
    """Return the report, the derivations and the warnings of the reference engine."""
    from fgg.runtime.reference.solve import solve

    seed = arguments.seed
    solution = solve(finite, arguments.semiring, weights=weights, seed=seed)
    report = _report(solution)
    if arguments.grad:
        from fgg.runtime.reference.posterior import gradients

        grads = gradients(finite, of="z", weights=weights, seed=seed)
        report["grad"] = {name: number(grad) for name, grad in grads.items()}
    if arguments.marginals:
        report |= _marginals(finite, weights, seed)
    return report, _derivations(finite, weights, arguments), solution.warnings


def _engine_notes(grammar: Grammar, arguments: argparse.Namespace) -> list[Diagnostic]:
    """Return a note that says why a grammar cannot be compiled; none if it has no indices."""
    from fgg.api.compile import selected
    from fgg.compiler.plan.schedule import schedule

    if grammar.queries and not (arguments.query or arguments.length or arguments.input):
        return []  # the model alone, which has no indices
    joined = selected(grammar, arguments.query)
    if not joined.is_indexed:
        return []
    order = schedule(joined)
    if order.holds:
        return []
    conflict = order.conflicts[0]
    rules = ", ".join(f"`{name}`" for name in conflict.rules)
    message = f"`{joined.name}` runs on the reference engine: {conflict.reason} ({rules})"
    help = "it takes longer than a compiled program would; `fggc explain F425` says what compiles"
    return [Diagnostic(code="F434", message=message, help=help)]


def number(value: object) -> object:
    """Return a value for JSON: infinities as strings, arrays as nested lists, integers exactly."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [number(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _report(solution: AnySolution) -> Figures:
    """Return the value of the start symbol, and how it was computed."""
    report: Figures = {
        "name": solution.grammar.name,
        "semiring": solution.semiring.name,
        "value": number(solution.value),
    }
    if solution.semiring.name in ("log", "real"):
        log_z = solution.log_z.detach()
        report["z"] = number(
            solution.value.exp() if solution.semiring.name == "log" else solution.value
        )
        report["log_z"] = number(log_z)
    report["converged"] = True
    report["method"] = [
        {
            "nonterminals": list(m.nonterminals),
            "method": m.name,
            "steps": m.steps,
            "error_bound": m.error if m.error < math.inf else "inf",
            "critical": m.critical,
        }
        for m in solution.methods
    ] or [{"nonterminals": "all", "method": "contraction", "steps": 1, "error_bound": 0.0}]
    report["warnings"] = [f"{w.code}: {w.message}" for w in solution.warnings]
    return report


def _marginals(finite: Grammar, weights: Weights, seed: int | None) -> Figures:
    from fgg.runtime.display.beliefs import ground_beliefs
    from fgg.runtime.reference.posterior import posterior

    expected = posterior(finite, weights=weights, seed=seed)
    nonterminals = {}
    for name, counts in expected.nonterminals.items():
        family, indices = finite.nonterminal[name].origin or (name, ())
        shown = f"{family}[{', '.join(map(str, indices))}]" if indices else family
        nonterminals[shown] = number(counts)
    return {
        "tables": ground_beliefs(finite, expected.nonterminals),
        "entropy": expected.entropy,
        "marginals": nonterminals,
        "counts": {name: number(counts) for name, counts in expected.counts.items()},
        "rules": dict(expected.rules),
    }


def _derivations(finite: Grammar, weights: Weights, arguments: argparse.Namespace) -> Derivations:
    seed = arguments.seed
    derivations: Derivations = {}
    if arguments.decode or arguments.output:
        from fgg.runtime.derive.decode_ground import viterbi

        derivations["viterbi"] = [viterbi(finite, weights=weights, seed=seed)]
    if arguments.kbest:
        from fgg.runtime.derive.decode_ground import k_best

        derivations["kbest"] = k_best(finite, arguments.kbest, weights=weights, seed=seed)
    if arguments.sample:
        from fgg.runtime.derive.decode_ground import sample

        derivations["samples"] = sample(finite, arguments.sample, weights=weights, seed=seed)
    return derivations


def _print(report: Figures, derivations: Derivations, tables: Sequence[Beliefs]) -> None:
    if "log_z" in report:
        print(f"log Z = {_show(report['log_z'])}")
        print(f"    Z = {_show(report['z'])}")
    else:
        print(f"{report['semiring']}: {_show(report['value'])}")
    for method in report["method"]:
        if method["nonterminals"] != "all":
            names = ", ".join(method["nonterminals"][:4])
            print(f"{names}: {method['method']}, {method['steps']} steps")
    if "entropy" in report:
        print(f"entropy = {report['entropy']:.6g} nats")
        shown = [text for table in tables if (text := "\n".join(table.lines()))]
        for text in shown or [_uses(report.get("rules", {}))]:
            title, _, rows = text.partition("\n")
            print(f"\n{painted(title, BOLD, sys.stdout)}\n{rows}")
    if "grad" in report:
        print("\ngradient of Z")
        for name, grad in report["grad"].items():
            print(f"  {name}: {_show(grad)}")
    for kind, listed in derivations.items():
        for place, derivation in enumerate(listed, 1):
            title = "best derivation" if kind == "viterbi" else f"{kind.rstrip('s')} {place}"
            print(f"\n{title}, log-weight {derivation.log_weight:.6g}")
            print(f"  {derivation.written()}\n")
            print("\n".join(f"  {line}" for line in derivation.lines()))


def _uses(rules: Figures) -> str:
    """Return how often each rule is expected to be used, where no cell has an index or a value."""
    ranked = sorted(rules.items(), key=lambda item: -item[1])[:20]
    lines = [f"  {uses:10.6f}  {rule}" for rule, uses in ranked]
    return "\n".join(["expected number of uses of each rule", *lines])


def _show(value: object) -> str:
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 400 else text[:400] + " …"
