"""PCFGs with decomposed rules in state space: `pcfg.fgg` with `space="state"`."""

from __future__ import annotations

from benchmarks import checkouts, peers
from benchmarks.measure import OURS, Call, Point, Suite, gradients_of
from benchmarks.rank_pcfg import at, compiled, data


def ours(point: Point) -> Call:
    """The program in state space."""
    return compiled(point, "state")


def by_hand(point: Point) -> Call:
    """The same in logarithms, as it was published, with autograd."""
    weights, words = data(point)
    return lambda: gradients_of(peers.log_td(**weights, words=words), weights)


def tn_pcfg(point: Point) -> Call:
    """The kernel in TN-PCFG, in logarithms."""
    return checkouts.tn_pcfg_call("TDPCFG", *data(point))


SUITE = Suite(
    name="td_pcfg",
    title="PCFG with decomposed rules in state space, inside and outside, float32",
    makers={OURS: ours, "by hand, in logarithms": by_hand, "TN-PCFG": tn_pcfg},
    points=[at(20, 100, 250), at(40, 100, 250), at(20, 300, 250), at(20, 1000, 250)],
    memory=[at(20, 100, 250), at(40, 100, 250), at(20, 300, 250)],
    goals={"TN-PCFG": "at least 30, and ten times the memory"},
)
