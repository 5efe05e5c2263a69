"""Devices that programs can compute on, and refusing others before anything is computed."""

from __future__ import annotations

import torch

from fgg.diagnostics import did_you_mean, refuse

KINDS = ("cpu", "cuda")
OTHER_NAMES = {"gpu": "cuda", "nvidia": "cuda", "cuda": "cuda"}


def usable_device(name: str) -> torch.device:
    """The device `cpu`, `cuda` or `cuda:1`. Raises GrammarError (F437) if it is not here."""
    kind, colon, number = name.partition(":")
    if kind not in KINDS:
        meant = OTHER_NAMES.get(kind.lower())
        hint = f"did you mean `{meant}`?" if meant else did_you_mean(kind.lower(), KINDS)
        refuse("F437", f"programs cannot compute on `{name}`", hint or "devices are `cpu`, `cuda`")
    if colon and not (number.isascii() and number.isdigit()):
        refuse("F437", f"there is no device `{name}`", "several GPUs are `cuda:0`, `cuda:1`, …")
    if kind == "cuda":
        check_gpu(int(number or 0))
    return torch.device(name)


def check_gpu(number: int) -> None:
    """Raise GrammarError (F437) if there is no such GPU."""
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        reason = "no driver or no GPU was found" if built else "torch is installed without CUDA"
        refuse(
            "F437", f"there is no GPU here: {reason}", "use `cpu`; `docs/howto/gpu.md` says more"
        )
    count = torch.cuda.device_count()
    if number >= count:
        there = "is one GPU, `cuda:0`" if count == 1 else f"are GPUs up to `cuda:{count - 1}`"
        refuse("F437", f"there is no device `cuda:{number}`", f"there {there}")


def check_kind(device: torch.device) -> None:
    """Raise GrammarError (F437) if programs cannot compute where numbers are."""
    if device.type not in KINDS:
        reason = "it has no float64, which scales need" if device.type == "mps" else ""
        message = f"programs cannot compute on `{device.type}`, where the weights are"
        refuse("F437", message, reason or "devices are `cpu`, `cuda`")
