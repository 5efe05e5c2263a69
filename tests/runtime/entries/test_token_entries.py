"""log Z with weights that are made where they are read: what all weights give, and gradients."""

from __future__ import annotations

import pytest
import torch

import fgg
from fgg.data import Windows
from fgg.diagnostics import GrammarError
from fgg.library import library_text
from fgg.plan.token_entries import token_readings
from fgg.runtime.entries import factor_reader
from fgg.runtime.entries.factor_reader import FactorReader
from fgg.runtime.learn import learn
from fgg.runtime.learn.fitting import perplexity
from fgg.runtime.model.model import Model
from fgg.runtime.model.state_dropout import StateDropout
from fgg.runtime.model.stream_state import CarriedState, stream_log_likelihood
from fgg.runtime.program.program import CompiledProgram
from tests.helpers.blocked import HSMM, PCFG
from tests.helpers.places import EXAMPLES
from tests.runtime.model.test_state_nets import TEXT
from tests.runtime.model.test_stream_state import SIZES, tokens

STATES, RESIDUAL, LINEAR = "states(dim=6)", "residual(dim=5)", "linear(dim=5, init=normal)"
WORDS = [[0, 3, 1, 4, 0], [2, 2], [1, 0, 4]]


@pytest.fixture(autouse=True)
def readers_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factor_reader, "LARGE", 0)


def with_nets(text: str, net: str) -> str:
    """A grammar with a network for each parameter."""
    lines = []
    for line in text.splitlines():
        code = line.partition("#")[0].rstrip()
        if (
            line.startswith("factor ")
            and "=" not in code.replace("with ", "=", 1).partition("=")[0]
        ):
            if " = " not in code.replace("blocks = ", "blocks "):
                more = f", net = {net}" if " with " in code else f" with net = {net}"
                line = code + more
        lines.append(line)
    return "\n".join(lines)


CASES = {
    "blocks, states": (TEXT.format(net=STATES), {}, "auto", {"init", "trans", "emit"}),
    "blocks, factored": (
        TEXT.format(net="states(dim=6, factored=yes)"),
        {},
        "auto",
        {"init", "trans", "emit"},
    ),
    "blocks, residual": (TEXT.format(net=RESIDUAL), {}, "auto", {"init", "trans", "emit"}),
    "semi-Markov": (with_nets(HSMM, RESIDUAL), {}, "auto", {"init", "trans", "emit"}),
    "PCFG with blocks": (with_nets(PCFG, LINEAR), {}, "auto", {"emit"}),
    "PCFG, rank": ("pcfg", {"nt": 2, "pt": 3, "words": 3000, "r": 2}, "rank", {"emit"}),
    "PCFG, state": ("pcfg", {"nt": 2, "pt": 3, "words": 3000, "r": 2}, "state", {"emit"}),
    "HMM, rank": ("hmm_rank", {"k": 4, "d": 40, "r": 2}, "rank", {"step_2"}),
    "HMM, dense": ("hmm_rank", {"k": 4, "d": 40, "r": 2}, "dense", set()),
}


def model_of(case: str, backend: str = "auto") -> Model:
    text, sizes, space, _ = CASES[case]
    if "\n" not in text:
        text = library_text(text).replace(" with prior = dirichlet(0.1)", "")
        text = with_nets(text, RESIDUAL)
    assert "net = " in text
    grammar = fgg.loads(text, name="made")
    query = "string" if "string" in grammar.query else None
    program = fgg.compile(grammar, query, sizes=sizes, space=space, backend=backend)
    return program.model(seed=1, dtype=torch.float64)


def result(model: Model, *, reading: bool, words: object = WORDS) -> dict[str, torch.Tensor]:
    """log Z and the gradients of all parameters, with readers or with all weights."""
    weights = model.readers() if reading else model.weights()
    log_z = model.program.log_z(weights, {"w": words})
    model.zero_grad()
    torch.autograd.backward((log_z * torch.arange(1, len(log_z) + 1)).sum())
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"log_z": log_z.detach(), **{n: grad.clone() for n, grad in grads.items()}}


def agree(model: Model, words: object = WORDS) -> None:
    one = result(model, reading=True, words=words)
    other = result(model, reading=False, words=words)
    assert one.keys() == other.keys() and torch.isfinite(one["log_z"]).any()
    for name, wanted in other.items():
        torch.testing.assert_close(one[name], wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", CASES)
def test_readers_give_what_all_weights_give(case: str) -> None:
    model = model_of(case)
    agree(model)
    program = model.program
    assert isinstance(program, CompiledProgram)
    readings = CASES[case][3]
    assert readings <= set(token_readings(program.plan))
    assert bool(program.reading_programs) is bool(readings)


@pytest.mark.parametrize("case", ["blocks, states", "PCFG, rank"])
def test_machine_code_takes_entries_too(case: str) -> None:
    agree(model_of(case, "cpp"))


@pytest.mark.parametrize("case", ["blocks, states", "PCFG, rank", "HMM, rank"])
def test_missing_and_impossible_tokens(case: str) -> None:
    model = model_of(case)
    agree(model, [[0, -1, 1], [2, 3]])
    agree(model, [[0, 3, 1], [2, -2, 2]])


def test_only_what_is_read_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("blocks, states")
    made: dict[str, tuple[int, ...]] = {}
    plain = FactorReader.entries

    def noted(self: FactorReader, *args: object) -> torch.Tensor:
        entries = plain(self, *args)  # type: ignore[arg-type]
        made[self.name] = tuple(entries.shape)
        return entries

    def refused(self: FactorReader) -> torch.Tensor:
        raise AssertionError(f"all of {self.name} is made")

    monkeypatch.setattr(FactorReader, "entries", noted)
    monkeypatch.setattr(FactorReader, "whole", refused)
    # Words 0, 3 and 6 are in block 0, word 1 is in block 1: there are three pairs of neighbours.
    assert torch.isfinite(model(w=[[0, 3, 1], [6, 1, 6, 0]])).all()
    assert made == {"init": (2, 2), "trans": (3, 2, 2), "emit": (4, 2)}


def test_a_program_serves_batches_of_about_one_size() -> None:
    model = model_of("PCFG, rank")
    for words in ([[0, 1, 2]], [[3, 4, 1, 1]], [[0, 1, 2, 3, 4]]):
        agree(model, words)
    program = model.program
    assert isinstance(program, CompiledProgram) and len(program.reading_programs) == 1


def test_posteriors_and_weights_are_of_all_entries() -> None:
    model = model_of("blocks, states")
    weights = {n: w for n, w in model.readers().items() if isinstance(w, FactorReader)}
    for name, reader in weights.items():
        torch.testing.assert_close(reader.whole(), model.weight(name))
    post = model.program.posterior(model.readers(), {"w": [[0, 1, 2]]})
    torch.testing.assert_close(post.log_z, model(w=[[0, 1, 2]]))


def test_a_whole_factor_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgg.runtime.memory.available_bytes", lambda device: 2**22)
    text = TEXT.format(net="states(dim=2)").replace("domain K = 2", "domain K = 500")
    model = fgg.compile(fgg.loads(text, name="large")).model()
    with pytest.raises(GrammarError) as caught:
        model(w=[[0, -1, 2]])
    assert caught.value.diagnostics[0].code == "F420"


@pytest.mark.parametrize("net", [STATES, "states(dim=6, factored=yes)", RESIDUAL])
def test_dropped_states_are_not_made(net: str) -> None:
    model = fgg.compile(fgg.loads(TEXT.format(net=net), name="large")).model(
        seed=2, dtype=torch.float64
    )
    dropout = StateDropout(model, "K", 0.5)
    kept = dropout.draw(torch.Generator().manual_seed(0))
    results = []
    for weights in (
        dropout.weights(kept),
        {name: model.weight(name, kept) for name in model.names},
    ):
        log_z = dropout.program.log_z(weights, {"w": WORDS})
        model.zero_grad()
        torch.autograd.backward(log_z.sum())
        grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        results.append((log_z.detach(), *grads))
    torch.testing.assert_close(results[0], results[1])


def streaming(net: str) -> Model:
    text = (EXAMPLES / "large_hmm" / "stream.fgg").read_text("utf-8")
    for factor in ("init(-> T)", "trans(T -> T)"):
        text = text.replace(f"factor {factor}", f"factor {factor} with net = {net}")
    text = text.replace("with blocks = clusters", f"with blocks = clusters, net = {net}")
    program = fgg.compile(fgg.loads(text, name="stream"), sizes=SIZES)
    return program.model(seed=3, dtype=torch.float64)


@pytest.mark.parametrize("net", [STATES, RESIDUAL])
def test_streams_carry_their_state_through_readers(
    net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = streaming(net)
    windows = list(Windows(tokens=tokens(), rows=3, length=5))
    one = stream_log_likelihood(model, windows)
    gradients = []
    for large in (0, 10**9):
        monkeypatch.setattr(factor_reader, "LARGE", large)
        carried = CarriedState()
        model.zero_grad()
        for window in windows:
            log_z = carried.log_z(model.program, model.readers(), window)
            torch.autograd.backward(log_z.sum())
            carried.advance()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(gradients[0], gradients[1])
    assert one == pytest.approx(stream_log_likelihood(model, windows))


def test_methods_and_scores_read_where_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [[0, 1, 2, 5], [6, 1, 3], [4, 4, 6, 2]]
    results = []
    for large in (0, 10**9):
        monkeypatch.setattr(factor_reader, "LARGE", large)
        model = fgg.compile(fgg.loads(TEXT.format(net="states(dim=8)"), name="large")).model()
        learned = learn(model, data, method="adam", epochs=3, rate=0.02, state_dropout={"K": 0.5})
        results.append((learned.history[-1].objective, perplexity(model, data)))
    assert results[0] == pytest.approx(results[1], rel=1e-4)
