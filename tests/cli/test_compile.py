"""`fggc compile`: every form, errors, files, and a module that trains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fgg.api.compile import selected
from fgg.cli import main
from fgg.compiler import load, loads
from fgg.compiler.driver import pass_names
from fgg.library import library_names


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    return code, out.out, out.err


TRAIN = """
import torch
import pcfg
words = torch.randint(20, (4, 7), generator=torch.Generator().manual_seed(0))
logits = {name: torch.zeros(shape, requires_grad=True) for name, shape in pcfg.PARAMETERS.items()}
optimizer = torch.optim.Adam(logits.values(), lr=0.1)
losses = []
for step in range(2):
    weights = {"root": logits["root"].softmax(0), "emit": logits["emit"].softmax(1)}
    weights["binary"] = logits["binary"].flatten(1).softmax(1).view_as(logits["binary"])
    loss = -pcfg.log_z(weights, {"w": words}, {"n": [7, 6, 5, 2]}).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
import sys
assert losses[1] < losses[0] and "fgg" not in sys.modules, losses
"""


def test_a_written_module_trains_without_this_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pcfg.py"
    sizes = ["--set", "nt=3", "pt=4", "words=20"]
    code, out, err = run(capsys, "compile", "pcfg", *sizes, "--standalone", "-o", str(file))
    assert (code, out) == (0, "") and err.endswith(f"wrote {file}\n")
    assert "dense space is the cheapest" in err
    # Isolated: only the standard library, torch and the folder of the module.
    code_text = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{TRAIN}"
    subprocess.run([sys.executable, "-I", "-c", code_text], check=True, cwd=tmp_path)


def test_python_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compile", "hmm", "--set", "k=3")
    assert (code, err) == (0, "")
    assert out.startswith('"""Inference for the grammar `hmm_string`')
    compile(out, "hmm.py", "exec")
    assert json.loads(run(capsys, "compile", "hmm", "--set", "k=3", "--json")[1])["python"] == out


@pytest.mark.parametrize("name", pass_names("dense"))
def test_grammars_after_a_pass_are_grammars(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compile", "pcfg_dense", "--emit", "grammar", "--after", name)
    assert (code, err) == (0, "")
    grammar = loads(out)
    if name == "conjoin":
        assert grammar.rules == selected(load("pcfg_dense"), None).rules
    split = pass_names("dense").index(name) >= pass_names("dense").index("split")
    assert any(x.name == "X_N" for x in grammar.nonterminals) == split
    assert any("binary" in x.name for x in grammar.nonterminals) == (name == "fold")


def test_the_last_pass_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    last = run(capsys, "compile", "hmm", "--emit", "grammar", "--after", "fold")
    assert run(capsys, "compile", "hmm", "--emit", "grammar") == last


def test_schedules_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("compile", "pcfg", "--emit", "schedule", "--after", "conjoin")
    code, out, _ = run(capsys, *arguments)
    assert code == 0 and "X[i, j] at level j - i" in out
    shown = run(capsys, "show", "pcfg", "--query", "string", "--emit", "schedule")[1]
    assert out == shown


def test_plans_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compile", "hmm", "--emit", "plan")
    assert code == 0 and out.startswith("plan of hmm_string\n") and "log Z is S" in out
    report = json.loads(run(capsys, "compile", "hmm", "--emit", "plan", "--json")[1])
    assert report["ok"] and report["query"] == "string"
    rules = [step["rule"] for stage in report["plan"]["stages"] for step in stage["steps"]]
    assert {"begin", "step", "last"} <= set(rules)


def test_kernels_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compile", "hmm", "--emit", "kernel")
    assert code == 0 and out.startswith("kernels of hmm_string\n")
    report = json.loads(run(capsys, "compile", "hmm", "--emit", "kernel", "--json")[1])
    stages = [*report["kernel"]["inside"], *report["kernel"]["outside"]]
    blocks = [block for stage in stages for group in stage["groups"] for block in group]
    assert {"begin", "step", "last"} <= {block["rule"] for block in blocks}
    assert all(operation in out for block in blocks for operation in block["operations"])


def test_numpy_modules_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hmm_np.py"
    options = ("--set", "k=2", "d=3", "-o", str(file))
    assert run(capsys, "compile", "hmm", "--emit", "numpy", *options)[0] == 0
    module: dict[str, Any] = {}
    exec(file.read_text("utf-8"), module)
    weights = {name: np.full(shape, 0.5) for name, shape in module["PARAMETERS"].items()}
    assert module["log_z"](weights, {"w": [[0, 1]]}) == pytest.approx([2 * np.log(0.5)])


def test_costs_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "compile", "hmm", "--emit", "cost", "--length", "n=10", "--batch", "2"
    )
    assert code == 0 and out.startswith("hmm_string: O(n*k^2)\n  at n = 10, k = 8, batch 2")
    options = ("--length", "n=10", "--dtype", "float64", "--json")
    report = json.loads(run(capsys, "compile", "hmm", "--emit", "cost", *options)[1])
    assert report["cost"]["order"] == "O(n*k^2)"
    assert report["cost"]["at"] == {
        "lengths": {"n": 10},
        "sizes": {"k": 8},
        "batch": 16,
        "dtype": "float64",
    }


def test_json_says_which_file_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hmm.txt"
    code, out, err = run(capsys, "compile", "hmm", "--emit", "cost", "-o", str(file), "--json")
    assert (code, err) == (0, "") and json.loads(out)["file"] == str(file)
    assert file.read_text().startswith("hmm_string: O(")


LOOP = (
    "domain T = 2 input w: T[n] nonterminal X[i]() for 0 <= i <= n start X[0]"
    " rule stay: X[i] -> X[i] rule on: X[i] -> X[i+1] for i < n rule end: X[n] ->"
)


def test_what_cannot_be_compiled_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, written = tmp_path / "loop.fgg", tmp_path / "loop.py"
    file.write_text(LOOP)
    for emit in ("python", "plan", "cost"):
        code, out, err = run(capsys, "compile", str(file), "--emit", emit, "-o", str(written))
        assert (code, out) == (1, "") and "error[F425]" in err and "`stay`" in err
        assert not written.exists()
    code, out, _ = run(capsys, "compile", str(file), "--json")
    assert code == 1 and json.loads(out)["diagnostics"][0]["code"] == "F425"
    code, out, _ = run(capsys, "compile", str(file), "--emit", "schedule")
    assert code == 0 and "no schedule" in out


@pytest.mark.parametrize(
    ("arguments", "exit_code", "wanted"),
    [
        (["pcfg_la"], 2, "choose one with --query"),
        (["branching"], 1, "F425"),
        (["hmm", "--query", "strnig"], 2, "did you mean `string`?"),
        (["hmm", "--emit", "ptyhon"], 2, "F415"),
        (["hmm", "--emit", "grammar", "--after", "splt"], 2, "did you mean `split`?"),
        (["hmm", "--emit", "grammar", "--after", "zz"], 2, "in order, `conjoin`, "),
        (["hmm", "--after", "split"], 2, "`--after split` does not go with `--emit python`"),
        (["hmm", "--length", "m=3"], 2, "F411"),
        (["hmm", "--length", "n=-1"], 2, "F411"),
        (["hmm", "--length", "n"], 2, "F415"),
        (["hmm", "--batch", "0"], 2, "F415"),
        (["hmm", "--dtype", "float16"], 2, "F415"),
        (["hmm", "-o", "."], 2, "it is a folder"),
        (["hmm", "-o", "no/such/folder/x.py"], 2, "F413"),
        (["no/such.fgg"], 2, "F401"),
    ],
)
def test_wrong_commands(
    arguments: list[str], exit_code: int, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "compile", *arguments)
    assert (code, out, wanted in err) == (exit_code, "", True), err
    code, out, err = run(capsys, "compile", *arguments, "--json")
    assert (code, err) == (exit_code, "")
    assert json.loads(out)["diagnostics"]


def test_standard_output_has_one_reader(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "compile", "hmm", "-o", "-", "--json")[0] == 2
    assert run(capsys, "compile", "hmm", "-o", "-")[1].startswith('"""Inference')


def test_rules_are_drawn_after_a_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.svg"
    assert run(capsys, "draw", "hmm", "--after", "fold", "-o", str(file))[0] == 0
    assert "X_trans" in file.read_text()
    assert "F415" in run(capsys, "draw", "hmm", "--after", "flod", "-o", str(file))[2]
    assert run(capsys, "draw", "hmm", "--after", "fold", "--length", "n=3")[0] == 2
    assert run(capsys, "draw", "branching", "--after", "fold", "-o", str(file))[0] == 0


def test_running_says_why_a_grammar_is_not_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "loop.fgg"
    file.write_text(
        LOOP.replace("rule stay: X[i] -> X[i]", "factor f() = 0.5 rule a: X[i] -> f X[i]")
    )
    code, out, err = run(capsys, "run", str(file), "--length", "n=2", "--input", "w=0,1")
    assert code == 0 and "log Z" in out and err.count("warning[F434]") == 1
    code, out, err = run(capsys, "run", str(file), "--length", "n=2", "--input", "w=0,1", "--json")
    assert err == "" and [d["code"] for d in json.loads(out)["diagnostics"]] == ["F434"]
    assert "F434" not in run(capsys, "run", "branching")[2]
    assert "F434" not in run(capsys, "run", "hmm", "--input", "w=0,1", "--seed", "1")[2]


CALLS = """
import sys
from fgg.compiler.emit.python import emit
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler import load
from fgg.api.compile import selected
grammar = load(sys.argv[1])
grammar = selected(grammar, "string" if len(grammar.queries) > 1 else None)
calls = 0
def count(frame, event, argument):
    global calls
    calls += event == "call"
sys.setprofile(count)
emit(plan_of(grammar, Expected(), "dense"))
sys.setprofile(None)
print(calls)
assert not {"torch", "networkx"} & set(sys.modules)  # scipy solves linear programs
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", library_names())
def test_every_library_grammar_compiles_in_few_calls_and_without_torch(name: str) -> None:
    if name == "branching":
        pytest.skip("it has no schedule")
    done = subprocess.run(
        [sys.executable, "-c", CALLS, name], capture_output=True, check=True, text=True
    )
    assert int(done.stdout) < 5_000_000


@pytest.mark.parametrize("name", pass_names("rank"))
def test_grammars_on_the_way_to_rank_space(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--emit", "grammar", "--after", name, "--space", "rank")
    code, out, err = run(capsys, "compile", "hmm_rank", *options)
    assert (code, err) == (0, "")
    grammar = loads(out)
    at = pass_names("rank").index
    assert ("step_0" in grammar.factor) == (at(name) >= at("cpd"))
    assert ("X_rank" in grammar.nonterminal) == (at(name) >= at("rank_space"))


def test_decomposing_needs_no_space(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compile", "pcfg", "--emit", "grammar", "--after", "cpd")
    assert code == 0 and "with piece = binary(0)" in out
    options = ("--emit", "grammar", "--after", "rank_space")
    code, out, _ = run(capsys, "compile", "pcfg", *options)
    assert code == 0 and "nonterminal X_N_rank[i, j](R_binary)" in out
    code, _, err = run(capsys, "compile", "pcfg", *options, "--space", "state")
    assert code == 2 and "only rank space has the pass" in err
    code, _, err = run(capsys, "compile", "pcfg", *options[:2], "--after", "spilt")
    assert code == 2 and "did you mean `split`?" in err


def test_the_cheapest_space_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"dense": ("nt=2", "pt=2", "r=50"), "rank": ("nt=100", "pt=100", "r=4")}
    for space, options in sizes.items():
        code, out, err = run(capsys, "compile", "pcfg", "--emit", "cost", "--set", *options)
        assert code == 0 and err.startswith(f"{space} space is the cheapest; multiply-adds at")
        own = run(capsys, "compile", "pcfg", "--emit", "cost", "--set", *options, "--space", space)
        assert own == (0, out, "")
        found = run(capsys, "compile", "pcfg", "--emit", "cost", "--set", *options, "--json")[1]
        assert json.loads(found)["space"] == space and json.loads(found)["reason"] in err
        _, out, _ = run(capsys, "compile", "pcfg", "--set", *options)
        assert f"\n{space} space is the cheapest" in out  # in the module's docstring
    _, out, err = run(capsys, "compile", "hmm", "--emit", "cost", "--json")
    assert json.loads(out)["space"] == "state" and err == ""


def test_the_batch_from_which_another_space_is_cheaper_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--emit", "cost", "--set", "k=512", "d=1000", "r=128", "--length", "n=10")
    code, _, err = run(capsys, "compile", "hmm_rank", *options)
    assert (
        code == 0 and "by batch: state space below 8 items of n = 10, rank space from 8 on" in err
    )
    small = run(capsys, "compile", "hmm_rank", *options, "--batch", "4")
    assert small[2].startswith("state space is the cheapest")
    assert run(capsys, "compile", "hmm_rank", *options, "--space", "rank")[2] == ""


def test_costs_in_rank_space(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--emit", "cost", "--space", "rank")
    code, out, _ = run(capsys, "compile", "hmm_rank", *options)
    assert code == 0 and out.startswith("hmm_rank_string: O(n*r^2 + k*r^2)\n")
    code, _, err = run(capsys, "compile", "lhmm", *options)
    assert code == 1 and "cannot be compiled in rank space: rule `step`, node `t`: `emit`" in err


def test_a_grammar_that_cannot_be_compiled_is_shown_with_the_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "bad.fgg"
    path.write_text(
        "domain A = 2\ninput w: A[n]\nnonterminal X[i](A) for 0 <= i <= n\nstart X[n]\n"
        "rule twice: X[2*i](v) -> X[i](v) for 0 <= i\nrule end: X[1](v) ->\n"
    )
    code, _, errors = run(capsys, "compile", str(path))
    assert code == 1
    assert "F425" in errors and "bad.fgg:5" in errors and "X[2*i](v) -> X[i](v)" in errors
