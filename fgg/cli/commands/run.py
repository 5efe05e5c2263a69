"""Run exact inference on a grammar: its value, marginals, best derivations, samples."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fgg.cli.commands.decode import draw
from fgg.cli.commands.run_compiled import compiled_report
from fgg.cli.declaring import add_declarations, with_declarations
from fgg.cli.output import print_diagnostics, print_json
from fgg.cli.target import (
    add_file,
    add_selection,
    add_weights,
    count,
    load_target,
    need_grammar,
    select,
)
from fgg.diagnostics import Diagnostic, as_json, refuse
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.reference.solution import AnySolution

SEMIRINGS = ("log", "real", "max", "boolean", "counting", "gf", "exact")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `fggc run`."""
    add_file(parser)
    add_selection(parser)
    add_weights(parser)
    add_declarations(parser)
    parser.add_argument("--semiring", choices=SEMIRINGS, default="log", help="what to compute with")
    parser.add_argument("--marginals", action="store_true", help="expected counts, entropy")
    parser.add_argument("--grad", action="store_true", help="the gradient of Z in every weight")
    parser.add_argument("--decode", choices=("viterbi",), help="the best derivation")
    parser.add_argument("--kbest", type=count, metavar="K", help="the K best derivations")
    parser.add_argument("--draw", metavar="PATH", help="draw the best derivation (.svg)")
    parser.add_argument("--sample", type=count, metavar="K", help="K draws of derivations")


def run(arguments: argparse.Namespace) -> int:
    """Compute what is asked for and print it."""
    loaded = load_target(arguments)
    grammar = with_declarations(need_grammar(loaded, quiet=arguments.json), arguments)
    weights = read_params(arguments.params) if arguments.params else {}
    quick = compiled_report(grammar, arguments, weights)
    if quick is not None:
        report, derivations = quick
        report["diagnostics"] = [as_json(d, loaded.source) for d in loaded.diagnostics]
        return _finish(grammar, arguments, report, derivations)
    finite = select(grammar, arguments, whole=True)
    notes = [*loaded.diagnostics, *_engine_notes(grammar, arguments)]
    from fgg.runtime.reference.solve import solve

    seed = arguments.seed
    solution = solve(finite, arguments.semiring, weights=weights, seed=seed)
    report = _report(solution)
    report["diagnostics"] = [as_json(d, loaded.source) for d in notes]
    if arguments.grad:
        from fgg.runtime.reference.posterior import gradients

        report["grad"] = {
            name: number(grad)
            for name, grad in gradients(finite, of="z", weights=weights, seed=seed).items()
        }
    if arguments.marginals:
        report |= _marginals(finite, weights, seed)
    derivations = _derivations(finite, weights, arguments)
    if not arguments.json:
        print_diagnostics([*notes[len(loaded.diagnostics) :], *solution.warnings], None)
    return _finish(grammar, arguments, report, derivations)


def _finish(
    grammar: Grammar,
    arguments: argparse.Namespace,
    report: dict[str, Any],
    derivations: dict[str, list[Derivation]],
) -> int:
    """Draw and print what was found."""
    numbers = {rule.name: i for i, rule in enumerate(grammar.rules)}
    for key, found in derivations.items():
        report[key] = [d.as_json() for d in found]
        for item in report[key]:
            for step in item["steps"]:
                step["rule_index"] = numbers.get(step["source"])
    if "viterbi" in report:
        report["viterbi"] = report["viterbi"][0]
    if arguments.draw:
        draw(derivations["viterbi"][0], arguments.draw)
    if arguments.json:
        print_json(report)
        return 0
    _print(report, derivations)
    return 0


def _engine_notes(grammar: Grammar, arguments: argparse.Namespace) -> list[Diagnostic]:
    """Why an indexed grammar has to be written out in full, if it has to."""
    from fgg.api.compile import selected
    from fgg.compiler.plan.schedule import schedule

    if grammar.queries and not (arguments.query or arguments.length or arguments.input):
        return []  # the model alone, which has no indices
    joined = selected(grammar, arguments.query)
    if not joined.is_indexed:
        return []
    found = schedule(joined)
    if found.holds:
        return []
    conflict = found.conflicts[0]
    rules = ", ".join(f"`{name}`" for name in conflict.rules)
    message = f"`{joined.name}` runs on the reference engine: {conflict.reason} ({rules})"
    help = "it takes longer than a compiled program would; `fggc explain F425` says what compiles"
    return [Diagnostic(code="F434", message=message, help=help)]


def read_params(path: str) -> dict[str, Any]:
    """The weights in a safetensors file. Raises GrammarError."""
    from fgg.files import check_regular, unreadable

    try:
        check_regular(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    try:
        from safetensors.numpy import load_file

        return dict(load_file(path))
    except Exception:
        problem = f"`{path}` is not a safetensors file of float32 or float64 numbers"
    refuse("F401", problem)


def number(value: Any) -> Any:
    """A value as JSON has it: infinities are strings, arrays nested lists, big integers exact."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [number(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _report(solution: AnySolution) -> dict[str, Any]:
    """The value of the start symbol, and how it was found."""
    report: dict[str, Any] = {
        "ok": True,
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


def _marginals(finite: Grammar, weights: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    from fgg.runtime.reference.posterior import posterior

    found = posterior(finite, weights=weights, seed=seed)
    nonterminals = {}
    for name, counts in found.nonterminals.items():
        family, indices = finite.nonterminal[name].origin or (name, ())
        shown = f"{family}[{', '.join(map(str, indices))}]" if indices else family
        nonterminals[shown] = number(counts)
    return {
        "entropy": found.entropy,
        "marginals": nonterminals,
        "counts": {name: number(counts) for name, counts in found.counts.items()},
        "rules": dict(found.rules),
    }


def _derivations(
    finite: Grammar, weights: Mapping[str, Any], arguments: argparse.Namespace
) -> dict[str, list[Derivation]]:
    found: dict[str, list[Derivation]] = {}
    if arguments.decode or arguments.draw:
        from fgg.runtime.derive.decode_ground import viterbi

        found["viterbi"] = [viterbi(finite, weights=weights, seed=arguments.seed)]
    if arguments.kbest:
        from fgg.runtime.derive.decode_ground import k_best

        found["kbest"] = k_best(finite, arguments.kbest, weights=weights, seed=arguments.seed)
    if arguments.sample:
        from fgg.runtime.derive.decode_ground import sample

        found["samples"] = sample(finite, arguments.sample, weights=weights, seed=arguments.seed)
    return found


def _print(report: dict[str, Any], derivations: dict[str, list[Derivation]]) -> None:
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
        print("\nexpected number of uses of each rule")
        for rule, uses in sorted(report["rules"].items(), key=lambda item: -item[1])[:20]:
            print(f"  {uses:10.6f}  {rule}")
    if "grad" in report:
        print("\ngradient of Z")
        for name, grad in report["grad"].items():
            print(f"  {name}: {_show(grad)}")
    for kind, found in derivations.items():
        for place, derivation in enumerate(found, 1):
            title = "best derivation" if kind == "viterbi" else f"{kind.rstrip('s')} {place}"
            print(f"\n{title}, log-weight {derivation.log_weight:.6g}")
            print("\n".join(f"  {line}" for line in derivation.lines()))


def _show(value: Any) -> str:
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 400 else text[:400] + " …"
