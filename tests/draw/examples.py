"""Grammars built by hand, for pictures."""

from fgg.grammar import (
    Attachment,
    Clamp,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Input,
    InputFactor,
    Node,
    Nonterminal,
    Reference,
    Rule,
    Sized,
    Union,
)
from fgg.grammar.index import Condition, Expr

i, j, k, n = (Expr.of(name) for name in "ijkn")


def touch(label: str, *nodes: str, at: tuple[Expr, ...] = ()) -> Edge:
    """An edge; a node `a.N` is touched in its part `N`."""
    attachments = []
    for node in nodes:
        name, *path = node.split(".")
        attachments.append(Attachment(node=name, path=tuple(path)))
    return Edge(label=label, attachments=tuple(attachments), indices=at)


def fragment(
    externals: str, edges: list[Edge], clamps: tuple[Clamp, ...] = (), /, **nodes: str
) -> Fragment:
    return Fragment.make(
        tuple(Node(name=name, domain=domain) for name, domain in nodes.items()),
        tuple(edges),
        clamps,
        tuple(externals.split()),
    )


def clamp(node: str, *at: Expr) -> Clamp:
    return Clamp(attachment=Attachment(node=node), input="w", indices=at)


def sized(*names: str) -> tuple[Domain, ...]:
    return tuple(Domain(name=name, shape=Sized(Expr.of(3))) for name in names)


def chain(*parts: Expr | str) -> Condition:
    return Condition(
        tuple(part for part in parts if isinstance(part, Expr)),
        tuple(part for part in parts if isinstance(part, str)),
    )


def hmm() -> Grammar:
    step = fragment(
        "t",
        [touch("trans", "t", "u"), touch("emit", "u", "o"), touch("X", "u", at=(i + 1,))],
        (clamp("o", i),),
        t="T",
        u="T",
        o="W",
    )
    return Grammar(
        name="hmm",
        start=Reference(label="S"),
        domains=sized("T", "W"),
        inputs=(Input(name="w", domain="W", shape=(n,)),),
        factors=(
            Factor(name="begin", domains=("T",), given=0),
            Factor(name="trans", domains=("T", "T"), given=1),
            Factor(name="emit", domains=("T", "W"), given=1),
            Factor(name="end", domains=("T",)),
        ),
        nonterminals=(
            Nonterminal(name="S"),
            Nonterminal(name="X", domains=("T",), indices=("i",)),
        ),
        rules=(
            Rule(
                name="first",
                lhs="S",
                rhs=fragment("", [touch("begin", "t"), touch("X", "t", at=(Expr.of(0),))], t="T"),
            ),
            Rule(name="step", lhs="X", indices=(i,), rhs=step, conditions=(chain(i, "<", n),)),
            Rule(name="last", lhs="X", indices=(n,), rhs=fragment("t", [touch("end", "t")], t="T")),
        ),
    )


def pcfg() -> Grammar:
    """A PCFG with a decomposed binary rule, joined with a string."""
    binary = [touch("U", "a.N", "r"), touch("V", "r", "b"), touch("W", "r", "c")]
    binary += [touch("X", "b", at=(i, k)), touch("X", "c", at=(k, j))]
    full = [touch("binary", "a.N", "b", "c"), *binary[3:]]
    return Grammar(
        name="pcfg",
        start=Reference(label="S"),
        domains=(
            *sized("N", "P", "Word"),
            Domain(name="C", shape=Union(("N", "P"))),
            Domain(name="R", shape=Sized(Expr.of(2)), rank=True),
        ),
        inputs=(Input(name="w", domain="Word", shape=(n,)),),
        factors=(
            Factor(name="root", domains=("N",), given=0),
            Factor(name="binary", domains=("N", "C", "C"), given=1),
            Factor(name="U", domains=("N", "R"), given=1),
            Factor(name="V", domains=("R", "C"), given=1),
            Factor(name="W", domains=("R", "C"), given=1),
            Factor(name="emit", domains=("P", "Word"), given=1),
        ),
        nonterminals=(
            Nonterminal(name="S"),
            Nonterminal(name="X", domains=("C",), indices=("i", "j")),
        ),
        rules=(
            Rule(
                name="root",
                lhs="S",
                rhs=fragment(
                    "", [touch("root", "a.N"), touch("X", "a", at=(Expr.of(0), n))], a="C"
                ),
            ),
            Rule(
                name="binary",
                lhs="X",
                indices=(i, j),
                rhs=fragment("a", full, a="C", b="C", c="C"),
                conditions=(chain(i, "<", k, "<", j),),
            ),
            Rule(
                name="binary, decomposed",
                lhs="X",
                indices=(i, j),
                rhs=fragment("a", binary, a="C", b="C", c="C", r="R"),
                conditions=(chain(i, "<", k, "<", j),),
            ),
            Rule(
                name="word",
                lhs="X",
                indices=(i, i + 1),
                rhs=fragment("a", [touch("emit", "a.P", "o")], (clamp("o", i),), a="C", o="Word"),
            ),
        ),
    )


def rank_space() -> Grammar:
    """The rules of a PCFG in rank space, as in Fig. 4(b) of [RS]."""
    one = Expr.of(1)
    both = [touch("H", "r", "s"), touch("I", "r", "t")]
    both += [touch("X", "s", at=(i, k)), touch("X", "t", at=(k, j))]
    left = [touch("J", "r", "o"), touch("I", "r", "t"), touch("X", "t", at=(i + one, j))]
    leaf = [touch("J", "r", "o"), touch("K", "r", "p")]
    return Grammar(
        name="pcfg in rank space",
        start=Reference(label="S"),
        domains=(Domain(name="R", shape=Sized(Expr.of(2)), rank=True), *sized("O")),
        inputs=(Input(name="w", domain="O", shape=(n,)),),
        factors=tuple(Factor(name=name, domains=("R", "R")) for name in "HI")
        + tuple(Factor(name=name, domains=("R", "O")) for name in "JK")
        + (Factor(name="L", domains=("R",)),),
        nonterminals=(
            Nonterminal(name="S"),
            Nonterminal(name="X", domains=("R",), indices=("i", "j")),
        ),
        rules=(
            Rule(
                name="π0",
                lhs="S",
                rhs=fragment("", [touch("L", "r"), touch("X", "r", at=(Expr.of(0), n))], r="R"),
            ),
            Rule(
                name="π1",
                lhs="X",
                indices=(i, j),
                rhs=fragment("r", both, r="R", s="R", t="R"),
                conditions=(chain(i + 1, "<", k, "<", j - 1), chain(j - i, ">=", Expr.of(4))),
            ),
            Rule(
                name="π2",
                lhs="X",
                indices=(i, j),
                rhs=fragment("r", left, (clamp("o", i),), r="R", o="O", t="R"),
            ),
            Rule(
                name="π4",
                lhs="X",
                indices=(i, i + 2),
                rhs=fragment("r", leaf, (clamp("o", i), clamp("p", i + 1)), r="R", o="O", p="O"),
            ),
        ),
    )


def oddities() -> Grammar:
    """Two external nodes, nodes touched twice, isolated nodes, empty right-hand sides."""
    path = [touch("trans", "a", "c"), touch("X", "c", "b")]
    glued = [touch("trans", "a", "m"), touch("f", "m", "b"), touch("phi", "m", "b", at=(i,))]
    return Grammar(
        name="oddities",
        start=Reference(label="S"),
        domains=sized("T", "Category"),
        factors=(
            Factor(name="trans", domains=("T", "T"), given=1),
            Factor(name="f", domains=("T", "T")),
            Factor(name="h", domains=("T", "T", "T", "Category"), given=2),
            Factor(name="weight", domains=()),
        ),
        input_factors=(InputFactor(name="phi", domains=("T", "T"), indices=("i",)),),
        nonterminals=(
            Nonterminal(name="S"),
            Nonterminal(name="X", domains=("T", "T")),
            Nonterminal(name="Y", domains=("T",)),
        ),
        rules=(
            Rule(name="path", lhs="X", rhs=fragment("a b", path, a="T", b="T", c="T")),
            Rule(name="glued", lhs="X", rhs=fragment("a b", glued, a="T", b="T", m="T")),
            Rule(
                name="direct",
                lhs="X",
                rhs=fragment("a b", [touch("trans", "a", "b")], a="T", b="T"),
            ),
            Rule(name="equal", lhs="X", rhs=fragment("a a", [], a="T")),
            Rule(name="twice", lhs="Y", rhs=fragment("a", [touch("f", "a", "a")], a="T")),
            Rule(
                name="twice below",
                lhs="Y",
                rhs=fragment("a", [touch("f", "a", "u"), touch("X", "u", "u")], a="T", u="T"),
            ),
            Rule(name="isolated", lhs="Y", rhs=fragment("a", [], a="T", u="Category")),
            Rule(name="empty", lhs="S", rhs=Fragment()),
            Rule(
                name="no nodes",
                lhs="S",
                rhs=fragment("", [touch("S"), touch("S"), touch("weight")]),
            ),
            Rule(
                name="four",
                lhs="X",
                rhs=fragment(
                    "a b",
                    [touch("h", "a", "b", "c", "d"), touch("Y", "c"), touch("X", "c", "b")],
                    a="T",
                    b="T",
                    c="T",
                    d="Category",
                ),
            ),
        ),
    )


def large(size: int) -> Grammar:
    """A rule with `size` nodes in a tree, and some edges across it."""
    edges = [touch("f", f"v{(i - 1) // 2}", f"v{i}") for i in range(1, size)]
    edges += [touch("f", f"v{i}", f"v{(i * 7 + 3) % size}") for i in range(5, size, 6)]
    edges += [touch("Y", f"v{i}") for i in range(size // 2, size, 4)]
    names = {f"v{i}": "T" for i in range(size)}
    rule = Rule(name="large", lhs="Y", rhs=fragment("v0", edges, (), **names))
    base = oddities()
    return Grammar(
        name="large",
        start=base.start,
        domains=base.domains,
        factors=base.factors,
        nonterminals=base.nonterminals,
        rules=(rule,),
    )


def nasty() -> Grammar:
    """A rule whose names hold what writers must escape."""
    names = {'<&">': "a_b", "100%": "\\", "😀": "βL", "{$}": "a_b"}
    edges = [touch("#1 \\n", *names), touch("<X>", "😀"), touch("^~", "{$}", "100%")]
    rule = Rule(name="]]>", lhs="<X>", rhs=fragment('<&">', edges, (), **names))
    return Grammar(
        name="<!-- & -->",
        start=Reference(label="<X>"),
        domains=sized("a_b", "\\", "βL"),
        factors=(Factor(name="#1 \\n", domains=("a_b", "\\", "βL", "a_b"), given=2),),
        nonterminals=(Nonterminal(name="<X>", domains=("a_b",)),),
        rules=(rule,),
    )
