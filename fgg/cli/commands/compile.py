"""Compile a grammar and a query to a Python module, or show the plan, the cost or the passes."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fgg.cli.arguments import Parser, Usage, assignments, whole_number
from fgg.cli.options_compiler import add_after, add_backend, backend_of, check_pass, space_of
from fgg.cli.options_model import add_declarations, add_file, add_query, load_grammar, query_of
from fgg.cli.output import Figures, placed, print_diagnostics, print_report, write_whole
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.grammar import Grammar
from fgg.plan import Plan
from fgg.plan.backend import (
    AUTO,
    CPP,
    TRITON,
    WIDTHS,
    BackendChoice,
    Situation,
    batches_until,
    building_seconds,
    choose,
    saved_by_passes,
)
from fgg.plan.devices import DEVICES, device_named

FORMS = tuple("python grammar schedule plan kernel cost numpy cpp triton aoti".split())
MAX_LENGTH = 1_000_000


def add_arguments(parser: Parser) -> None:
    """Add the options of `fggc compile`."""
    add_file(parser)
    add_query(parser)
    parser.choice(
        "--emit",
        FORMS,
        "what to write: a Python module (the default), the grammar after a pass, the order "
        "in which charts are filled, the plan, its kernels, its cost, a module that needs NumPy "
        "alone, the C++ that `--backend cpp` builds, a module with Triton kernels for GPUs, or a "
        "package compiled ahead of time "
        "(`--emit aoti -o model.pt2`)",
        default="python",
    )
    add_declarations(parser)
    add_after(
        parser, "the pass after which to show the grammar or the schedule (default: the last)"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="where to write (default: standard output)"
    )
    parser.repeated_values(
        "--length", "NAME=N", "lengths to optimise and count costs for (default: 32)"
    )
    parser.value(
        "--batch",
        "N",
        "the number of items in a batch to optimise and count costs for (default: 16)",
        type=whole_number(1, 1_000_000),
        default=16,
    )
    add_backend(parser)
    parser.flag(
        "--missing", "also allow missing tokens where rules read a token twice or through a map"
    )
    parser.flag(
        "--standalone", "write a module that needs torch only: what it uses of fgg is part of it"
    )
    parser.choice("--dtype", tuple(WIDTHS), "the type of number, to count bytes", default="float32")
    parser.value(
        "--device",
        "GPU",
        f"with `--emit cost`: also count what programs do on a GPU ({', '.join(DEVICES)})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the form that `--emit` asks for."""
    _check_options(arguments)
    grammar, loaded = load_grammar(arguments, quiet=True)
    query = query_of(grammar, arguments)
    to_file = arguments.output not in (None, "-")
    text, report = "", Figures()
    with placed(loaded.source):
        if arguments.emit == "aoti":
            _export(grammar, query, arguments)
        else:
            text, report = _emitted(grammar, query, arguments)
    if not arguments.json:
        print_diagnostics(loaded.diagnostics, loaded.source)
    if to_file and arguments.emit != "aoti":
        write_whole(Path(arguments.output), text.encode())
    if arguments.json:
        about = {"name": grammar.name, "query": query, "emit": arguments.emit}
        figures = {**about, **report, "file": arguments.output}
        print_report(figures, loaded.diagnostics, loaded.source)
    elif to_file:
        print(f"wrote {arguments.output}", file=sys.stderr)
    else:
        sys.stdout.write(text)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise Usage if options contradict each other."""
    if arguments.after is not None:
        check_pass(arguments.after, arguments.space)
        if arguments.emit not in ("grammar", "schedule"):
            raise Usage(
                f"`--after {arguments.after}` does not go with `--emit {arguments.emit}`",
                "a plan is made after the last pass",
            )
    if arguments.device is not None:
        if arguments.emit != "cost":
            raise Usage("`--device` goes with `--emit cost`", "it says which GPU to count for")
        device_named(arguments.device)
    if arguments.emit == "aoti" and arguments.output in (None, "-"):
        raise Usage("`--emit aoti` writes a file", "say where: `-o model.pt2`")
    if arguments.standalone and arguments.emit != "python":
        raise Usage(
            f"`--standalone` does not go with `--emit {arguments.emit}`", "it is for Python modules"
        )
    if arguments.output == "-" and arguments.json:
        raise Usage("`-o -` and `--json` both use standard output")


def _export(grammar: Grammar, query: str | None, arguments: argparse.Namespace) -> None:
    """Write a package compiled ahead of time; this takes a C++ compiler and a minute."""
    import torch

    from fgg.api.compile import compile
    from fgg.runtime.export.export import export_program

    if not sys.stderr.closed and sys.stderr.isatty():
        print("compiling with a C++ compiler: this takes a minute", file=sys.stderr)
    program = compile(grammar, query, space=arguments.space or "auto", fallback=False)
    program = program.compiled.summing if arguments.missing else program
    export_program(program, Path(arguments.output), dtype=getattr(torch, arguments.dtype))


def _emitted(
    grammar: Grammar, query: str | None, arguments: argparse.Namespace
) -> tuple[str, Figures]:
    """Return the form that `--emit` asks for as text, and as a part of the JSON report."""
    from fgg.api.compile import compilable, selected
    from fgg.compiler.driver import Expected, after, pass_names, plan_of
    from fgg.grammar.domains import lengths

    source = selected(grammar, query)
    given = assignments(arguments.length, "--length")
    _check_lengths(source, given)
    # The cost model has one length; of several, it takes the greatest.
    expected = Expected(max(given.values(), default=32) or 1, arguments.batch)
    with compilable(grammar.name):
        space, reason = space_of(source, arguments, expected)
        chosen = {"space": space, "reason": reason}
        if reason and not arguments.json:
            print(reason, file=sys.stderr)
        if arguments.emit in ("grammar", "schedule"):
            shown = after(source, arguments.after or pass_names(space)[-1], expected, space)
            text = _grammar_text(shown, arguments.emit)
            return text, {**chosen, arguments.emit: text.rstrip("\n")}
        plan = plan_of(source, expected, space, pinned=not arguments.missing)
        plan = replace(plan, notes=(reason,) if reason else ())
    if arguments.emit == "plan":
        from fgg.compiler.plan.text import plan_json, plan_lines

        return "\n".join(plan_lines(plan)) + "\n", {**chosen, "plan": plan_json(plan)}
    if arguments.emit == "kernel":
        from fgg.compiler.emit.simplify import passes
        from fgg.compiler.plan.kernel_text import kernel_json, kernel_lines

        kernels = passes(plan)
        return "\n".join(kernel_lines(*kernels)) + "\n", {**chosen, "kernel": kernel_json(*kernels)}
    if arguments.emit == "numpy":
        from fgg.compiler.emit.numpy import emit as emit_numpy

        text = emit_numpy(plan)
        return text, {**chosen, "numpy": text}
    if arguments.emit == "cost":
        from fgg.compiler.cost.cost import cost, cost_lines

        all_lengths = {name: given.get(name, 32) for name in lengths(source)}
        width = WIDTHS[arguments.dtype]
        report = cost(plan, all_lengths, batch=arguments.batch, width=width)
        line, backend = _backend(plan, all_lengths, arguments)
        lines = [*cost_lines(report), line]
        figures = {**chosen, "cost": report.as_json(), "backend": backend}
        if arguments.device is not None:
            from fgg.api.gpu_cost import gpu_cost
            from fgg.compiler.cost.gpu.report import gpu_lines

            on_gpu = gpu_cost(report, device_named(arguments.device))
            lines += ["", *gpu_lines(on_gpu)]
            figures["gpu"] = on_gpu.as_json()
        return "\n".join(lines) + "\n", figures
    if arguments.emit == "cpp":
        from fgg.compiler.emit.cpp import native

        text = native(plan).source
        return text, {**chosen, "cpp": text}
    text = _python(plan, {name: given.get(name, 32) for name in lengths(source)}, arguments)
    return text, {**chosen, arguments.emit: text}


def _python(plan: Plan, at: Mapping[str, int], arguments: argparse.Namespace) -> str:
    """Return a plan as a Python module that says what it costs and which command wrote it."""
    from fgg.compiler.cost.cost import cost
    from fgg.compiler.emit.python import emit
    from fgg.compiler.emit.python.module import About
    from fgg.compiler.emit.triton import emit as emit_triton

    report = cost(plan, at, batch=arguments.batch)
    about = About(
        cost=f"O({report.text(report.order)})",
        command=shlex.join(["fggc", "compile", *_without_output(arguments.words)]),
        notes=plan.notes,
    )
    if arguments.emit == "triton":
        return emit_triton(plan, about=about)
    return emit(plan, standalone=arguments.standalone, about=about)


def _without_output(words: Sequence[str]) -> list[str]:
    """Return the words of a command without those that say where and how to write."""
    kept: list[str] = []
    follows = False
    for word in words:
        names_file = word in ("-o", "--output")
        if not (follows or names_file or word == "--json" or word.startswith("--output=")):
            kept.append(word)
        follows = names_file
    return kept


def _backend(
    plan: Plan, lengths: Mapping[str, int], arguments: argparse.Namespace
) -> tuple[str, Figures]:
    """Return the backend for batches like the one that is counted: as a line, and as JSON."""
    from fgg.compiler.emit.cpp import native
    from fgg.plan.sizes import environment
    from fgg.runtime.native.build import is_kept, no_compiler

    title, backend = "backend        ", backend_of(arguments)
    about: Figures = {"asked": arguments.backend}
    if backend != AUTO:
        asked = backend == arguments.backend
        choice = BackendChoice(backend, "it was asked for" if asked else no_compiler())
        chosen = {**about, "backend": backend, "reason": choice.reason}
        if backend != TRITON:
            return f"{title}{choice}", chosen
        from fgg.compiler.emit.triton.module import refused

        others = refused(plan)
        lines = [f"{title}{choice}"]
        lines += [f"  {rule} stays tensor operations: {why}" for rule, why in others.items()]
        return "\n".join(lines), {**chosen, "tensor_operations": others}
    values = environment({name: [length] for name, length in lengths.items()})
    width = WIDTHS[arguments.dtype]
    situation = Situation(
        dtype=arguments.dtype,
        no_compiler=no_compiler(),
        cached=is_kept(native(plan).whole, arguments.dtype),
        saving=saved_by_passes(plan, values, arguments.batch, width),
        building=building_seconds(plan),
    )
    choice, batches = choose(situation), batches_until(situation)
    line = f"{title}{choice}"
    if batches is not None and batches > 1:
        rounded = round(batches, 2 - len(str(batches)))
        line += f"; {CPP} from about {rounded:,} such batches on"
    chosen = {"backend": choice.backend, "reason": choice.reason, "batches": batches}
    return line, {**about, **chosen}


def _grammar_text(grammar: Grammar, form: str) -> str:
    if form == "grammar":
        from fgg.grammar.printer import print_grammar

        return print_grammar(grammar)
    from fgg.compiler.plan.schedule import schedule, schedule_lines

    return "\n".join(schedule_lines(grammar, schedule(grammar))) + "\n"


def _check_lengths(grammar: Grammar, given: Mapping[str, int]) -> None:
    """Raise GrammarError for lengths that the grammar does not have, or that are out of range."""
    from fgg.grammar.domains import lengths

    known = sorted(lengths(grammar))
    problems = []
    for name, value in given.items():
        if name not in known:
            names = ", ".join(f"`{n}`" for n in known)
            help = did_you_mean(name, known) or f"it has {names or 'none'}"
            message = f"`{grammar.name}` has no length `{name}`"
            problems.append(Diagnostic(code="F411", message=message, help=help))
        elif not 0 <= value <= MAX_LENGTH:
            message = f"length `{name}` must be a number from 0 to {MAX_LENGTH:,}"
            problems.append(Diagnostic(code="F411", message=message))
    if problems:
        raise GrammarError(problems)
