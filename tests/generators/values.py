"""Hypothesis strategies for what grammars are made of: names, sizes, domains, factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fgg.grammar import (
    Attribute,
    Domain,
    Enumerated,
    Factor,
    Grammar,
    Product,
    Reference,
    Shape,
    Size,
    Sized,
    Union,
)
from fgg.grammar.domains import domain_size
from fgg.grammar.index import RESERVED, Expr
from fgg.grammar.values import (
    AttributeValue,
    Call,
    Constant,
    Eye,
    Nested,
    Number,
    Sparse,
    Table,
    Uniform,
    Value,
    Word,
)

MAX_ENTRIES = 60

_STRANGE = (
    *sorted(RESERVED),
    *("the rule", "a.b", "1", "->", "x y", "table", "file", "load", "eye", "\\", '"', " ", "#"),
    *("été", "δ", "名", "N*W", "N.0", "_", "e5", "{", "X[0,1]", "uniform"),
)


def names() -> SearchStrategy[str]:
    """Names: mostly plain ones, some that must stand between backquotes."""
    plain = st.text("abcxyzXYZ_", min_size=1, max_size=3)
    printable = st.characters(codec="utf-8", exclude_characters="`").filter(str.isprintable)
    anything = st.text(printable, min_size=1, max_size=4)
    return st.one_of(plain, plain, plain, st.sampled_from(_STRANGE), anything)


def constants() -> SearchStrategy[str]:
    """Domain values: any text at all."""
    return st.one_of(names(), st.text(st.characters(codec="utf-8"), max_size=4))


@dataclass
class Namer:
    """Hands out names that are different within a namespace."""

    draw: DrawFn
    strategy: SearchStrategy[str] = field(default_factory=names)
    taken: dict[str, set[str]] = field(default_factory=dict)

    def __call__(self, wanted: str, space: str = "", *avoid: str) -> str:
        """A name not yet used in `space`: `wanted`, or a random one."""
        used = self.taken.setdefault(space, set())
        name = self.draw(st.one_of(st.just(wanted), self.strategy))
        number = 2
        while name in used or any(name in self.taken.get(other, ()) for other in avoid):
            name = f"{wanted}{number}"
            number += 1
        used.add(name)
        return name


def weights() -> SearchStrategy[Number]:
    """Weights: finite and non-negative, as decimals or as fractions."""
    floats = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
    whole = st.integers(0, 3).map(float)
    fractions = st.fractions(min_value=0, max_value=10, max_denominator=20)
    return st.one_of(whole, st.sampled_from((0.1, 0.25, 0.5, 1e-9, 2.5e20)), floats, fractions)


def small_weights() -> SearchStrategy[Number]:
    """Weights for grammars that are evaluated: neither very large nor very small."""
    return st.one_of(
        st.integers(0, 2).map(float),
        st.sampled_from((0.1, 0.25, 0.5, 1.5)),
        st.fractions(min_value=0, max_value=2, max_denominator=7),
    )


@st.composite
def distributions(draw: DrawFn, size: int) -> tuple[Number, ...]:
    """Weights that sum to one exactly."""
    counts = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    if not any(counts):
        counts[draw(st.integers(0, size - 1))] = 1
    total = sum(counts)
    return tuple(Fraction(c, total) for c in counts)


def sizes(draw: DrawFn, namer: Namer) -> tuple[Size, ...]:
    """Up to three sizes of small value, later ones in terms of earlier ones."""
    found: list[Size] = []
    for _ in range(draw(st.integers(0, 3))):
        value = Expr.of(draw(st.integers(1, 3)))
        if draw(st.booleans()) and found:
            earlier = Expr.of(draw(st.sampled_from(found)).name)
            value = draw(st.sampled_from((earlier, earlier + 1, earlier * 2 - 1, earlier * value)))
        found.append(Size(name=namer("k", "domain"), value=value))
    return tuple(found)


def domains(
    draw: DrawFn, namer: Namer, known: Sequence[Size], *, limit: int = 8
) -> tuple[Domain, ...]:
    """Domains of every shape with at most `limit` values; the first is not composed."""
    found: list[Domain] = []
    count = draw(st.sampled_from((1, 2, 3, 4, 5)))
    while len(found) < count:
        grammar = Grammar(start=Reference(label=""), sizes=tuple(known), domains=tuple(found))
        domain = _domain(draw, namer("D", "domain"), grammar, limit)
        candidate = Grammar(start=grammar.start, sizes=grammar.sizes, domains=(*found, domain))
        if domain_size(candidate, domain.name) <= limit:
            found.append(domain)
        else:
            found.append(Domain(name=domain.name, shape=Sized(Expr.of(2))))
    return tuple(found)


def _domain(draw: DrawFn, name: str, grammar: Grammar, limit: int) -> Domain:
    kinds = ["sized", "rank", "enumerated"] + ["union", "product"] * (len(grammar.domains) > 0)
    kind = draw(st.sampled_from(kinds))
    shape: Shape
    if kind in ("sized", "rank"):
        size = Expr.of(draw(st.integers(1, min(3, limit))))
        if draw(st.booleans()) and grammar.sizes:
            size = Expr.of(draw(st.sampled_from(grammar.sizes)).name)
        return Domain(name=name, shape=Sized(size), rank=kind == "rank")
    if kind == "enumerated":
        values = draw(st.lists(constants(), min_size=1, max_size=3, unique=True))
        return Domain(name=name, shape=Enumerated(tuple(values)))
    parts = st.lists(
        st.sampled_from([d.name for d in grammar.domains]), min_size=1, max_size=3, unique=True
    )
    chosen = tuple(draw(parts))
    shape = Product(chosen) if kind == "product" and len(chosen) > 1 else Union(chosen)
    return Domain(name=name, shape=shape)


def value(
    draw: DrawFn,
    shape: Sequence[int],
    given: int | None,
    weight: SearchStrategy[Number],
) -> Value:
    """A value of any kind for a factor of this shape, normalised if it has an arrow."""
    kinds = ["constant"]
    if shape and prod(shape) <= MAX_ENTRIES:
        kinds += ["table", "sparse"]
    if given is not None:
        kinds.append("uniform")
    if len(shape) == 2 and shape[0] == shape[1] and given in (None, 1):
        kinds.append("eye")
    kind = draw(st.sampled_from(kinds))
    if kind == "uniform":
        return Uniform()
    if kind == "eye":
        return Eye()
    if kind == "constant":
        uniform = None if given is None else Fraction(1, prod(shape[given:]))
        return Constant(draw(weight) if uniform is None else uniform)
    entries = draw(_entries(tuple(shape), given, weight))
    if kind == "table":
        return Table(entries)
    flat = list(_positions(entries))
    kept = [entry for entry in flat if entry[1] or (given is None and draw(st.booleans()))]
    return Sparse(tuple(sorted(kept)))


def _positions(entries: Nested) -> list[tuple[tuple[int, ...], Number]]:
    if not isinstance(entries, tuple):
        return [((), entries)]
    return [((i, *p), w) for i, inner in enumerate(entries) for p, w in _positions(inner)]


@st.composite
def _entries(
    draw: DrawFn, shape: tuple[int, ...], given: int | None, weight: SearchStrategy[Number]
) -> Nested:
    if given == 0:
        return _reshape(draw(distributions(prod(shape))), shape)
    if not shape:
        return draw(weight)
    inner = None if given is None else given - 1
    return tuple(draw(_entries(shape[1:], inner, weight)) for _ in range(shape[0]))


def _reshape(flat: tuple[Number, ...], shape: tuple[int, ...]) -> Nested:
    if len(shape) <= 1:
        return flat
    step = prod(shape[1:])
    return tuple(_reshape(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))


NETS = ("residual", "linear")


def attributes(draw: DrawFn) -> tuple[Attribute, ...]:
    """Attributes of different keys with values they can have."""
    settings: dict[str, SearchStrategy[AttributeValue]] = {
        "dim": st.integers(1, 300).map(float),
        "dropout": st.one_of(st.floats(0, 0.9), st.fractions(0, Fraction(8, 9), max_denominator=9)),
        "tied": st.sampled_from((Word("yes"), Word("no"))),
    }
    named = st.lists(st.sampled_from(sorted(settings)), max_size=3, unique=True)
    keywords = named.flatmap(
        lambda keys: st.tuples(*(st.tuples(st.just(key), settings[key]) for key in keys))
    )
    nets = st.builds(lambda kind, own: Call(kind, (), own), st.sampled_from(NETS), keywords)
    positive = st.one_of(st.floats(1e-6, 10), st.fractions(Fraction(1, 9), 3, max_denominator=9))
    values: dict[str, SearchStrategy[AttributeValue]] = {
        "prior": positive.map(lambda a: Call("dirichlet", (a,))),
        "net": st.one_of(st.sampled_from([Word(n) for n in ("none", *NETS)]), nets),
        "init": st.one_of(
            st.sampled_from((Word("uniform"), Word("normal"))),
            st.builds(
                lambda n, a: Call(n, (a,)), st.sampled_from(("normal", "dirichlet")), positive
            ),
        ),
        "frozen": st.sampled_from((Word("yes"), Word("no"))),
    }
    keys = draw(st.lists(st.sampled_from(sorted(values)), max_size=3, unique=True))
    return tuple(Attribute(key=key, value=draw(values[key])) for key in keys)


def factor(
    draw: DrawFn,
    name: str,
    grammar: Grammar,
    *,
    weight: SearchStrategy[Number],
    valued: bool = False,
) -> Factor:
    """A factor over up to three of the grammar's domains, with or without an arrow."""
    choices = [d.name for d in grammar.domains]
    arity = draw(st.sampled_from((1, 2, 2, 3, 0)))
    signature = tuple(draw(st.sampled_from(choices)) for _ in range(arity))
    given = draw(st.one_of(st.none(), st.integers(0, len(signature) - 1))) if signature else None
    shape = [domain_size(grammar, d) for d in signature]
    has_value = valued or draw(st.booleans())
    rank = None
    if len(signature) > 1 and not has_value and draw(st.booleans()):
        names_of_sizes = [Expr.of(size.name) for size in grammar.sizes]
        rank = draw(st.sampled_from((*names_of_sizes, Expr.of(1), Expr.of(5))))
    return Factor(
        name=name,
        domains=signature,
        given=given,
        rank=rank,
        value=value(draw, shape, given, weight) if has_value else None,
        attributes=() if valued else attributes(draw),
    )
