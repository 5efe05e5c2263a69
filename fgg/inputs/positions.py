"""Nodes fixed to a position of an input: their names, and when they need not be named.

`emit(u, w[i])` touches a node that the text does not name. Such a node is called after its input,
`w`, or `w2`, `w3`, … where that name is taken.
"""

from __future__ import annotations

from collections.abc import Container

from fgg.grammar import Clamp, Fragment


def position_name(input_name: str, taken: Container[str]) -> str:
    """The name of a node fixed to a position of an input, given the names in use."""
    name = input_name
    number = 2
    while name in taken:
        name = f"{input_name}{number}"
        number += 1
    return name


def positions(fragment: Fragment) -> dict[str, Clamp]:
    """The clamps, by node, that can be written in the place of the node, as `emit(u, w[i])`.

    These are clamps of internal nodes that edges touch as a whole, such that reading the text
    gives the nodes their names, and the clamps their order, back.
    """
    found: dict[str, Clamp] = {}
    for clamp in fragment.clamps:
        if clamp.attachment.node in found or not _is_plain(fragment, clamp):
            break
        found[clamp.attachment.node] = clamp
    while found and not _reads_back(fragment, found):
        found.popitem()
    return found


def _is_plain(fragment: Fragment, clamp: Clamp) -> bool:
    node = clamp.attachment.node
    touching = [a for edge in fragment.edges for a in edge.attachments if a.node == node]
    touching += [c.attachment for c in fragment.clamps if c is not clamp]
    return (
        not clamp.attachment.path
        and not clamp.path
        and node not in fragment.externals
        and any(a.node == node for edge in fragment.edges for a in edge.attachments)
        and all(not a.path for a in touching if a.node == node)
        and sum(c.attachment.node == node for c in fragment.clamps) == 1
    )


def _reads_back(fragment: Fragment, chosen: dict[str, Clamp]) -> bool:
    """Whether reading names the chosen nodes and orders their clamps as they are."""
    touched = dict.fromkeys(
        a.node for edge in fragment.edges for a in edge.attachments if a.node in chosen
    )
    if list(touched) != list(chosen):
        return False
    if len({(c.input, c.indices) for c in chosen.values()}) != len(chosen):
        return False
    taken = {node.name for node in fragment.nodes if node.name not in chosen}
    for node, clamp in chosen.items():
        if position_name(clamp.input, taken) != node:
            return False
        taken.add(node)
    return True
