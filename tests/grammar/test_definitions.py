"""Definitions of factors: read, written, renamed, and refused where they are none."""

import pytest

from fgg.compiler import loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Attribute, Factor
from fgg.grammar.definitions import (
    Definition,
    InputEvidence,
    InputPotential,
    Piece,
    ProductOf,
    ProductPart,
    Slice,
    Tied,
    Variant,
    read_definition,
)
from fgg.grammar.options import with_attributes, written_attributes
from fgg.grammar.printer import print_grammar
from fgg.grammar.spans import Span
from fgg.grammar.values import AttributeValue, Call, Word

IN_L = Variant("V", (Variant("L", (Variant("A"), Variant("U", (Variant("B"),)))),))
WRITTEN: list[tuple[Definition, str, AttributeValue]] = [
    (
        Slice("f", (Variant("A"), IN_L)),
        "slice",
        Call("f", (Word("A"), Call("V", (Call("L", (Word("A"), Call("U", (Word("B"),)))),)))),
    ),
    (Piece("f", 2), "piece", Call("f", (2.0,))),
    (
        ProductOf((ProductPart("f", (0, 1)), ProductPart("g", (0,)))),
        "product",
        Call("of", (Call("f", (0.0, 1.0)), Call("g", (0.0,)))),
    ),
    (Tied("f"), "tied", Call("stationary", (Word("f"),))),
    (InputEvidence("w"), "observed", Word("w")),
    (InputPotential("phi"), "observed", Call("factor", (Word("phi"),))),
]


@pytest.mark.parametrize(("definition", "key", "value"), WRITTEN)
def test_definitions_are_written_as_attributes_and_read_back(
    definition: Definition, key: str, value: AttributeValue
) -> None:
    assert (definition.key, definition.written) == (key, value)
    assert read_definition(key, value) == definition
    frozen = Attribute(key="frozen", value=Word("yes"))
    factor = Factor(name="x", domains=("A",), definition=definition, attributes=(frozen,))
    assert [a.key for a in written_attributes(factor)] == ["frozen", key]
    assert with_attributes(Factor(name="x", domains=("A",)), written_attributes(factor)) == factor


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("slice", v) for v in (Word("f"), Call("f"), Call("f", (1.0,)), "f")),
        ("slice", Call("f", (Call("A"),))),
        *(("piece", v) for v in (Word("f"), Call("f"), Call("f", (0.5,)), Call("f", (-1.0,)))),
        ("product", Call("of", (Call("f", (0.0,)),))),
        ("product", Call("of", (Call("f", (0.0,)), Call("g", (1.0, 1.0))))),
        ("product", Call("of", (Call("f", (0.0,)), Call("g")))),
        ("tied", Call("stationary", (Word("f"), Word("g")))),
        ("tied", Word("f")),
        ("observed", Call("phi")),
        ("frozen", Word("yes")),
    ],
)
def test_what_is_no_definition_is_not_read(key: str, value: AttributeValue) -> None:
    assert read_definition(key, value) is None


@pytest.mark.parametrize("definition", [definition for definition, _, _ in WRITTEN])
def test_new_names_reach_all_sources(definition: Definition) -> None:
    renamed = definition.renamed({"f": "F", "g": "G"}, {"A": "AA"})
    assert renamed.sources == tuple(name.upper() for name in definition.sources)
    if isinstance(renamed, Slice):
        assert renamed.domains == ("AA", "AA", "B")


def test_spans_take_no_part_in_equality() -> None:
    assert Piece("f", 0, span=Span(1, 2)) == Piece("f", 0)
    assert hash(Piece("f", 0, span=Span(1, 2))) == hash(Piece("f", 0))


def test_a_factor_with_two_definitions_is_refused() -> None:
    text = (
        "domain A = 2\nrank R = 2\nfactor f(A -> A) rank 2\n"
        "factor p(A -> R) with {}\n"
        "nonterminal S()\nstart S\nrule S -> p(a, r)\n"
    )
    grammar = loads(text.format("piece = f(0)"))
    assert grammar.factor["p"].definition == Piece("f", 0)
    assert loads(print_grammar(grammar)) == grammar
    with pytest.raises(GrammarError, match=r"F134.*`piece` and `slice` both define"):
        loads(text.format("piece = f(0), slice = f(A, A)"))
