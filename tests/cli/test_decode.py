"""`fggc decode`, `fggc sample`, and `fggc run` on compiled programs."""

from __future__ import annotations

import json
import re
from math import isclose
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import run

Capture = pytest.CaptureFixture[str]
HMM = ("hmm", "--set", "k=2", "d=3", "--seed", "0")


def report(capsys: Capture, *arguments: str) -> Any:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_run_is_the_same_on_both_engines(capsys: Capture) -> None:
    item = ("--query", "string", "--input", "w=0,2,-1,1")
    quick = report(capsys, "run", *HMM, *item, "--decode", "viterbi")
    ground = report(capsys, "run", *HMM, *item, "--decode", "viterbi", "--ground")
    assert quick["method"][0]["method"] == "compiled program"
    assert ground["method"][0]["method"] != "compiled program"
    assert isclose(quick["log_z"], ground["log_z"], rel_tol=1e-12)
    best, other = quick["viterbi"], ground["viterbi"]
    assert isclose(best["log_weight"], other["log_weight"], rel_tol=1e-12)
    for step, twin in zip(best["steps"], other["steps"], strict=True):
        assert step["source"] == twin["source"]
        assert (step["indices"], step["values"]) == (twin["indices"], twin["values"])


@pytest.mark.parametrize("semiring", ["max", "counting", "boolean", "gf"])
def test_run_in_other_semirings(capsys: Capture, semiring: str) -> None:
    item = (*HMM, "--input", "w=0,2,1", "--semiring", semiring)
    quick = report(capsys, "run", *item)
    ground = report(capsys, "run", *item, "--ground")
    if semiring == "max":
        assert isclose(quick["value"], ground["value"], rel_tol=1e-12)
    else:
        assert quick["value"] == ground["value"]


def test_a_long_item_needs_no_grounding(capsys: Capture) -> None:
    words = ",".join(str(i % 3) for i in range(1500))
    found = report(capsys, "run", *HMM, "--input", f"w={words}")
    assert -3000 < found["log_z"] < -500


def test_decode_a_file(tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "data.txt"
    data.write_text("0 2 1\n1 1\n\n")
    code, out, err = run(capsys, "decode", *HMM, "--data", str(data))
    assert (code, err) == (0, "")
    lines = [line.split("\t")[1].split() for line in out.splitlines()]
    assert [len(states) for states in lines] == [3, 2]
    assert {state for states in lines for state in states} <= {"0", "1"}
    listed = report(capsys, "decode", *HMM, "--data", str(data), "--kbest", "3")
    weights = [[d["log_weight"] for d in item] for item in listed["items"]]
    assert [len(item) for item in weights] == [3, 3]
    assert all(item == sorted(item, reverse=True) for item in weights)


TAGGER = """
domain T = {D, N}
domain W = {"<unk>", the, dog}
factor init(-> T) = {D: 0.9, N: 0.1}
factor trans(T -> T) = {D: {D: 0.1, N: 0.9}, N: {D: 0.5, N: 0.5}}
factor emit(T -> W) = {D: {"<unk>": 0.1, the: 0.8, dog: 0.1}, N: {"<unk>": 0.5, the: 0.1, dog: 0.4}}
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> init(t) X(t)
rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
rule last:  X(t) -> emit(t, o)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule step:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> o = w[n-1]
}
"""


@pytest.mark.parametrize("command", [["decode"], ["decode", "--method", "mbr"], ["sample"]])
def test_json_has_answers_and_words_as_they_were_written(
    tmp_path: Path, capsys: Capture, command: list[str]
) -> None:
    path = tmp_path / "tagger.fgg"
    path.write_text(TAGGER, encoding="utf-8")
    found = report(capsys, command[0], str(path), *command[1:], "--input", "w=the zebra")
    ((derivation,),) = found["items"]
    assert derivation["inputs"] == {"w": ["the", "zebra"]}
    assert derivation["written"].split() == derivation["cell_values"]
    assert set(derivation["cell_values"]) <= {"D", "N"} and len(derivation["cell_values"]) == 2


def test_two_inputs_are_columns(tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("0 1 2\t1 2\n0\t0\n")
    found = report(capsys, "decode", "pair_hmm", "--seed", "1", "--data", str(data))
    assert len(found["items"]) == 2


@pytest.mark.parametrize("method", ["viterbi", "mbr"])
def test_decode_trees(tmp_path: Path, capsys: Capture, method: str) -> None:
    picture = tmp_path / "tree.svg"
    code, out, err = run(
        capsys, "decode", "pcfg_dense", "--set", "nt=2", "pt=2", "words=5", "--seed", "0",
        "--input", "w=0,1,2,3", "--method", method, "-o", str(picture), "--form", "brackets",
    )  # fmt: skip
    assert (code, err) == (0, f"wrote {picture}\n")
    assert out.split("\t")[1].startswith("(root (binary ")
    assert out.count("(word)") == 4
    assert picture.read_text().startswith("<svg")


def test_sampling_is_repeatable_and_has_the_right_form(capsys: Capture) -> None:
    item = ("sample", *HMM, "--input", "w=0,2,1", "--number", "20")
    one, two = report(capsys, *item), report(capsys, *item)
    assert one == two
    (draws,) = one["items"]
    assert len(draws) == 20
    observed = [s["values"]["o"] for s in draws[0]["steps"] if "o" in s["values"]]
    assert observed == ["0", "2", "1"]


def test_generation_needs_no_query(capsys: Capture) -> None:
    found = report(capsys, "sample", "dyck", "--seed", "0", "--number", "5")
    ends = [item["steps"][-1]["source"] for item in found["items"][0]]
    assert ends == ["stop"] * 5


def test_a_length_alone_sums_words_out(capsys: Capture) -> None:
    found = report(capsys, "sample", *HMM, "--length", "n=4")
    assert len(found["items"][0][0]["steps"]) == 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["decode", *HMM, "--data", "/no/such/file"], 2, "F401"),
        (["decode", *HMM, "--data", "DATA", "--input", "w=0"], 2, "F415"),
        (["decode", *HMM, "--data", "DATA"], 2, "line:1: `7` is not a value of `W`"),
        (["decode", *HMM], 2, "F301"),
        (["decode", "hmm", "--input", "w=0,1"], 2, "F416"),
        (["decode", *HMM, "--input", "w=0", "--method", "mbr", "--kbest", "2"], 2, "F415"),
        (["decode", *HMM, "--input", "w=0", "-o", "tree.txt"], 2, "endings are .svg"),
        (["decode", "eisner", "--data", "DATA"], 2, "F415"),
        (["decode", "pair_hmm", "--seed", "0", "--data", "DATA"], 2, "columns"),
        (["sample", *HMM, "--input", "w=0", "--number", "0"], 2, "F415"),
        (["decode", "dyck", "--input", "w=( ]"], 2, "F421"),
    ],
)
def test_mistakes(
    tmp_path: Path, capsys: Capture, arguments: list[str], code: int, message: str
) -> None:
    data = tmp_path / "line"
    data.write_text("7 8\n")
    found, _, err = run(capsys, *(str(data) if a == "DATA" else a for a in arguments))
    assert found in (1, code)
    assert message in err


@pytest.mark.parametrize(
    ("grammar", "item", "form"),
    [
        (("hmm", "--set", "k=2", "d=3"), "w=0,2,1", r"[01] [01] [01]"),
        (("cnf", "--set", "k=2", "d=3"), "w=0,2", r"\([01] \([01] 0\) \([01] 2\)\)"),
        (("dyck",), "w=( [ ] )", r"\(\(\)\)"),
        (("dmv", "--set", "tags=3"), "w=0,1,2", r"[0-3] [0-3] [0-3]"),
    ],
)
def test_values_are_printed_as_people_write_them(
    capsys: Capture, grammar: tuple[str, ...], item: str, form: str
) -> None:
    for command in ("decode", "sample"):
        code, out, err = run(capsys, command, *grammar, "--seed", "1", "--input", item)
        assert (code, err) == (0, "")
        assert re.fullmatch(r"-?[\d.]+\t" + form, out.rstrip("\n"))


def test_several_derivations_are_drawn_to_several_files(tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "tags.pdf"
    item = ("decode", *HMM, "--input", "w=0,2,1", "--kbest", "2", "-o", str(picture))
    code, _, err = run(capsys, *item)
    assert code == 0 and err.count("wrote") == 2
    for number in (1, 2):
        assert (tmp_path / f"tags-{number}.pdf").read_bytes().startswith(b"%PDF")


def test_the_kind_of_picture_can_be_chosen(tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "d.svg"
    item = ("sample", *HMM, "--input", "w=0,2,1", "-o", str(picture), "--as")
    assert run(capsys, *item, "rules")[0] == 0
    assert "X[0]" in picture.read_text()
    code, _, err = run(capsys, *item, "constituents")
    assert code == 2 and "no constituents to draw" in err and "`tags`, `rules`" in err
