"""Weights of a model that have underflowed to 0: learning goes on, at no further cost."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fgg
from fgg.runtime.program.log_z import of_exponentials
from fgg.runtime.program.range_certificate import Certified

SENTENCES = [[1, 2, 1, 1], [3, 1, 2]]


def gradients(dtype: torch.dtype, space: str) -> dict[str, torch.Tensor]:
    """The gradients of logits, some of which are so small that their softmax is 0 in float32."""
    grammar = fgg.load("pcfg", sizes={"nt": 3, "pt": 4, "words": 4, "r": 3})
    model = fgg.compile(grammar, space=space).model(seed=0, dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[..., 0] = -150.0
    model(w=SENTENCES).sum().backward()
    weights = model.weights()
    assert any(bool((weight == 0).any()) for weight in weights.values()) == (dtype == torch.float32)
    return {name: p.grad.double() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("space", ["rank", "state"])
def test_gradients_are_right_and_zeros_are_not_looked_into(
    space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = gradients(torch.float64, space)

    def limits(self: Certified, *rest: Any) -> dict[str, torch.Tensor]:
        raise AssertionError("derivatives in weights of 0 are computed")

    monkeypatch.setattr(Certified, "limits", limits)
    computed = gradients(torch.float32, space)
    assert computed.keys() == wanted.keys()
    for name, gradient in computed.items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-5)


def test_weights_of_which_that_is_known() -> None:
    logits = torch.randn(3, 4, requires_grad=True)
    assert of_exponentials(logits.softmax(-1))
    assert of_exponentials(logits.exp().double().T.reshape(2, 6))
    assert not of_exponentials(logits)
    assert not of_exponentials(logits.softmax(-1) - 0.1)
    assert not of_exponentials(logits.relu())
