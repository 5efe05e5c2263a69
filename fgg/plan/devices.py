"""GPUs that costs are counted for: what their vendors publish about them.

Sources, all by NVIDIA. A100: "A100 Tensor Core GPU" data sheet (SXM, 80 GB) and "A100 Tensor Core
GPU Architecture" white paper. H100: "H100 Tensor Core GPU" data sheet (SXM) and "H100 Tensor Core
GPU Architecture" white paper. RTX 4090: "Ada GPU Architecture" white paper. Shared memory is the
most that one block can have ("CUDA C++ Programming Guide", table of compute capabilities).

Operations are those of plain units, not of tensor cores: programs do not round to TF32. No vendor
publishes what a launch costs. Two microseconds and a half to start a kernel from a stream, and
about one in a graph, are the order of what "Getting Started with CUDA Graphs" (NVIDIA technical
blog, 2019) measures on a V100; a launch from Python costs several times as much as one from C, so
`LAUNCH` is five.
"""

from __future__ import annotations

from dataclasses import dataclass

from fgg.diagnostics import did_you_mean, refuse

LAUNCH, IN_GRAPH = 5e-6, 1e-6
"""Seconds from the start of one kernel to that of the next: from Python, and in a CUDA graph."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU. `flops` are operations a second in float32 and float64; a multiply-add is two.

    `bandwidth` is that of its memory in bytes a second; `memory`, the L2 `cache` and the `shared`
    memory of a block are in bytes, `cores` are its streaming multiprocessors.
    """

    name: str
    title: str
    flops: tuple[float, float]
    bandwidth: float
    memory: int
    cache: int
    shared: int
    cores: int
    capability: tuple[int, int]

    def peak(self, width: int) -> float:
        """Operations a second on numbers of so many bytes."""
        return self.flops[width == 8]


DEVICES = {
    device.name: device
    for device in (
        Device(
            name="a100",
            title="NVIDIA A100 SXM, 80 GB",
            flops=(19.5e12, 9.7e12),
            bandwidth=2039e9,
            memory=80 * 10**9,
            cache=40 * 2**20,
            shared=163 * 2**10,
            cores=108,
            capability=(8, 0),
        ),
        Device(
            name="h100",
            title="NVIDIA H100 SXM, 80 GB",
            flops=(67e12, 34e12),
            bandwidth=3350e9,
            memory=80 * 10**9,
            cache=50 * 2**20,
            shared=227 * 2**10,
            cores=132,
            capability=(9, 0),
        ),
        Device(
            name="rtx4090",
            title="NVIDIA GeForce RTX 4090",
            flops=(82.6e12, 1.29e12),
            bandwidth=1008e9,
            memory=24 * 10**9,
            cache=72 * 2**20,
            shared=99 * 2**10,
            cores=128,
            capability=(8, 9),
        ),
    )
}


def device_named(name: str) -> Device:
    """A device of the table. Raises GrammarError (F415)."""
    if name not in DEVICES:
        known = ", ".join(f"`{device}`" for device in DEVICES)
        hint = did_you_mean(name, DEVICES) or f"there are {known}"
        refuse("F415", f"nothing is known of a device `{name}`", hint)
    return DEVICES[name]
