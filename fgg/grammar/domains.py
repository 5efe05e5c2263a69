"""Domains in numbers: sizes, names of values, parts of unions and products; lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import overload

from fgg.diagnostics import refuse
from fgg.grammar import Domain, Enumerated, FromFile, Grammar, Product, Sized, Union
from fgg.grammar.index import Expr
from fgg.grammar.memo import per_grammar

MAX_SIZE = 2**31 - 1
MAX_NAMED_VALUES = 1_000_000


@per_grammar
def size_values(grammar: Grammar) -> Mapping[str, int]:
    """The value of every size."""
    known: dict[str, int] = {}
    pending = {size.name: size.value for size in grammar.sizes}
    while pending:
        ready = {n: e for n, e in pending.items() if all(x in known for x in e.names())}
        if not ready:
            raise ValueError("sizes depend on each other")
        for name, expr in ready.items():
            value = expr.evaluate(known)
            assert value is not None
            known[name] = value
            del pending[name]
    return known


def with_sizes(grammar: Grammar, sizes: Mapping[str, int]) -> Grammar:
    """The grammar with some sizes set to numbers."""
    if not sizes:
        return grammar
    changed = tuple(
        replace(size, value=Expr.of(sizes[size.name])) if size.name in sizes else size
        for size in grammar.sizes
    )
    return replace(grammar, sizes=changed)


def with_domain_size(grammar: Grammar, name: str, size: int) -> Grammar:
    """The grammar with `size` values of a domain; they lose their names."""
    domain = replace(grammar.domain[name], shape=Sized(Expr.of(size)))
    return replace(grammar, domains=tuple(domain if d.name == name else d for d in grammar.domains))


def with_values(grammar: Grammar, values: Mapping[str, Sequence[str]]) -> Grammar:
    """The grammar with names for the values of sized domains.

    A domain with more values than names gets `<unused:7>`, … for the others. Raises GrammarError
    (F478) if it has fewer.
    """
    domains = []
    for domain in grammar.domains:
        names = values.get(domain.name, ())
        if names and isinstance(domain.shape, Sized) and not _are_numbers(names):
            size = domain_size(grammar, domain.name)
            if len(names) > size:
                have = f"{len(names):,} names for the {size:,} values of `{domain.name}`"
                refuse("F478", f"there are {have}", "give the domain a larger size")
            others = (f"<unused:{number}>" for number in range(len(names), size))
            domain = replace(domain, shape=Enumerated((*names, *others)))
        domains.append(domain)
    return replace(grammar, domains=tuple(domains))


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether names are `0`, `1`, …, which the values of a sized domain have anyway."""
    return names[0] == "0" and all(name == str(i) for i, name in enumerate(names))


def domain_size(grammar: Grammar, name: str) -> int:
    """The number of values of a domain."""
    return _sizes(grammar)[name]


@per_grammar
def _sizes(grammar: Grammar) -> Mapping[str, int]:
    known: dict[str, int] = {}
    numbers = size_values(grammar)

    def size(domain: Domain) -> int:
        if domain.name not in known:
            shape = domain.shape
            if isinstance(shape, Sized):
                value = shape.size.evaluate(numbers)
                assert value is not None
                known[domain.name] = value
            elif isinstance(shape, Enumerated | FromFile):
                known[domain.name] = len(shape.values)
            elif isinstance(shape, Union):
                known[domain.name] = sum(size(grammar.domain[p]) for p in shape.parts)
            else:
                total = 1
                for part in shape.parts:
                    total *= size(grammar.domain[part])
                known[domain.name] = total
        return known[domain.name]

    for domain in grammar.domains:
        size(domain)
    return known


@per_grammar
def domain_values(grammar: Grammar, name: str) -> Sequence[str]:
    """The names of a domain's values, in order."""
    shape = grammar.domain[name].shape
    if isinstance(shape, Enumerated | FromFile):
        return shape.values
    if isinstance(shape, Sized):
        return Numbers(domain_size(grammar, name))
    if domain_size(grammar, name) > MAX_NAMED_VALUES:
        problem = f"domain `{name}` has more than {MAX_NAMED_VALUES:,} values: too many to name"
        refuse("F302", problem)
    parts = [domain_values(grammar, part) for part in shape.parts]
    if isinstance(shape, Product):
        joined = tuple("*".join(names) for names in product(*parts))
        if len(set(joined)) == len(joined):
            return joined
        numbers = [map(str, range(len(names))) for names in parts]
        return tuple("*".join(names) for names in product(*numbers))
    seen: dict[str, int] = {}
    for names in parts:
        for value in names:
            seen[value] = seen.get(value, 0) + 1

    def named(qualified: bool) -> tuple[str, ...]:
        return tuple(
            f"{part}.{value}" if qualified or seen[value] > 1 else value
            for part, names in zip(shape.parts, parts, strict=True)
            for value in names
        )

    short = named(qualified=False)
    return short if len(set(short)) == len(short) else named(qualified=True)


@per_grammar
def value_index(grammar: Grammar, name: str) -> Mapping[str, int]:
    """The position of each of a domain's values, by name."""
    values = domain_values(grammar, name)
    if isinstance(values, Numbers):
        return NumberIndex(len(values))
    return {value: i for i, value in enumerate(values)}


class Numbers(Sequence[str]):
    """The names `0`, `1`, … of a sized domain, each made on demand."""

    def __init__(self, size: int) -> None:
        self.size = min(max(size, 0), MAX_SIZE)  # a wrong size has been reported

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        chosen = range(self.size)[index]
        return str(chosen) if isinstance(chosen, int) else tuple(map(str, chosen))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbers):
            return self.size == other.size
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(self.size)


class NumberIndex(Mapping[str, int]):
    """The positions of the names `0`, `1`, … of a sized domain."""

    def __init__(self, size: int) -> None:
        self.size = min(max(size, 0), MAX_SIZE)  # a wrong size has been reported

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.size))

    def __getitem__(self, key: str) -> int:
        if key.isascii() and key.isdigit() and len(key) < 20 and str(int(key)) == key:
            value = int(key)
            if value < self.size:
                return value
        raise KeyError(key)


@dataclass(frozen=True)
class DomainPart:
    """How a part or component sits in a domain.

    Value x of the domain belongs to the part if `offset <= x // stride % period < offset + size`,
    and is then its value `x // stride % period - offset`.
    """

    domain: str
    size: int
    offset: int = 0
    stride: int = 1
    period: int = 0

    def select(self, value: int) -> int | None:
        """The part's value for a value of the whole domain, or None if it lies elsewhere."""
        inner = value // self.stride % self.period - self.offset
        return inner if 0 <= inner < self.size else None


def parts(grammar: Grammar, name: str) -> Mapping[str, DomainPart]:
    """The direct parts of a union or components of a product, by name."""
    shape = grammar.domain[name].shape
    if not isinstance(shape, Union | Product):
        return {}
    total = domain_size(grammar, name)
    by_name: dict[str, DomainPart] = {}
    offset = 0
    stride = total
    for part in shape.parts:
        size = domain_size(grammar, part)
        if isinstance(shape, Union):
            by_name[part] = DomainPart(part, size, offset=offset, period=total)
            offset += size
        else:
            stride //= size
            by_name[part] = DomainPart(part, size, stride=stride, period=size)
    return by_name


def shown_value(grammar: Grammar, name: str, value: int) -> str:
    """The name of a value for people: numbers of a union's part always have the part's name."""
    text: str = domain_values(grammar, name)[value]
    if not isinstance(grammar.domain[name].shape, Union):
        return text
    for part, where in parts(grammar, name).items():
        number = where.select(value)
        if number is not None and isinstance(grammar.domain[part].shape, Sized):
            return f"{part}.{number}"
    return text


def select(grammar: Grammar, domain: str, path: Sequence[str], value: int) -> int | None:
    """The value of the part that `path` names, or None where the node lies in another part."""
    for name in path:
        part = parts(grammar, domain)[name]
        inner = part.select(value)
        if inner is None:
            return None
        value, domain = inner, part.domain
    return value


def path_domain(grammar: Grammar, domain: str, path: Sequence[str]) -> str | None:
    """The domain that `path` leads to, or None if there is no such part."""
    for name in path:
        shape = grammar.domain[domain].shape
        if not isinstance(shape, Union | Product) or name not in shape.parts:
            return None
        domain = name
    return domain


def lengths(grammar: Grammar) -> set[str]:
    """The lengths: names in the shapes of inputs and tables, and in ranges of input factors.

    Names of sizes, and the indices of a factor in its own range, are not lengths.
    """
    names = {name for item in grammar.observed for expr in item.shape for name in expr.names()}
    for factor in grammar.input_factors:
        terms = [term for condition in factor.conditions for term in condition.terms]
        names |= {name for term in terms for name in term.names()} - set(factor.indices)
    return names - set(grammar.size)
