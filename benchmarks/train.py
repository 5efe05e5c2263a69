"""A step of training: the rank-space PCFG with neural parameters, beside TN-PCFG's own model.

A step is the networks, inside and outside, the gradient clipped, and Adam. Both have embeddings of
256 numbers, residual networks for the root and the words, a layer for each piece of the rules and a
projection that the pieces share. They are not the same networks to the last matrix, so the values
are not compared; those of the kernels alone are, in `rank_pcfg`.
"""

from __future__ import annotations

import importlib
import warnings
from types import SimpleNamespace
from typing import Any

import torch

import fgg
from benchmarks import checkouts
from benchmarks.measure import OURS, Call, Point, Suite
from fgg.plan.backend import TORCH
from fgg.runtime.learn import Adam, Items

WORDS = 10_000
DIM = 256
GRAMMAR = f"""
size nt = 1500  size pt = 3000  size words = {WORDS}  size r = 300
domain N = nt  domain P = pt  domain C = N + P  domain W = words
factor root(-> N) with net = residual(dim={DIM}, layers=2)
factor binary(N -> C, C) rank r with net = residual(dim={DIM}, layers=1)
factor emit(P -> W) with net = residual(dim={DIM}, layers=2)
nonterminal S()  nonterminal X(C)
start S
rule root:   S    -> root(a.N) X(a)
rule binary: X(a) -> binary(a.N, b, c) X(b) X(c)
rule word:   X(a) -> emit(a.P, o)
query string(w: W[n]) {{
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule word:   X[i,i+1] -> o = w[i]
}}
"""


def sentences(point: Point) -> torch.Tensor:
    """Random words."""
    chance = torch.Generator().manual_seed(0)
    return torch.randint(WORDS, (point["batch"], point["n"]), generator=chance)


def ours(point: Point) -> Call:
    """A step of the library's Adam."""
    sizes = {name: point[name] for name in ("nt", "pt", "r")}
    grammar = fgg.loads(GRAMMAR, sizes=sizes)
    program = fgg.compile(
        grammar, space="rank", length=point["n"], batch=point["batch"], backend=TORCH
    )
    method = Adam(program.model(seed=0), rate=1e-3, betas=(0.75, 0.999), clip=3.0)
    batch = method.ready(Items({"w": sentences(point)}))

    def call() -> dict[str, torch.Tensor]:
        method.step(batch)
        return {}

    return call


def tn_pcfg(point: Point) -> Call:
    """A step as TN-PCFG's training loop makes it, with its model of large grammars."""
    checkouts.tn_pcfg("Fastest_TDPCFG")
    root = checkouts.checkout("FGG_BENCH_TN_PCFG") / "parser"
    for name in ("model", "modules"):
        checkouts.package(f"parser.{name}", root / name)
    kind: Any = importlib.import_module("parser.model.TN_PCFG").FastTNPCFG
    sizes = {"NT": point["nt"], "T": point["pt"], "r_dim": point["r"], "s_dim": DIM}
    arguments = SimpleNamespace(**sizes, word_emb_size=200, use_triton=False)
    torch.manual_seed(0)
    model = kind(arguments, SimpleNamespace(device="cpu", word_vocab=range(WORDS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.75, 0.999))
    words = sentences(point)
    batch = {"word": words, "seq_len": torch.full((len(words),), words.shape[1])}

    def call() -> dict[str, torch.Tensor]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.zero_grad()
            model.loss(batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
            optimizer.step()
        return {}

    return call


SUITE = Suite(
    name="train",
    title="A training step of the rank-space PCFG with networks, float32",
    makers={OURS: ours, "TN-PCFG": tn_pcfg},
    points=[
        {"batch": 4, "n": 20, "nt": 1500, "pt": 3000, "r": 300},
        {"batch": 16, "n": 20, "nt": 1500, "pt": 3000, "r": 300},
        {"batch": 4, "n": 40, "nt": 1500, "pt": 3000, "r": 300},
    ],
    value="",
)
