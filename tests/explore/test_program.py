"""Explorer: emitted programs, whose lines know their rules."""

from __future__ import annotations

from typing import Any

import pytest

from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit import cpp, numpy, python, triton
from fgg.compiler.emit.readable import MARK, Linked, belongs
from fgg.diagnostics import GrammarError
from fgg.explore.views.program import LANGUAGES
from tests.helpers.explorer import asked, viewed


def shown(grammar: str, **options: object) -> tuple[list[Any], dict[str, Any]]:
    """The rules of a grammar's plan, and its programs by language."""
    answer = viewed("program", asked(grammar, **options))
    (rules,) = answer.all("rules")
    return rules, {program["language"]: program for program in answer.all("program")}


@pytest.mark.parametrize("grammar", ["hmm", "pcfg", "eisner", "dyck"])
def test_every_rule_has_lines_in_every_language(grammar: str) -> None:
    rules, programs = shown(grammar)
    assert {*programs} == {*LANGUAGES}
    for program in programs.values():
        lines = program["text"].split("\n")
        assert len(lines) == len(program["lines"])
        assert {number for of_line in program["lines"] for number in of_line} == {
            *range(len(rules))
        }
        assert any(not of_line for of_line in program["lines"])


def test_lines_read_the_factors_of_their_rules() -> None:
    rules, programs = shown("hmm")
    (number,) = [i for i, rule in enumerate(rules) if rule["name"] == "last"]
    assert rules[number]["source"] == "last" and rules[number]["place"]
    for program in programs.values():
        lines = program["text"].split("\n")
        mine = [line for line, of in zip(lines, program["lines"], strict=True) if of == [number]]
        code = [line for line in mine if not line.strip().startswith(("#", "//"))]
        assert len(code) >= 2 and any("emit" in line for line in code)
        assert not any("init" in line for line in mine)


def test_programs_are_those_that_run() -> None:
    _, programs = shown("pcfg", space="rank")
    plan = plan_of(asked("pcfg").source, Expected(), "rank")
    assert programs["cpp"]["text"] == cpp.native(plan).source
    assert programs["numpy"]["text"] == numpy.emit(plan)
    for language, emit in (("python", python.emit), ("triton", triton.emit)):
        code = emit(plan).split('"""', 2)[2]
        assert programs[language]["text"].endswith(code)
        assert MARK[-1] not in code


def test_names_of_rules_cannot_end_their_marks() -> None:
    name = 'a"\n# \x1e\n"""b'
    text = "\n".join(["x", *belongs(name, ["y", *belongs("z", ["u"]), ""]), "v"])
    linked = Linked.of(text)
    assert linked.text == "x\ny\nu\n\nv"
    assert linked.rules == ((), (name,), (name, "z"), (name,), ())


def test_a_grammar_without_a_plan_has_no_program() -> None:
    with pytest.raises(GrammarError, match="F425"):
        viewed("program", asked("branching"))
