"""The definition as code, on grammars small enough to work out by hand."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fgg.grammar import (
    Attachment,
    Domain,
    Edge,
    Enumerated,
    Factor,
    Fragment,
    Grammar,
    Node,
    Nonterminal,
    Product,
    Reference,
    Rule,
    Sized,
    Union,
)
from fgg.grammar.index import Expr
from fgg.grammar.semantics import brute_force, derivations, glue
from fgg.grammar.values import Constant, Eye, Load, Sparse, Table, Uniform, Value

# N has 2 values and P has 3; C has 5 (0, 1 in N, then P); L has 6 (N * P, P varying fastest).
DOMAINS = (
    Domain(name="N", shape=Sized(Expr.of(2))),
    Domain(name="P", shape=Enumerated(("x", "y", "z"))),
    Domain(name="C", shape=Union(("N", "P"))),
    Domain(name="L", shape=Product(("N", "P"))),
    Domain(name="U", shape=Union(("L", "N"))),
)


def rule(name: str, head: str, body: str = "", **nodes: str) -> Rule:
    """A rule in a shorthand, `rule("r", "X a", "f a.N b | Y b", a="C", b="P")`."""
    lhs, *externals = head.split()
    edges = []
    for edge in filter(None, (text.split() for text in body.split("|"))):
        paths = [place.split(".") for place in edge[1:]]
        touched = tuple(Attachment(node=node, path=tuple(path)) for node, *path in paths)
        edges.append(Edge(label=edge[0], attachments=touched))
    made = tuple(Node(name=node, domain=domain) for node, domain in nodes.items())
    return Rule(name=name, lhs=lhs, rhs=Fragment.make(made, tuple(edges), (), tuple(externals)))


def grammar(nonterminals: str, factors: str, *rules: Rule, **values: Value) -> Grammar:
    """A grammar whose labels are given as `"S, X C"`; the first nonterminal is the start."""
    labels = [text.split() for text in nonterminals.split(",")]
    signatures = [text.split() for text in factors.split(",") if text]
    return Grammar(
        start=Reference(label=labels[0][0]),
        domains=DOMAINS,
        nonterminals=tuple(Nonterminal(name=n, domains=tuple(ds)) for n, *ds in labels),
        factors=tuple(
            Factor(name=n, domains=tuple(ds), given=0 if n == "u" else None, value=values.get(n))
            for n, *ds in signatures
        ),
        rules=rules,
    )


def test_derivations_come_in_the_order_of_the_rules() -> None:
    model = grammar(
        "S, X",
        "",
        rule("pair", "S", "X | X"),
        rule("one", "S", "X"),
        rule("a", "X"),
        rule("b", "X"),
    )
    found = [str(derivation) for derivation in derivations(model)]
    assert found == [
        *("(pair a a)", "(pair a b)", "(pair b a)", "(pair b b)"),
        *("(one a)", "(one b)"),
    ]
    assert brute_force(model, {}) == 6


def test_infinitely_many_derivations_need_a_depth() -> None:
    model = grammar("S", "", rule("pair", "S", "S | S"), rule("stop", "S"))
    with pytest.raises(ValueError, match="infinitely many"):
        derivations(model)
    numbers = [len(list(derivations(model, max_depth=depth))) for depth in range(5)]
    assert numbers == [0, 1, 2, 5, 26]


def test_a_cycle_that_never_ends_is_no_derivation() -> None:
    model = grammar(
        "S, X, Y",
        "",
        rule("x", "S", "X"),
        rule("stop", "S"),
        rule("loop", "X", "X"),
        rule("apart", "Y", "Y"),
        rule("end", "Y"),
    )
    assert [str(derivation) for derivation in derivations(model)] == ["stop"]


def test_a_branching_process_by_depth_is_its_fixed_point_iteration() -> None:
    model = grammar("S", "p, q", rule("two", "S", "p | S | S"), rule("none", "S", "q"))
    z = 0.0
    for depth in range(5):
        assert brute_force(model, {"p": 0.6, "q": 0.4}, max_depth=depth) == pytest.approx(z)
        z = 0.6 * z * z + 0.4


def test_fragments_are_glued_at_external_nodes() -> None:
    model = grammar(
        "S, X N",
        "f N, g N N, h N",
        rule("s", "S", "f a | X a | X a", a="N"),
        rule("step", "X a", "g a b", a="N", b="N"),
        rule("stop", "X a", "h a", a="N"),
    )
    f, g, h = np.array([2.0, 3.0]), np.array([[1.0, 4.0], [5.0, 2.0]]), np.array([7.0, 0.5])
    x = g.sum(1) + h
    assert brute_force(model, {"f": f, "g": g, "h": h}) == pytest.approx(float((f * x * x).sum()))


def test_a_graph_has_a_node_for_each_node_of_each_fragment() -> None:
    model = grammar(
        "S, X N",
        "f N N",
        rule("s", "S", "X a | X a", a="N"),
        rule("x", "X a", "f a b", a="N", b="N"),
    )
    (derivation,) = derivations(model)
    graph = glue(model, derivation)
    assert graph.domains == ["N", "N", "N"]
    touched = [[place.node for place in places] for _, places in graph.factors]
    assert touched == [[0, 1], [0, 2]]


def test_external_nodes_of_the_start_give_an_array() -> None:
    model = grammar("S P N", "f N P", rule("s", "S b a", "f a b", a="N", b="P"))
    assert brute_force(model, {"f": [[1, 2, 3], [4, 5, 6]]}) == [[1, 4], [2, 5], [3, 6]]


def test_a_node_that_is_external_twice_is_one_node() -> None:
    model = grammar(
        "S N N, X N N",
        "f N",
        rule("s", "S a b", "X a b", a="N", b="N"),
        rule("x", "X a a", "f a", a="N"),
    )
    assert brute_force(model, {"f": [3, 5]}) == [[3, 0], [0, 5]]


def test_an_edge_may_touch_a_node_twice() -> None:
    model = grammar("S", "f N N", rule("s", "S", "f a a", a="N"))
    assert brute_force(model, {"f": [[1, 10], [100, 1000]]}) == 1001


def test_an_isolated_node_multiplies_by_the_size_of_its_domain() -> None:
    model = grammar("S", "f", rule("s", "S", "f", a="C", b="N"))
    assert brute_force(model, {"f": 3}) == 3 * 5 * 2
    model = grammar("S N", "", rule("s", "S a", "", a="N"))
    assert brute_force(model, {}) == [1, 1]


def test_a_part_of_a_union_has_weight_zero_elsewhere() -> None:
    model = grammar("S C", "f P", rule("s", "S a", "f a.P", a="C"))
    assert brute_force(model, {"f": [2, 3, 4]}) == [0, 0, 2, 3, 4]


def test_a_component_of_a_product_is_touched_alone() -> None:
    model = grammar("S L", "f N, g P", rule("s", "S a", "f a.N | g a.P", a="L"))
    assert brute_force(model, {"f": [1, 10], "g": [2, 3, 4]}) == [2, 3, 4, 20, 30, 40]


def test_paths_lead_through_unions_and_products() -> None:
    model = grammar("S U", "g P", rule("s", "S a", "g a.L.P", a="U"))
    assert brute_force(model, {"g": [2, 3, 4]}) == [2, 3, 4, 2, 3, 4, 0, 0]


def test_a_nonterminal_edge_may_touch_a_part() -> None:
    model = grammar(
        "S U, X L, Y L",
        "g P",
        rule("s", "S a", "X a.L", a="U"),
        rule("g", "X b", "g b.P", b="L"),
        rule("y", "X b", "Y b", b="L"),
        rule("any", "Y b", "", b="L"),
    )
    assert brute_force(model, {"g": [2, 3, 4]}) == [3, 4, 5, 3, 4, 5, 0, 0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Constant(Fraction(1, 2)), [[0.5] * 3, [0.5] * 3]),
        (Table(((1.0, 2.0, 3.0), (4.0, 5.0, Fraction(6)))), [[1, 2, 3], [4, 5, 6]]),
        (Sparse((((0, 2), 7.0), ((1, 0), 8.0))), [[0, 0, 7], [8, 0, 0]]),
        (Uniform(), [[1 / 6] * 3, [1 / 6] * 3]),
    ],
)
def test_values_that_the_grammar_gives_are_used(value: Value, expected: list[list[float]]) -> None:
    model = grammar("S N P", "u N P", rule("s", "S a b", "u a b", a="N", b="P"), u=value)
    assert np.allclose(np.array(brute_force(model, {})), expected)


def test_the_identity_matrix_is_one_on_its_diagonal() -> None:
    model = grammar("S N N", "f N N", rule("s", "S a b", "f a b", a="N", b="N"), f=Eye())
    assert brute_force(model, {}) == [[1, 0], [0, 1]]


def test_values_are_loaded_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.array([2.0, 3.0]))
    model = grammar("S", "f N", rule("s", "S", "f a", a="N"), f=Load("f.npy", str(tmp_path)))
    assert brute_force(model, {}) == 5


def test_weights_that_are_supplied_come_first() -> None:
    model = grammar("S", "f N", rule("s", "S", "f a", a="N"), f=Constant(1.0))
    assert (brute_force(model, {}), brute_force(model, {"f": [3, 4]})) == (2, 7)


def test_a_parameter_without_weights_is_an_error() -> None:
    with pytest.raises(KeyError, match="no weights for factor f"):
        brute_force(grammar("S", "f N", rule("s", "S", "f a", a="N")), {})


def test_an_indexed_grammar_must_be_grounded() -> None:
    family = Grammar(
        start=Reference(label="X", indices=(Expr.of(0),)),
        nonterminals=(Nonterminal(name="X", indices=("i",)),),
    )
    with pytest.raises(ValueError, match="ground"):
        derivations(family)
