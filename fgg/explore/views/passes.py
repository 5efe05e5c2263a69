"""The passes as a film: the rules after each pass, what it changed, and what becomes of each rule.

Rules are told apart by their names: a rule whose name was not there before is new, and one with
another text is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fgg.api.compile import compilable
from fgg.check.describe import equation
from fgg.compiler.cost.cost import Cost, cost
from fgg.compiler.driver import CONJOIN, Expected, passed
from fgg.compiler.emit.python.module import Module
from fgg.compiler.passes.split import SplitImpossible
from fgg.compiler.plan.lower import CannotCompile, plan
from fgg.diagnostics import GrammarError
from fgg.draw import MAX_VERTICES, draw_rule
from fgg.draw.marks import Mark, Shape, Text, moved
from fgg.draw.picture import Picture, Sketch
from fgg.draw.style import CAPTION, INK, LOOKS, PAPER, Look
from fgg.explore.asked import Answer, Asked, Json, Send
from fgg.explore.problems import Offsets
from fgg.explore.spaces import chosen_space
from fgg.grammar import Grammar, Rule
from fgg.grammar.printer import print_nonterminal, print_rule
from fgg.plan import Contract, Plan

MODEL = "model"
"""The name of the first frame: the grammar as it is written."""
MAX_PICTURES = 400
"""The most pictures of a film; later rules are shown as text."""

TOLD = {
    MODEL: "the grammar as it is written",
    CONJOIN: "joins the model with the query: nonterminals get the query's indices",
    "unequal": "replaces each condition `i != j` by `i < j` and `i > j`",
    "close": "sums the nodes of the start symbol, so that Z is a number",
    "cpd": "replaces a factor of low rank by its pieces around a rank node",
    "split": "splits unions and products: each family has one kind of state, each chart one shape",
    "pin": "takes nodes that an observed value fixes out of the charts",
    "tie": "lets rules read a token that may be missing only once",
    "narrow": "finds where a family can be used at all, and drops what is never used",
    "rank_space": "sums all state nodes: families then range over ranks",
    "heads": "shares what rules with the same right-hand side have in common",
    "fold": "moves products that are needed several times into messages",
}
"""What each pass does, in a line."""

CAPTION_HEIGHT = 18.0
STATE = Look("#dbe8fc", "#2f5fae")
OUTER_STATE = Look("#2f5fae", "#1d4077", PAPER)
OUTER_RANK_LINE = LOOKS["rank external"].line
OUTER_RANK = Look("#a86a00", "#7a4d00", PAPER)


def view(asked: Asked, send: Send) -> Answer:
    """The frames of a film, sent one by one as `frame`s; at the end the space and why it is."""
    source = asked.source
    expected = Expected()
    try:
        space, reason = chosen_space(source, asked.space, expected)
    except GrammarError as error:  # there is no schedule, but the passes can be seen
        space, reason = "state", error.diagnostics[0].message
    film = _Film(send, space, Offsets(asked.text))
    if asked.grammar.queries:
        film.frame(MODEL, asked.grammar)
    with compilable(asked.grammar.name):
        for name, grammar in passed(source, expected, space):
            film.frame(name, grammar)
    return {"space": space, "reason": reason, "frames": film.count}


class _Film:
    def __init__(self, send: Send, space: str, offsets: Offsets) -> None:
        self.send = send
        self.hoists = False
        self.in_ranks = space == "rank"
        self.offsets = offsets
        self.count = 0
        self.made: tuple[Grammar, _Program | None] | None = None
        self.pictures: dict[str, int] = {}
        self.before: Mapping[str, str] | None = None

    def frame(self, name: str, grammar: Grammar) -> None:
        """Send the next frame."""
        self.hoists = self.hoists or (self.in_ranks and name == "rank_space")
        texts = {rule.name: print_rule(grammar, rule) for rule in grammar.rules}
        program = self.program(grammar)
        rules = [self.rule(grammar, rule, texts[rule.name], program) for rule in grammar.rules]
        gone = [] if self.before is None else [x for x in self.before if x not in texts]
        changed = self.before is not None and self.before != texts
        self.send(
            {
                "frame": {
                    "name": name,
                    "told": TOLD[name],
                    "first": self.before is None,
                    "changed": changed,
                    "rules": rules,
                    "gone": gone,
                    "families": [print_nonterminal(item) for item in grammar.nonterminals],
                    "prepared": [] if program is None else program.legend,
                    "order": None if program is None else program.order,
                }
            }
        )
        self.before = texts
        self.count += 1

    def program(self, grammar: Grammar) -> _Program | None:
        """What a grammar would be compiled to as it is after a pass; None if it has no plan yet."""
        if self.made is None or self.made[0] != grammar:
            self.made = grammar, _program(grammar, hoist=self.hoists)
        return self.made[1]

    def rule(self, grammar: Grammar, rule: Rule, text: str, program: _Program | None) -> Json:
        known = self.before
        if known is None or known.get(rule.name) == text:
            change = "same"
        else:
            change = "changed" if rule.name in known else "new"
        return {
            "name": rule.name,
            "text": text,
            "equation": equation(grammar, rule),
            "change": change,
            "picture": self.picture(grammar, rule),
            "source": self.source(rule),
            "prepared": [] if program is None else program.letters(rule.name),
            "cost": None if program is None else program.rule(rule.name),
        }

    def picture(self, grammar: Grammar, rule: Rule) -> int | None:
        """The number of a rule's picture, which is sent once."""
        if len(rule.rhs.nodes) + len(rule.rhs.edges) > MAX_VERTICES:
            return None
        if len(self.pictures) >= MAX_PICTURES:
            return None
        svg = tinted(draw_rule(grammar, rule)).svg()
        if svg not in self.pictures:
            self.pictures[svg] = len(self.pictures)
            self.send({"picture": svg})
        return self.pictures[svg]

    def source(self, rule: Rule) -> Json:
        """Which rule of the user's a rule stands for, where, and what became of its nodes."""
        if rule.source is None:
            return None
        nodes = {name: list(node.nodes) for name, node in rule.source.nodes.items()}
        place = None
        if rule.span is not None and rule.span.end <= len(self.offsets.text):
            place = [self.offsets.units(rule.span.start), self.offsets.units(rule.span.end)]
        return {"rule": rule.source.rule, "nodes": nodes, "place": place}


def tinted(picture: Picture) -> Picture:
    """A rule's picture without its caption; state nodes are blue and rank nodes are amber."""
    marks: list[Mark] = []
    for mark in picture.marks:
        if isinstance(mark, Shape) and mark.radius > 8:
            if (mark.fill, mark.line) == (LOOKS["node"].fill, LOOKS["node"].line):
                mark = replace(mark, fill=STATE.fill, line=STATE.line)
            elif mark.fill == INK and mark.line == OUTER_RANK_LINE:
                mark = replace(mark, fill=OUTER_RANK.fill, line=OUTER_RANK.line)
            elif mark.fill == INK:
                mark = replace(mark, fill=OUTER_STATE.fill, line=OUTER_STATE.line)
        if not (isinstance(mark, Text) and mark.size == CAPTION):
            marks.append(moved(mark, 0.0, -CAPTION_HEIGHT))
    height = picture.height - CAPTION_HEIGHT
    return Sketch(title=picture.title, width=picture.width, height=height, painted=tuple(marks))


@dataclass(frozen=True)
class _Program:
    """The plan of a grammar with its cost, and the letters of what is prepared beforehand."""

    plan: Plan
    cost: Cost
    legend: list[str]

    @property
    def order(self) -> str:
        """The order of the whole."""
        return f"O({self.cost.text(self.cost.order)})"

    def letters(self, rule: str) -> list[str]:
        """What a rule reads of that which is prepared, with its letters."""
        steps = [step for step in self.plan.steps if step.rule.name == rule]
        read = {operand.name for step in steps for operand in step.operands}
        made = [p for p in self.plan.preparations if isinstance(p, Contract) and p.name in read]
        written = [" · ".join(name for name, _ in item.operands) for item in made]
        return [line for line in self.legend if line.partition(" = ")[2] in written]

    def rule(self, name: str) -> Json:
        """What a rule costs."""
        items = [item for item in self.cost.items if (item.kind, item.name) == ("step", name)]
        if not items:
            return None
        adds = sum(item.multiply_adds for item in items)
        return {
            "order": f"O({self.cost.text(items[0].order)})",
            "multiply_adds": adds,
            "share": adds / max(self.cost.multiply_adds, 1),
            "batch": self.cost.batch,
            "lengths": dict(self.cost.lengths),
        }


def _program(grammar: Grammar, *, hoist: bool) -> _Program | None:
    expected = Expected()
    try:
        made = plan(grammar, length=expected.length, batch=expected.batch, hoist=hoist)
    except (CannotCompile, SplitImpossible):
        return None
    lengths = dict.fromkeys(made.lengths, expected.length)
    counted = cost(made, lengths, batch=expected.batch)
    return _Program(made, counted, list(Module(made, best=False).legend()))
