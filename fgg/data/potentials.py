"""Log-potentials of input factors from files: those of a batch, or of each item of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fgg.diagnostics import did_you_mean, refuse
from fgg.files import check_regular, unreadable
from fgg.grammar import Grammar
from fgg.grammar.domains import lengths as length_names
from fgg.inputs.given import Nest


@dataclass(frozen=True)
class Potentials:
    """The log-potentials and lengths by name in a file, with an entry for each item."""

    path: str
    inputs: Mapping[str, Sequence[Nest]]
    lengths: Mapping[str, Sequence[int]]

    @property
    def size(self) -> int:
        """The number of items. Raises GrammarError (F411) if names have different ones."""
        sizes = {name: len(each) for name, each in (*self.inputs.items(), *self.lengths.items())}
        if len(set(sizes.values())) != 1:
            shown = ", ".join(f"`{name}` {size:,}" for name, size in sizes.items()) or "none"
            refuse("F411", f"`{self.path}`: the numbers of items differ: {shown}")
        return next(iter(sizes.values()))

    def item(self, number: int) -> ItemPotentials:
        """Those of one item."""
        return ItemPotentials(
            {name: values[number] for name, values in self.inputs.items()},
            {name: values[number] for name, values in self.lengths.items()},
        )


@dataclass(frozen=True)
class ItemPotentials:
    """The log-potentials of an item by input factor, and the lengths given with them."""

    inputs: Mapping[str, Nest]
    lengths: Mapping[str, int]


def read_potentials(grammar: Grammar, path: str) -> Potentials:
    """The log-potentials and lengths in a file. Raises GrammarError (F401, F411).

    `grammar` is joined with its query.
    """
    if not grammar.input_factors:
        refuse("F411", f"`{path}`: `{grammar.name}` has no input factor to read log-potentials")
    lengths: dict[str, list[int]] = {}
    inputs: dict[str, Sequence[Nest]] = {}
    several: dict[str, dict[int, Nest]] = {}
    for name, array in read_arrays(path).items():
        base, _, number = name.rpartition(".")
        if name in grammar.input_factor:
            if not array.ndim:
                refuse("F411", f"`{path}`: `{name}` is one number, without an axis for the items")
            inputs[name] = array
        elif base in grammar.input_factor and number.isdecimal():
            several.setdefault(base, {})[int(number)] = array
        elif name in length_names(grammar) and array.dtype.kind in "iu" and array.ndim == 1:
            lengths[name] = array.tolist()
        else:
            help = did_you_mean(name, [*grammar.input_factor, *length_names(grammar)])
            refuse("F411", f"`{path}`: there is no input factor or length `{name}`", help)
    for name, arrays in several.items():
        if set(arrays) != set(range(len(arrays))):
            refuse("F411", f"`{path}`: items of `{name}` are not numbered from 0 on")
        inputs[name] = [arrays[number] for number in range(len(arrays))]
    return Potentials(path, inputs, lengths)


def read_arrays(path: str) -> dict[str, Any]:
    """The arrays by name in a .npz or safetensors file. Raises GrammarError (F401)."""
    try:
        check_regular(path)
        if path.endswith(".npz"):
            import numpy as np

            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        from safetensors.numpy import load_file

        return dict(load_file(path))
    except OSError as error:
        raise unreadable(path, error) from None
    except Exception:
        refuse("F401", f"`{path}` is not a file of arrays (.npz, .safetensors)")
