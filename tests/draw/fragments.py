"""Random fragments for pictures: only what the data model demands, and names of any kind."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fgg.grammar import (
    Attachment,
    Clamp,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    InputFactor,
    Node,
    Nonterminal,
    Reference,
    Rule,
    Sized,
)
from fgg.grammar.index import Condition, Expr

NASTY = (
    '<&">',
    "a_b",
    "100%",
    "\\",
    "\\n",
    "😀",
    "βL",
    "{x}",
    "$",
    "]]>",
    "a\nb",
    "\x00",
    "—" * 50,
)


@st.composite
def drawable_grammars(draw: DrawFn, max_nodes: int = 9, max_edges: int = 9) -> Grammar:
    """A grammar with one rule; labels and arities need not fit."""
    texts = st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=12))
    names = draw(st.lists(texts, unique=True, max_size=max_nodes))
    domains = draw(st.lists(texts, unique=True, min_size=1, max_size=3))
    labels = draw(st.lists(texts, unique=True, min_size=5, max_size=5))
    indices = st.tuples(texts.map(Expr.of)) | st.just(())
    attachments = (
        st.builds(
            Attachment,
            node=st.sampled_from(names),
            path=st.tuples(st.sampled_from(domains)) | st.just(()),
        )
        if names
        else st.nothing()
    )
    edges = st.builds(
        Edge,
        label=st.sampled_from(labels),
        attachments=st.lists(attachments, max_size=4).map(tuple) if names else st.just(()),
        indices=indices,
    )
    clamps = st.builds(
        Clamp, attachment=attachments, input=texts, indices=st.tuples(texts.map(Expr.of))
    )
    fragment = Fragment.make(
        tuple(Node(name=name, domain=draw(st.sampled_from(domains))) for name in names),
        tuple(draw(st.lists(edges, max_size=max_edges))),
        tuple(draw(st.lists(clamps, max_size=2))) if names else (),
        tuple(draw(st.lists(st.sampled_from(names), max_size=3))) if names else (),
    )
    low, high = draw(texts.map(Expr.of)), draw(texts.map(Expr.of))
    rule = Rule(
        name=draw(texts),
        lhs=labels[0],
        indices=draw(indices),
        rhs=fragment,
        conditions=draw(st.sampled_from([(), (Condition((low, high), ("<=",)),)])),
    )
    return Grammar(
        name=draw(texts),
        start=Reference(label=labels[0]),
        domains=tuple(
            Domain(name=name, shape=Sized(Expr.of(2)), rank=draw(st.booleans())) for name in domains
        ),
        factors=(
            Factor(name=labels[1], domains=(domains[0],) * 4, given=draw(st.integers(0, 3))),
            Factor(name=labels[2], domains=(domains[0],)),
        ),
        input_factors=(InputFactor(name=labels[3], domains=()),),
        nonterminals=(Nonterminal(name=labels[0]), Nonterminal(name=labels[4])),
        rules=(rule,),
    )
