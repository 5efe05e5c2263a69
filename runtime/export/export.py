"""Programs as files that need no Python: one ahead-of-time artifact for all lengths and batches.

`export_program` writes a `.pt2` package of machine code, by `torch.export` and AOTInductor. It
computes log Z of every item, without gradients. Its arguments are, in this order,

1. the weights of the plan's parameters, in the order of `program.plan.parameters`;
2. the inputs, `[batch, …]`: token ids (int64; -1 is missing, -2 impossible), then tables of
   indices (int64), then log-potentials; and where no input has some length `n`, a tensor
   `n.room` of any content whose only extent is the greatest `n`;
3. the items' own lengths, `[batch]` (int64), one tensor for each length.

Inputs are padded to the same lengths; what lies beyond an item's own is not read. Items whose
lengths or tokens are out of range get NaN. Extents are *not* checked by the artifact itself: the
package's metadata names every argument with its shape (key `fgg`, JSON), and
`fgg.runtime.export.call.load_exported` checks and pads by it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from fgg.diagnostics import InternalError, refuse
from fgg.runtime.export.module import PlanModule
from fgg.runtime.export.signature import Signature, signature
from fgg.runtime.program.program import Program

SUFFIX = ".pt2"
MAX_LENGTH = 1024
MAX_BATCH = 4096
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}


def export_program(
    program: Program,
    path: Path,
    *,
    dtype: torch.dtype = torch.float32,
    max_length: int = MAX_LENGTH,
    max_batch: int = MAX_BATCH,
) -> None:
    """Write a program as a package that `torch._inductor.aoti_load_package` and C++ load.

    The package is compiled for this machine's processor, tried on random batches against the
    program, and appears whole or not at all. Raises GrammarError: F413 if it cannot be written,
    F415 for options that cannot be used, F425 for a program that cannot be exported.
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        refuse("F415", f"`{path}` does not end in `{SUFFIX}`", "torch loads no other name")
    if path.is_dir():
        refuse("F413", f"`{path}` cannot be written: it is a folder")
    if not path.resolve().parent.is_dir():
        refuse("F413", f"`{path}` cannot be written: there is no folder `{path.parent}`")
    known = program_signature(program, dtype, max_length)
    exported = exported_program(program, dtype=dtype, max_length=max_length, max_batch=max_batch)
    described = {
        **known.described(),
        "grammar": program.grammar.name,
        "max_length": max_length,
        "max_batch": max_batch,
    }
    target = path.resolve()
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            made = Path(folder) / target.name
            _compile(exported, made, json.dumps(described))
            _check(program, known, made)
            os.replace(made, target)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        refuse("F413", f"`{path}` cannot be written: {reason}")


def exported_program(
    program: Program,
    *,
    dtype: torch.dtype = torch.float32,
    max_length: int = MAX_LENGTH,
    max_batch: int = MAX_BATCH,
) -> torch.export.ExportedProgram:
    """A program as one graph for all lengths and batches; its loops over levels are loops."""
    known = program_signature(program, dtype, max_length)
    if max_batch < 2:
        refuse("F415", f"batches of at most {max_batch} cannot be exported: take 2 or more")
    # Extents that differ from each other, so that none is taken for another.
    high = {name: known.least + 3 + 2 * i for i, name in enumerate(known.lengths)}
    high = {name: min(length, max_length) for name, length in high.items()}
    example = known.example(min(5, max_batch), high)
    shapes = known.dynamic_shapes(max_length, max_batch)
    with torch.no_grad(), _quiet():
        return torch.export.export(
            PlanModule(program.compiled.plan, known), example, dynamic_shapes=(shapes,)
        )


def program_signature(program: Program, dtype: torch.dtype, max_length: int) -> Signature:
    """The arguments of an exported program. Raises GrammarError for what cannot be exported."""
    if dtype not in TOLERANCE:
        name = str(dtype).removeprefix("torch.")
        refuse("F415", f"a program cannot be exported in {name}", "take float32 or float64")
    known = signature(program, dtype)
    if known is None:
        refuse(
            "F425",
            f"`{program.grammar.name}` cannot be exported: its ranges depend on lengths in ways "
            "that one shape cannot hold",
        )
    if max_length < known.least + 2:
        refuse(
            "F415",
            f"a greatest length of {max_length} is too short: take {known.least + 2} or more",
        )
    return known


def _compile(exported: torch.export.ExportedProgram, path: Path, described: str) -> None:
    from torch._inductor import aoti_compile_and_package
    from torch._inductor.exc import CppCompileError, InductorError, InvalidCxxCompiler

    options = {"aot_inductor.metadata": {"fgg": described}}
    try:
        with torch.no_grad(), _quiet():
            aoti_compile_and_package(exported, package_path=str(path), inductor_configs=options)
    except (InductorError, InvalidCxxCompiler, CppCompileError) as error:
        reason = getattr(error, "inner_exception", error)
        if not isinstance(reason, InvalidCxxCompiler | CppCompileError):
            raise InternalError(f"the program cannot be compiled: {reason}") from error
        missing = isinstance(reason, InvalidCxxCompiler)
        refuse(
            "F413",
            f"`{path.name}` cannot be written: "
            + ("no C++ compiler works here" if missing else "the C++ compiler failed"),
            "install g++ or clang++; the variable CXX names the one to take",
        )


def _check(program: Program, known: Signature, path: Path) -> None:
    """Compare a package with the program on batches unlike the one it was traced with."""
    from torch._inductor import aoti_load_package

    with _quiet():
        run = aoti_load_package(str(path))
    for seed, batch in ((1, 1), (2, 7)):
        high = {name: known.least + 4 * seed + i for i, name in enumerate(known.lengths)}
        arguments = known.example(batch, high, seed)
        with torch.no_grad(), _quiet():
            found = run(*arguments)
            wanted = reference(program, known, arguments)
        tolerance = TOLERANCE[known.dtype]
        if not torch.allclose(found, wanted, rtol=tolerance, atol=tolerance):
            raise InternalError(
                f"the compiled form of `{program.grammar.name}` gives other numbers than its "
                f"program: {found.tolist()}, not {wanted.tolist()}"
            )


def reference(program: Program, known: Signature, arguments: tuple[Tensor, ...]) -> Tensor:
    """What the program itself gives for the arguments of its exported form."""
    kinds: dict[str, dict[str, Tensor]] = {}
    for argument, value in zip(known.arguments, arguments, strict=True):
        kinds.setdefault(argument.kind, {})[argument.name] = value
    inputs = {
        name: value
        for kind in ("tokens", "table", "potentials")
        for name, value in kinds.get(kind, {}).items()
    }
    return program.log_z(kinds.get("weights", {}), inputs, kinds.get("lengths", {}) or None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of torch about its own insides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
