"""The reader of `learning.json`: tiny corpora with the numbers of every iteration.

A case is made into a grammar of its own. `cnf`: a PCFG in Chomsky normal form. Each nonterminal has
one distribution over its rules, `theta_A(-> Rules_A)`, and each rule takes its entry. `templates`:
words that are made of morphemes, each any substring of the corpus, according to templates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fgg
from fgg.runtime.learn import Items, Method
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program
from tests.helpers.places import CASES as FOLDER

FILE = FOLDER / "learning.json"
Place = tuple[str, int]


def load_cases(kind: str, path: Path = FILE) -> list[dict[str, Any]]:
    """The cases of a kind; none if there is no such file."""
    if not path.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(path.read_text("utf-8")).get(kind, [])
    return cases


@dataclass(frozen=True)
class Case:
    """A case as a model and its data; `places` says which entry of which factor a rule is.

    If `every` entry of a factor is a rule, priors are for all of them, else for those of `places`.
    """

    data: Mapping[str, Any]
    program: Program
    items: tuple[Items, ...]
    places: Mapping[str, Place]
    every: bool = False

    def model(self) -> Model:
        """A model of the case; methods are given the case's start besides."""
        return self.program.model(dtype=torch.float64, seed=0)

    def start(self) -> dict[str, Tensor]:
        """The weights at the start by factor; not normalised if the case's are not."""
        weights = {
            name: torch.ones(self.program.shape(name), dtype=torch.float64) for name in self.learned
        }
        for rule, weight in self.named("theta0", default=1.0).items():
            name, place = self.places[rule]
            weights[name][place] = weight
        return weights

    @property
    def learned(self) -> list[str]:
        """The factors that the case speaks of."""
        return list(dict.fromkeys(name for name, _ in self.places.values()))

    def prior(self) -> dict[str, Tensor]:
        """The priors by factor; an entry that is no rule has none, and is impossible."""
        if self.every:
            alpha = float(self.data["alpha"])
            return {
                name: torch.full(self.program.shape(name), alpha, dtype=torch.float64)
                for name in self.learned
            }
        priors = {
            name: torch.zeros(self.program.shape(name), dtype=torch.float64)
            for name in self.learned
        }
        for rule, alpha in self.named("alpha").items():
            name, place = self.places[rule]
            priors[name][place] = alpha
        return priors

    def named(self, key: str, default: float | None = None) -> dict[str, float]:
        """A list of numbers of the case, or one for all, by rule."""
        values = self.data.get(key, default)
        if isinstance(values, int | float):
            return dict.fromkeys(self.places, float(values))
        assert values is not None
        if isinstance(values, dict):
            return {rule: float(values[rule]) for rule in self.places if rule in values}
        return dict(zip(self.places, values, strict=True))

    def read(self, tables: Mapping[str, Tensor]) -> dict[str, float]:
        """Numbers by factor as numbers by rule."""
        return {
            rule: float(tables[name].reshape(-1)[place])
            for rule, (name, place) in self.places.items()
        }

    def vector(self, tables: Mapping[str, Tensor]) -> list[float]:
        """Numbers by factor in the case's order of rules."""
        return list(self.read(tables).values())

    def ready(self, method: Method) -> list[Any]:
        """The data, checked."""
        return [method.ready(item) for item in self.items]


def cnf(data: Mapping[str, Any]) -> Case:
    """A case of a PCFG in Chomsky normal form; the first nonterminal is the start symbol."""
    symbols: list[str] = data["nonterminals"]
    rules: list[tuple[str, list[str]]] = [(lhs, rhs) for lhs, rhs in data["rules"]]
    words = list(dict.fromkeys(w for s in data["corpus"] for w in s))
    words += [rhs[0] for _, rhs in rules if len(rhs) == 1 and rhs[0] not in words]
    number = {symbol: i for i, symbol in enumerate(symbols)}
    rules_of = {
        symbol: [i for i, (lhs, _) in enumerate(rules) if lhs == symbol] for symbol in symbols
    }
    lines = [f"domain W = {len(words)}"]
    model, query, places = [], [], {}
    for symbol in symbols:
        k = number[symbol]
        if rules_of[symbol]:
            lines += [f"domain E{k} = {len(rules_of[symbol])}", f"factor theta{k}(-> E{k})"]
        model.append(f"nonterminal X{k}()")
    lines += [f"factor is_word{i}(W) = {{{i}: 1}}" for i in range(len(words))]
    for i, (lhs, rhs) in enumerate(rules):
        k = number[lhs]
        place = rules_of[lhs].index(i)
        places[f"{i} {lhs} -> {' '.join(rhs)}"] = (f"theta{k}", place)
        lines.append(f"factor is{i}(E{k}) = {{{place}: 1}}")
        head = f"X{k} -> theta{k}(e) is{i}(e)"
        if len(rhs) == 2:
            left, right = (number[x] for x in rhs)
            model.append(f"rule r{i}: {head} X{left} X{right}")
            query.append(f"rule r{i}: X{k}[i,j] -> X{left}[i,m] X{right}[m,j] for i < m < j")
        else:
            model.append(f"rule r{i}: {head} is_word{words.index(rhs[0])}(o)")
            query.append(f"rule r{i}: X{k}[i,i+1] -> o = w[i]")
    text = [*lines, *model, "nonterminal S()", "start S", "rule top: S -> X0"]
    text += ["query string(w: W[n]) {", "rule top: S -> X0[0,n]", *query, "}"]
    program = fgg.compile(fgg.loads("\n".join(text), name="case"), "string")
    sentences = [[words.index(w) for w in sentence] for sentence in data["corpus"]]
    items = tuple(Items({"w": [s]}, None, (i,)) for i, s in enumerate(sentences))
    return Case(data, program, items, places)


def templates(data: Mapping[str, Any]) -> Case:
    """A case of words made of morphemes; a template is `Word->SM T V M`."""
    words: list[str] = data["words"]
    shapes = [t.split("->")[1].split() for t in data["templates"]]
    substrings = list(
        dict.fromkeys(
            word[i:j]
            for word in words
            for i in range(len(word))
            for j in range(i + 1, len(word) + 1)
        )
    )
    assert data.get("n_substrings", len(substrings)) == len(substrings)
    kinds = list(dict.fromkeys(kind for shape in shapes for kind in shape))
    lines = [f"domain M = {len(substrings)}", f"domain Template = {len(shapes)}"]
    lines += ["factor word(-> Template)", *(f"factor m_{kind}(-> M)" for kind in kinds)]
    lines += [f"factor is{t}(Template) = {{{t}: 1}}" for t in range(len(shapes))]
    model = ["nonterminal Word()", "start Word"]
    query: list[str] = []
    for suffix in dict.fromkeys(tuple(shape[i:]) for shape in shapes for i in range(1, len(shape))):
        model.append(f"nonterminal {_rest(suffix)}()")
        _template_rule(suffix, _rest(suffix), "[i]", "", model, query)
    for t, shape in enumerate(shapes):
        _template_rule(tuple(shape), "Word", "", f"word(e) is{t}(e) ", model, query)
    text = [*lines, *model, "query word(s: M[n, n+1]) {", *query, "}"]
    program = fgg.compile(fgg.loads("\n".join(text), name="case"), "word")
    items = tuple(
        Items({"s": [substring_table(word, substrings)]}, None, (i,))
        for i, word in enumerate(words)
    )
    places = {name: ("word", i) for i, name in enumerate(data["templates"])}
    for rule in _used(words, shapes):
        kind, morpheme = rule.split("->")
        places[rule] = (f"m_{kind}", substrings.index(morpheme))
    return Case(data, program, items, places, every=True)


def substring_table(word: str, substrings: Sequence[str]) -> list[list[int]]:
    """For each part of a word its number among substrings, -2 where it is none."""
    index = {s: i for i, s in enumerate(substrings)}
    n = len(word)
    return [[index.get(word[i:j], -2) if i < j else -2 for j in range(n + 1)] for i in range(n)]


def _rest(shape: Sequence[str]) -> str:
    return "Rest_" + "_".join(shape)


def _template_rule(
    shape: Sequence[str], head: str, index: str, start: str, model: list[str], query: list[str]
) -> None:
    """The rule of a template, or of the rest of one: a morpheme, and what comes after it."""
    name, first = f"{head}_{len(model)}", "i" if index else "0"
    if len(shape) == 1:
        model.append(f"rule {name}: {head} -> {start}m_{shape[0]}(a)")
        condition = " for 0 <= i < n" if index else ""
        query.append(f"rule {name}: {head}{index} -> a = s[{first},n]{condition}")
        return
    rest = _rest(shape[1:])
    model.append(f"rule {name}: {head} -> {start}m_{shape[0]}(a) {rest}")
    low = "0 <= i < j < n" if index else "0 < j < n"
    query.append(f"rule {name}: {head}{index} -> a = s[{first},j] {rest}[j] for {low}")


def _used(words: Sequence[str], shapes: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rules `V->ta` that some derivation of some word uses, each once."""
    seen: dict[str, None] = {}

    def cuts(word: str, shape: Sequence[str]) -> Iterator[list[str]]:
        if len(shape) == 1:
            if word:
                yield [f"{shape[0]}->{word}"]
            return
        for j in range(1, len(word)):
            for rest in cuts(word[j:], shape[1:]):
                yield [f"{shape[0]}->{word[:j]}", *rest]

    for word in words:
        for shape in shapes:
            for cut in cuts(word, shape):
                seen.update(dict.fromkeys(cut))
    yield from seen


KINDS = {"cnf": cnf, "templates": templates}
