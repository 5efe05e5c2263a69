"""The library as a whole: its names, what grammars say of themselves, structures and parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fgg.compiler.resolve.load import load_file
from fgg.grammar.domains import domain_size
from fgg.grammar.semantics import brute_force
from fgg.library import library_names, library_text, library_title
from fgg.rewrite.ground import ground
from tests.helpers.library import CATALAN, LATENT, TREES, Sizes, ask, count, library, parameters
from tests.oracles import library_models as direct

NAMES = (
    *("branching", "cnf", "crf", "ctc", "dep_i", "dep_ie", "dep_ies", "dmv", "dyck", "eisner"),
    *("hmm", "hmm_blocks", "hmm_rank", "hsmm", "lcm", "lexpcfg", "lexpcfg_rank", "lhmm", "lpcfg"),
    *("morphology", "pair_hmm", "pcfg", "pcfg_dense", "pcfg_i", "pcfg_ie", "pcfg_la", "qcfg"),
    *("rna", "semicrf", "tagger"),
)


def test_the_library_is_complete() -> None:
    assert library_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_there_is_nothing_to_say_about_a_library_grammar(name: str) -> None:
    assert load_file(name).diagnostics == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_library_grammar_says_what_it_models_and_whence(name: str) -> None:
    text, title = library_text(name), library_title(name)
    assert text.startswith(f"# {name}.fgg: {title}\n#\n")
    assert any(character.isdigit() for character in title), "no year"
    comment = text.split("\n\n")[0]
    grammar = library(name, {})
    for declared in (*grammar.size, *grammar.query):
        assert f" {declared} " in comment.replace(",", " "), f"`{declared}` is not explained"


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_normalised_except_in_random_fields(name: str) -> None:
    free = [f.name for f in library(name, {}).factors if f.value is None and f.given is None]
    assert free == (["trans"] if name in ("crf", "semicrf") else [])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, [0, 1, 1, 1, 1]) for name in ("hmm", "hmm_blocks", "lhmm")),
        *((name, [1, 1, 1, 1, 1]) for name in ("hmm_rank", "lcm")),
        ("hsmm", [0, 1, 2, 4, 8]),
        *((name, CATALAN) for name in ("cnf", "pcfg_i", "pcfg_ie")),
        *((name, CATALAN) for name in ("pcfg", "pcfg_dense", "lpcfg", "pcfg_la", "qcfg")),
        ("lexpcfg", [0, 1, 1 * 2, 2 * 4, 5 * 8]),
        *((name, TREES) for name in ("dep_i", "dep_ie", "dep_ies", "dmv")),
        ("rna", [0, *(len(direct.rna_structures(0, n)) for n in range(1, 8))]),
        ("dyck", [1, 0, 1, 0, 2, 0, 5]),
    ],
)
def test_derivations_of_strings_are_the_structures(name: str, expected: list[int]) -> None:
    assert [count(name, "string", n=n) for n in range(len(expected))] == expected


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("cnf", lambda k, d: (k - 1) + k * (k * k - 1) + k * (d - 1)),
        ("pcfg_i", lambda k, d: (k - 1) + 2 * k * (k - 1) + k * (d - 1)),
        ("pcfg_ie", lambda k, d: (k - 1) + k * (k - 1) + k * (d - 1)),
        ("hmm", lambda k, d: (k - 1) + k * (k - 1) + k * (d - 1)),
        ("lcm", lambda k, d: (k - 1) + k * (d - 1)),
        ("dep_i", lambda k, d: (d - 1) * (2 * d + 1)),
        ("dep_ie", lambda k, d: d * d - 1),
        ("dep_ies", lambda k, d: d * (d - 1)),
    ],
)
def test_models_of_hsu_kakade_and_liang_have_their_number_of_parameters(
    name: str, number: Callable[[int, int], int]
) -> None:
    sizes = {"d": 5} if name.startswith("dep") else {"k": 3, "d": 5}
    found = 0
    for factor in library(name, sizes).factors:
        array = parameters(name, sizes)[factor.name]
        if factor.definition is None:
            found += array.size - int(np.prod(array.shape[: factor.given]))
    assert found == number(3, 5)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, {"k": 2, "d": 2}) for name in ("hmm", "hmm_rank", "lhmm", "hsmm", "lcm", "cnf")),
        *((name, {"k": 2, "d": 2}) for name in ("pcfg_i", "pcfg_ie")),
        *((name, {"nt": 1, "pt": 2, "words": 2}) for name in ("pcfg", "pcfg_dense", "lexpcfg")),
        *(("lpcfg", {"nt": 1, "pt": 2, "words": 2, "r": 2}), ("pcfg_la", LATENT)),
        ("qcfg", {"nt": 1, "pt": 2, "labels": 1, "words": 2}),
        *((name, {"d": 2}) for name in ("dep_i", "dep_ie", "dep_ies")),
        *(("dmv", {"tags": 2}), ("rna", {})),
    ],
)
def test_every_derivation_observes_every_word_once(name: str, sizes: Sizes) -> None:
    weights = parameters(name, sizes)
    kept = ground(library(name, sizes), query="string", lengths={"n": 3})
    doubled = {
        f"w_{i}": [2.0] * domain_size(kept, kept.factor[f"w_{i}"].domains[0]) for i in range(3)
    }
    missing = ask(name, "string", weights, sizes, w=[-1] * 3)
    assert missing > 0
    assert brute_force(kept, {**weights, **doubled}) == pytest.approx(2**3 * missing)
