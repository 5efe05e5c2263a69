"""Pictures and what the writers make of them."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from fgg.draw import Format, MissingExtra, TooLarge, draw_grammar, draw_rule, render
from fgg.draw.rules import RulesPicture
from fgg.draw.scene import clean, shorten
from fgg.draw.writers.dot import quoted
from fgg.draw.writers.png import ascii_text
from fgg.draw.writers.tikz import latex
from fgg.grammar import Fragment, Grammar, Reference, Rule
from tests.draw import examples
from tests.draw.fragments import drawable_grammars

SVG = "{http://www.w3.org/2000/svg}"
EXAMPLES = (examples.hmm(), examples.pcfg(), examples.rank_space(), examples.oddities())


def svg_texts(picture: RulesPicture) -> list[str]:
    root = ElementTree.fromstring(render(picture, "svg"))
    written = (element for element in root.iter(f"{SVG}text") if element.get("fill") != "none")
    return [element.text or "" for element in written]


def expected_texts(grammar: Grammar, rule: Rule) -> list[str]:
    texts = [shorten(clean(node.domain)) for node in rule.rhs.nodes]
    texts += [
        shorten(clean(node.name))
        for node in rule.rhs.nodes
        if all(clamp.attachment.node != node.name for clamp in rule.rhs.clamps)
    ]
    texts += [clean(edge.label)[:5] for edge in rule.rhs.edges]
    texts += [clean(rule.name), clean(rule.lhs)[:5]]
    return texts


@given(drawable_grammars())
@settings(max_examples=40)
def test_svg_is_well_formed_and_shows_every_name(grammar: Grammar) -> None:
    shown = "\n".join(svg_texts(draw_grammar(grammar)))
    for text in expected_texts(grammar, grammar.rules[0]):
        assert text in shown


@given(drawable_grammars())
@settings(max_examples=30)
def test_everything_lies_in_the_view_box(grammar: Grammar) -> None:
    picture = draw_grammar(grammar)
    root = ElementTree.fromstring(render(picture, "svg"))
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert (left, top) == (0, 0) and width >= 1 and height >= 1
    for panel in picture.panels:
        for placed in (panel.left, panel.right):
            if not placed.graph.vertices:
                continue
            box = placed.box()
            assert box.left >= panel.frame.left and box.right <= panel.frame.right
            assert box.top >= panel.frame.top and box.bottom <= panel.frame.bottom
    for text in picture.panels[0].texts + picture.texts:
        assert 0 <= text.box().left and text.box().right <= width
    for circle in root.iter(f"{SVG}circle"):
        x, y, r = (float(circle.attrib[key]) for key in ("cx", "cy", "r"))
        assert 0 <= x - r and x + r <= width and 0 <= y - r and y + r <= height


@given(drawable_grammars())
@settings(max_examples=15)
def test_every_writer_takes_any_names(grammar: Grammar) -> None:
    picture = draw_rule(grammar, grammar.rules[0])
    formats: tuple[Format, ...] = ("dot", "tikz")
    for format in formats:
        assert render(picture, format).decode()


def test_pictures_of_two_rules_do_not_share_space() -> None:
    frames = [panel.frame for panel in draw_grammar(examples.oddities()).panels]
    assert not [1 for i, a in enumerate(frames) for b in frames[:i] if a.overlap(b)]


def test_indices_conditions_clamps_paths_and_ports_are_shown() -> None:
    shown = svg_texts(draw_grammar(examples.pcfg()))
    wanted = {"X[i,j]", "X[i,i+1]", "for i < k < j", "o = w[i]", ".N", ".P", "2", "3", "start S"}
    assert wanted - {text.split(",")[0] if "start" in text else text for text in shown} == set()
    assert "for i+1 < k < j-1, j-i ≥ 4" in svg_texts(draw_grammar(examples.rank_space()))


def test_only_rules_with_several_external_nodes_number_them() -> None:
    one = svg_texts(draw_rule(examples.oddities(), "isolated"))
    two = svg_texts(draw_rule(examples.oddities(), "direct"))
    assert "1" not in one and two.count("1") == 3 and two.count("2") == 3


def test_directed_factors_have_arrows_instead_of_numbers() -> None:
    root = ElementTree.fromstring(render(draw_rule(examples.hmm(), "step"), "svg"))
    assert len(list(root.iter(f"{SVG}polygon"))) == 1 + 4  # the rule's arrow; trans, emit


def test_an_empty_right_hand_side_says_so() -> None:
    assert "(empty)" in svg_texts(draw_rule(examples.oddities(), "empty"))


def test_a_grammar_without_rules_has_a_picture() -> None:
    picture = draw_grammar(Grammar(start=Reference(label="S"), name="nothing"))
    assert "nothing" in svg_texts(picture)


@pytest.mark.parametrize("grammar", EXAMPLES, ids=lambda grammar: grammar.name)
def test_graphviz_reads_dot(grammar: Grammar) -> None:
    pygraphviz = pytest.importorskip("pygraphviz")
    graph = pygraphviz.AGraph(string=render(draw_grammar(grammar), "dot").decode())
    fragments = [rule.rhs for rule in grammar.rules]
    count = sum(len(f.nodes) + len(set(f.externals)) + len(f.edges) + 1 for f in fragments)
    count += sum(not f.nodes and not f.edges for f in fragments)
    assert graph.number_of_nodes() == count


@given(drawable_grammars())
@settings(max_examples=15)
def test_graphviz_reads_dot_with_any_names(grammar: Grammar) -> None:
    pygraphviz = pytest.importorskip("pygraphviz")
    picture = draw_rule(grammar, grammar.rules[0])
    graph = pygraphviz.AGraph(string=render(picture, "dot").decode())
    inside = {str(graph.get_node(name).attr["label"]) for name in graph.nodes()}
    for node in grammar.rules[0].rhs.nodes:
        assert quoted(shorten(clean(node.domain)))[1:-1].replace('\\"', '"') in inside


@pytest.mark.parametrize("engine", ["builtin", "graphviz", "auto"])
def test_engines_show_the_same_texts(engine: str) -> None:
    if engine == "graphviz":
        pytest.importorskip("pygraphviz")
    picture = draw_grammar(examples.oddities(), engine=engine)  # type: ignore[arg-type]
    assert sorted(svg_texts(picture)) == sorted(svg_texts(draw_grammar(examples.oddities())))


def test_tikz_escapes_special_characters() -> None:
    assert latex("a_b %&#$") == r"a\_b \%\&\#\$"
    assert latex("\\{x}^~") == r"\textbackslash{}\{x\}\textasciicircum{}\textasciitilde{}"
    assert latex("βL ≤ Ω") == r"$\beta$L $\le$ $\Omega$"
    assert latex("X[i]") == "X{[}i{]}"


@pytest.mark.parametrize("grammar", EXAMPLES, ids=lambda grammar: grammar.name)
def test_tikz_is_balanced_and_has_a_picture_for_each_rule(grammar: Grammar) -> None:
    text = render(draw_grammar(grammar), "tikz").decode()
    bare = re.sub(r"\\[{}]|(?m:%.*$)", "", text.replace(r"\%", ""))
    assert bare.count("{") == bare.count("}")
    assert text.count(r"\begin{tikzpicture}") == len(grammar.rules)
    assert all(
        line.endswith((";", "}", "{", ",", "]")) for line in bare.split("\n") if line.strip()
    )


@pytest.mark.parametrize("grammar", EXAMPLES[:2], ids=lambda grammar: grammar.name)
def test_png_has_twice_the_size(grammar: Grammar) -> None:
    pytest.importorskip("PIL")
    picture = draw_grammar(grammar)
    content = render(picture, "png")
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    assert width == pytest.approx(2 * picture.width, abs=1)
    assert height == pytest.approx(2 * picture.height, abs=1)


def test_png_takes_nasty_names() -> None:
    pytest.importorskip("PIL")
    grammar = examples.nasty()
    assert render(draw_rule(grammar, grammar.rules[0]), "png")[1:4] == b"PNG"


def test_a_font_of_ascii_characters_gets_ascii_texts() -> None:
    assert ascii_text("βL ≤ é…") == "betaL <= e..."
    assert ascii_text("😀") == "?"


@pytest.mark.parametrize(
    ("format", "engine", "library"),
    [("png", "builtin", "PIL"), ("svg", "graphviz", "pygraphviz")],
)
def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, format: str, engine: str, library: str
) -> None:
    for name in (library, "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r'pip install "fgg\[draw\]"'):
        picture = draw_rule(examples.hmm(), "step", engine=engine)  # type: ignore[arg-type]
        render(picture, format)  # type: ignore[arg-type]


def test_a_large_graph_is_drawn_without_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert draw_grammar(examples.large(30)).width > 500


def test_too_many_rules_are_refused() -> None:
    rules = tuple(Rule(name=f"r{i}", lhs="S", rhs=Fragment()) for i in range(401))
    with pytest.raises(TooLarge, match="401 rules"):
        draw_grammar(Grammar(start=Reference(label="S"), rules=rules))


def test_a_huge_fragment_is_refused() -> None:
    with pytest.raises(TooLarge, match="nodes and edges"):
        draw_grammar(examples.large(300))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="no picture format `gif`"):
        render(draw_rule(examples.hmm(), "step"), "gif")  # type: ignore[arg-type]


def test_pictures_show_themselves_in_notebooks() -> None:
    assert draw_rule(examples.hmm(), "step")._repr_svg_().startswith("<svg")


def test_importing_is_cheap() -> None:
    code = (
        "import sys, fgg.draw; print(*{'PIL', 'pygraphviz', 'fgg.draw.rules'} & set(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (loaded.stdout.strip(), loaded.stderr) == ("", "")
