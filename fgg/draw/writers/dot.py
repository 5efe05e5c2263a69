"""Graphviz DOT text: the vertices and links of a picture, without positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from fgg.draw import style
from fgg.draw.layout.rows import vertex_levels
from fgg.draw.rules import Panel, RulesPicture
from fgg.draw.scene import Flow, Kind, Link, Vertex


def to_dot(picture: RulesPicture) -> str:
    """The picture as a DOT graph with a cluster for each rule, to be laid out by Graphviz."""
    lines = [
        f"digraph {quoted(picture.title)} {{",
        "  compound=true; newrank=true; nodesep=0.3; ranksep=0.35;",
        '  node [fontname="Helvetica", fontsize=11]; edge [fontname="Helvetica", fontsize=9];',
    ]
    for i, panel in enumerate(picture.panels):
        lines.extend(_panel(panel, i))
    lines.append("}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """The text as a DOT string that is shown as it is: no escapes, no entities."""
    plain = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _panel(panel: Panel, index: int) -> Iterator[str]:
    scene = panel.scene
    label = quoted(scene.caption)
    if scene.conditions:
        label = f"{label[:-1]}\\n{quoted(scene.conditions)[1:]}"
    yield f"  subgraph cluster_{index} {{"
    yield f'    label={label}; color="{style.HAIRLINE}"; style=rounded; fontname="Helvetica";'
    for side, graph in (("l", scene.left), ("r", scene.right)):
        prefix = f"{side}{index}"
        yield f"    subgraph cluster_{prefix} {{"
        yield '      label=""; style=""; peripheries=0;'
        for vertex in graph.vertices:
            yield f"      {_vertex(vertex, prefix)}"
        if not graph.vertices:
            yield f'      {prefix}_empty [shape=plain, label="(empty)"];'
        level = vertex_levels(graph)
        for link in graph.links:
            yield f"      {_link(link, level, prefix)}"
        yield "    }"
    right = scene.right.vertices[0].key if scene.right.vertices else "empty"
    outside = [vertex.key for vertex in scene.left.vertices if vertex.external]
    left = outside[-1] if outside else scene.left.vertices[-1].key
    yield (
        f"    l{index}_{left} -> r{index}_{right}"
        f" [ltail=cluster_l{index}, lhead=cluster_r{index}, constraint=false, penwidth=1.5];"
    )
    yield "  }"


def _vertex(vertex: Vertex, prefix: str) -> str:
    look = style.look(vertex)
    colors = f'style="{{}}", fillcolor="{look.fill}", color="{look.line}"'
    name = f"{prefix}_{vertex.key}"
    match vertex.kind:
        case Kind.NODE:
            rings = ", peripheries=2" if vertex.rank else ""
            label = f"{vertex.number} {vertex.name}" if vertex.number else vertex.name
            shape = f"shape=circle, {colors.format('filled')}{rings}, margin=0.03"
            # The text inside may be white; the name beside it must not be.
            beside = f'<<font color="{style.INK}">{escape(label)}</font>>' if label else '""'
            text = f'label={quoted(vertex.text)}, fontcolor="{look.text}"'
            return f"{name} [{shape}, {text}, xlabel={beside}];"
        case Kind.NONTERMINAL:
            shape = f"shape=box, {colors.format('filled,rounded')}, height=0.3"
            return f"{name} [{shape}, label={quoted(vertex.text)}];"
        case _:
            shape = f"shape=square, {colors.format('filled')}, width=0.15, fixedsize=true"
            return f'{name} [{shape}, label="", xlabel={quoted(vertex.name)}];'


def _link(link: Link, level: Mapping[str, int], prefix: str) -> str:
    edge, node = f"{prefix}_{link.edge}", f"{prefix}_{link.node}"
    above = level[link.node] < level[link.edge]
    upper, lower = (node, edge) if above else (edge, node)
    options = [f"label={quoted(link.path)}"] if link.path else []
    if link.numbered:
        options.append(f'{"head" if above else "tail"}label="{link.port}"')
    if link.flow is Flow.NONE:
        options.append("dir=none")
    elif (link.flow is Flow.INTO_EDGE) != above:
        options.append("dir=back")
    return f"{upper} -> {lower} [{', '.join(options)}];"
