"""Identification: the tables of Hsu, Kakade & Liang 2012, and grammars that they do not have."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

import fgg
from fgg.api.identify import model_of
from fgg.diagnostics import GrammarError
from tests.helpers.places import EXAMPLES, TESTS

CASES = TESTS / "cases" / "identifiability.csv"
GRAMMARS = {
    "PCFG": "cnf",
    "PCFG-I": "pcfg_i",
    "PCFG-IE": "pcfg_ie",
    "HMM": "hmm",
    "LCM": "lcm",
    "DEP-I": "dep_i",
    "DEP-IE": "dep_ie",
    "DEP-IES": "dep_ies",
}
Group = tuple[str, int, int, int]


def groups() -> dict[Group, list[dict[str, str]]]:
    """The reference entries by model, d, k and L: one computation has all their moments."""
    found: dict[Group, list[dict[str, str]]] = {}
    with CASES.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["model"], int(row["d"]), int(row["k"] or 0), int(row["L"]))
            found.setdefault(key, []).append(row)
    return found


def check(keys: list[Group]) -> int:
    """Compare all entries of some groups; how many there were."""
    known = groups()
    count = 0
    for model, d, k, length in keys:
        sizes = {"d": d} | ({"k": k} if k else {})
        rows = known[(model, d, k, length)]
        found = model_of(fgg.load(GRAMMARS[model]), None, sizes).identify(
            length, [row["moments"] for row in rows], second=False, null=False
        )
        for row in rows:
            own = found[row["moments"]]
            wanted = (int(row["parameters"]), row["rank"], row["verdict"])
            rank = "" if own.rank is None else str(own.rank)
            assert (own.parameters, rank, own.verdict) == wanted, row
            count += 1
    return count


MIXED = [key for key in groups() if key[1] <= 4 and key[2] <= 4 and key[3] <= 5][::2]


@pytest.mark.parametrize("model", GRAMMARS)
def test_reference_entries(model: str) -> None:
    keys = [key for key in MIXED if key[0] == model]
    assert check(keys) >= 8


def test_an_identification_is_short_in_a_session_and_complete_in_a_notebook() -> None:
    found = fgg.identify(fgg.load("hmm"), length=3)
    rank = f"rank {found.rank} of {found.parameters}"
    assert repr(found) == f"Identification('hmm', '**': {found.verdict}, {rank})"
    assert str(found).splitlines() == found.lines()
    assert found._repr_markdown_().startswith(f"**hmm: {found.meaning()}**")


def test_there_are_enough_entries_of_all_kinds() -> None:
    known = groups()
    entries = [row for key in MIXED for row in known[key]]
    assert len(entries) >= 100
    assert {row["verdict"] for row in entries} == {"yes", "no", "undefined"}
    assert {row["moments"] for row in entries} == {
        row["moments"] for rows in known.values() for row in rows
    }


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_all_reference_entries(part: int) -> None:
    assert check(list(groups())[part::8])


def verdict(name: str, length: int, moments: str, **sizes: int) -> str:
    grammar = fgg.load(name)
    found = fgg.identify(grammar, length=length, moments=moments, sizes=sizes, second=False)
    return found.verdict


def test_two_state_chains_are_reversible() -> None:
    assert verdict("dep_ies", 2, "12", d=2) == "yes"
    assert verdict("dep_ies", 2, "12", d=3) == "no"


def test_more_hidden_states_than_words_need_longer_strings() -> None:
    assert verdict("pcfg_ie", 4, "123e1", k=7, d=5) == "no"
    assert verdict("pcfg_ie", 5, "123e1", k=7, d=5) == "yes"
    assert verdict("pcfg_i", 4, "**", k=5, d=4) != verdict("pcfg_ie", 4, "**", k=5, d=4)


def test_whole_strings_cost_no_more_than_triples() -> None:
    found = fgg.identify(
        fgg.load("pcfg_i"), length=7, moments="all", sizes={"d": 2, "k": 8}, second=False
    )
    assert found.verdict == "yes" and found.moments == 2**7


@pytest.mark.parametrize("k", [2, 3])
def test_the_deficiency_of_a_pcfg_is_a_gauge(k: int) -> None:
    found = fgg.identify(fgg.load("cnf"), length=4, moments="***", sizes={"k": k, "d": k})
    assert found.verdict == "no" and found.deficiency == k * (k - 1)
    assert found.deficiency_of_all == found.deficiency
    assert [(g.domain, g.dimension) for g in found.gauges] == [("N", k * (k - 1))]
    assert "a gauge" in "\n".join(found.lines())
    assert len(found.directions) == found.deficiency


def test_what_longer_moments_would_cure_is_no_gauge() -> None:
    found = fgg.identify(fgg.load("hmm"), length=4, moments="12", sizes={"k": 2, "d": 3})
    assert found.verdict == "no" and found.gauges == () and found.deficiency_of_all == 0


def test_null_directions_move_no_moment() -> None:
    sizes = {"k": 2, "d": 3}
    found = fgg.identify(fgg.load("hmm"), length=3, moments="12", sizes=sizes)
    assert found.undetermined == ("init", "trans", "emit")
    from fgg.runtime.identify.fields import RealField
    from fgg.runtime.identify.observations import KeptTokens
    from fgg.runtime.identify.prepared_case import Case

    model = model_of(fgg.load("hmm"), None, sizes)
    case = Case("hmm", model.grammar, model.plan, model.parameters, {"n": 3})
    place = case.parameters.point(RealField(), np.random.default_rng([0, 2]))
    program = fgg.compile(fgg.load("hmm", sizes=sizes))

    def moments(step: float, direction: Any) -> Any:
        weights = {
            name: array.numpy() + step * direction.moves.get(name, np.zeros(()))
            for name, array in place.arrays.items()
        }
        return program.posterior(weights, {}, {"n": [3]}).moments({"w": [0, 1]})

    for direction in found.directions:
        assert set(direction.moves) <= set(found.undetermined)
        for array in direction.moves.values():
            assert np.allclose(array.sum(axis=-1), 0.0)
        step = 1e-5
        moved = (moments(step, direction) - moments(-step, direction)) / (2 * step)
        assert float(abs(moved).max()) < 1e-8
    assert case.every(place, [KeptTokens((0, 1))]).shape == (9, 7)


def test_determined_factors_are_not_named() -> None:
    text = """
    domain W = 2
    factor a(-> W)
    factor b(-> W)
    factor c(-> W)
    nonterminal S()
    start S
    rule one: S -> a(x) c(y)
    rule two: S -> b(x) c(y)
    query string(w: W[n]) {
      rule one: S -> x = w[0] y = w[1]
      rule two: S -> x = w[0] y = w[1]
    }
    """
    found = fgg.identify(fgg.loads(text), length=2, moments="all")
    assert found.verdict == "no" and found.deficiency == 1
    assert found.undetermined == ("a", "b")


@pytest.mark.parametrize(
    ("file", "length", "moments", "sizes"),
    [
        ("hsmm", 5, "***", {"k": 2, "d": 3, "dmax": 2}),
        ("hsmm", 4, "**", {"k": 2, "d": 2, "dmax": 3}),
        ("lexpcfg", 3, "**", {"nt": 1, "pt": 2, "words": 2}),
        ("lexpcfg", 4, "***", {"nt": 2, "pt": 1, "words": 2}),
        ("rna", 6, "**", {}),
        ("rna", 4, "***", {}),
        ("two_track.fgg", 3, "***", {"k": 2, "l": 2, "d": 3, "e": 3}),
        ("two_track.fgg", 2, "**", {"k": 2, "l": 2, "d": 2, "e": 2}),
        ("pcfg_dense", 4, "***", {"nt": 1, "pt": 2, "words": 3}),
        ("hmm_rank", 4, "***", {"k": 3, "d": 4, "r": 2}),
        ("pcfg", 4, "***", {"nt": 2, "pt": 2, "words": 3, "r": 2}),
    ],
)
def test_two_rank_tests_agree_on_other_grammars(
    file: str, length: int, moments: str, sizes: dict[str, int]
) -> None:
    grammar = fgg.load(EXAMPLES / file if file.endswith(".fgg") else file)
    found = fgg.identify(grammar, length=length, moments=moments, sizes=sizes)
    assert found.second is not None
    if found.second.verdict != "uncertain":
        assert found.agree and found.second.verdict == found.verdict
    else:
        assert found.agree is None
    assert len(found.second.singular_values) == found.parameters
    assert len(found.directions) == found.deficiency


def test_random_functionals_have_the_rank_of_all_moments() -> None:
    from fgg.runtime.identify import float_check as second

    model = model_of(fgg.load("pcfg_ie"), None, {"k": 2, "d": 3})
    ranks = set()
    limit = second.MAX_ROWS
    try:
        for second.MAX_ROWS in (limit, 1):
            found = model.identify(4, ["***e1"])["***e1"].second
            assert found is not None and found.sampled == (second.MAX_ROWS == 1)
            ranks.add(found.rank)
    finally:
        second.MAX_ROWS = limit
    assert ranks == {model.parameters.count}


def test_any_positions_and_any_direction() -> None:
    grammar = fgg.load("pcfg_ie", sizes={"k": 2, "d": 2})
    pair = fgg.identify(grammar, length=3, positions=[1, 3])
    # Mirror images are as likely, so that the matrix of these two words is symmetric.
    assert pair.observed == "1,3" and pair.moments == 4 and pair.rank == 2
    swapped = fgg.identify(grammar, length=3, positions=[3, 1])
    assert swapped.rank == pair.rank
    # [ID] prints slices alone, which are too few; with the pairs they suffice.
    slices = fgg.identify(grammar, length=3, moments="123e1:literal")
    assert slices.verdict == "no" and slices.moments == 4
    for direction in (1, 2, [1, 3], [0.25, 0.75]):
        assert fgg.identify(grammar, length=3, moments="***e1", direction=direction).rank == 5
    # A direction of ones only sums a word out: nothing that the pairs do not have.
    flat = fgg.identify(grammar, length=3, moments="***e1", direction=[1, 1])
    assert flat.rank == fgg.identify(grammar, length=3, moments="**").rank


def test_positions_of_two_inputs() -> None:
    grammar = fgg.load(EXAMPLES / "two_track.fgg", sizes={"k": 2, "l": 2, "d": 3, "e": 2})
    found = fgg.identify(grammar, length=2, positions=[("x", 1), ("y", 2)])
    assert found.moments == 6 and found.observed == "x:1,y:2"
    assert fgg.identify(grammar, length=2, moments="12").moments == 6  # x[0], y[0]


def test_values_and_frozen_factors_are_no_parameters() -> None:
    text = """
    domain T = 2  domain W = 3
    factor init(-> T){init}
    factor emit(T -> W)
    nonterminal S()
    start S
    rule word: S -> init(t) emit(t, o)
    query string(w: W[n]) {{ rule word: S -> o = w[0] }}
    """
    for init, count in (("", 5), (" = [1/3, 2/3]", 4), (" with frozen = yes", 4)):
        found = fgg.identify(fgg.loads(text.format(init=init)), length=1, moments="all")
        assert found.parameters == count and found.rank == 2


def test_the_seed_chooses_the_prime_and_the_answer_stays() -> None:
    grammar = fgg.load("hmm", sizes={"k": 2, "d": 3})
    one, two = (fgg.identify(grammar, length=3, seed=seed) for seed in (0, 1))
    assert one.prime != two.prime and one.rank == two.rank == one.parameters
    again = fgg.identify(grammar, length=3, seed=0)
    assert again.as_json() == one.as_json()


def test_a_no_has_an_error_probability_and_a_yes_has_none() -> None:
    grammar = fgg.load("hmm", sizes={"k": 2, "d": 3})
    assert fgg.identify(grammar, length=3, moments="**").error == 0.0
    assert 0.0 < fgg.identify(grammar, length=3, moments="12").error < 1e-6


def code(**options: Any) -> str:
    grammar = options.pop("grammar", fgg.load("hmm", sizes={"k": 2, "d": 2}))
    with pytest.raises(GrammarError) as caught:
        fgg.identify(grammar, **{"length": 3, **options})
    return caught.value.diagnostics[0].code


def test_what_cannot_be_asked_is_refused_before_work_begins() -> None:
    assert code(moments="13") == "F452"
    assert code(moments="**:literal") == "F452"
    assert code(positions=[1, 4]) == "F456"
    assert code(positions=[1, 1]) == "F456"
    assert code(positions=[]) == "F456"
    assert code(positions=[("v", 1)]) == "F456"
    assert code(direction=[1, 2, 3]) == "F456"
    assert code(direction=[0, 0]) == "F456"
    assert code(direction=3) == "F456"
    assert code(length=0) == "F411"
    assert code(length={"m": 3}) == "F411"
    assert code(length=10**9) == "F411"
    assert code(sizes={"q": 3}) == "F410"
    assert code(query="tree") == "F409"
    assert code(grammar=fgg.load("crf")) == "F453"
    assert code(grammar=fgg.load("pcfg_la"), query="tree") == "F453"
    assert code(grammar=fgg.load("hmm"), sizes={"k": 3000, "d": 3000}) == "F420"
    assert code(grammar=fgg.load("pcfg_dense"), sizes={"nt": 2}, length=1, moments="all") == "F455"


def test_strings_too_short_are_undefined() -> None:
    grammar = fgg.load("cnf", sizes={"k": 2, "d": 2})
    found = fgg.identify(grammar, length=2, moments="123")
    assert (found.verdict, found.rank, found.deficiency) == ("undefined", None, None)
    assert found.parameters == 9


def test_directions_are_finite_numbers() -> None:
    grammar = fgg.load("hmm", sizes={"k": 2, "d": 2})
    for wrong in (float("inf"), float("nan"), 10**400):
        with pytest.raises(GrammarError) as caught:
            fgg.identify(grammar, length=3, moments="123e1", direction=[wrong, 1])
        assert caught.value.diagnostics[0].code == "F456"


def test_the_check_of_reading_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from fgg.runtime.identify import float_check as second
    from fgg.runtime.identify import prepared_case as case

    grammar = fgg.load("pcfg_ie", sizes={"k": 2, "d": 2})
    whole = fgg.identify(grammar, length=6)
    monkeypatch.setattr(case, "ENTRIES", 1000)
    monkeypatch.setattr(second, "MAX_WORK", 1000)
    parts = fgg.identify(grammar, length=6)
    assert (whole.rank, whole.verdict) == (parts.rank, parts.verdict) == (5, "yes")
    assert whole.second is not None and not whole.second.sampled
    assert parts.second is not None and parts.second.sampled and parts.second.rank == 5


@pytest.mark.parametrize(
    ("sizes", "length", "moments"),
    [({"k": 10, "d": 1000}, 900, "12"), ({"k": 2, "d": 2}, 1000, "12")],
)
def test_soft_words_and_index_arrays_count_as_memory(
    sizes: dict[str, int], length: int, moments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fgg.runtime import memory

    name = "hmm" if sizes["k"] == 10 else "pcfg_ie"
    # More than the Jacobian of the one and than a chart of the other.
    monkeypatch.setattr(memory, "available_bytes", lambda device: 6 * 10**9)
    with pytest.raises(GrammarError) as caught:
        fgg.identify(fgg.load(name, sizes=sizes), length=length, moments=moments)
    assert caught.value.diagnostics[0].code == "F420"


def test_a_no_rests_on_two_primes() -> None:
    grammar = fgg.load("cnf", sizes={"k": 2, "d": 2})
    no = fgg.identify(grammar, length=4, moments="***", second=False)
    assert len(set(no.primes)) == 2 and 0.0 < no.error < 1e-12
    assert all(str(prime) in "\n".join(no.lines()) for prime in no.primes)
    yes = fgg.identify(fgg.load("hmm", sizes={"k": 2, "d": 2}), length=3, second=False)
    assert len(yes.primes) == 1 and yes.error == 0.0


def test_the_better_of_two_points_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from fgg.runtime.identify.fields import PrimeField
    from fgg.runtime.identify.parameters import ParameterPoint, Parameters

    drawn = []
    original = Parameters.point

    def first_is_bad(self: Parameters, field: Any, rng: Any) -> ParameterPoint:
        place = original(self, field, rng)
        if isinstance(field, PrimeField):
            drawn.append(place)
            if len(drawn) == 1:  # all states emit alike: a point of no generic rank
                emit = place.arrays["emit"]
                emit[:] = emit[:1].clone()
        return place

    monkeypatch.setattr(Parameters, "point", first_is_bad)
    result = fgg.identify(fgg.load("hmm", sizes={"k": 2, "d": 2}), length=3, second=False)
    assert len(drawn) == 2 and result.verdict == "yes" and result.error == 0.0


def test_the_sum_of_coefficients_of_an_hmm_is_counted_by_hand() -> None:
    from fgg.runtime.identify.prepared_case import Case

    model = model_of(fgg.load("hmm"), None, {"k": 2, "d": 3})
    for length in (1, 3, 200):
        case = Case("hmm", model.grammar, model.plan, model.parameters, {"n": length})
        # Entries count 1, the last of a row as many as the row has; words are summed out.
        hidden, words = np.log2(1 + 2), np.log2(1 + 1 + 3)
        assert case.bits == pytest.approx(length * (hidden + words))


@pytest.mark.parametrize(
    ("name", "sizes", "length", "moments", "kept"),
    [
        ("hmm", {"k": 2, "d": 3}, 3, "12", [0, 1]),
        ("cnf", {"k": 2, "d": 2}, 3, "all", [0, 1, 2]),
        ("dep_ies", {"d": 3}, 2, "12", [0, 1]),
    ],
)
def test_moves_lead_far_and_change_no_moment(
    name: str, sizes: dict[str, int], length: int, moments: str, kept: list[int]
) -> None:
    result = fgg.identify(fgg.load(name), length=length, moments=moments, sizes=sizes)
    assert len(result.moves) == min(len(result.directions), 3)
    program = fgg.compile(fgg.load(name, sizes=sizes))

    def seen(tables: Any) -> Any:
        # Another engine: the posterior of the compiled program, which completes tied factors.
        weights = {**{n: np.asarray(t) for n, t in result.point.items()}, **tables}
        if name == "dep_ies":
            values, vectors = np.linalg.eig(weights["arc"].T)
            root = np.real(vectors[:, np.argmin(abs(values - 1))])
            weights["root"] = root / root.sum()
        return program.posterior(weights, {}, {"n": [length]}).moments({"w": kept})

    for move in result.moves:
        assert move is not None and 0.02 < move.distance < 0.5 and move.difference < 1e-12
        before, after = seen(move.before), seen(move.after)
        assert float(abs(after - before).max()) < 1e-12
        for table in move.after.values():
            assert (table > 0).all()
        changed = max(float(abs(move.after[n] - move.before[n]).max()) for n in move.after)
        assert changed == pytest.approx(move.distance)
    text = "\n".join(result.lines())
    assert text.count("followed until an entry has changed") == len(result.moves)
