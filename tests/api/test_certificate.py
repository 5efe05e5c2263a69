"""Certificates: what the checker confirms, and what it refuses."""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import fgg
from fgg.api.certificate import certificate_of, check_certificate
from fgg.check import certificate as checker
from fgg.diagnostics import GrammarError
from tests.helpers.places import ROOT

MODULE = ROOT / "fgg" / "check" / "certificate.py"
CASES: list[tuple[str, dict[str, int], Any, str, str]] = [
    ("hmm", {"k": 2, "d": 2}, 3, "**", "yes"),
    ("hmm", {"k": 2, "d": 2}, 3, "12", "no"),
    ("cnf", {"k": 2, "d": 2}, 4, "***", "no"),
    ("pcfg_ie", {"k": 2, "d": 2}, 3, "***e1", "yes"),
    ("pcfg_ie", {"k": 3, "d": 2}, 4, "123e1", "no"),
    ("dep_ies", {"d": 3}, 3, "***", "yes"),
    ("dep_ies", {"d": 3}, [2, 3], "12", "yes"),
    ("dep_ies", {"d": 3}, 2, "12", "no"),
    ("hmm_rank", {"k": 3, "d": 4, "r": 2}, 3, "***", "no"),
    ("lexpcfg", {"nt": 1, "pt": 1, "words": 2}, 3, "all", "no"),
    ("pair_hmm", {"letters": 2}, 1, "12", "no"),
]


def certified(
    name: str, sizes: dict[str, int], length: Any, moments: str, **options: Any
) -> dict[str, Any]:
    known = {key: value for key, value in sizes.items() if key in fgg.load(name).size}
    result = fgg.identify(
        fgg.load(name, sizes=known), length=length, moments=moments, second=False, **options
    )
    data: dict[str, Any] = json.loads(json.dumps(certificate_of(result)))
    return data


def checked(data: Any, folder: Path) -> str:
    path = folder / "certificate.json"
    path.write_text(json.dumps(data), "utf-8")
    return check_certificate(path)


def refused(data: Any, folder: Path) -> str:
    with pytest.raises(GrammarError) as caught:
        checked(data, folder)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "F459"
    return diagnostic.message


@pytest.mark.parametrize(("name", "sizes", "length", "moments", "verdict"), CASES)
def test_the_checker_confirms_what_the_engine_says(
    name: str, sizes: dict[str, int], length: Any, moments: str, verdict: str, tmp_path: Path
) -> None:
    data = certified(name, sizes, length, moments)
    assert data["verdict"] == verdict
    assert len(data["proofs"]) == (1 if verdict == "yes" else 2)
    sentence = checked(data, tmp_path)
    assert (": identifiable: a minor" in sentence) == (verdict == "yes")
    assert f"size {data['rank']} " in sentence or f"rank {data['rank']} of" in sentence


def test_directions_and_positions_are_certified(tmp_path: Path) -> None:
    sizes = {"k": 2, "d": 2}
    data = certified("pcfg_ie", sizes, 3, "***e1", direction=[0.5, 0.25])
    assert "a proof" in checked(data, tmp_path)
    data = certified("pcfg_i", sizes, 3, "**", positions=[1, 3])
    assert "rank 3 of" in checked(data, tmp_path)


def test_the_checker_shares_no_code_with_the_engine() -> None:
    tree = ast.parse(MODULE.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [getattr(node, "module", None) or node.names[0].name for node in imports]
    assert names and all(name.split(".")[0] in sys.stdlib_module_names for name in names)


def test_the_checker_in_the_documentation_is_a_program_of_its_own(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "certificates.md").read_text("utf-8")
    text = page.split("```python\n")[1].removesuffix("```\n")
    assert text == MODULE.read_text("utf-8")
    (tmp_path / "check.py").write_text(text, "utf-8")
    data = certified("hmm", {"k": 2, "d": 2}, 3, "**")
    (tmp_path / "hmm.json").write_text(json.dumps(data), "utf-8")
    command = [sys.executable, "-I", "check.py", "hmm.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("identifiable: a minor of size 5 is not zero modulo")


def change(data: dict[str, Any], *path: Any) -> dict[str, Any]:
    """A copy with another value at a path: one more, or another name."""
    changed = copy.deepcopy(data)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    place[path[-1]] = old + 1 if isinstance(old, int) else old + "x"
    return changed


PLACES: list[tuple[Any, ...]] = [
    ("format",),
    ("text",),
    ("verdict",),
    ("rank",),
    ("parameters",),
    ("observed",),
    ("tables", 0, "given"),
    ("tables", 0, "name"),
    ("tables", 0, "kind"),
    ("tables", 1, "shape", 0),
    ("cases", 0, "lengths", "n"),
    ("cases", 0, "start"),
    ("cases", 0, "rules", 0, "nodes", 0),
    ("cases", 0, "rules", 1, "edges", 0, 0),
    ("cases", 0, "tokens", 0),
    ("cases", 0, "sets", 0, 1, 0),
    ("proofs", 0, "prime"),
    ("proofs", 0, "point", "emit", 0),
    ("proofs", 0, "point", "trans", 1),
    ("proofs", 0, "pivots", 0),
    ("proofs", 0, "functionals", 0, "case"),
]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_certificate_that_was_changed_is_refused(path: tuple[Any, ...], tmp_path: Path) -> None:
    data = certified("hmm", {"k": 2, "d": 2}, 3, "**")
    assert "a proof" in checked(data, tmp_path)
    refused(change(data, *path), tmp_path)


def test_a_point_without_the_rank_proves_nothing(tmp_path: Path) -> None:
    data = certified("hmm", {"k": 2, "d": 2}, 3, "**")
    emit = data["proofs"][0]["point"]["emit"]
    emit[2:] = emit[:2]  # states that emit alike
    assert "the minor is zero modulo" in refused(data, tmp_path)


def test_a_functional_twice_proves_nothing(tmp_path: Path) -> None:
    data = certified("hmm", {"k": 2, "d": 2}, 3, "**")
    functionals = data["proofs"][0]["functionals"]
    functionals[1] = functionals[0]
    assert "the minor is zero modulo" in refused(data, tmp_path)


def test_a_rank_that_is_too_small_is_refused(tmp_path: Path) -> None:
    data = certified("cnf", {"k": 2, "d": 2}, 4, "***")
    data["rank"] -= 1
    for proof in data["proofs"]:
        del proof["functionals"][-1], proof["pivots"][-1]
    message = refused(data, tmp_path)
    assert "is larger" in message or "the minor is zero" in message


def test_a_distribution_that_is_not_stationary_is_refused(tmp_path: Path) -> None:
    data = certified("dep_ies", {"d": 2}, 3, "**")
    root = data["proofs"][0]["point"]["root"]
    root[0], root[1] = root[0] + 1, root[1] - 1
    assert "`root` is not stationary" in refused(data, tmp_path)


def test_one_prime_does_not_suffice_for_a_no(tmp_path: Path) -> None:
    data = certified("hmm", {"k": 2, "d": 2}, 3, "12")
    data["proofs"][1] = data["proofs"][0]
    assert "a prime is missing" in refused(data, tmp_path)


@pytest.mark.parametrize("text", ["", "my notes", "[]", "{}", "null", "[[[", '{"format": 3}'])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text(text, "utf-8")
    with pytest.raises(GrammarError) as caught:
        check_certificate(path)
    assert caught.value.diagnostics[0].code == "F459"


def test_no_part_of_another_type_gives_a_traceback(tmp_path: Path) -> None:
    data = certified("hmm", {"k": 2, "d": 2}, 3, "12")
    for key in ("text", "tables", "rules", "cases", "proofs", "eta", "observed", "rank", "format"):
        others: list[Any] = [None, "x", [3], {"x": 1}, 10**400]
        for other in others:
            if other != data[key]:
                refused({**data, key: other}, tmp_path)
    for key in ("prime", "point", "functionals", "pivots"):
        broken: list[Any] = [None, -1, [None], 10**400]
        for other in broken:
            changed = copy.deepcopy(data)
            changed["proofs"][0][key] = other
            refused(changed, tmp_path)


def test_what_would_take_hours_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from fgg.api import certificate

    for name in ("MAX_PRODUCTS", "MAX_WORK"):
        with monkeypatch.context() as patched:
            patched.setattr(certificate, name, 20)
            with pytest.raises(GrammarError) as caught:
                certified("hmm", {"k": 2, "d": 2}, 4, "**", null=False)
            assert caught.value.diagnostics[0].code == "F458"


def test_moments_that_are_not_defined_have_no_certificate() -> None:
    with pytest.raises(GrammarError) as caught:
        certified("hmm", {"k": 2, "d": 2}, 2, "123")
    assert caught.value.diagnostics[0].code == "F458"


def test_the_jacobian_of_the_checker_is_that_of_differences(tmp_path: Path) -> None:
    """The checker's derivatives against values at neighbouring points, modulo the prime."""
    data = certified("pcfg_ie", {"k": 2, "d": 2}, 3, "**")
    own = checker.Certificate(data)
    proof = data["proofs"][0]
    p, functional = proof["prime"], proof["functionals"][0]
    weights = own.weights(proof["point"], p)
    row = own.row(functional, weights, p)

    def value(weights: dict[Any, int]) -> int:
        total = 0
        for _, kept, _ in data["cases"][0]["sets"]:
            for string in product(range(2), repeat=3):
                words = [
                    functional["words"][t][v] if t in kept else 1 for t, v in enumerate(string)
                ]
                leaves = {(t, (v,)): int(v == string[t]) for t in range(3) for v in range(2)}
                total += words[0] * words[1] * words[2] * evaluated(own.cells[0], weights | leaves)
        return int(total % p)

    def evaluated(cells: Any, known: dict[Any, int]) -> int:
        values = dict(known)
        for cell, products in cells.items():
            values[cell] = 0
            for some in products:
                term = 1
                for leaf in some:
                    term = term * values[leaf] % p
                values[cell] += term
        return int(values[data["cases"][0]["start"], ()] % p)

    # A polynomial of degree 10 at most in each coordinate: its slope at 0 by Lagrange.
    for number, (entry, last) in enumerate(own.coordinates):
        line = []
        for step in range(11):
            moved = {**weights, entry: weights[entry] + step, last: weights[last] - step}
            line.append(value(moved))
        assert slope_at_zero(line, p) == row[number]


def slope_at_zero(values: list[int], p: int) -> int:
    """The derivative at 0 of the polynomial with these values at 0, 1, 2, …"""
    total = 0
    for i, value in enumerate(values):
        others = [j for j in range(len(values)) if j != i]
        bottom = 1
        for j in others:
            bottom = bottom * (i - j) % p
        top = 0
        for left in others:
            term = 1
            for j in others:
                if j != left:
                    term = term * -j % p
            top += term
        total += value * top * pow(bottom, -1, p)
    return total % p
