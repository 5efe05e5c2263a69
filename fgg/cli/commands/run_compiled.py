"""`fggc run` on a compiled program, where one item of an indexed grammar is asked for its value."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fgg.cli.items import check_lengths, query_of, space_for
from fgg.cli.target import assignments, read_inputs
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.program.program import Program

SEMIRINGS = ("log", "max", "boolean", "counting", "gf")

Found = tuple[dict[str, Any], dict[str, "list[Derivation]"]]


def compiled_report(
    grammar: Grammar, arguments: argparse.Namespace, weights: dict[str, Any]
) -> Found | None:
    """The report of a compiled program; None if the reference engine has to be asked.

    It has to be where the grammar has no indices or no schedule, where families are to be written
    out, and for gradients and marginals, which are reported cell by cell.
    """
    inputs = read_inputs(arguments.input)
    lengths = assignments(arguments.length, "--length")
    check_lengths(lengths)
    if (
        arguments.ground
        or arguments.grad
        or arguments.marginals
        or arguments.semiring not in SEMIRINGS
        or not (inputs or lengths)
    ):
        return None
    from fgg.api.compile import compile

    try:
        space = space_for(grammar, weights)
        program = compile(grammar, query_of(grammar, arguments), space=space, fallback=False)
    except GrammarError as error:
        if error.diagnostics[0].code == "F425":
            return None
        raise
    if not program.grammar.is_indexed or set(inputs) & set(program.grammar.input_factor):
        return None
    return _asked(program, arguments, weights, inputs, lengths)


def _asked(
    program: Program,
    arguments: argparse.Namespace,
    given: dict[str, Any],
    inputs: dict[str, Any],
    lengths: dict[str, int],
) -> Found:
    from fgg.cli.commands.run import number

    batch = {name: [value] for name, value in inputs.items()}
    sizes = {name: [value] for name, value in lengths.items()} or None
    import torch

    weights = program.weights(given, seed=arguments.seed, dtype=torch.float64)
    report: dict[str, Any] = {
        "ok": True,
        "name": program.grammar.name,
        "semiring": arguments.semiring,
    }
    if arguments.semiring == "log":
        log_z = program.log_z(weights, batch, sizes)[0]
        report |= {"value": number(log_z), "z": number(log_z.exp()), "log_z": number(log_z)}
    else:
        from fgg.runtime.program.bind import bind

        # A prime field needs the numbers as they are written, and not their nearest floats.
        exactly = arguments.semiring == "gf"
        factors = program.grammar if program.compiled.space == "dense" else program.weighted
        numbers = bind(factors, given, seed=arguments.seed, exactly=exactly)
        needed = {*program.parameter_names, *program.compiled.plan.parameters}
        value = (
            program.posterior(
                {name: numbers[name] for name in needed if name in numbers}, batch, sizes
            )
            .charts(arguments.semiring)
            .z[0]
        )
        report["value"] = number(value)
    levels = sum(stage.has_levels for stage in program.compiled.plan.stages)
    report["converged"] = True
    report["method"] = [
        {
            "nonterminals": "all",
            "method": "compiled program",
            "steps": levels,
            "error_bound": 0.0,
            "critical": False,
        }
    ]
    report["range"] = program.ranges.as_json()
    report["warnings"] = []
    found: dict[str, list[Derivation]] = {}
    if arguments.decode or arguments.draw:
        found["viterbi"] = program.posterior(weights, batch, sizes).best()
    if arguments.kbest:
        found["kbest"] = program.posterior(weights, batch, sizes).k_best(arguments.kbest)[0]
    if arguments.sample:
        draws = program.posterior(weights, batch, sizes).sample(
            arguments.sample, seed=arguments.seed
        )
        found["samples"] = draws[0]
    return report, found
