"""Networks with a program in them are exported, and need no program where they are loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fgg
from fgg import GrammarError

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]


class Scorer(nn.Module):
    """A layer that scores tags, and a chain."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scores = nn.Linear(4, 3)
        self.chain = fgg.compile(fgg.load("crf", sizes={"k": 3})).model(seed=0)

    def forward(self, x: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
        log_z: Tensor = self.chain(score=self.scores(x), y=y, lengths=lengths)
        return log_z


def batch(size: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(length)
    lengths = torch.randint(2, length + 1, (size,), generator=draw)
    lengths[0] = length
    tags = torch.randint(-1, 3, (size, length), generator=draw)
    return torch.randn(size, length, 4, generator=draw), tags, lengths


@pytest.mark.slow
def test_an_exported_network_serves_all_batches_without_this_package(tmp_path: Path) -> None:
    network = Scorer()
    items, length = torch.export.Dim("items", min=2, max=64), torch.export.Dim("n", min=3, max=99)
    shapes: Any = ({0: items, 1: length}, {0: items, 1: length}, {0: items})
    exported = torch.export.export(network, batch(3, 7), dynamic_shapes=shapes)
    torch.export.save(exported, tmp_path / "network.pt2")
    given = [batch(2, 3), batch(5, 9), batch(3, 12)]
    torch.save([(x, network(*x).detach()) for x in given], tmp_path / "wanted.pt")
    script = """
import sys, torch
network = torch.export.load(sys.argv[1] + "/network.pt2").module()
for arguments, wanted in torch.load(sys.argv[1] + "/wanted.pt"):
    torch.testing.assert_close(network(*arguments).detach(), wanted)
assert not any(name.startswith("fgg") for name in sys.modules)
"""
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


def test_an_exported_model_has_no_operator_of_this_process() -> None:
    model = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model(seed=0)
    words = torch.tensor([[0, 1, 2, 1], [2, -1, 0, 0]])
    with torch.no_grad():
        exported = torch.export.export(model, (), {"w": words})
    assert not [node for node in exported.graph.nodes if "fgg" in str(node.target)]
    other = words.flip(1)
    torch.testing.assert_close(exported.module()(w=other), model(w=other).detach())


def test_an_input_that_is_not_given_is_missing() -> None:
    chain = fgg.compile(fgg.load("crf", sizes={"k": 3})).model(seed=0)
    score = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(chain, (), {"score": score})
    log_z = exported.module()(score=score.requires_grad_())
    torch.testing.assert_close(log_z, chain(score=score).detach())
    assert not log_z.requires_grad, "there are no derivatives, rather than wrong ones"


def test_a_length_that_no_input_has_is_refused() -> None:
    model = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model(seed=0)
    with pytest.raises(GrammarError, match="length `n` does not follow from the inputs"):
        torch.export.export(model, (), {"lengths": {"n": torch.tensor([3, 2])}})
