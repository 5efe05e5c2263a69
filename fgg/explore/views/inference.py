"""Inference from one item: log Z, charts as the inside pass fills them, posteriors, derivations.

The item is typed or drawn from the model. Its parts come one by one: `item`, `log_z`, the `charts`
and each `level` of the inside pass, `beliefs`, lists of `derivations`, the `entropy`. A part
`stage` says what is being computed, a part `refused` what one question cannot answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

from fgg.api.compile import compile
from fgg.diagnostics import GrammarError
from fgg.draw import TooLarge
from fgg.explore.asked import Answer, Asked, Json, Send
from fgg.explore.items import Item, item_of, saved_model, seed_of, weights_of
from fgg.explore.problems import listed
from fgg.grammar import Grammar

if TYPE_CHECKING:
    from torch import Tensor

    from fgg.draw.beliefs import Beliefs
    from fgg.runtime.derive.derivation import Derivation
    from fgg.runtime.posterior.posterior import Posterior
    from fgg.runtime.program.program import CompiledProgram, Program

STAGES = {
    "charts": "filling the charts",
    "best": "finding the best derivations",
    "risk": "minimising the Bayes risk",
    "beliefs": "computing posteriors",
    "samples": "sampling derivations",
    "entropy": "computing the entropy",
}
MAX_DERIVATIONS = 20
MAX_CELLS = 4_000
"""The most cells of a family whose posterior is shown."""
MAX_VALUES = 24
"""Up to so many values, each has a column; else the best of each cell are listed."""
BEST = 5
MAX_STEPS = 400
"""Longer derivations are not written out step by step."""


def view(asked: Asked, send: Send) -> Answer:
    """The answers of a program about one item; what one question refuses leaves the others."""
    send({"stage": "compiling"})
    with catch_warnings():
        simplefilter("ignore")  # the notes say it
        program = compile(asked.grammar, asked.query_name, space=asked.space)
    send({"stage": "reading the item"})
    saved = saved_model(asked)
    weights = weights_of(asked, program, saved)
    item = item_of(asked, program, weights)
    post = item.posterior(program, weights, saved)
    _afford(asked, program, post)
    send({"item": _item(program, item, post)})
    log_z = float(post.log_z.detach()[0])
    send({"log_z": log_z})
    answers = _Answers(asked, send, post)
    answers.ask("charts", lambda: _charts(send, program, weights, post))
    if log_z == -math.inf:
        return {"possible": False}
    best, samples = (asked.number(n, 3, 1, MAX_DERIVATIONS) for n in ("best", "samples"))
    answers.derivations("best", lambda: post.k_best(best)[0])
    answers.derivations("risk", lambda: post.mbr())
    answers.ask("beliefs", lambda: send({"beliefs": _beliefs(program.grammar, post)}))
    answers.derivations("samples", lambda: post.sample(samples, seed=seed_of(asked))[0])
    answers.ask("entropy", lambda: send({"entropy": float(post.entropy().detach()[0])}))
    return {"possible": True}


class _Answers:
    """Asks the questions about a posterior; a part `refused` says what one cannot answer."""

    def __init__(self, asked: Asked, send: Send, post: Posterior) -> None:
        self.asked, self.send, self.post = asked, send, post

    def ask(self, name: str, question: Callable[[], None]) -> None:
        """Ask a question."""
        self.send({"stage": STAGES[name]})
        try:
            question()
        except GrammarError as error:
            problems = listed(error.diagnostics, self.asked.text)
            self.send({"refused": {"what": name, "diagnostics": problems}})

    def derivations(self, name: str, find: Callable[[], Sequence[Derivation]]) -> None:
        """Ask for derivations."""
        self.ask(name, lambda: self.send({"derivations": {"what": name, "list": self.shown(find)}}))

    def shown(self, find: Callable[[], Sequence[Derivation]]) -> list[Json]:
        """Derivations as the page shows them; equal ones are counted."""
        log_z = float(self.post.log_z.detach()[0])
        counts: dict[Derivation, int] = {}
        for derivation in find():
            counts[derivation] = counts.get(derivation, 0) + 1
        return [_derivation(made, count, log_z) for made, count in counts.items()]


def _afford(asked: Asked, program: Program, post: Posterior) -> None:
    """Refuse (F420) an item whose passes need more memory than there may be."""
    import torch

    from fgg.runtime.posterior.compiled_posterior import CompiledPosterior
    from fgg.runtime.program.program import CompiledProgram

    if isinstance(program, CompiledProgram) and isinstance(post, CompiledPosterior):
        lengths, device = post.collated.lengths, torch.device("cpu")
        for used in dict.fromkeys(
            (program, program.states if program.space == "rank" else program)
        ):
            needed = used.bytes_of(lengths, 1, torch.float64, device)
            asked.home.afford(needed, "inference from this item")


def _item(program: Program, item: Item, post: Posterior) -> Answer:
    collated = getattr(post, "collated", None)
    lengths = {} if collated is None else {n: x[0] for n, x in collated.lengths.items()}
    return {
        "drawn": item.drawn,
        "inputs": item.texts(program.grammar),
        "lengths": {**item.lengths, **lengths},
        "words": _words(program, post),
        "potentials": [f.name for f in program.grammar.input_factors],
        "space": getattr(program, "space", ""),
        "notes": [{"message": note.message, "help": note.help} for note in program.notes],
    }


def _words(program: Program, post: Posterior) -> list[str]:
    """The tokens of the first input that is a sequence, as they are written."""
    from fgg.inputs.written import of_item
    from fgg.runtime.display.beliefs import known_words

    collated = getattr(post, "collated", None)
    if collated is None:
        return []
    return known_words(program.grammar, collated, 0, of_item(post.written, 0))


# charts


def _charts(
    send: Send,
    program: Program,
    weights: Mapping[str, Tensor],
    post: Posterior,
) -> None:
    """Send the charts of the program's plan, and what each level of the inside pass fills."""
    from fgg.explore.filling import MAX_CELLS, Filling
    from fgg.runtime.posterior.compiled_posterior import CompiledPosterior
    from fgg.runtime.program.program import CompiledProgram

    if not (isinstance(program, CompiledProgram) and isinstance(post, CompiledPosterior)):
        return
    used = _suited(program, post)
    whole = used.whole(weights, used.plan.parameters)
    filling = Filling.of(used.plan, whole, post.inputs or {}, post.lengths)
    if filling.cells > MAX_CELLS:
        text = f"{filling.cells:,} cells are too many to show; {MAX_CELLS:,} are possible"
        send({"charts": {"list": [], "note": text}})
        return
    send({"charts": {"list": list(filling.described()), "note": ""}})
    for level in filling.levels():
        send({"level": level})


def _suited(program: CompiledProgram, post: Posterior) -> CompiledProgram:
    """The program whose plan takes the item: another one if tokens are missing."""
    from fgg.runtime.posterior.compiled_posterior import CompiledPosterior
    from fgg.runtime.program.prepared_batch import suited_to

    assert isinstance(post, CompiledPosterior)
    return suited_to(program, post.collated) if program.plan.known else program


# posteriors


def _beliefs(grammar: Grammar, post: Posterior) -> list[Json]:
    return [_family(grammar, table) for table in post.beliefs(0)]


def _family(grammar: Grammar, table: Beliefs) -> Json:
    """How often the cells of a family are used, with which values."""
    wide = table.width > MAX_VALUES or table.axes > 1
    cells: list[Json] = []
    for index, row in list(table.cells.items())[:MAX_CELLS]:
        best = [] if not table.has_values else table.best(index, BEST)
        cells.append(
            {
                "at": list(index),
                "total": _rounded(sum(row)),
                "best": [[table.value(place), _rounded(p)] for place, p in best if p > 0],
                "row": [] if wide else [_rounded(p) for p in row],
                "words": table.word(index) if index else "",
            }
        )
    return {
        "family": table.family,
        "indices": list(grammar.nonterminal[table.family].indices),
        "values": [] if wide else [table.value(place) for place in range(table.width)],
        "width": table.width,
        "cells": cells,
        "left_out": len(table.cells) - len(cells),
    }


# derivations


def _derivation(derivation: Derivation, count: int, log_z: float) -> Json:
    weight = derivation.log_weight
    known = not math.isnan(weight) and math.isfinite(log_z)
    steps = list(derivation.lines()) if len(derivation.steps) <= MAX_STEPS else []
    return {
        "log_weight": weight,
        "probability": math.exp(min(weight - log_z, 0.0)) if known else None,
        "count": count,
        "written": derivation.written()[:2000],
        "picture": _picture(derivation),
        "steps": steps,
    }


def _picture(derivation: Derivation) -> str | None:
    """The derivation as SVG; None where it is too large to be drawn."""
    try:
        return derivation.draw().svg()
    except TooLarge:
        return None


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
