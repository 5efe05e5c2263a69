"""Check a certificate of `fggc identify`, in plain Python that shares no code with the engine.

A certificate has a ground grammar, weights modulo a prime, and functionals of moments. Here all
products of the rules are written out, each functional is evaluated as it is defined, one set of
tokens after another, and differentiated product by product. If a minor of the Jacobian is not zero
modulo the prime, the rank is at least the size of the minor: a proof. That the rank is no larger is
tested with functionals that are drawn here. Usage: `python certificate.py FILE`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import prod
from operator import index
from random import randrange
from typing import Any

FORMAT = "fgg identifiability certificate 1"
Json = dict[str, Any]
Leaf = tuple[Any, tuple[int, ...]]
"""A cell of a nonterminal, an entry of a table, or a value of a token: its name and index."""
Cells = dict[Leaf, list[list[Leaf]]]
"""The products that each cell is the sum of; a cell comes after those that it is made of."""


class Wrong(ValueError):
    """A certificate does not prove what it claims."""


def need(condition: bool, message: str) -> None:
    """Raise Wrong unless a condition holds."""
    if not condition:
        raise Wrong(message)


def cells_of(rules: list[Json], roots: list[Leaf]) -> Cells:
    """Every product of a ground grammar, by brute force over the values of all nodes."""
    heads: set[str] = {rule["head"] for rule in rules}
    products: Cells = defaultdict(list)
    for rule in rules:
        for values in product(*map(range, rule["nodes"])):
            cell = (rule["head"], tuple(values[i] for i in rule["externals"]))
            edges = [(name, tuple(values[i] for i in at)) for name, at in rule["edges"]]
            products[cell].append(edges)
    cells: Cells = {}
    begun: set[Leaf] = set()

    def visit(cell: Leaf) -> None:
        need(cell in cells or cell not in begun, f"`{cell[0]}` leads to itself")
        if cell not in cells:
            begun.add(cell)
            for leaf in dict.fromkeys(leaf for leaves in products[cell] for leaf in leaves):
                if leaf[0] in heads:
                    visit(leaf)
            cells[cell] = products[cell]

    for root in roots:
        need(root[0] in heads, f"`{root[0]}` has no rule")
        visit(root)
    return cells


def slopes_of(cells: Cells, weights: dict[Leaf, int], root: Leaf, p: int) -> dict[Leaf, int]:
    """The derivatives modulo p of a cell by everything that it is made of, and its value."""
    values = dict(weights)
    for cell, products in cells.items():
        values[cell] = sum(prod(values[leaf] for leaf in leaves) for leaves in products) % p
    slopes: dict[Leaf, int] = defaultdict(int, {root: 1})
    for cell in reversed(cells):
        if slope := slopes[cell] % p:
            for leaves in cells[cell]:
                for i, leaf in enumerate(leaves):
                    others = prod(values[x] for j, x in enumerate(leaves) if j != i)
                    slopes[leaf] += slope * others % p
    return slopes


def reduced(rows: list[list[int]], p: int) -> dict[int, list[int]]:
    """The rows of a matrix modulo p after elimination, by the columns of their pivots."""
    result: dict[int, list[int]] = {}
    for row in rows:
        for column, other in result.items():
            if factor := row[column]:
                row = [(x - factor * y) % p for x, y in zip(row, other, strict=True)]
        pivot = next((i for i, x in enumerate(row) if x % p), None)
        if pivot is not None:
            unit = pow(row[pivot], -1, p)
            result[pivot] = [x * unit % p for x in row]
    return result


def residue(number: int | str, p: int) -> int:
    """A whole number or a fraction, `"1/3"`, modulo p."""
    fraction = Fraction(number)
    return fraction.numerator * pow(fraction.denominator, -1, p) % p


def leaves_of(table: Json) -> list[Leaf]:
    """All entries of a table, in order."""
    return [(table["name"], index) for index in product(*map(range, table["shape"]))]


def distributions(table: Json) -> list[list[Leaf]]:
    """The entries that sum to one, a list for each distribution; those fixed at zero left out."""
    groups: dict[tuple[int, ...], list[Leaf]] = {}
    for leaf in leaves_of(table):
        if list(leaf[1]) not in table.get("zeros", []):
            groups.setdefault(leaf[1][: table["given"]], []).append(leaf)
    return list(groups.values())


class Certificate:
    """A certificate with all products of its grammars written out."""

    def __init__(self, data: Json) -> None:
        self.tables, self.cases, rules = data["tables"], data["cases"], data["rules"]
        self.tied = [table for table in self.tables if table["kind"] == "stationary"]
        free = [table for table in self.tables if table["kind"] == "free"]
        need(len({t["name"] for t in self.tables}) == len(self.tables), "a table is given twice")
        # A coordinate is an entry that grows while the last one of its distribution shrinks.
        rows = [row for table in free + self.tied for row in distributions(table)]
        self.coordinates = [(x, row[-1]) for row in rows for x in row[:-1]]
        self.count = sum(len(row) - 1 for table in free for row in distributions(table))
        self.images = [
            cells_of(rules, [(t["image"], x) for _, x in leaves_of(t)]) for t in self.tied
        ]
        self.cells = [cells_of(rules + c["rules"], [(c["start"], ())]) for c in self.cases]

    def weights(self, point: Json, p: int) -> dict[Leaf, int]:
        """The entries of all tables modulo p, checked."""
        weights: dict[Leaf, int] = {}
        for table in self.tables:
            fixed = table["kind"] == "fixed"
            residues = [residue(x, p) for x in table["values"]] if fixed else point[table["name"]]
            own = {x: index(n) % p for x, n in zip(leaves_of(table), residues, strict=True)}
            weights |= own
            if not fixed:
                rows = distributions(table)
                good = all(sum(own[x] for x in row) % p == 1 for row in rows)
                need(good, f"a distribution of `{table['name']}` does not sum to one")
                rest = own.keys() - {x for row in rows for x in row}
                need(not any(own[x] for x in rest), f"a zero of `{table['name']}` is not zero")
        for table, cells in zip(self.tied, self.images, strict=True):
            for leaf in leaves_of(table):
                products = cells[table["image"], leaf[1]]
                value = sum(prod(weights[x] for x in leaves) for leaves in products) % p
                need(value == weights[leaf], f"`{table['name']}` is not stationary")
        return weights

    def row(self, functional: Json, weights: dict[Leaf, int], p: int) -> list[int]:
        """The derivatives of a functional of moments, one set of tokens after another."""
        number = functional["case"]
        case, total = self.cases[number], [0] * len(self.coordinates)
        for group, kept, along in case["sets"]:
            words = [[1] * size for size in case["tokens"]]
            for token in kept:
                words[token] = [index(x) for x in functional["words"][token]]
            for token in along:
                scale = functional["along"][token]
                words[token] = [scale * residue(x, p) for x in case["direction"][token]]
            read = {(t, (v,)): x % p for t, word in enumerate(words) for v, x in enumerate(word)}
            slopes = slopes_of(self.cells[number], weights | read, (case["start"], ()), p)
            for i, (entry, last) in enumerate(self.coordinates):
                total[i] += functional["weights"][group] * (slopes[entry] - slopes[last])
        return [x % p for x in total]

    def tied_rows(self, weights: dict[Leaf, int], p: int) -> list[list[int]]:
        """The derivatives of what is zero: a stationary distribution's image minus itself."""
        rows = []
        for table, cells in zip(self.tied, self.images, strict=True):
            for leaf in distributions(table)[0][:-1]:
                slopes = slopes_of(cells, weights, (table["image"], leaf[1]), p)
                slopes[leaf] -= 1
                rows.append([(slopes[x] - slopes[last]) % p for x, last in self.coordinates])
        return rows

    def check(self, proof: Json, rank: int) -> None:
        """Check a minor that proves a rank and, if that is not full, that it is no larger."""
        p, pivots, functionals = proof["prime"], proof["pivots"], proof["functionals"]
        need(2**30 < p < 2**31 and all(p % i for i in range(2, 46341)), f"{p} is no large prime")
        need(all(0 <= i < self.count for i in pivots), "a pivot is no coordinate")
        need(len(set(pivots)) == len(functionals) == rank, "the minor has not the size of the rank")
        weights = self.weights(proof["point"], p)
        rows = [self.row(x, weights, p) for x in functionals] + self.tied_rows(weights, p)
        columns = [*pivots, *range(self.count, len(self.coordinates))]
        minor = [[row[i] for i in columns] for row in rows]
        need(len(reduced(minor, p)) == len(columns), f"the minor is zero modulo {p}")
        if rank < self.count:
            rows += [
                self.row(x, weights, p) for i in range(len(self.cases)) for x in self.drawn(i, p)
            ]
            need(len(reduced(rows, p)) == len(columns), f"the rank modulo {p} is larger")

    def drawn(self, number: int, p: int) -> list[Json]:
        """Three functionals of a case, drawn at random."""
        case, functionals = self.cases[number], []
        groups = 1 + max(group for group, _, _ in case["sets"])
        for _ in range(3):
            words = [[randrange(p) for _ in range(size)] for size in case["tokens"]]
            along, weights = ([randrange(1, p) for _ in some] for some in (words, range(groups)))
            functionals.append({"case": number, "words": words, "along": along, "weights": weights})
        return functionals


def check(data: Json) -> str:
    """Check a certificate; return what it proves. Raises Wrong, or what a malformed file raises."""
    need(data["format"] == FORMAT, "this is no certificate of this version")
    certificate, rank, proofs = Certificate(data), data["rank"], data["proofs"]
    count = certificate.count
    need(count == data["parameters"], f"the tables have {count} parameters")
    need(data["verdict"] == ("yes" if rank == count else "no"), "verdict and rank disagree")
    need(
        len({proof["prime"] for proof in proofs}) >= (1 if rank == count else 2),
        "a prime is missing",
    )
    for proof in proofs:
        certificate.check(proof, rank)
    primes = " and ".join(str(proof["prime"]) for proof in proofs)
    if rank == count:
        return f"identifiable: a minor of size {rank} is not zero modulo {primes}, a proof"
    size = f"rank {rank} of {count} at the points modulo {primes}"
    return f"not identifiable: {size}; functionals drawn by the checker add nothing to it"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(check(json.load(file)))
