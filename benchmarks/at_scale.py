"""Models of the sizes of the papers: building one, a step of training, an evaluation.

    python -m benchmarks.at_scale blocked          # 2^15 states in 128 blocks
    python -m benchmarks.at_scale pcfg             # 4,500 + 9,000 symbols, 10,000 words, rank 1,000
    python -m benchmarks.at_scale rank_hmm         # 2^15 states, rank 4,096

Each prints CPU seconds on one thread and the peak memory of its process after each part. A model
that does not fit into memory is refused (F420) before anything is allocated. `--divide N` makes all
sizes N times smaller, to see that it works.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

import fgg
from fgg.data import TokenStream, Windows
from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.item_batches import Items
from fgg.runtime.learn.stream import StreamAdam
from fgg.runtime.model.stream_state import stream_perplexity

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Sizes = dict[str, int]


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Print the CPU time of what is done within, and the peak memory of the process so far."""
    begun = time.process_time()
    yield
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(f"| {name} | {seconds:.1f} | {peak:.1f} GB |", flush=True)


def sentences(words: int, *, rows: int, length: int) -> torch.Tensor:
    """Random words, `[rows, length]`."""
    return torch.randint(words, (rows, length), generator=torch.Generator().manual_seed(0))


def blocked(sizes: Sizes) -> None:
    """A blocked HMM reads windows of 16 x 32 words; half of its states are dropped in training."""
    text = (EXAMPLES / "large_hmm" / "stream.fgg").read_text("utf-8")
    net = "states(dim=256)"
    for factor in ("init(-> T)", "trans(T -> T)"):
        text = text.replace(f"factor {factor}", f"factor {factor} with net = {net}")
    text = text.replace("blocks = clusters", f"blocks = clusters, net = {net}")
    with measured("building the model"):
        program = fgg.compile(fgg.loads(text, sizes=sizes))
        model = program.model(seed=0, dtype=torch.float32)
    ids = sentences(sizes["d"], rows=1, length=16 * 32 * 2)[0].int().numpy()
    windows = list(Windows(tokens=TokenStream(ids, ids[:1] * 0), rows=16, length=32))
    method = StreamAdam(model, per="token", state_dropout={"K": 0.5})
    for number in ("first", "second"):
        with measured(f"{number} step, half of the states dropped"):
            method.sweep_stream(windows[:1])
    with measured("a step, all states"):
        StreamAdam(model, per="token").sweep_stream(windows[:1])
    with measured("evaluation of the first window"):
        stream_perplexity(model, windows[:1])


def pcfg(sizes: Sizes) -> None:
    """A neural PCFG in rank space; a batch is 4 sentences of 20 words."""
    text = (EXAMPLES / "neural_pcfg.fgg").read_text("utf-8")
    text = text.replace("residual(dim=64, layers=2)", "residual(dim=256, layers=2, init=xavier)")
    items(text, sizes, sentences(sizes["words"], rows=4, length=20))


def rank_hmm(sizes: Sizes) -> None:
    """A neural HMM in rank space; a batch is 8 sentences of 32 words."""
    text = (EXAMPLES / "large_hmm" / "stream_rank.fgg").read_text("utf-8")
    text = text.replace("dim=128", "dim=256").replace("  input factor first(T)\n", "")
    text = text.replace("  input factor final(T)\n", "").replace(" first(t)", "")
    text = text.replace("-> final(t)", "->")
    items(text, sizes, sentences(sizes["d"], rows=8, length=32))


def items(text: str, sizes: Sizes, words: torch.Tensor) -> None:
    """Two steps of Adam on a batch in rank space, and log Z of it."""
    with measured("building the model"):
        program = fgg.compile(fgg.loads(text, sizes=sizes), space="rank")
        model = program.model(seed=0, dtype=torch.float32)
    method = Adam(model)
    for number in ("first", "second"):
        with measured(f"{number} step"):
            method.step(Items({"w": words.tolist()}))
    with measured("log Z"), torch.no_grad():
        program.log_z(model.readers(), {"w": words})


CASES: dict[str, tuple[Callable[[Sizes], None], Sizes]] = {
    "blocked": (blocked, {"m": 128, "k": 256, "d": 10_000}),
    "pcfg": (pcfg, {"nt": 4_500, "pt": 9_000, "words": 10_000, "r": 1_000}),
    "rank_hmm": (rank_hmm, {"k": 1 << 15, "d": 10_000, "r": 4_096}),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="smaller sizes")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    run, sizes = CASES[given.case]
    sizes = {name: max(2, size // given.divide) for name, size in sizes.items()}
    print(f"{given.case}: " + ", ".join(f"{name} = {size:,}" for name, size in sizes.items()))
    print("| | CPU s | peak |\n|---|--:|--:|")
    run(sizes)


if __name__ == "__main__":
    main()
