"""The operations that tensor programs start on a GPU, counted without one.

A program runs on tensors of the `meta` device: they have shapes and no numbers, and, as on a GPU,
nothing may look at a value. Each operation that is no view of a tensor counts as one launch. It
reads its arguments and writes its results once; an axis that is repeated counts once, and of what
is gathered only the part that is asked for. Some operations are several kernels in truth
(`index_put_` sorts): launches of tensor programs are at least as many.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator, Mapping, Sequence
from math import inf, prod
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from fgg.diagnostics import refuse
from fgg.grammar.domains import domain_size, size_values
from fgg.plan import Plan, Potential
from fgg.plan.sizes import environment, evaluate, high_end
from fgg.plan.work import FAR, INSIDE, ONCE, OUTSIDE, PREPARE, Work
from fgg.runtime.prelude.batch import Batch
from fgg.runtime.program.emitted import load_module

MOST_LEVELS = 4096
"""Operations are counted level by level: for more levels it would take too long."""
NO_LAUNCH = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
    *("_unsafe_view", "lift_fresh"),
}
CREATES = {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"}
"""They have an argument whose numbers they do not read."""
OVERWRITES = {"copy_", "fill_", "zero_"}
GATHERS = {"index", "embedding", "gather", "index_select"}
MAKES = {"zeros", "full", "zeros_like"}
SCATTERS = {"index_put_"}
MULTIPLIES = {"mul", "addcmul"}
VECTORS = {"mv": 0, "addmv": 1, "dot": 0}
"""Products with a vector, and the argument that has as many entries as there are multiply-adds."""


def operations(
    source: str, plan: Plan, lengths: Mapping[str, int], size: int, dtype: torch.dtype
) -> list[Work]:
    """What a marked module does for a batch of items of one length, in both passes.

    Raises GrammarError (F415) for lengths with too many levels.
    """
    counter = Counter()
    run(load_module(source), plan, lengths, size, dtype, torch.device("meta"), counter)
    return counter.works()


def run(
    module: ModuleType,
    plan: Plan,
    lengths: Mapping[str, int],
    size: int,
    dtype: torch.dtype,
    device: torch.device,
    counter: Counter,
) -> None:
    """Run both passes of a module on tensors of a device that has no numbers."""
    own = {name: [lengths[name]] * size for name in plan.lengths}
    with torch.no_grad():
        weights = {n: torch.empty(s, dtype=dtype, device=device) for n, s in shapes(plan)}
        inputs = given(plan, lengths, size, dtype, device)
        tables = {table.name: inputs[table.name] for table in plan.grammar.tables}
        batch = Marking(size, own, tables, dtype, device)
        batch.counter, batch.levels = counter, counter.counted
        gradient = torch.empty(size, dtype=dtype, device=device)
        with counter:
            leaves, scales = module.prepare(weights, inputs, batch, False)
            counter.phase = INSIDE
            values, charts = module.inside(leaves, scales, batch)
            module.result(charts, batch)
            counter.phase, counter.level = OUTSIDE, ONCE
            module.outside(leaves, scales, values, charts, batch, gradient)


def shapes(plan: Plan) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The factors that a plan reads, and their shapes."""
    for name in plan.parameters:
        domains = plan.grammar.factor[name].domains
        yield name, tuple(domain_size(plan.grammar, domain) for domain in domains)


def given(
    plan: Plan, lengths: Mapping[str, int], size: int, dtype: torch.dtype, device: torch.device
) -> dict[str, Tensor]:
    """Inputs of the right shapes, whatever their numbers are."""
    grammar, values = plan.grammar, environment({n: [x] for n, x in lengths.items()})
    known = {**size_values(grammar), **lengths}
    inputs = {
        item.name: torch.empty(
            (size, *(evaluate(e, known) for e in item.shape)), dtype=torch.int64, device=device
        )
        for item in grammar.observed
    }
    for step in plan.preparations:
        if isinstance(step, Potential):
            axes = plan.table[step.name].axes
            extents = [max(high_end(axis.high, values) + 1, 0) for axis in axes]
            states = [domain_size(grammar, d) for d in grammar.input_factor[step.factor].domains]
            shape = (size, *extents, *states)
            inputs[step.source] = torch.empty(shape, dtype=dtype, device=device)
    return inputs


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operation, with the pass, the rule and the level that it belongs to."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase, self.rule, self.level = PREPARE, "", ONCE
        self.loops = 0
        self.noted: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        self.names: Counts[str] = Counts()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if not func.is_view and name not in NO_LAUNCH:
            multiplied = multiply_adds(name, args, kwargs, result)
            moved = sum(bytes_moved(func, name, args, kwargs, result))
            # Charts are made where a rule first needs them: they belong to none.
            rule, level = ("", ONCE) if name in MAKES else (self.rule, self.level)
            where = self.noted.setdefault((self.phase, rule), [])
            where.append((level, moved, multiplied))
            self.names[name] += 1
        return result

    def counted(self, *ends: int) -> Iterator[int]:
        """The levels of a pass. Raises GrammarError (F415) if they are too many."""
        levels = range(*ends)
        if len(levels) > MOST_LEVELS:
            refuse(
                "F415",
                f"operations are counted on at most {MOST_LEVELS:,} levels, not on {len(levels):,}",
                "count for a smaller `--length`",
            )
        self.loops += 1
        for level in levels:
            self.level = level + self.loops * FAR
            yield level
        self.level, self.rule = ONCE, ""

    def works(self) -> list[Work]:
        """All that was noted, rule by rule."""
        return [
            Work.of(rule, phase, *zip(*noted, strict=True))
            for (phase, rule), noted in self.noted.items()
        ]


class Marking(Batch):
    """A batch that tells a counter where a program is."""

    counter: Counter

    def mark(self, rule: str) -> None:
        """The operations of a rule come next."""
        self.counter.rule = rule


def multiply_adds(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """The multiply-adds of an operation: those of matrix products, and of entrywise products."""
    base = name.removesuffix("_")
    if base in MULTIPLIES:
        return int(result.numel())
    if base in VECTORS:
        return int(args[VECTORS[base]].numel())
    count = flop_registry.get(getattr(torch.ops.aten, base, None))
    return 0 if count is None else int(count(*args, **kwargs, out_val=result)) // 2


def bytes_moved(
    func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> Iterator[int]:
    """The bytes that an operation reads and writes."""
    results = result if isinstance(result, tuple | list) else [result]
    if name in SCATTERS:
        results = [args[2]]
    yield from (bytes_of(x) for x in results if isinstance(x, Tensor))
    if name in CREATES:
        return
    for place, argument in enumerate(func._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        changed = argument.alias_info is not None and argument.alias_info.is_write
        if changed and (argument.kwarg_only or name in OVERWRITES):
            continue  # it is written, and counted as a result
        many = value if isinstance(value, tuple | list) else [value]
        for tensor in (x for x in many if isinstance(x, Tensor)):
            asked = bytes_of(result) if name in GATHERS and place == 0 else inf
            if name in SCATTERS and place == 0:
                asked = bytes_of(args[2])
            yield int(min(bytes_of(tensor), asked))


def bytes_of(tensor: Tensor) -> int:
    """The bytes of a tensor; an axis along which it is repeated counts once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(size for size, stride in sizes if stride) * tensor.element_size()
