"""What random indexed grammars are made of: domains, factors, inputs, ranges, heads, references."""

from __future__ import annotations

from collections.abc import Sequence

PARTS = {  # where in a node of a domain another domain lies
    "T": {"T": ""},
    "U": {"U": ""},
    "W": {"W": ""},
    "C": {"C": "", "T": ".T", "U": ".U"},
    "L": {"L": "", "T": ".T", "U": ".U"},
    "E": {"E": "", "C": ".C", "W": ".W", "T": ".C.T", "U": ".C.U"},
}


DOMAINS = """
size k = {k}
size dmax = {dmax}
domain T = 2
domain U = k
domain W = {w}
domain C = T + U
domain L = T * U
domain E = C + W
"""


FACTORS = {
    "init": ("T",),
    "trans": ("T", "T"),
    "emit": ("T", "W"),
    "other": ("U", "W"),
    "mix": ("T", "U"),
    "triple": ("T", "U", "T"),
    "word": ("W",),
    "union": ("C", "T"),
    "unions": ("C", "C"),
    "pair": ("L",),
    "pairs": ("L", "U"),
    "both": ("W", "W", "T"),
    "one": (),
    "deep": ("E",),
}


INPUTS = {"w": ("W", ("n",)), "v": ("C", ("n+1",)), "y": ("W", ("m",)), "s": ("W", ("n", "n+1"))}
INPUTS |= {"x": ("E", ("n",)), "z": ("L", ("2*n",)), "g": ("T", ("m", "n"))}


TABLES = {"left": ("n",), "grid": ("n", "m+1")}


# The indices, the states and the range of input factors.
POTENTIALS = {
    "phi": (("i",), ("T", "T"), ("0 <= i", "i < n")),
    "psi": (("i", "j"), ("U",), ("0 <= i", "i < j", "j <= n")),
    "bias": ((), ("T",), ()),
    "cost": (("i",), (), ("0 <= i", "i <= n")),
    "link": (("i", "j"), (), ("0 <= i", "i < n", "0 <= j", "j <= m")),
    "chi": (("i", "j"), ("C",), ("0 <= i", "i < n", "0 <= j", "j <= dmax")),
    "late": (("i",), ("T",), ("1 <= i", "i <= n")),
}


RANGES = {
    "plain": ((), ((),)),
    "chain": (
        ("i",),
        (
            ("0 <= i", "i <= n"),
            ("0 <= i", "i < n"),
            ("1 <= i", "i <= n + 1"),
            ("-1 <= i", "i <= n"),
        ),
    ),
    "span": (
        ("i", "j"),
        (
            ("0 <= i", "i < j", "j <= n"),
            ("0 <= i", "i <= j", "j <= n"),
            ("0 <= i", "i + 2 <= j", "j <= n"),
        ),
    ),
    "headed": (("i", "h", "j"), (("0 <= i", "i <= h", "h < j", "j <= n"),)),
    "pair": (
        ("i", "j"),
        (
            ("0 <= i", "i <= n", "0 <= j", "j <= m"),
            ("0 <= i", "i <= n", "0 <= j", "j <= n"),
            ("0 <= i", "i < n", "1 <= j", "j <= m"),
        ),
    ),
    "duration": (
        ("i", "c"),
        (("0 <= i", "i <= n", "0 <= c", "c <= dmax"), ("0 <= i", "i < n", "1 <= c", "c < k + 2")),
    ),
}


# What a rule's recursive references may be: indices, and the conditions on new variables. Each
# entry goes down; turned round, where that is possible, all go up.
DESCENTS: dict[str, tuple[tuple[Sequence[tuple[str, ...]], Sequence[str]], ...]] = {
    "plain": (),
    "chain": (
        ((("i+1",),), ()),
        ((("i+2",),), ()),
        ((("p",),), ("i < p", "p <= n")),
        ((("p",), ("p",)), ("i < p", "p <= n")),
        ((("i+1",), ("i+2",)), ()),
        ((("p",), ("q",)), ("i < p", "p < q", "q <= n")),
        ((("p+1",),), ("i <= p", "p < n", "p <= i + 2")),
        ((("2*i",),), ("1 <= i",)),
        ((("2*p+1",), ("p+1",)), ("i <= p", "2*p < n")),
    ),
    "span": (
        ((("i", "p"), ("p", "j")), ("i < p", "p < j")),
        ((("i+1", "j"),), ()),
        ((("i", "j-1"),), ()),
        ((("i+1", "j-1"),), ()),
        ((("i", "p"),), ("i <= p", "p < j")),
        ((("i+1", "p"), ("p+1", "j")), ("i < p", "p < j")),
        ((("p", "q"),), ("i <= p", "p < q", "q < j")),
        ((("i", "p"), ("p", "q"), ("q", "j")), ("i < p", "p < q", "q < j")),
        ((("i", "p"), ("i", "p")), ("i < p", "p < j")),
        ((("i+1", "j"), ("i", "j-1")), ()),
        ((("2*p", "j"),), ("i < 2*p", "2*p < j")),
    ),
    "headed": (
        ((("i", "h", "p"), ("p", "q", "j")), ("h < p", "p <= q", "q < j")),
        ((("i", "q", "p"), ("p", "h", "j")), ("i <= q", "q < p", "p <= h")),
        ((("i+1", "h", "j"),), ("i < h",)),
        ((("i", "h", "j-1"),), ()),
        ((("p", "h", "j"),), ("i < p", "p <= h")),
    ),
    "pair": (
        ((("i+1", "j+1"),), ()),
        ((("i+1", "j"),), ()),
        ((("i", "j+1"),), ()),
        ((("p", "j"),), ("i < p", "p <= n")),
        ((("i+1", "p"),), ("j <= p", "p <= m")),
        ((("i+1", "j"), ("i", "j+1")), ()),
        ((("2*i+1", "j"),), ()),
        ((("i+1", "3*j"),), ()),
    ),
    "duration": (
        ((("i+1", "c-1"),), ()),
        ((("i+1", "p"),), ("0 <= p", "p <= dmax")),
        ((("i+1", "c"),), ()),
        ((("i+c", "c"),), ("c >= 1",)),
    ),
}


HEADS = {
    "plain": ((),),
    "chain": (("i",), ("i",), ("n",), ("0",), ("n-1",), ("i+1",), ("1",)),
    "span": (("i", "j"), ("i", "j"), ("i", "i+1"), ("i", "i"), ("0", "n"), ("i", "n"), ("0", "j")),
    "headed": (("i", "h", "j"), ("i", "i", "i+1"), ("i", "i", "j"), ("i", "j-1", "j")),
    "pair": (("i", "j"), ("n", "m"), ("i", "0"), ("n", "j"), ("i", "i"), ("0", "0")),
    "duration": (("i", "c"), ("n", "c"), ("i", "0"), ("i", "1"), ("n", "0")),
}


# Heads in which an index is a multiple of a variable.
STEPPED = {
    "plain": (),
    "chain": (("2*i",), ("2*i+1",), ("3*i-1",), ("n-2*i",), ("5-2*i",), ("2*i+3*j",)),
    "span": (("i", "2*i"), ("2*i", "j"), ("i", "2*i+1"), ("i", "n-2*i"), ("2*i", "3*j")),
    "headed": (("i", "i", "2*i+1"), ("2*i", "h", "j")),
    "pair": (
        *(("2*i", "j"), ("i", "2*i"), ("2*i", "2*i+j"), ("3*i+1", "j"), ("2*i", "3*j")),
        *(("n-2*i", "i"), ("j", "5-2*i"), ("i+j", "i-j"), ("2*i", "3*i"), ("2*j", "2*j-2*i")),
    ),
    "duration": (("2*i", "c"), ("i", "2*c"), ("i", "2*i")),
}


# Where the start symbol can be, if it is a family's own cell.
STARTS = {
    "plain": ((),),
    "chain": (("0",), ("n",), ("1",)),
    "span": (("0", "n"),),
    "headed": (("0", "0", "n"),),
    "pair": (("0", "0"), ("n", "m"), ("0", "1")),
    "duration": (("0", "1"), ("n", "0")),
}


STEPS = ("2*i", "2*i+1", "3*i", "n-2*i", "2*i-1", "2*p", "n-i")


GUARDS = (
    *("i == 0", "i >= 1", "i + 1 < n", "2*i <= n", "n >= 2", "n == m", "n <= 3", "i < m"),
    *("k <= 2", "i >= k", "dmax >= 2", "i == dmax", "n - i <= 2", "n == 1", "3*i < 2*n + 1"),
)
