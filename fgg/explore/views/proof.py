"""Proofs: the comparisons of `fgg.verify` one by one, and faults that they find.

First comes a part `stages`, what there is to compare in each space. Then each comparison comes as a
part `row`, and `progress` in between. With a fault, `planted` says what it did.
"""

from __future__ import annotations

from fgg.api.verify import spaces, verify
from fgg.compiler.driver import CONJOIN, PIPELINES
from fgg.diagnostics import GrammarError
from fgg.explore.asked import Answer, Asked, Json, Send
from fgg.explore.faults import FAULTS, Planted
from fgg.grammar import Grammar, Rule
from fgg.grammar.printer import print_rule

NONE = ""
MAX_LENGTH = 8
MAX_TRIALS = 50
MAX_PLACE = 10**6
LAST = {space: pipeline[-1].name for space, pipeline in PIPELINES.items()}


def view(asked: Asked, send: Send) -> Answer:
    """The verdict, with a counterexample if something differs. Raises GrammarError."""
    planted = _planted(asked)
    space = None if planted is None else planted.space
    send({"stages": [_stages(name) for name in spaces(space, None)]})
    send({"faults": [{"name": name, "title": fault.title} for name, fault in FAULTS.items()]})
    told = _Told(send, planted)
    floats = asked.options.get("floats") is True and planted is None
    try:
        result = verify(
            asked.grammar,
            asked.query_name,
            space=space,
            trials=asked.number("trials", 3, 1, MAX_TRIALS),
            length=asked.number("length", 4, 1, MAX_LENGTH),
            seed=asked.number("seed", 0, 0, 2**31 - 1),
            floats=floats,
            peaked=False,
            pipelines=None if planted is None else planted.pipelines(),
            progress=lambda done, total: send({"progress": [done, total]}),
            report=lambda row: told.tell(row.as_json()),
        )
    except Exception as error:
        if planted is None or planted.made is None:
            raise
        told.plant()
        return {"verdict": "noticed", "message": _said(error)}
    if planted is not None and not planted.places:
        planted.refuse()
    told.plant()
    stopped = [item.reason for item in result.left_out if item.what.startswith("space ")]
    if planted is not None and stopped:
        return {"verdict": "noticed", "message": stopped[0]}
    answer = result.as_json()
    if result.counterexample is not None:
        answer["example"] = result.counterexample.lines()
    return answer


def _planted(asked: Asked) -> Planted | None:
    fault = asked.word("fault", (NONE, *FAULTS), NONE)
    if fault == NONE:
        return None
    space = asked.word("fault_space", tuple(PIPELINES), "state")
    names = tuple(item.name for item in PIPELINES[space])
    after = asked.word("fault_pass", names, LAST[space])
    return Planted(FAULTS[fault], after, space, asked.number("place", 0, 0, MAX_PLACE))


def _said(error: Exception) -> str:
    """What a part of the compiler says of a grammar that it refuses."""
    if isinstance(error, GrammarError):
        return error.diagnostics[0].message
    return f"{type(error).__name__}: {error}"[:500]


def _stages(space: str) -> Json:
    """What is compared in a space, in order."""
    passes = [f"after {item.name}" for item in PIPELINES[space] if item.name != CONJOIN]
    return {"space": space, "what": [*passes, "plan"]}


class _Told:
    """Sends comparisons; before the first of them, what a fault did."""

    def __init__(self, send: Send, planted: Planted | None) -> None:
        self.send, self.planted, self.done = send, planted, False

    def tell(self, row: Answer) -> None:
        """Send a comparison."""
        self.plant()
        self.send({"row": row})

    def plant(self) -> None:
        """Send what the fault did, once."""
        if self.done or self.planted is None or self.planted.made is None:
            return
        self.done = True
        grammar, mistake = self.planted.made
        self.send(
            {
                "planted": {
                    "after": self.planted.name,
                    "space": self.planted.space,
                    "title": self.planted.fault.title,
                    "place": self.planted.place % (self.planted.places or 1),
                    "places": self.planted.places,
                    "before": [
                        _written(grammar, rule)
                        for rule in grammar.rules
                        if rule.name == mistake.rule
                    ],
                    "instead": [_written(grammar, rule) for rule in mistake.instead],
                }
            }
        )


def _written(grammar: Grammar, rule: Rule) -> str:
    return print_rule(grammar, rule).removeprefix("rule ")
