"""CUDA graphs without a GPU: what is captured is recorded, and a replay carries it out again.

Like a CUDA graph, a replay repeats operations on the tensors that they had, with the numbers that
the host gave them then; nothing is decided anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fgg.runtime.native import graphs


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operations while they are carried out; `current` is the one that is at work."""

    current: ClassVar[Recorder | None] = None

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.noted: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.noted.append((func, args, kwargs or {}, result))
        return result


class FakeGraph:
    """Stands in for `torch.cuda.CUDAGraph`."""

    made: ClassVar[list[FakeGraph]] = []

    def __init__(self) -> None:
        self.noted: list[tuple[Any, Any, Any, Any]] = []
        self.replays = 0
        FakeGraph.made.append(self)

    def replay(self) -> None:
        """Carry out everything again."""
        self.replays += 1
        for func, args, kwargs, before in self.noted:
            now = func(*args, **kwargs)
            for old, new in zip(tensors(before), tensors(now), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def tensors(value: Any) -> list[Tensor]:
    """The tensors that an operation gave."""
    some = value if isinstance(value, tuple | list) else [value]
    return [x for x in some if isinstance(x, Tensor)]


class FakeStream:
    """Stands in for `torch.cuda.Stream`."""

    def wait_stream(self, other: FakeStream) -> None:
        """There is nothing to wait for."""


@contextmanager
def graph(target: FakeGraph) -> Iterator[None]:
    """Stands in for `torch.cuda.graph`."""
    with Recorder() as recorder:
        Recorder.current = recorder
        yield
    Recorder.current = None
    target.noted = recorder.noted


@contextmanager
def stream(target: FakeStream) -> Iterator[None]:
    """Stands in for `torch.cuda.stream`."""
    yield


@pytest.fixture
def fake_graphs(monkeypatch: pytest.MonkeyPatch) -> list[FakeGraph]:
    """The graphs that are made, on the CPU."""
    install(monkeypatch)
    return FakeGraph.made


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stand-ins take the place of graphs and streams, and passes on the CPU use them."""
    FakeGraph.made = []
    monkeypatch.setattr(graphs, "DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
