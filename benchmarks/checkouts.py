"""Kernels from checkouts of other projects, measured without their code being here.

A checkout is named by an environment variable: `FGG_BENCH_TN_PCFG` a clone of TN-PCFG,
`FGG_BENCH_RANKSPACE` one of RankSpace-Models, `FGG_BENCH_LOW_RANK` one of low-rank-models,
`FGG_BENCH_FGGS` one of fggs. A kernel whose variable is not set is skipped.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import fgg
from benchmarks.adapters import library
from benchmarks.measure import Call, Skipped, Values, gradients_of
from fgg.grammar import Grammar


def checkout(variable: str) -> Path:
    """The folder of a checkout, or Skipped."""
    place = os.environ.get(variable)
    if not place:
        raise Skipped(f"{variable} does not name a checkout")
    if not Path(place).is_dir():
        raise Skipped(f"{variable} names no folder")
    return Path(place)


def package(name: str, folder: Path) -> None:
    """Make a package importable without what its `__init__` would import."""
    module = ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def tn_pcfg(kernel: str) -> Any:
    """A kernel of TN-PCFG: `TDPCFG` (states, logarithms) or `Fastest_TDPCFG` (ranks)."""
    root = checkout("FGG_BENCH_TN_PCFG")
    if "parser.pcfgs" not in sys.modules:
        package("parser", root / "parser")
        package("parser.pcfgs", root / "parser" / "pcfgs")
        package("parser.triton", root / "parser" / "triton")
        # Its kernels for GPUs need Triton; these do not use them.
        stub = ModuleType("parser.triton.fn")
        vars(stub).update(_log_then_diagonal_copy_=None, _merge=None)
        sys.modules["parser.triton.fn"] = stub
    return getattr(importlib.import_module("parser.pcfgs.tdpcfg"), kernel)


def tn_pcfg_call(kernel: str, weights: Values, words: Tensor) -> Call:
    """log Z and gradients by a kernel of TN-PCFG, which wants the rules of each item."""
    inside = tn_pcfg(kernel)()._inside
    batch, n = words.shape
    lengths = torch.full((batch,), n)
    logs = kernel == "TDPCFG"

    def each(table: Tensor, *, log: bool) -> Tensor:
        found = table.expand(batch, *table.shape)
        return found.log() if log else found

    def call() -> Values:
        for leaf in weights.values():
            leaf.grad = None
        rules = {
            "unary": weights["emit"].mT[words].log(),
            "root": each(weights["root"], log=True),
            "head": each(weights["binary_0"], log=logs),
            "left": each(weights["binary_1"].mT, log=logs),
            "right": each(weights["binary_2"].mT, log=logs),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            log_z = inside(rules, lengths)["partition"]
            # Its checkpoints know `backward` alone.
            log_z.sum().backward()
        return {
            "log_z": log_z.detach(),
            **{n: w.grad for n, w in weights.items() if w.grad is not None},
        }

    return call


def rank_hmm_call(weights: Values, words: Tensor) -> Call:
    """log Z and gradients by the kernel of RankSpace-Models."""
    root = checkout("FGG_BENCH_RANKSPACE") / "rank-hmms"
    if "lm" not in sys.modules:
        package("lm", root / "lm")
        package("lm.hmm", root / "lm" / "hmm")
        package("lm.helpers", root / "lm" / "helpers")
        stub = ModuleType("lm.helpers.utils")
        vars(stub).update(logspace=lambda x: (x + 1e-9).log())
        sys.modules["lm.helpers.utils"] = stub
    forward = importlib.import_module("lm.hmm.ranklogbmm").forward
    batch, n = words.shape
    mask = torch.ones(batch, n, dtype=torch.bool)
    lengths = torch.full((batch,), n)
    names = list(weights)

    def call() -> Values:
        start = (weights["init"] @ weights["step_0"]).log()
        between = weights["step_1"] @ weights["step_0"]
        emitted = weights["step_2"].mT[words].log()
        last, log_z = forward(start, between, emitted, mask, lengths)
        total = log_z + (last @ weights["step_1"].sum(-1)).log()
        found = torch.autograd.grad(total.sum(), [weights[name] for name in names])
        return {"log_z": total.detach(), **dict(zip(names, found, strict=True))}

    return call


def low_rank_hmm_call(weights: Values, words: Tensor) -> Call:
    """log Z of a batch and gradients by the loop of low-rank-models, without its networks."""
    root = checkout("FGG_BENCH_LOW_RANK") / "lhmm"
    if "lhmm_models.blhmmlm" not in sys.modules:
        package("lhmm_models", root / "models")
        # A kernel for GPUs, and helpers for configurations: the loop itself uses neither.
        stubs: dict[str, dict[str, Any]] = {
            "genbmm": {"logbmm": None},
            "utils": {"Pack": SimpleNamespace},
        }
        before = {name: sys.modules.get(name) for name in stubs}
        for name, content in stubs.items():
            stub = ModuleType(name)
            vars(stub).update(content)
            sys.modules[name] = stub
        try:
            library("lhmm_models.blhmmlm")
        finally:
            for name, module in before.items():
                sys.modules.pop(name)
                if module is not None:
                    sys.modules[name] = module
    loss = sys.modules["lhmm_models.blhmmlm"].BLHmmLm.compute_rff_loss
    model = SimpleNamespace(C=weights["init"].shape[0])
    mask = torch.ones(words.shape, dtype=torch.bool)

    def call() -> Values:
        transition = (weights["trans_0"], weights["trans_1"].mT)
        logs = weights["init"].log(), transition, weights["emit"].log()
        return gradients_of(loss(model, words, *logs, mask=mask)[0].evidence, weights)

    return call


def fggs_call(grammar: Grammar, weights: Values) -> Call:
    """log Z of a finite grammar and gradients by the fggs library."""
    root = checkout("FGG_BENCH_FGGS")
    if str(root) not in sys.path:
        sys.path.append(str(root))
    fggs = library("fggs")
    data = json.loads(json.dumps(fgg.json.to_json(grammar)))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = fggs.json_to_fgg(data)
    finally:
        torch.set_default_dtype(before)
    # Strings are short enough for real numbers, in which it is many times as fast as in logarithms.
    semiring = fggs.RealSemiring(dtype=torch.float64)

    def call() -> Values:
        for name, table in weights.items():
            found.factors.pop(name, None)
            found.new_finite_factor(name, table)
        z = fggs.sum_product(found, method="newton", semiring=semiring, tol=1e-12)
        return gradients_of(z.to_dense().log(), weights)

    return call
