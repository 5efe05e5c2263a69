"""The state of a page that nobody has opened: the answers of all views, to be exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.explore.asked import Answer
from fgg.explore.lanes import VIEWS, Lanes
from fgg.progress import steps

STOPPING = ("F438",)
"""Problems that are the explorer's, not the grammar's: with them there is no page."""


def snapshot(start: Answer, lanes: Lanes, views: Sequence[str] = tuple(VIEWS)) -> Answer:
    """The state of a page that begins as `start` says, with the answers of some views.

    What a view refuses is a part of the page. Raises GrammarError (F438) if one takes too long.
    """
    model = {name: start.get(name) for name in ("name", "text", "sizes", "query")}
    model["space"] = start.get("space", "auto")
    answers: Answer = {}
    for view in steps(views, "view"):
        lines = list(lanes.run(view, model))
        last = lines[-1]
        outcome: Answer = {key: last[key] for key in ("done", "problem") if key in last}
        _check(cast(Answer, outcome.get("problem", {})))
        parts = [line["part"] for line in lines if "part" in line]
        outcome |= {"asked": model, "parts": parts}
        answers[view] = outcome
    return {"start": start, "answers": answers}


def _check(problem: Answer) -> None:
    for entry in cast("list[dict[str, str]]", problem.get("diagnostics", [])):
        if entry["code"] in STOPPING:
            raise GrammarError(
                [Diagnostic(code=entry["code"], message=entry["message"], help=entry["help"])]
            )
