"""Extreme weights against an oracle without a range.

`python -m tests.generators.extreme_weights --count 432` runs it.

Random indexed grammars get weights over 1e±300 (1e±37 in float32), mixed within one factor, zeros
among them, and log-potentials of ±1000; chains that hardly mix get long inputs. What compiled
programs say is held against sums over all assignments of the ground grammar's rules, in numbers of
mpmath, whose exponents have no bound. An answer is right, or refused (an error with a code, or the
warning F433), or else it is silently wrong.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from fgg.api.compile import compile
from fgg.compiler import loads
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.printer import print_grammar
from fgg.runtime.program.program import Program
from tests.generators.bfggs import write_bfgg
from tests.generators.indexed import write_grammar
from tests.oracles.comparing import Array, Item, collated, lengths_of, random_item
from tests.oracles.unbounded import MP, ONE, TooLarge, Truth, numbers, truth

SPACES = ("auto", "rank", "state", "dense")
RANGE = {torch.float64: 300, torch.float32: 37}
"""Weights lie between 10^-x and 10^x."""
ATTEMPTS = 200
"""How many grammars are drawn until one has derivations."""


@dataclass(frozen=True)
class Close:
    """What may lie between a right number and the truth, by the rounding of a type."""

    log_z: float
    log_z_relative: float
    count: float
    relative: float


CLOSE = {
    torch.float64: Close(1e-9, 1e-12, 1e-9, 1e-7),
    torch.float32: Close(2e-4, 2e-6, 2e-3, 2e-3),
}


@dataclass(frozen=True)
class Case:
    """A grammar, an item and weights, which are numbers of the type."""

    name: str
    text: str
    grammar: Grammar
    item: Item
    weights: dict[str, Array]
    dtype: torch.dtype


@dataclass(frozen=True)
class Outcome:
    """What a program made of a case."""

    case: Case
    space: str
    verdict: Literal["right", "refused", "wrong"]
    reason: str = ""


def as_type(array: Array, dtype: torch.dtype) -> Array:
    """The numbers of a type that are nearest."""
    return np.asarray(torch.from_numpy(array).to(dtype).double())


def extreme_weights(grammar: Grammar, rng: random.Random, dtype: torch.dtype) -> dict[str, Array]:
    """Weights of very different sizes, some of them zero."""
    digits = RANGE[dtype]
    kind = rng.choice(["entries", "factors", "mixtures", "small", "one size"])
    size = rng.uniform(-digits, digits)
    zero = rng.choice([0.0, 0.0, 0.15])

    def draw() -> float:
        if rng.random() < zero:
            return 0.0
        power = {
            "entries": lambda: rng.uniform(-digits, digits),
            "factors": lambda: factor_size + rng.uniform(-0.5, 0.5),
            "mixtures": lambda: rng.choice([-digits, -digits / 2, 0, 0, 0, digits / 2, digits]),
            "small": lambda: rng.choice([0, 0, -digits, -digits / 3]),
            "one size": lambda: size,
        }[kind]()
        return float(10 ** max(-digits, min(digits, power))) * rng.uniform(0.5, 1.0)

    found: dict[str, Array] = {}
    for factor in grammar.factors:
        factor_size = rng.uniform(-digits, digits)
        shape = [domain_size(grammar, d) for d in factor.domains]
        entries = [draw() for _ in range(int(np.prod(shape, dtype=int)))]
        found[factor.name] = as_type(np.array(entries).reshape(shape), dtype)
    return found


def extreme_item(grammar: Grammar, rng: random.Random, top: int) -> Item:
    """An item without missing tokens, some of its log-potentials very large or very small."""
    lengths = {name: rng.randint(1, top) for name in lengths_of(grammar)}
    item = random_item(grammar, lengths, rng, missing=0.0, impossible=0.02)
    far = rng.choice([0.0, 0.3, 1.0])
    for array in item.inputs.values():
        if array.dtype.kind == "f":
            for place in np.ndindex(*array.shape):
                if rng.random() < far and np.isfinite(array[place]):
                    array[place] = rng.choice([-1000.0, 1000.0, -700.0, 300.0])
            array[...] = as_type(array, torch.float32)  # numbers of either type
    return item


def type_of(seed: int) -> torch.dtype:
    """The type that the numbers of a case have."""
    return (torch.float64, torch.float32)[seed // 4 % 2]


def random_case(seed: int, *, pieces: bool = False) -> Case:
    """A random grammar that has derivations, with an item and weights.

    With `pieces` it is one for rank space.
    """
    rng = random.Random(seed)
    dtype = type_of(seed)
    for _ in range(ATTEMPTS):
        made = write_pieces(rng) if pieces else write_grammar(rng.choice)
        if made is None:
            continue
        grammar, text = made
        if not pieces:  # weights are given for whole factors
            plain = tuple(replace(factor, rank=None) for factor in grammar.factors)
            grammar = replace(grammar, factors=plain)
        top = 3 if pieces or any(len(x.indices) > 2 for x in grammar.nonterminals) else 4
        weights = extreme_weights(grammar, rng, dtype)
        name = f"{'pieces' if pieces else 'random'} {seed}"
        case = Case(name, text, grammar, extreme_item(grammar, rng, top), weights, dtype)
        try:
            answer = truth(case.grammar, case.item, case.weights)
        except TooLarge:
            continue
        if answer is not None and MP.isfinite(answer.log_z):
            return case
    raise AssertionError(f"seed {seed}: chance made no grammar with derivations")


def write_pieces(rng: random.Random) -> tuple[Grammar, str]:
    """A grammar whose factors of declared rank are written as their pieces, all of them free."""
    grammar = cpd(write_bfgg(rng.randrange(10**6))[0])
    used = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    factors = (f for f in grammar.factors if f.name in used)
    free = (replace(f, given=None, definition=None, attributes=()) for f in factors)
    text = print_grammar(replace(grammar, factors=tuple(free)))
    return loads(text), text


CHAIN = """
domain T = {states}
domain W = {words}
input w: W[n]
factor init(T)
factor trans(T, T)
factor emit(T, W)
nonterminal S()
nonterminal X[i](T) for 0 <= i <= n
start S
rule first: S -> init(t) X[0](t)
rule step: X[i](t) -> emit(t, w[i]) trans(t, u) X[i+1](u) for i < n
rule last: X[n](t) ->
"""
RANKED = """
rank R = 2
domain T = {states}
domain W = {words}
input w: W[n]
factor init(T)
factor enter(T, R)
factor emit(R, W)
factor leave(R, T)
nonterminal S()
nonterminal X[i](T) for 0 <= i <= n
start S
rule first: S -> init(t) X[0](t)
rule step: X[i](t) -> enter(t, q) emit(q, w[i]) leave(q, u) X[i+1](u) for i < n
rule last: X[n](t) ->
"""


def chain_case(seed: int) -> Case:
    """A chain whose states hardly mix, with a long input: few words change after a long time."""
    rng = random.Random(seed)
    dtype = type_of(seed)
    longest = 1000 if dtype == torch.float64 else 300
    kind = rng.choice(["eye", "dialects", "nearly eye", "left to right", "rank", "rank"])
    states = 2 if kind in ("eye", "nearly eye", "rank") else 4
    ordinary = rng.choice([0.9, 0.99, 0.6])
    emit = np.full((states, 2), 1 - ordinary)
    for state in range(states):
        emit[state, state * 2 // states] = ordinary
    weights = {"init": np.full(states, 1 / states), "emit": emit}
    if kind == "eye":
        weights["trans"] = np.eye(states)
    elif kind == "nearly eye":
        weights["trans"] = np.eye(states) + 10.0 ** -rng.choice([3, 20, 36]) * (1 - np.eye(states))
    elif kind == "dialects":
        weights["trans"] = np.kron(np.eye(2), np.full((2, 2), 0.5))
    elif kind == "left to right":
        weights["trans"] = np.triu(np.full((states, states), 10.0 ** -rng.choice([1, 10, 30])), 1)
        weights["trans"] += np.eye(states)
    else:
        weights |= {"enter": np.eye(2), "leave": np.eye(2)}
    first, second = (rng.choice([45, longest // 2, longest, longest]) for _ in range(2))
    words = [0] * first + [1] * second
    if rng.random() < 0.3:
        words += [0] * rng.choice([5, first])
    text = (RANKED if kind == "rank" else CHAIN).format(states=states, words=2)
    weights = {name: as_type(array, dtype) for name, array in weights.items()}
    item = Item({"n": len(words)}, {"w": np.array(words)})
    return Case(f"chain {seed}, {kind}", text, loads(text), item, weights, dtype)


def judge(case: Case, space: str, answer: Truth | None = None) -> Outcome:
    """What a program in some space makes of a case."""
    answer = answer or truth(case.grammar, case.item, case.weights)
    assert answer is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            wrong = next(differences(case, compile_in(case.grammar, space), answer), "")
        except GrammarError as error:
            return Outcome(case, space, "refused", error.diagnostics[0].code)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
    if not wrong:
        return Outcome(case, space, "right")
    if any("F433" in str(warning.message) for warning in caught):
        return Outcome(case, space, "refused", "F433")
    return Outcome(case, space, "wrong", wrong)


def compile_in(grammar: Grammar, space: str) -> Program:
    """A program of tensor operations in a space."""
    return compile(grammar, space=space, fallback=False)


def differences(case: Case, program: Program, answer: Truth) -> Iterator[str]:
    """The numbers of a program that are not close to the truth."""
    close, dtype = CLOSE[case.dtype], case.dtype
    leaves = {
        n: torch.tensor(np.asarray(w), dtype=dtype, requires_grad=n in case.weights)
        for n, w in program.weights(dict(case.weights), dtype=torch.float64).items()
    }
    inputs, lengths = collated([case.item], dtype)
    log_z = program.log_z(leaves, inputs, lengths or None)
    got, want = float(log_z.detach()), answer.log_z
    if not abs(got - want) <= close.log_z + close.log_z_relative * abs(want):
        yield f"log Z is {got:.9g}, not {float(want):.9g}"
    if log_z.requires_grad:
        torch.autograd.backward(log_z.sum())
    for name, leaf in leaves.items():
        if name in answer.weights:
            yield from _gradients(name, leaf, answer.weights[name], close)
    for name, array in answer.potentials.items():
        gradient = inputs[name].grad
        found = np.zeros(array.shape) if gradient is None else gradient[0].double().numpy()
        yield from _counts(f"the gradient of `{name}`", found, array, close)
    plain = {n: w.detach() for n, w in leaves.items()}
    given = {n: x.detach() for n, x in inputs.items()}
    uses = program.posterior(plain, given, lengths or None).counts
    for name, array in answer.weights.items():
        if name in uses:
            wanted = array * numbers(case.weights[name])
            yield from _counts(f"uses of `{name}`", uses[name].double().numpy(), wanted, close)
    marginals = program.posterior(plain, given, lengths or None).marginals
    for (name, index), array in answer.cells.items():
        if min(index, default=0) >= 0 and any(x != 0 for x in array.flat):
            found = marginals[name][(0, *index)].double().numpy()
            yield from _counts(f"{name}{list(index)}", found, array, close)


def _gradients(name: str, leaf: torch.Tensor, wanted: Array, close: Close) -> Iterator[str]:
    """Gradients in weights: where they are, times the weights, no expected counts."""
    limits = torch.finfo(leaf.dtype)
    gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
    most = max([ONE, *(x * w for x, w in zip(wanted.flat, leaf.flatten().tolist(), strict=True))])
    greatest = float(leaf.detach().max()) if leaf.numel() else 0.0
    for place in np.ndindex(*wanted.shape):
        got, want, weight = float(gradient[place]), wanted[place], float(leaf.detach()[place])
        if want > limits.max * (1 - close.relative):  # no number of the type
            fine = got >= limits.max * (1 - 2 * close.relative)
        elif weight:
            fine = bool(abs(MP.mpf(got) * weight - want * weight) <= close.count * most)
        else:
            # As if it were as large as the greatest of its factor.
            fine = bool(
                abs(got - want) <= close.relative * abs(want) + limits.tiny
                or abs(got - want) * greatest <= close.count * most
            )
        if not fine:
            at = "" if weight else ", where the weight is 0,"
            yield f"the gradient of `{name}` at {place}{at} is {got:.6g}, not {MP.nstr(want, 6)}"


def _counts(what: str, found: Any, wanted: Any, close: Close) -> Iterator[str]:
    most = max([ONE, *np.asarray(wanted, dtype=object).flat])
    for place in np.ndindex(*np.shape(wanted)):
        got, want = float(found[place]), np.asarray(wanted, dtype=object)[place]
        if not abs(got - want) <= close.count * most:
            yield f"{what} at {place}: {got:.6g}, not {MP.nstr(want, 6)}"


def outcomes(cases: Sequence[Case], spaces: Sequence[str] = SPACES) -> Iterator[Outcome]:
    """What programs in several spaces make of cases."""
    for case in cases:
        answer = truth(case.grammar, case.item, case.weights)
        for space in spaces:
            yield judge(case, space, answer)


def cases(first: int, count: int) -> Iterator[Case]:
    """Cases by their seeds: of four, two are indexed grammars, one has pieces, one is a chain."""
    for seed in range(first, first + count):
        yield chain_case(seed) if seed % 4 == 3 else random_case(seed, pieces=seed % 4 == 2)


def report(found: Sequence[Outcome]) -> str:
    """The outcomes that are wrong, with the texts that they belong to."""
    lines = [f"{len(found)} answers are silently wrong"]
    for outcome in found:
        case = outcome.case
        lines += [f"--- {case.name}, {case.dtype}, space {outcome.space}: {outcome.reason}"]
    if found:
        case = found[0].case
        lines += [case.text, f"{dict(case.item.lengths)} {case.item.inputs}", str(case.weights)]
    return "\n".join(lines)


def main() -> int:
    """Try cases; 1 if a number was silently wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=432)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    tally: Counter[tuple[str, str, str]] = Counter()
    wrong: list[Outcome] = []
    for case in cases(arguments.seed, arguments.count):
        for outcome in outcomes([case]):
            kind = case.name.split()[0]
            tally[kind, outcome.space, outcome.verdict] += 1
            if outcome.verdict == "wrong":
                wrong.append(outcome)
    print(report(wrong))
    for key, number in sorted(tally.items()):
        print(*key, number)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
