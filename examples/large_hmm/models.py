"""Large HMMs of several kinds, and how they are trained on a stream [VL §3 to §5]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import fgg
import fgg.data as data
from examples.large_hmm.budget import Budget
from examples.large_hmm.text import Text
from fgg.clusters import brown, uniform
from fgg.runtime.model.model import Model
from fgg.runtime.model.state_dropout import StateDropout
from fgg.runtime.model.stream_state import CarriedState, stream_perplexity

GRAMMAR = Path(__file__).resolve().parent / "stream.fgg"
BEGINNING = 40_000
"""So many held-out tokens are looked at while a model is trained."""


@dataclass(frozen=True)
class Setting:
    """A large HMM: how words get into blocks, states, dropout, what makes its parameters.

    A step of training is on `rows` pieces of `length` words, with a learning rate of `rate`.
    """

    partition: str = "brown"
    blocks: int = 32
    places: int = 32
    dropout: float = 0.5
    net: str = "states(dim=64)"
    rate: float = 1e-2
    rows: int = 16
    length: int = 32

    @property
    def states(self) -> int:
        """The number of states."""
        return self.blocks * self.places

    def __str__(self) -> str:
        kind = "neural" if self.net else "scalar"
        blocks = "dense" if self.blocks == 1 else f"{self.partition} {self.blocks} x {self.places}"
        return f"HMM {self.states:,}, {blocks}, dropout {self.dropout}, {kind}"


@dataclass(frozen=True)
class Fitted:
    """A trained model: its perplexity, how often it saw the text, in how much time.

    `curve` has the perplexity of the beginning of the held-out stream after so many seconds.
    """

    perplexity: float
    epochs: float
    seconds: float
    curve: tuple[tuple[float, float], ...] = ()


def grammar(setting: Setting, own: Text, folder: Path) -> fgg.Grammar:
    """The grammar of a setting, with its blocks in a file beside it."""
    partition = brown if setting.partition == "brown" else uniform
    blocks = partition(own.known, setting.blocks).block_of()
    table = [blocks.get(word, 0) for word in own.vocabulary.values]
    np.save(folder / "blocks.npy", np.array(table, np.int64))
    found = GRAMMAR.read_text("utf-8").replace("map(cycle)", 'map("blocks.npy")')
    if setting.net:
        for factor in ("init(-> T)", "trans(T -> T)"):
            found = found.replace(f"factor {factor}", f"factor {factor} with net = {setting.net}")
        found = found.replace("blocks = clusters", f"blocks = clusters, net = {setting.net}")
    path = folder / "model.fgg"
    path.write_text(found, "utf-8")
    sizes = {"m": setting.blocks, "k": setting.places, "d": len(own.vocabulary)}
    return fgg.load(path, sizes=sizes)


def train(
    setting: Setting,
    own: Text,
    folder: Path,
    seconds: float,
    *,
    clock: float = float("inf"),
    every: float = float("inf"),
    seed: int = 0,
    note: Callable[[str], None] = print,
) -> Fitted:
    """A large HMM after so much training: AdamW on windows, the state carried over.

    `every` so many seconds the perplexity of the beginning of the held-out stream is noted, and the
    model is kept in the folder.
    """
    model = fgg.compile(grammar(setting, own, folder)).model(seed=seed)
    dropout = StateDropout(model, "K", setting.dropout) if setting.dropout else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=setting.rate, fused=True)
    generator = torch.Generator().manual_seed(seed)
    carried = CarriedState()
    beginning = data.TokenStream(own.test.ids[:BEGINNING], own.test.starts[:1])
    curve: list[tuple[float, float]] = []
    budget = Budget(seconds, clock)

    def step(window: data.Window) -> None:
        budget.set_rate(optimizer, setting.rate)
        optimizer.zero_grad(set_to_none=True)
        if dropout is None:
            log_z = carried.log_z(model.program, model.weights(), window)
        else:
            kept = dropout.draw(generator)
            log_z = carried.log_z(dropout.program, dropout.weights(kept), window, kept)
        torch.autograd.backward(-log_z.sum() / int(window.lengths.sum()))
        carried.advance()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if budget.spent() > every * (len(curve) + 1):
            with budget.apart():
                look()

    def look() -> None:
        found = evaluate(model, beginning)
        curve.append((budget.spent(), found))
        note(f"{setting}: {budget.spent():.0f} s, {found:.1f}")
        model.save(folder / "model.safetensors")

    model.train()
    epochs = budget.steps(own.windows("train", setting.rows, setting.length), step)
    spent = budget.spent()
    model.save(folder / "model.safetensors")
    return Fitted(evaluate(model, own.test), epochs, spent, tuple(curve))


def evaluate(model: Model, tokens: data.TokenStream) -> float:
    """The perplexity of a stream, with all states."""
    return stream_perplexity(model, data.Windows(tokens=tokens, rows=16, length=64))
